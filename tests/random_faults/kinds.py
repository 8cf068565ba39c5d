"""All kinds of faults of an answer, by name: `OBJECTS` for objects, `PAGES` for pages of a listing.

A kind is a *script*: the steps of one answer, which are bytes to send or seconds to wait, and then what becomes of the
connection. Its `effect` says what no client can tell, or not in time; `oracle.py` tolerates that and nothing else:

    unverified  a body without a length is cut: the object may be its beginning
    late        an answer is longer than it says: the object is its beginning if the rest comes after shoal's last look
    foreign     an answer without an id comes that was not asked for: later objects of its connection have wrong bytes
    replayed    the same with an answer that was asked for, and has its id if the service has ids

Not here: which objects have which fault (`plan.py`).
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from servers import faults
from servers.conversation import Request
from servers.fault_server import Exchange, Fault, head, id_lines
from servers.pipeline_faults import backwards, reordered, swapped

Effect = Literal["", "unverified", "late", "foreign", "replayed"]
Steps = Iterable[bytes | float]
Script = Callable[[Exchange, random.Random], Steps]

MOVED = "moved=1"  # in the target of a redirect: no fault is for it
POISON = b"an answer that was never asked for"
ENDS: tuple[faults.Then, ...] = ("fin", "rst")
KEEP: tuple[faults.Then, ...] = ("keep",)


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        make: Makes the fault; all its chances come from the generator.
        effect: What no client can tell.
        is_slow: It costs a timeout, so it must be rare.
        options: What the command needs for this kind.
    """

    make: Callable[[random.Random], Fault]
    effect: Effect = ""
    is_slow: bool = False
    options: tuple[str, ...] = ()


def script(play: Script, then: tuple[faults.Then, ...] = KEEP, effect: Effect = "", *, is_slow: bool = False) -> Kind:
    """A kind that plays these steps, and does one of `then` to the connection."""

    def make(chance: random.Random) -> Fault:
        async def fault(exchange: Exchange) -> None:
            for step in play(exchange, chance):
                await (exchange.pause(step) if isinstance(step, float) else exchange.send(step))
            await faults.end(exchange, chance.choice(then))

        return fault

    return Kind(make, effect, is_slow)


# Answers


def body_of(x: Exchange) -> bytes:
    """The right body: of the object or of the page."""
    return x.server.healthy_answer(x.request)[1]


def good(
    x: Exchange, body: bytes | None = None, status: int = 200, fields: Mapping[str, str | None] | None = None
) -> bytes:
    """An answer that is right but for what is given; a field that is None is left out."""
    _, right, healthy = x.server.healthy_answer(x.request)
    body = right if body is None else body
    lines = {**healthy, "Content-Length": str(len(body)), **(fields or {})}
    return x.head(status, {name: value for name, value in lines.items() if value is not None}) + body


def claims(x: Exchange, length: int) -> bytes:
    """The right body under a head with this length."""
    return good(x, fields={"Content-Length": str(length)})


def status(code: int, **fields: str) -> Kind:
    """A complete answer with this status."""
    lines = {name.replace("_", "-"): value for name, value in fields.items()}
    return script(lambda x, _: [good(x, b"no", code, lines)])


def length_line(x: Exchange) -> bytes:
    return b"Content-Length: %d\r\n" % len(body_of(x))


def late(c: random.Random) -> float:
    """How long a surplus takes: 1 to 30 ms."""
    return c.randint(1, 30) / 1000


def cut(x: Exchange, c: random.Random) -> Steps:
    yield good(x)[: -c.randint(1, len(body_of(x)) or 1)]


def cut_head(x: Exchange, c: random.Random) -> Steps:
    whole = good(x, b"")
    yield whole[: c.randrange(len(whole))]


def in_pieces(number: int, pause: float, x: Exchange, _: random.Random) -> Steps:
    data = good(x)
    size = len(data) // number + 1
    for start in range(0, len(data), size):
        yield data[start : start + size]
        yield pause


def shorter(is_late: bool, x: Exchange, c: random.Random) -> Steps:
    """Says less than it sends. The rest comes at once or later."""
    body = body_of(x)
    rest = c.randint(1, len(body)) if body else 0
    data = claims(x, len(body) - rest) + (b"" if rest else b"x")
    at = len(data) - (rest or 1)
    yield from (data[:at], late(c), data[at:]) if is_late else (data,)


def behind(surplus: Callable[[Exchange], bytes], is_late: bool, x: Exchange, c: random.Random) -> Steps:
    """The right answer and something behind it."""
    if is_late:
        yield good(x)
        yield late(c)
        yield surplus(x)
    else:
        yield good(x) + surplus(x)


def poison(_: Exchange) -> bytes:
    fields = {"Content-Length": str(len(POISON)), "Content-Type": "application/octet-stream"}
    return head(200, fields) + POISON


def refusal(_: Exchange) -> bytes:
    return head(408, {"Content-Length": "0", "Connection": "close"})


def in_chunks(x: Exchange, c: random.Random, extension: bytes = b"") -> bytes:
    """A body in chunks, without the last one."""
    body = body_of(x)
    size = c.randint(len(body) // 7 + 1, len(body) + 1)
    return b"".join(faults.chunk(body[start : start + size], extension) for start in range(0, len(body), size))


def chunked(end: bytes, x: Exchange, c: random.Random, *, extension: bytes = b"", both: bool = False) -> Steps:
    """A chunked answer that ends so."""
    length = str(len(body_of(x))) if both else None
    yield good(x, in_chunks(x, c, extension) + end, fields={"Transfer-Encoding": "chunked", "Content-Length": length})


def chunked_cut(x: Exchange, c: random.Random) -> Steps:
    [data] = chunked(b"0\r\n\r\n", x, c)
    assert isinstance(data, bytes)
    yield data[: -c.randint(1, len(body_of(x)) + 4)]


def without_length(is_cut: bool, x: Exchange, c: random.Random) -> Steps:
    body = body_of(x)
    yield good(x, body[: c.randint(0, len(body))] if is_cut else body, fields={"Content-Length": None})


def replaced(old: bytes, new: bytes, x: Exchange, c: random.Random) -> Steps:
    """The right answer with other bytes in its head."""
    start, _, body = good(x).partition(b"\r\n\r\n")
    yield (start + b"\r\n\r\n").replace(old, new) + body


def encoded(name: str, encode: Callable[[bytes], bytes], x: Exchange, _: random.Random) -> Steps:
    yield good(x, encode(body_of(x)), fields={"Content-Encoding": name})


def spoilt_gzip(data: bytes) -> bytes:
    packed = gzip.compress(data)
    return packed[:-8] + b"\0" * 4 + packed[-4:]  # its checksum


def redirect(where: str, x: Exchange, c: random.Random) -> Steps:
    target = x.request.target
    moved = f"{target}{'&' if '?' in target else '?'}{MOVED}"
    location = {"moved": moved, "self": target, "dead": f"http://127.0.0.1:1{target}", "none": None}[where]
    yield good(x, b"moved", c.choice([301, 302, 307, 308]), {"Location": location})


def with_ids(ids: Callable[[Exchange, random.Random], list[str]], x: Exchange, c: random.Random) -> Steps:
    yield good(x).replace(x.echo, id_lines(ids(x, c)), 1) if x.echo else good(x)


def id_of_another(x: Exchange, c: random.Random) -> list[str]:
    ids = [request.id for request in x.server.received[-20:] if request.id]
    return [c.choice(ids)]


# Bodies that break off and are gone on with


def resumed(part: str, x: Exchange, c: random.Random) -> Steps:
    """Cuts the first answer, and answers the request for the rest in some way."""
    body, tag = body_of(x), '"one"'
    asked = x.request.headers.get("range", "")
    first = int(asked[6:-1]) if asked.startswith("bytes=") and asked.endswith("-") else None
    if part == "weak":
        assert first is None, "a weak validator must not be used for a range"
        tag = 'W/"one"'
    if first is None:
        x.server.objects[x.request.name or ""] = body
        yield good(x, fields={"ETag": tag})[: -c.randint(1, len(body) or 1)]
        return
    if part.startswith("changed"):
        body = changed(body)
        x.server.objects[x.request.name or ""] = body
        tag = '"two"'
    if part in ("changed, whole", "refused"):
        yield good(x, body, 200, {"ETag": tag}) if part == "changed, whole" else good(x, b"no", 416)
        return
    first = max(0, first - 1) if part == "elsewhere" else min(first, len(body))
    total = len(body) + (part == "other total")
    yield good(x, body[first:], 206, {"ETag": tag, "Content-Range": f"bytes {first}-{len(body) - 1}/{total}"})


def changed(body: bytes) -> bytes:
    """The second version of an object."""
    return body[::-1] + b"2"


# Pages


def page(x: Exchange, names: list[str], token: str | None, **fields: object) -> bytes:
    content = {"FileNames": names, **fields, **({"NextMarker": token} if token is not None else {})}
    return good(x, json.dumps(content).encode())


def again(x: Exchange) -> str:
    """A second marker of the same page, for which no fault is."""
    word, _, number = (x.request.token or f"{x.server.marker}-0").rpartition("-")
    return f"{word}-0{number}"


def names_of(x: Exchange) -> list[str]:
    return [str(name) for name in json.loads(body_of(x))["FileNames"]]


TAGGED = ("--expect-type", "application/octet-stream")
HTML = {"Content-Type": "text/html", "ETag": None}
OBJECTS = {
    # Cut, reset, stalled
    "cut body": script(cut, ENDS),
    "cut head": script(cut_head, ENDS),
    "close at once": script(lambda *_: [], ("fin",)),
    "reset at once": script(lambda *_: [], ("rst",)),
    "stall shortly": script(lambda x, _: [0.3, good(x)]),
    "stall for long": script(lambda x, _: [0.7, good(x)], is_slow=True),
    "stall before head": script(lambda *_: [], ("hold",), is_slow=True),
    "stall in body": script(cut, ("hold",), is_slow=True),
    "drip": script(partial(in_pieces, 20, 0.005)),
    "two segments": script(partial(in_pieces, 2, 0.002)),
    # Lengths
    "length too long, close": script(lambda x, c: [claims(x, len(body_of(x)) + c.randint(1, 99))], ENDS),
    "length too long, keep": script(lambda x, c: [claims(x, len(body_of(x)) + c.randint(1, 99))], is_slow=True),
    "length too short": script(partial(shorter, False), effect="late"),
    "length too short, rest late": script(partial(shorter, True), effect="late"),
    "length twice, equal": script(lambda x, c: replaced(b"\r\n\r\n", b"\r\n" + length_line(x) + b"\r\n", x, c)),
    "length twice, different": script(partial(replaced, b"Content-Length: ", b"Content-Length: 7\r\nContent-Length: ")),
    "length is no number": script(partial(replaced, b"Content-Length: ", b"Content-Length: -")),
    "no length": script(partial(without_length, False), ENDS[:1]),
    "no length, cut": script(partial(without_length, True), ENDS[:1], "unverified"),
    # Behind an answer
    "garbage behind": script(partial(behind, lambda _: b"garbage", False)),
    "garbage behind, late": script(partial(behind, lambda _: b"garbage", True)),
    "empty line behind": script(partial(behind, lambda _: b"\r\n", False)),
    "empty line behind, late": script(partial(behind, lambda _: b"\r\n", True)),
    "answer twice": script(partial(behind, good, False), effect="replayed"),
    "answer twice, late": script(partial(behind, good, True), effect="replayed"),
    "foreign answer behind": script(partial(behind, poison, False), effect="foreign"),
    "foreign answer behind, late": script(partial(behind, poison, True), effect="foreign"),
    "refusal behind": script(partial(behind, refusal, True), ("fin",)),
    # Chunks
    "chunked": script(partial(chunked, b"0\r\n\r\n")),
    "chunked, extensions": script(partial(chunked, b"0;last\r\n\r\n", extension=b';a="b"')),
    "chunked, trailers": script(partial(chunked, b"0\r\nX-Sum: 1\r\n\r\n")),
    "chunked, bad size": script(partial(chunked, b"zz\r\n\r\n")),
    "chunked, cut": script(chunked_cut, ENDS),
    "chunked and a length": script(partial(chunked, b"0\r\n\r\n", both=True)),
    # Status
    "interim answers": script(lambda x, c: [head(c.choice([100, 102, 103]), {}) * c.randint(1, 3) + good(x)]),
    "204": script(lambda x, _: [good(x, b"", 204, {"Content-Length": None})]),
    "206 unasked": script(
        lambda x, _: [good(x, body_of(x)[1:], 206, {"Content-Range": f"bytes 1-{len(body_of(x)) - 1}/*"})]
    ),
    "304": script(lambda x, _: [good(x, b"", 304, {"Content-Length": None})]),
    **{str(code): status(code) for code in (400, 401, 403, 404, 410, 500, 502)},
    "429": status(429, Retry_After="0"),
    "429, soon": replace(status(429, Retry_After="1"), is_slow=True),
    "503, whenever": status(503, Retry_After="whenever"),
    **{f"redirect: {where}": script(partial(redirect, where)) for where in ("moved", "self", "dead", "none")},
    # Heads
    "gzip": script(partial(encoded, "gzip", gzip.compress)),
    "gzip, wrong checksum": script(partial(encoded, "gzip", spoilt_gzip)),
    "gzip, cut": script(partial(encoded, "gzip", lambda data: gzip.compress(data)[:-9])),
    "unknown encoding": script(partial(encoded, "br", bytes)),
    "web page": replace(script(lambda x, _: [good(x, b"<html>log in</html>", fields=HTML)]), options=TAGGED),
    "HTTP/1.0": script(partial(replaced, b"HTTP/1.1", b"HTTP/1.0"), ENDS[:1]),
    "bare line feeds": script(partial(replaced, b"\r\n", b"\n")),
    "huge head": script(partial(replaced, b"\r\n\r\n", b"\r\nX: " + b"y" * 300_000 + b"\r\n\r\n")),
    "NUL in head": script(partial(replaced, b"\r\n\r\n", b"\r\nX: a\0b\r\n\r\n")),
    "no HTTP": script(lambda *_: [b"220 ready\r\n"], ENDS),
    "range of the whole": script(
        lambda x, _: [good(x, fields={"Content-Range": f"bytes 0-{len(body_of(x)) - 1}/{len(body_of(x))}"})]
    ),
    "close announced": script(lambda x, _: [good(x, fields={"Connection": "close"})], ENDS[:1]),
    "close unannounced": script(lambda x, _: [good(x)], ENDS),
    "close announced and kept": script(lambda x, _: [good(x, fields={"Connection": "close"})]),
    # Ids
    "wrong id": script(partial(with_ids, lambda *_: ["0" * 16])),
    "id of another": script(partial(with_ids, id_of_another)),
    "no id": script(partial(with_ids, lambda *_: [])),
    "two ids": script(partial(with_ids, lambda x, _: [x.request.id or "", "1" * 16])),
    "swapped": Kind(lambda c: reordered(swapped, c.randint(2, 9))),
    "backwards": Kind(lambda c: reordered(backwards, c.randint(2, 9))),
    # Ranges
    **{
        f"resumed: {part}": script(partial(resumed, part), ENDS[:1])
        for part in ("right", "changed, whole", "changed, part", "elsewhere", "other total", "refused", "weak")
    },
}

SHARED = [
    "cut body", "reset at once", "stall before head", "drip", "length too long, close", "length too short",
    "garbage behind", "garbage behind, late", "answer twice, late", "chunked", "chunked, cut", "500", "429, soon",
    "redirect: moved", "redirect: self", "gzip", "gzip, cut",
]  # fmt: skip
PAGES = {
    **{f"page: {name}": OBJECTS[name] for name in SHARED},
    "page: web page": script(lambda x, _: [good(x, b"<html>log in</html>", fields={"Content-Type": "text/html"})]),
    "page: broken JSON": script(lambda x, c: [good(x, body_of(x)[: -c.randint(1, len(body_of(x)))])]),
    "page: same names twice": script(lambda x, _: [page(x, names_of(x), again(x))]),
    "page: empty": script(lambda x, _: [page(x, [], again(x))]),
    "page: marker loop": script(lambda x, _: [page(x, names_of(x), x.request.token or "page-0")]),
    "page: more without a marker": script(lambda x, _: [page(x, names_of(x), None, IsTruncated=True)]),
}
EVERY = OBJECTS | PAGES


def is_for(where: str | int, request: Request) -> bool:
    """Whether a fault of this object or page is for this request."""
    if MOVED in request.target:
        return False
    if isinstance(where, str):
        return request.name == where
    return request.is_list and (request.token or "page-0") == f"page-{where}"
