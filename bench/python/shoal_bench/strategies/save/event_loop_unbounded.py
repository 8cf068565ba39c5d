"""One event loop and an asynchronous file library, with nothing that bounds the files at a time.

From "Save thousands of files" (SuperFastPython, 2023), where it dies of "too many open files": every file is
opened, with its content in memory, before the first is written. Where more may be open than there are files, it lives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

import aiofiles  # type: ignore[import-untyped,unused-ignore]

NAME = "event loop, no bound"
PUBLISHED: dict[int, float] = {}
REQUIRES: tuple[str, ...] = ("aiofiles",)
DEFAULT_WORKERS = 0  # as many as there are files


def make(number: int) -> str:
    """Returns the content of a file: 5,000 lines of 10 whole numbers each."""
    return "\n".join([",".join([str(number + line + column) for column in range(10)]) for line in range(5000)])


async def save_all(directory: Path, count: int) -> tuple[int, int]:
    """Saves the files, in a loop that runs."""

    async def save(number: int) -> int:
        text = make(number)
        async with aiofiles.open(directory / f"data-{number:04d}.csv", "w") as file:
            await file.write(text)
        return len(text)

    return count, sum(await asyncio.gather(*[save(number) for number in range(count)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=NAME)
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("count", type=int, help="how many files")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = asyncio.run(save_all(given.directory, given.count))
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.count}))
