"""The job `save` with `shoal.save`: NumPy or Arrow tables of the same numbers go in, the same bytes come out."""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np  # type: ignore[import-not-found,unused-ignore]

import shoal


def array(number: int) -> Any:
    """Returns what a file holds: 5,000 rows of 10 whole numbers."""
    return number + np.arange(5000)[:, None] + np.arange(10)


def table(number: int) -> Any:
    """Returns it as an Arrow table, a column for each of the 10 numbers."""
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    first = number + np.arange(5009)
    return pa.table({str(column): first[column : column + 5000] for column in range(10)})


def items(count: int, form: str) -> Iterator[tuple[str, Any]]:
    """Yields the names and the tables."""
    make = {"numpy": array, "arrow": table}[form]
    for number in range(count):
        yield f"data-{number:04d}.csv", make(number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("count", type=int, help="how many files")
    parser.add_argument("--durability", choices=("none", "batch", "file"), default="none")
    parser.add_argument("--form", choices=("numpy", "arrow"), default="numpy")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    if given.form == "arrow":
        import pyarrow as pa  # noqa: F401 (loading it is not the job)
    began = time.perf_counter()
    report = shoal.save(
        items(given.count, given.form),
        given.directory,
        durability=given.durability,
        workers=given.workers or "auto",
        header=False,
        final_newline=False,
    )
    seconds = time.perf_counter() - began
    found = {"objects": report.written, "bytes": report.run.bytes, "seconds": seconds, "workers": report.workers}
    print(json.dumps(found | {"concurrency": [vars(step) for step in report.concurrency]}))
