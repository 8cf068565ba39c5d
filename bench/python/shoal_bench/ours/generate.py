"""The job `save` with `shoal.generate`: the function runs in worker processes, which write their own files."""

import argparse
import json
import time
from pathlib import Path

import shoal


def make(number: int) -> str:
    """Returns the content of a file: 5,000 lines of 10 whole numbers each."""
    return "\n".join([",".join([str(number + line + column) for column in range(10)]) for line in range(5000)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("count", type=int, help="how many files")
    parser.add_argument("--durability", choices=("none", "batch", "file"), default="none")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    began = time.perf_counter()
    report = shoal.generate(
        make,
        range(given.count),
        given.directory,
        name="data-{:04d}.csv",
        durability=given.durability,
        workers=given.workers or "auto",
    )
    seconds = time.perf_counter() - began
    found = {"objects": report.written, "bytes": report.run.bytes, "seconds": seconds, "workers": report.workers}
    print(json.dumps(found | {"concurrency": [vars(step) for step in report.concurrency]}))
