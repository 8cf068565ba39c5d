"""The file mapped into memory, and a slice of the mapping for each record.

"I/O performance in Python" names `mmap` and does not measure it. A file that somebody shortens meanwhile ends the
program with SIGBUS.
"""

from __future__ import annotations

import argparse
import json
import mmap
import time
import zlib

NAME = "mmap, then slices"
PUBLISHED: dict[int, float] = {}
REQUIRES: tuple[str, ...] = ()
DEFAULT_WORKERS = 1
RECORD = 16  # bytes


def read(path: str) -> int:
    """Takes record after record; returns their bytes."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # noqa: PTH123
        for at in range(0, len(content), RECORD):
            record = content[at : at + RECORD]  # noqa: F841 (what a program would use)
        return len(content)


def prove(path: str) -> int:
    """Goes the same way again; returns a checksum of all records."""
    proof = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # noqa: PTH123
        for at in range(0, len(content), RECORD):
            proof = zlib.crc32(content[at : at + RECORD], proof)
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
