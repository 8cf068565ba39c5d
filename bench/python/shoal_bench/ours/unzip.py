"""The job `unzip` with `shoal.unzip`; without a directory, with `shoal.copy` into nowhere, or with `shoal.read`."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import shoal


def read(reader: Any) -> tuple[int, int]:
    """Takes entry by entry; returns their count and their bytes."""
    objects = size = 0
    for one in reader:
        objects, size = objects + 1, size + len(one.data)
    return objects, size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", nargs="+", type=Path, help="a directory of archives, or archives")
    parser.add_argument("--into", type=Path, help="extract below this directory; without it, check only")
    parser.add_argument("--durability", choices=("none", "batch", "file"), default="none")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--read", action="store_true", help="hand every entry over")
    given = parser.parse_args()
    options: dict[str, Any] = {"workers": given.workers} if given.workers else {}
    began = time.perf_counter()
    paths = [path for one in given.archives for path in (sorted(one.glob("*.zip")) if one.is_dir() else [one])]
    if given.read and not given.into:
        reader: Any = shoal.read(shoal.archives(paths), **options)
        objects, size = read(reader)
        report = reader.report
    else:
        if given.into:
            report = shoal.unzip(paths, given.into, durability=given.durability, **options)
        else:
            report = shoal.copy(shoal.archives(paths), "null:", durability="none", **options)
        objects, size = report.written, report.run.bytes
    seconds = time.perf_counter() - began
    if report.failed:
        raise SystemExit(f"{report.failed} entries failed")
    found = {"objects": objects, "bytes": size, "seconds": seconds, "workers": report.workers}
    found["concurrency"] = [vars(step) for step in report.concurrency]
    print(json.dumps(found))
