"""Processes make the files, threads of the parent write them; a bound on how many may wait for a thread.

The author of "Save thousands of files" (SuperFastPython, 2023) names it and leaves it open. Every content
crosses from a process to the parent, which costs a copy and more.
"""

import argparse
import json
import multiprocessing
import os
import queue
import threading
import time
from multiprocessing.pool import AsyncResult
from pathlib import Path

THREADS = 4  # that write
WAITING = 64  # files that may be on the way or made and not yet taken by a thread; about 16 MB

Task = tuple[int, AsyncResult[str]] | None  # a number and what will be its content; None ends a thread


def make(number: int) -> str:
    """Returns the content of a file: 5,000 lines of 10 whole numbers each."""
    return "\n".join([",".join([str(number + line + column) for column in range(10)]) for line in range(5000)])


def run(directory: Path, count: int, workers: int, threads: int) -> tuple[int, int]:
    """Saves the files; returns their count and their bytes."""
    tasks: queue.Queue[Task] = queue.Queue(maxsize=WAITING)
    errors: list[Exception] = []
    sizes: list[int] = []

    def save() -> None:
        while (task := tasks.get()) is not None:
            try:
                if not errors:  # else only empties the queue, so that nothing waits for room in it
                    number, making = task
                    text = making.get()
                    (directory / f"data-{number:04d}.csv").write_text(text)
                    sizes.append(len(text))
            except Exception as error:  # noqa: BLE001 (raised below)
                errors.append(error)

    # The processes first: none is forked from among threads.
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        savers = [threading.Thread(target=save) for _ in range(threads)]
        for thread in savers:
            thread.start()
        try:
            for number in range(count):
                tasks.put((number, pool.apply_async(make, (number,))))
                if errors:
                    break
        finally:
            for _ in savers:
                tasks.put(None)
            for thread in savers:
                thread.join()
    if errors:
        raise errors[0]
    return len(sizes), sum(sizes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("count", type=int, help="how many files")
    parser.add_argument(
        "--workers", type=int, choices=range(1, 1001), default=os.cpu_count() or 1, metavar="N", help="processes"
    )
    parser.add_argument("--threads", type=int, choices=range(1, 1001), default=THREADS, metavar="N", help="that write")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.directory, given.count, given.workers, given.threads)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
