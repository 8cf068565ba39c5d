"""A shared list of tasks and a fixed number of threads that take from it; the contents go through a bounded queue.

The arrangement of "Multi Threaded File IO" (2019, in Java). It publishes curves, no table: for small files more threads
help up to those of the hardware, for large ones two at most.
"""

import argparse
import json
import os
import queue
import threading
import time
import zlib
from collections.abc import Iterator

WAITING = 100  # contents that may wait for the caller


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


def read(directory: str, workers: int) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the content of every file, in the order in which they are ready."""
    tasks = list(files(directory))  # taking from a list needs no lock: pop() is one step of the interpreter
    ready: queue.Queue[tuple[str, bytes] | Exception | None] = queue.Queue(maxsize=WAITING)

    def work() -> None:
        try:
            while tasks:
                try:
                    path = tasks.pop()
                except IndexError:  # another thread has taken the last one since
                    break
                ready.put((path, content(path)))
            ready.put(None)
        except Exception as error:  # noqa: BLE001 (raised below)
            ready.put(error)

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    running = workers
    while running:
        done = ready.get()
        if isinstance(done, Exception):
            raise done
        if done is None:
            running -= 1
        else:
            yield done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--workers", type=int, choices=range(1, 1001), default=8, metavar="N")
    parser.add_argument("--verify", action="store_true", help="print the sum of their checksums too; it takes time")
    given = parser.parse_args()
    began = time.perf_counter()
    objects = size = proven = 0
    for path, data in read(given.directory, given.workers):
        objects, size = objects + 1, size + len(data)
        if given.verify:
            name = os.fsencode(os.path.relpath(path, given.directory))
            proven += zlib.crc32(data, zlib.crc32(name))
    seconds = time.perf_counter() - began
    found = {"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}
    print(json.dumps(found | ({"proof": proven} if given.verify else {})))
