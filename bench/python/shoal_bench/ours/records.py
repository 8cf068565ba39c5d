"""The job `records` with `shoal.Records`: record by record, as arrays, or as a sum, a table, groups, a file."""

import argparse
import json
import os
import struct
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import shoal

FORMAT = struct.Struct("<QII")
NAMES = ("ts", "id", "len")
LOOPS = ("tuples", "raw", "columns")


def read(records: Any, how: str) -> list[int]:
    """Takes record after record; returns the last one, which proves that it went to the end."""
    if how == "tuples":
        ts = number = length = 0
        for ts, number, length in records:  # noqa: B007 (what a program would use)
            pass
        return [ts, number, length]
    if how == "raw":
        record = b""
        for record in records.raw():  # noqa: B007
            pass
        return list(FORMAT.unpack(record))
    last: Any = ()
    for last in records.columns():  # noqa: B007
        pass
    return [int(column[-1]) for column in last]


def pieces(records: Any, how: str) -> Iterable[Any]:
    """Goes the same way again; yields the bytes of all records, so that a checksum can be made."""
    if how == "tuples":
        for ts, number, length in records:
            yield FORMAT.pack(ts, number, length)
    elif how == "raw":
        yield from records.raw()
    else:
        import numpy as np  # type: ignore[import-not-found,unused-ignore]

        for columns in records.columns():
            block = np.empty(len(columns[0]), [("ts", "<u8"), ("id", "<u4"), ("len", "<u4")])
            for name, column in zip(NAMES, columns, strict=True):
                block[name] = column
            yield block.tobytes()


def loop(records: Any, how: str, verify: bool) -> dict[str, Any]:
    """Goes through all records; returns what the lab compares."""
    began = time.perf_counter()
    last = read(records, how)
    found: dict[str, Any] = {"seconds": time.perf_counter() - began, "workers": 1, "last": last}
    if verify:
        found["proof"] = 0
        for piece in pieces(records, how):
            found["proof"] = zlib.crc32(piece, found["proof"])
    return found


def total(records: Any) -> dict[str, Any]:
    """Adds up the lengths."""
    began = time.perf_counter()
    found = records.aggregate("sum(len)")
    return {"seconds": time.perf_counter() - began, "sum": found["sum(len)"]}


def choose(records: Any, above: int) -> dict[str, Any]:
    """Takes the records whose length is above a number, as an Arrow table."""
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    began = time.perf_counter()
    table = pa.table(records.scan(f"len > {above}"))
    seconds = time.perf_counter() - began
    proofs = [zlib.crc32(table.column(name).to_numpy()) for name in NAMES]
    return {"seconds": seconds, "chosen": table.num_rows, "proof": proofs}


def group(records: Any, ids: int) -> dict[str, Any]:
    """Adds up the lengths by id."""
    import numpy as np

    began = time.perf_counter()
    groups = records.aggregate("sum(len)", by="id").numpy()
    seconds = time.perf_counter() - began
    sums = np.zeros(ids, np.uint64)
    sums[groups["id"]] = groups["sum(len)"]
    return {"seconds": seconds, "groups": len(groups["id"]), "proof": zlib.crc32(sums.tobytes())}


def convert(records: Any, into: Path, compression: str) -> dict[str, Any]:
    """Writes all records as Parquet."""
    began = time.perf_counter()
    records.write(into, compression=compression)
    return {"seconds": time.perf_counter() - began}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("case", choices=(*LOOPS, "sum", "filter", "group", "convert"))
    parser.add_argument("--above", type=int, default=0, help="of filter: only lengths above it")
    parser.add_argument("--ids", type=int, default=0, help="of group: how many ids there are")
    parser.add_argument("--into", type=Path, help="of convert: the file to write")
    parser.add_argument("--compression", default="snappy")
    parser.add_argument("--verify", action="store_true", help="print a checksum of all records too; it takes time")
    given = parser.parse_args()
    opening = time.perf_counter()
    records: Any = shoal.Records(given.file, FORMAT.format, names=NAMES)
    opening = time.perf_counter() - opening
    if given.case in LOOPS:
        found = loop(records, given.case, given.verify)
    elif given.case == "sum":
        found = total(records)
    elif given.case == "filter":
        found = choose(records, given.above)
    elif given.case == "group":
        found = group(records, given.ids)
    else:
        found = convert(records, given.into, given.compression)
    found["seconds"] += opening
    said = {"objects": len(records), "bytes": len(records) * records.record_size}
    print(json.dumps(said | {"workers": len(os.sched_getaffinity(0))} | found))
