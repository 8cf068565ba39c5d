"""Ready-made faults for `FaultServer`: each function returns a fault, that is, a function that answers one request.

Where a head is right, it has the echo that the server is told to send; in exact bytes `ECHO` stands for it.
"fin" and "rst" say how a connection is closed, "hold" that it stays open and silent, "keep" that it goes on.
Not here: when a fault happens (the server's rules).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from servers.fault_server import Exchange, Fault, head

ECHO = b"<the lines that echo the request's id>"  # in the bytes of `raw`, `chunked` and `endless`

Then = Literal["keep", "fin", "rst", "hold"]


async def end(exchange: Exchange, then: Then) -> None:
    """Does to the connection what `then` says."""
    if then == "fin":
        await exchange.finish()
    if then == "rst":
        await exchange.reset()
    if then == "hold":
        await exchange.hold()


def raw(*pieces: bytes, then: Then = "keep", gap: float = 0.0) -> Fault:
    """Sends exactly these bytes, with `gap` seconds between the pieces."""

    async def fault(exchange: Exchange) -> None:
        for number, piece in enumerate(pieces):
            if number:
                await exchange.pause(gap)
            await exchange.send(piece.replace(ECHO, exchange.echo))
        await end(exchange, then)

    return fault


def echoing(data: bytes) -> bytes:
    """Puts the echo behind the first line of an answer."""
    return data.replace(b"\r\n", b"\r\n" + ECHO, 1)


def status(code: int, body: bytes = b"an error page", headers: Mapping[str, str] | None = None) -> Fault:
    """A complete, well-formed answer with this status."""

    async def fault(exchange: Exchange) -> None:
        await exchange.answer(code, body, headers)

    return fault


def headers(fields: Mapping[str, str], *, then: Then = "keep") -> Fault:
    """The right body under a head that has only these fields."""

    async def fault(exchange: Exchange) -> None:
        await exchange.send(exchange.head(200, fields) + exchange.body)
        await end(exchange, then)

    return fault


def cut_body(after: int, then: Then) -> Fault:
    """A right head and the first `after` bytes of the body."""

    async def fault(exchange: Exchange) -> None:
        await exchange.send(exchange.head(200, {"Content-Length": str(len(exchange.body))}) + exchange.body[:after])
        await end(exchange, then)

    return fault


def cut_head(after: int, then: Then) -> Fault:
    """The first `after` bytes of a head and nothing else; negative counts from its end."""

    async def fault(exchange: Exchange) -> None:
        await exchange.send(exchange.head(200, {"Content-Length": str(len(exchange.body))})[:after])
        await end(exchange, then)

    return fault


def drip(interval: float, size: int = 1) -> Fault:
    """The right answer, `size` bytes of the body every `interval` seconds."""

    async def fault(exchange: Exchange) -> None:
        body = exchange.body
        await exchange.send(exchange.head(200, {"Content-Length": str(len(body))}))
        for start in range(0, len(body), size):
            await exchange.send(body[start : start + size])
            await exchange.pause(interval)

    return fault


def endless(start: bytes, piece: bytes, interval: float = 0.0, sent: list[int] | None = None) -> Fault:
    """`start`, then `piece` again and again until the client goes away; `sent` collects how many bytes left."""

    async def fault(exchange: Exchange) -> None:
        try:
            await exchange.send(start.replace(ECHO, exchange.echo))
            while True:
                await exchange.send(piece)
                await exchange.pause(interval)
        finally:
            if sent is not None:
                sent.append(exchange.sent)

    return fault


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """One chunk of a chunked body."""
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def chunked(*pieces: bytes, then: Then = "keep") -> Fault:
    """A chunked answer with exactly these bytes after the head."""
    return raw(echoing(head(200, {"Transfer-Encoding": "chunked"})) + b"".join(pieces), then=then)


def page(names: Sequence[object], token: object = None, **fields: object) -> Fault:
    """A page of a listing with these names, marker and further fields."""
    answer: dict[str, object] = {"FileNames": list(names), **fields}
    if token is not None:
        answer["NextMarker"] = token
    return status(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


def redirect(code: int, location: str) -> Fault:
    """An answer that points elsewhere."""
    return status(code, b"moved", {"Location": location})
