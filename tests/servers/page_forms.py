"""The forms in which services list what they have in pages, each as a fault of `FaultServer` that answers the listing.

Not here: services that list wrongly (`faults.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from servers.fault_server import Exchange, FaultServer

Query = Mapping[str, str]
Answer = tuple[int, str, dict[str, str]]  # status, body, headers


@dataclass
class PagedListing:
    """Answers `GET /list` with a page of a server's names, in one form.

    Attributes:
        form: Makes the answer from the names and the query.
        queries: The query of each page asked for, in order.
    """

    server: FaultServer
    form: Callable[[Sequence[str], Query], Answer]
    queries: list[Query] = field(default_factory=list)

    async def __call__(self, exchange: Exchange) -> None:
        """Answers one page."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(exchange.request.target).query).items()}
        self.queries.append(query)
        names = sorted(self.server.names if self.server.names is not None else self.server.objects)
        status, body, headers = self.form(names, query)
        await exchange.answer(status, body.encode(), headers)


SIZE = 100  # names of a page


def behind(names: Sequence[str], marker: str) -> tuple[Sequence[str], str]:
    """The page of names behind this one, and the marker of the next page; empty if it is the last."""
    rest = [name for name in names if name > marker]
    return rest[:SIZE], rest[SIZE - 1] if len(rest) > SIZE else ""


def nested_marker(names: Sequence[str], query: Query) -> Answer:
    """A marker in a nested field."""
    page, marker = behind(names, query.get("after", ""))
    after = marker or None
    body = {"data": [{"id": name} for name in page], "paging": {"cursors": {"x": 1}, "next": {"after": after}}}
    return 200, json.dumps(body), {}


def url(start: str) -> Callable[[Sequence[str], Query], Answer]:
    """The URL of the next page in `links.next`, which begins so."""

    def form(names: Sequence[str], query: Query) -> Answer:
        page, marker = behind(names, query.get("after", ""))
        echoed = {name: value for name, value in query.items() if name not in {"after", "key"}}
        following = f"{start}?{urlencode(echoed | {'after': marker})}" if marker else None
        return 200, json.dumps({"FileNames": page, "links": {"self": "x", "next": following}}), {}

    return form


def link(names: Sequence[str], query: Query) -> Answer:
    """A header `Link`, as GitHub sends it; the page is an array."""
    page, marker = behind(names, query.get("after", ""))
    first, following = '</list>; rel="first"', f'</list?{urlencode({"after": marker})}>; rel="next", '
    return 200, json.dumps(page), {"Link": (following if marker else "") + first}


def header(names: Sequence[str], query: Query) -> Answer:
    """A marker in a header, as GitLab sends it."""
    page, marker = behind(names, query.get("page", ""))
    return 200, json.dumps(page), {"X-Next-Page": marker}


def numbered(first: int, *, missing: bool = False, parameter: str = "page") -> Callable[[Sequence[str], Query], Answer]:
    """Pages that are numbered from `first`. `missing`: those behind the last are answered with 404."""

    def form(names: Sequence[str], query: Query) -> Answer:
        at = (int(query.get(parameter, first)) - first) * SIZE
        page = names[max(at, 0) : at + SIZE]
        if missing and not page:
            return 404, '{"detail": "Invalid page."}', {}
        return 200, json.dumps({"results": page, "count": len(names)}), {}

    return form


def offset(names: Sequence[str], query: Query) -> Answer:
    """Pages that begin at an offset."""
    at = int(query.get("offset", 0))
    return 200, json.dumps({"results": names[at : at + SIZE], "total": len(names)}), {}


def json_lines(names: Sequence[str], query: Query) -> Answer:
    """A JSON object on each line, and a header `Link`."""
    _, body, headers = link(names, query)
    return 200, "".join(json.dumps({"file": {"name": name}}) + "\n" for name in json.loads(body)), headers


def lines(names: Sequence[str], query: Query) -> Answer:
    """A name on each line of numbered pages."""
    _, body, headers = numbered(1)(names, query)
    return 200, "\r\n".join(json.loads(body)["results"]), headers


def url_of_a_number(names: Sequence[str], query: Query) -> Answer:
    """Numbered pages, of which each has the URL of the next, as Django REST sends it."""
    number = int(query.get("page", 1))
    following = f"/list?page={number + 1}" if number * SIZE < len(names) else None
    page = names[(number - 1) * SIZE : number * SIZE]
    return 200, json.dumps({"FileNames": page, "next": following, "count": len(names)}), {}


def marker_of_a_number(names: Sequence[str], query: Query) -> Answer:
    """The same, with the number of the next page as a marker."""
    number = int(query.get("page", 1))
    following = number + 1 if number * SIZE < len(names) else None
    return 200, json.dumps({"FileNames": names[(number - 1) * SIZE : number * SIZE], "next_page": following}), {}


def nested_entries(names: Sequence[str], query: Query) -> Answer:
    """An offset that counts entries, of which each has three names."""
    entries = [{"files": [{"name": name} for name in names[at : at + 3]]} for at in range(0, len(names), 3)]
    at = int(query.get("offset", 0))
    return 200, json.dumps({"data": entries[at : at + SIZE], "total": len(entries)}), {}
