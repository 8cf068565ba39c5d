"""The disk's own rate: one file of as many bytes, written from its beginning to its end. The caller adds the sync."""

import argparse
import json
import os
import time
from pathlib import Path

PIECE = 1 << 20  # bytes of a write


def write(path: Path, size: int) -> None:
    """Writes so many bytes that no disk can squeeze."""
    piece = memoryview(os.urandom(PIECE))
    with path.open("xb", buffering=0) as file:
        while size:
            size -= file.write(piece[: min(PIECE, size)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("into", type=Path, help="an empty directory")
    parser.add_argument("size", type=int, help="bytes")
    given = parser.parse_args()
    began = time.perf_counter()
    write(given.into / "disk", given.size)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": 1, "bytes": given.size, "seconds": seconds, "workers": 1}))
