"""A pool of processes; a task is a chunk of fifty files, of whose contents only the sizes come back.

The contents stay where they were read: this is for work that can be done there, not for a caller that needs them.
"Multi Threaded File IO" (2019) has no such row.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Iterator

CHUNK = 50  # files of one task


def files(directory: str) -> Iterator[str]:
    """Yields the path of every file below a directory; follows no link."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def content(path: str) -> bytes:
    """Reads a file."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (Path and a buffer each cost as much as the read)
        return file.read()


def use(task: tuple[str, list[str], bool]) -> tuple[int, int, int]:
    """Reads the files of a chunk, in a process of the pool; returns their count, their bytes and their proof."""
    directory, chunk, verify = task
    size = proven = 0
    for path in chunk:
        data = content(path)
        size += len(data)
        if verify:
            name = os.fsencode(os.path.relpath(path, directory))
            proven += zlib.crc32(data, zlib.crc32(name))
    return len(chunk), size, proven


def tasks(directory: str, verify: bool) -> Iterator[tuple[str, list[str], bool]]:
    """Yields the chunks of a directory's files, each with what a process must know besides."""
    paths = files(directory)
    while chunk := list(itertools.islice(paths, CHUNK)):
        yield directory, chunk, verify


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--workers", type=int, choices=range(1, 1001), default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--verify", action="store_true", help="print the sum of their checksums too; it takes time")
    given = parser.parse_args()
    began = time.perf_counter()
    objects = size = proven = 0
    with multiprocessing.get_context("fork").Pool(given.workers) as pool:
        for done in pool.imap_unordered(use, tasks(given.directory, given.verify)):
            objects, size, proven = objects + done[0], size + done[1], proven + done[2]
    seconds = time.perf_counter() - began
    found = {"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}
    print(json.dumps(found | ({"proof": proven} if given.verify else {})))
