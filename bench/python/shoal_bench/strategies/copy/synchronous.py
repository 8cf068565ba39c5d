"""One request after another, each over a new connection: the simplest program that does the job.

From "Downloading a Billion Files in Python" (PyCon 2019), which gives 0.003 seconds per request.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import requests  # type: ignore[import-untyped,unused-ignore]

NAME = "synchronous, a new connection each time"
PUBLISHED: dict[int, float] = {1: 0.003}
REQUIRES: tuple[str, ...] = ("requests",)
DEFAULT_WORKERS = 1


def get(url: str) -> requests.Response:
    """Sends one request, over a connection of its own."""
    response = requests.get(url, timeout=60, allow_redirects=False)
    if response.status_code != 200:
        raise OSError(f"{url}: status {response.status_code}")
    if len(response.content) != int(response.headers.get("Content-Length", len(response.content))):
        raise OSError(f"{url}: short body")
    return response


def pages(url: str, limit: int | None) -> Iterator[tuple[int, list[str]]]:
    """Yields the pages of the listing: the index of the first name, and the names."""
    first, query = 0, ""
    while True:
        page = get(f"{url}/list{query}").json()
        names = page["FileNames"][: None if limit is None else limit - first]
        yield first, names
        first += len(names)
        if not page.get("NextMarker") or first == limit:
            return
        query = f"?next-marker={quote(page['NextMarker'], safe='')}"


def save(directory: Path, layout: str, index: int, name: str, body: bytes) -> None:
    """Writes an object; in the layout "partition" a hundred objects share a directory."""
    if "/" in name or name in {"", ".", ".."}:
        raise ValueError(f"not a file name: {name!r}")
    path = directory / name
    if layout == "partition":
        digits = f"{index // 100:08}"
        path = directory / digits[:-6] / digits[-6:-2] / digits[-2:] / name
    try:
        path.write_bytes(body)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def run(url: str, directory: Path, limit: int | None, layout: str) -> tuple[int, int]:
    """Copies the objects; returns their count and their bytes."""
    objects = size = 0
    for first, names in pages(url, limit):
        for index, name in enumerate(names, first):
            body = get(f"{url}/get/{quote(name, safe='')}").content
            save(directory, layout, index, name, body)
            objects, size = objects + 1, size + len(body)
    return objects, size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=NAME)
    parser.add_argument("url")
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after the first N names")
    parser.add_argument("--layout", choices=("names", "partition"), default="names")
    parser.add_argument("--workers", type=int, choices=(1,), default=DEFAULT_WORKERS, metavar="N")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.url.rstrip("/"), given.directory, given.limit, given.layout)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
