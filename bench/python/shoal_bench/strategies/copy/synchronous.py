"""One request after another, each over a new connection: the simplest program that does the job.

From "Downloading a Billion Files in Python" (PyCon 2019), which gives 0.003 seconds per request. With `--session` all
requests take one connection; the talk has no figure for it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import requests  # type: ignore[import-untyped,unused-ignore]

Ask = Callable[..., requests.Response]  # `requests.get`, or that of a session


def get(ask: Ask, url: str) -> requests.Response:
    """Sends one request."""
    response = ask(url, timeout=60, allow_redirects=False)
    if response.status_code != 200:
        raise OSError(f"{url}: status {response.status_code}")
    if len(response.content) != int(response.headers.get("Content-Length", len(response.content))):
        raise OSError(f"{url}: short body")
    return response


def pages(ask: Ask, url: str, limit: int | None) -> Iterator[tuple[int, list[str]]]:
    """Yields the pages of the listing: the index of the first name, and the names."""
    first, query = 0, ""
    while True:
        page = get(ask, f"{url}/list{query}").json()
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


def run(ask: Ask, url: str, directory: Path, limit: int | None, layout: str) -> tuple[int, int]:
    """Copies the objects; returns their count and their bytes."""
    objects = size = 0
    for first, names in pages(ask, url, limit):
        for index, name in enumerate(names, first):
            body = get(ask, f"{url}/get/{quote(name, safe='')}").content
            save(directory, layout, index, name, body)
            objects, size = objects + 1, size + len(body)
    return objects, size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("directory", type=Path, help="an empty directory")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after the first N names")
    parser.add_argument("--layout", choices=("names", "partition"), default="names")
    parser.add_argument("--workers", type=int, choices=(1,), default=1)
    parser.add_argument("--session", action="store_true", help="keep the connection for the next request")
    given = parser.parse_args()
    began = time.perf_counter()
    with requests.Session() as session:
        ask = session.get if given.session else requests.get
        objects, size = run(ask, given.url.rstrip("/"), given.directory, given.limit, given.layout)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
