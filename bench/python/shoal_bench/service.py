"""The list/get service of made-up objects that the contestants of `copy` are set on."""

import json
import urllib.request
from urllib.parse import quote

import shoal

START_LIMIT = 10.0  # seconds in which the service must answer


def service(count: int, size: int, at: int = 0) -> shoal.Server:
    """Starts a service of made-up objects, in threads of this process, which only waits meanwhile; for a `with`.

    Services of different numbers are different hosts: all of 127.0.0.0/8 is this machine.
    """
    return shoal.serve(synthetic=f"{count}:{size}", host=f"127.0.0.{at + 1}")


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
