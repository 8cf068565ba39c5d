"""The list/get service of made-up objects that the contestants of `copy` are set on."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from shoal import RunError

START_LIMIT = 10.0  # seconds in which the service must answer


@contextmanager
def service(count: int, size: int) -> Iterator[str]:
    """A service of made-up objects in a process of its own; the text is its URL."""
    command = [sys.executable, "-m", "shoal", "serve", "--synthetic", f"{count}:{size}", "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline().strip() if process.stdout else ""
            if not line.startswith("http://"):
                raise RunError(f"shoal serve did not start: {line!r}")
            yield line
        finally:
            process.terminate()


def first_names(url: str, count: int) -> tuple[str, ...]:
    """Returns the first names that a service lists."""
    names: list[str] = []
    marker = ""
    while len(names) < count:
        query = f"?next-marker={quote(marker, safe='')}" if marker else ""
        with urllib.request.urlopen(f"{url}/list{query}", timeout=START_LIMIT) as answer:  # noqa: S310  # our own service
            page = json.load(answer)
        names += page["FileNames"]
        marker = page.get("NextMarker", "")
        if not marker:
            break
    return tuple(names[:count])
