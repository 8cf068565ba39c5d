"""The program that knows python-isal: a process for each core, which inflates with ISA-L instead of zlib.

    python isal_processes.py DIRECTORY [--into DIR] [--workers N]

It needs the package isal. An entry is inflated in one call, up to 64 MiB, and its CRC is compared; nothing else is
checked. A task is one archive, the largest ones first.
"""

import argparse
import json
import multiprocessing
import os
import struct
import time
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib  # type: ignore[import-not-found,unused-ignore]

LOCAL = struct.Struct("<26xHH")  # of an entry's own header, before its bytes: the lengths of what follows
WHOLE = 64 << 20  # bytes that are inflated in one call
PIECE = 1 << 20  # bytes that are read at once of what is larger


def content(file: BinaryIO, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields the bytes of an entry, in one piece where it is small."""
    file.seek(entry.header_offset)
    name, extra = LOCAL.unpack(file.read(LOCAL.size))
    file.seek(name + extra, os.SEEK_CUR)
    if entry.compress_type == zipfile.ZIP_STORED:
        yield file.read(entry.compress_size)
    elif entry.compress_type != zipfile.ZIP_DEFLATED:
        raise zipfile.BadZipFile(f"{entry.filename!r} is packed by method {entry.compress_type}")
    elif entry.file_size <= WHOLE:
        yield isal_zlib.decompress(file.read(entry.compress_size), -15, max(1, entry.file_size))
    else:
        inflate, left = isal_zlib.decompressobj(-15), entry.compress_size
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield inflate.decompress(piece)
        yield inflate.flush()


def unpack(path: Path, into: Path | None) -> tuple[int, int]:
    """Checks every entry of an archive, or extracts all; returns their count and their bytes."""
    objects = total = 0
    with path.open("rb") as file, zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            crc = size = 0
            target = into / entry.filename if into else None
            if target:
                target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb", buffering=0) if target else nullcontext() as output:
                for piece in content(file, entry):
                    crc, size = isal_zlib.crc32(piece, crc), size + len(piece)
                    if output:
                        output.write(piece)
            if crc != entry.CRC or size != entry.file_size:
                raise zipfile.BadZipFile(f"{entry.filename!r} has the wrong bytes")
            objects, total = objects + 1, total + size
    return objects, total


def run(directory: Path, into: Path | None, workers: int) -> tuple[int, int]:
    """Unpacks all archives; returns the count and the bytes of their entries."""
    paths = sorted(directory.glob("*.zip"), key=lambda path: -path.stat().st_size)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        done = list(pool.imap_unordered(partial(unpack, into=into), paths))
    return sum(objects for objects, _ in done), sum(size for _, size in done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="python-isal, a process for each core")
    parser.add_argument("directory", type=Path, help="where the archives are")
    parser.add_argument("--into", type=Path, help="extract below this directory; without it, check only")
    parser.add_argument("--workers", type=int, choices=range(1, 1001), default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.directory, given.into, given.workers)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
