"""The program that knows NumPy: the file as a structured array, mapped or read, and what the case asks for.

    python numpy_records.py FILE CASE [--how memmap|fromfile] [--into FILE.parquet]

It needs the package numpy; for `filter` and `convert` pyarrow too. What is compared, such as checksums of what was
found, is made after the time.
"""

import argparse
import json
import time
import zlib
from typing import Any

import numpy as np  # type: ignore[import-not-found,unused-ignore]

RECORD = np.dtype([("ts", "<u8"), ("id", "<u4"), ("len", "<u4")])


def load(path: str, how: str) -> Any:
    """Returns the records: pages of the file that come when they are touched, or a copy in memory."""
    return np.memmap(path, RECORD, "r") if how == "memmap" else np.fromfile(path, RECORD)


def table(records: Any) -> Any:
    """Makes an Arrow table, whose columns must be contiguous, unlike those of a structured array."""
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return pa.table({name: np.ascontiguousarray(records[name]) for name in records.dtype.names})


def write(records: Any, into: str, compression: str, dictionary: bool, rows: int) -> None:
    """Writes all records as Parquet, which says what is in each page, as the other one's does."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped,import-not-found,unused-ignore]

    pq.write_table(
        table(records),
        into,
        compression=compression,
        use_dictionary=dictionary,
        row_group_size=rows,
        write_page_index=True,
    )


def proofs(found: Any) -> list[int]:
    """Returns a checksum of each column of an Arrow table."""
    return [zlib.crc32(found.column(name).to_numpy()) for name in RECORD.names or ()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="NumPy")
    parser.add_argument("file")
    parser.add_argument("case", choices=("sum", "filter", "group", "convert"))
    parser.add_argument("--how", choices=("memmap", "fromfile"), default="memmap")
    parser.add_argument("--above", type=int, default=0, help="of filter: only lengths above it")
    parser.add_argument("--ids", type=int, default=0, help="of group: how many ids there are")
    parser.add_argument("--into", help="of convert: the file to write")
    parser.add_argument("--compression", default="snappy")
    parser.add_argument("--dictionary", action="store_true")
    parser.add_argument("--rows", type=int, default=1 << 20, help="rows of a group")
    given = parser.parse_args()
    if given.case in ("filter", "convert"):
        import pyarrow.parquet  # noqa: F401 (loading it is not the job)
    result: Any = None
    began = time.perf_counter()
    records = load(given.file, given.how)
    if given.case == "sum":
        result = int(records["len"].sum(dtype=np.uint64))
    elif given.case == "filter":
        result = table(records[records["len"] > given.above])
    elif given.case == "group":
        result = np.bincount(records["id"], weights=records["len"], minlength=given.ids)
    else:
        write(records, given.into, given.compression, given.dictionary, given.rows)
    seconds = time.perf_counter() - began
    said = {"objects": len(records), "bytes": records.nbytes, "seconds": seconds, "workers": 1}
    if given.case == "sum":
        said |= {"sum": result}
    elif given.case == "filter":
        said |= {"chosen": result.num_rows, "proof": proofs(result)}
    elif given.case == "group":
        sums = result.astype(np.uint64)
        said |= {"groups": int(np.count_nonzero(sums)), "proof": zlib.crc32(sums.tobytes())}
    print(json.dumps(said))
