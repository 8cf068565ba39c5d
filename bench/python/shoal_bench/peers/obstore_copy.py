"""The program that knows obstore: tasks on one event loop take names and fetch each with obstore's client, in Rust.

    python obstore_copy.py URL NAMES DIRECTORY [--workers N]

It needs the package obstore. NAMES is a file with a name in each line: obstore's store of plain HTTP cannot list this
service.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

from obstore.store import HTTPStore


async def fetch(store: HTTPStore, names: Iterator[str], directory: Path) -> tuple[int, int]:
    """Copies one object after the other, of those that are not taken; returns their count and their bytes."""
    objects = size = 0
    for name in names:
        if "/" in name or name in {"", ".", ".."}:
            raise ValueError(f"not a file name: {name!r}")
        answer = await store.get_async(name)
        body = await answer.bytes_async()
        if len(body) != answer.meta["size"]:
            raise OSError(f"{name}: short body")
        (directory / name).write_bytes(body)
        objects, size = objects + 1, size + len(body)
    return objects, size


async def run(url: str, names: list[str], directory: Path, workers: int) -> tuple[int, int]:
    """Copies the objects; returns their count and their bytes."""
    store = HTTPStore(f"{url}/get", client_options={"allow_http": True})
    waiting = iter(names)  # shared: a free task takes the next
    done = await asyncio.gather(*(fetch(store, waiting, directory) for _ in range(workers)))
    return sum(objects for objects, _ in done), sum(size for _, size in done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="obstore on one event loop")
    parser.add_argument("url")
    parser.add_argument("names", type=Path, help="a file with a name in each line")
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("--workers", type=int, choices=range(1, 1001), default=64, metavar="N")
    given = parser.parse_args()
    names = given.names.read_text().splitlines()
    began = time.perf_counter()
    objects, size = asyncio.run(run(given.url.rstrip("/"), names, given.directory, given.workers))
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
