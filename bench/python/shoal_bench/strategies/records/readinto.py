"""Reads into one buffer again and again, so that no object is made; what is in the buffer is not split.

From "I/O performance in Python": a buffer of 16 bytes takes 100.5 seconds for 93,368,320 records in Python 2, and 125.0
unbuffered. Without a buffer of the file object, 8 KiB take 1.26 and 1 MiB 3.9; in Python 3, 32 KiB take 0.6, as `cat`.
"""

import argparse
import json
import time
import zlib

RECORD = 16  # bytes


def read(path: str, piece: int, buffering: int) -> int:
    """Takes piece after piece into the same buffer; returns the bytes of all."""
    buffer = bytearray(piece)
    with open(path, "rb", buffering) as file:  # noqa: PTH123
        while file.readinto(buffer):  # type: ignore[attr-defined]
            pass
        return file.tell()


def prove(path: str, piece: int, buffering: int) -> int:
    """Reads the same way again; returns a checksum of all pieces, which is that of their records."""
    proof = 0
    buffer = memoryview(bytearray(piece))
    with open(path, "rb", buffering) as file:  # noqa: PTH123
        while came := file.readinto(buffer):  # type: ignore[attr-defined]
            proof = zlib.crc32(buffer[:came], proof)
    return proof


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--piece", type=int, default=RECORD, metavar="BYTES", help="bytes of the buffer; 16")
    parser.add_argument("--buffered", action="store_true", help="with the file object's own buffer between")
    parser.add_argument("--verify", action="store_true", help="print a checksum of all records too; it takes time")
    given = parser.parse_args()
    buffering = -1 if given.buffered else 0
    began = time.perf_counter()
    size = read(given.file, given.piece, buffering)
    seconds = time.perf_counter() - began
    found = {"objects": size // RECORD, "bytes": size, "seconds": seconds, "workers": 1}
    print(json.dumps(found | ({"proof": prove(given.file, given.piece, buffering)} if given.verify else {})))
