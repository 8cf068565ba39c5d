"""The limit of `save`: one forked process a core makes and writes its share of the files, and nothing else.

There is no journal, no check of names and no report of errors. The function is the study's, and takes most of the time.
"""

import argparse
import json
import os
import time


def make(number: int) -> str:
    """Returns the content of a file: 5,000 lines of 10 whole numbers each."""
    return "\n".join([",".join([str(number + line + column) for column in range(10)]) for line in range(5000)])


def save(directory: str, numbers: range) -> int:
    """Makes and writes some files, in a process of its own; returns their bytes."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    size = 0
    for number in numbers:
        content = make(number).encode()
        file = os.open(f"data-{number:04d}.csv", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666, dir_fd=folder)
        size += os.write(file, content)
        os.close(file)
    return size


def run(directory: str, count: int, workers: int) -> tuple[int, int]:
    """Saves the files; returns their count and their bytes."""
    said, saying = os.pipe()
    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.write(saying, save(directory, range(worker, count, workers)).to_bytes(8))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(saying)
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise OSError("a process has failed")
    sizes = os.read(said, 8 * workers)  # at most 64 kB wait in a pipe
    return count, sum(int.from_bytes(sizes[at : at + 8]) for at in range(0, len(sizes), 8))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", help="an empty directory")
    parser.add_argument("count", type=int, help="how many files")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.directory, given.count, given.workers)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
