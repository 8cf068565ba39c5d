"""The job `read` with `shoal.read`: object by object, or in batches, in the order of completion or of the listing."""

import argparse
import json
import os
import time
import zlib
from typing import Any

import shoal


def proof(name: str | bytes, data: Any) -> int:
    """Returns a number that a file's name and content give; the sum over all files is what the lab compares."""
    return zlib.crc32(data, zlib.crc32(os.fsencode(name)))


def read_objects(reader: Any, verify: bool) -> tuple[int, int, int]:
    """Takes object by object; returns their count, their bytes and their proof."""
    objects = size = proven = 0
    for one in reader:
        objects, size = objects + 1, size + len(one.data)
        if verify:
            proven += proof(one.name, one.data)
    return objects, size, proven


def read_batches(reader: Any, verify: bool) -> tuple[int, int, int]:
    """Takes Arrow record batches, as PyArrow sees them."""
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from pyarrow import compute

    objects = size = proven = 0
    for batch in reader.batches():
        columns = pa.record_batch(batch)
        objects, size = objects + columns.num_rows, size + compute.sum(columns.column("size")).as_py()
        if verify:
            # The sizes are a column of their own: that they are those of the contents is proven here.
            for name, data in zip(columns.column("name"), columns.column("data"), strict=True):
                proven += proof(name.as_py(), data.as_buffer())
    return objects, size, proven


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--order", choices=("any", "source"))
    parser.add_argument("--verify", action="store_true", help="print a proof of names and contents too; it takes time")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    consume = read_batches if given.batches else read_objects
    if given.batches:
        import pyarrow.compute  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: F401 (not the job)
    options = {name: value for name, value in (("order", given.order), ("workers", given.workers)) if value}
    began = time.perf_counter()
    reader: Any = shoal.read(given.directory, **options)
    objects, size, proven = consume(reader, given.verify)
    seconds = time.perf_counter() - began
    found = {"objects": objects, "bytes": size, "seconds": seconds, "workers": reader.report.workers}
    found["concurrency"] = [vars(step) for step in reader.report.concurrency]
    print(json.dumps(found | ({"proof": proven} if given.verify else {})))
