"""A bound `read`, and `struct` for each record: ts, id and len as numbers.

"I/O performance in Python" names `struct` and does not measure it.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
import zlib

NAME = "read(16), struct.unpack"
PUBLISHED: dict[int, float] = {}
REQUIRES: tuple[str, ...] = ()
DEFAULT_WORKERS = 1
RECORD = 16  # bytes
FORMAT = struct.Struct("<QII")


def read(path: str) -> int:
    """Takes record after record; returns their bytes."""
    unpack = FORMAT.unpack
    with open(path, "rb") as file:  # noqa: PTH123
        take = file.read
        while record := take(RECORD):
            ts, number, length = unpack(record)  # noqa: RUF059 (what a program would use)
        return file.tell()


def prove(path: str) -> int:
    """Goes the same way again; returns a checksum of all records, packed again."""
    proof = 0
    with open(path, "rb") as file:  # noqa: PTH123
        take = file.read
        while record := take(RECORD):
            ts, number, length = FORMAT.unpack(record)
            proof = zlib.crc32(FORMAT.pack(ts, number, length), proof)
    return proof


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=NAME)
    parser.add_argument("file")
    parser.add_argument("--verify", action="store_true", help="print a checksum of all records too; it takes time")
    given = parser.parse_args()
    began = time.perf_counter()
    size = read(given.file)
    seconds = time.perf_counter() - began
    found = {"objects": size // RECORD, "bytes": size, "seconds": seconds, "workers": 1}
    print(json.dumps(found | ({"proof": prove(given.file)} if given.verify else {})))
