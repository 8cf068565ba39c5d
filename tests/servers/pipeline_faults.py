"""Ready-made misbehaviour towards a client that sends requests ahead: order, forged answers, closes, cuts.

Each function returns a fault for objects, to be used with `FaultServer.on_objects`. Not here: faults of one answer
(`faults.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from servers import faults
from servers.conversation import Request
from servers.fault_server import Exchange, Fault, id_lines

Ids = Callable[[Request], Sequence[str]]
Order = Callable[[list[bytes]], list[bytes]]


def ahead(fault: Fault, hit: list[str]) -> Fault:
    """The fault, once for each object, and only while other requests are behind its own; `hit` collects them.

    Asked for alone, every object is answered well.
    """

    async def wary(exchange: Exchange) -> None:
        name = exchange.request.name or ""
        if exchange.conversation.waiting and name not in hit:
            hit.append(name)
            await fault(exchange)
        else:
            await exchange.healthy()

    return wary


async def batch(exchange: Exchange, most: int, wait: float = 0.002) -> list[Exchange]:
    """Returns this exchange and those behind it, at most so many, after giving the client time to send them."""
    await exchange.pause(wait)
    taken = [exchange]
    while len(taken) < most and (more := exchange.behind()):
        taken.append(more)
    return taken


def reordered(order: Order, most: int, *, forged: bool = False) -> Fault:
    """Answers what has been sent ahead in another order; with `forged`, ids are those of the right order."""

    async def fault(exchange: Exchange) -> None:
        taken = await batch(exchange, most)
        if forged:
            bodies = order([one.body for one in taken])
            heads = [one.head(200, {"Content-Length": str(len(body))}) for one, body in zip(taken, bodies, strict=True)]
            answers = [start + body for start, body in zip(heads, bodies, strict=True)]
        else:
            answers = order([one.healthy_bytes() for one in taken])
        await exchange.send(b"".join(answers))

    return fault


def swapped(answers: list[bytes]) -> list[bytes]:
    """Returns them with the last two swapped."""
    return answers[:-2] + answers[:-3:-1]


def backwards(answers: list[bytes]) -> list[bytes]:
    """Returns them in reverse."""
    return answers[::-1]


def one_segment(most: int = 1000) -> Fault:
    """Answers everything that has been sent ahead at once."""
    return reordered(lambda answers: answers, most)


def surplus(ids: Ids, poison: bytes = b"poison") -> Fault:
    """The right answer, and behind it in the same piece a whole answer that nobody asked for, with these ids."""

    async def fault(exchange: Exchange) -> None:
        await exchange.pause(0.002)  # so that there are requests behind, one of which the forged answer is meant for
        start = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(poison)
        await exchange.send(exchange.healthy_bytes() + start + id_lines(ids(exchange.request)) + b"\r\n" + poison)

    return fault


def chunked_with_surplus(poison: bytes) -> Fault:
    """The right body as one chunk, and behind its last chunk these bytes, in the same piece."""

    async def fault(exchange: Exchange) -> None:
        await exchange.pause(0.002)
        start = exchange.head(200, {"Transfer-Encoding": "chunked"})
        await exchange.send(start + faults.chunk(exchange.body) + b"0\r\n\r\n" + poison)

    return fault


def close_after_every(
    number: int, then: faults.Then, closed: list[int] | None = None, *, announced: bool = False
) -> Fault:
    """Answers so many requests of each connection and closes it with the last answer; `closed` collects which."""
    answered: Counter[int] = Counter()

    async def fault(exchange: Exchange) -> None:
        connection = exchange.request.connection
        answered[connection] += 1
        if answered[connection] < number:
            await exchange.healthy()
            return
        if closed is not None:
            closed.append(connection)
        status, body, headers = exchange.server.healthy_answer(exchange.request)
        if announced:
            await exchange.pause(0.002)  # so that others are behind
        await exchange.answer(status, body, headers | ({"Connection": "close"} if announced else {}))
        await faults.end(exchange, then)

    return fault


def cut_everywhere(last: int, after: int, then: faults.Then, cut: list[int]) -> Fault:
    """Cuts each connection inside its next answer after `after` good ones: first after 0 bytes, then 1, up to `last`.

    Connections after those are healthy; `cut` collects where it was cut.
    """
    answered: Counter[int] = Counter()

    async def fault(exchange: Exchange) -> None:
        connection = exchange.request.connection
        answered[connection] += 1
        if answered[connection] <= after or len(cut) > last:
            await exchange.healthy()
            return
        place = len(cut)
        cut.append(place)
        await exchange.send(exchange.healthy_bytes()[:place])
        await faults.end(exchange, then)

    return fault


def byte_by_byte(size: int = 1) -> Fault:
    """The right answer in pieces of so many bytes, each in a segment of its own."""

    async def fault(exchange: Exchange) -> None:
        data = exchange.healthy_bytes()
        for start in range(0, len(data), size):
            await exchange.send(data[start : start + size])
            await exchange.pause(0)

    return fault


def framed(first: bytes, *, chunk: int = 0, interim: bytes = b"", then: faults.Then = "keep") -> Fault:
    """The right body under this status line, chunked when a size of chunks is given, after other answers."""

    async def fault(exchange: Exchange) -> None:
        body = exchange.body
        if chunk:
            pieces = [faults.chunk(body[start : start + chunk]) for start in range(0, len(body), chunk)]
            fields, body = b"Transfer-Encoding: chunked\r\n", b"".join(pieces) + b"0\r\n\r\n"
        else:
            fields = b"Content-Length: %d\r\n" % len(body)
        await exchange.send(interim + first + b"\r\n" + fields + exchange.echo + b"\r\n" + body)
        await faults.end(exchange, then)

    return fault


def at_random(seed: int, share: float, kinds: Sequence[str], no_echo: list[str] | None = None) -> Fault:
    """Answers well but for a share of the requests, to which one of these kinds of harm is done.

    `no_echo` collects the objects that were answered without the id of their request.
    """
    chance = random.Random(seed)

    async def harm(exchange: Exchange, kind: str) -> None:
        data = exchange.healthy_bytes()
        if kind == "close":
            await faults.end(exchange, chance.choice(("fin", "rst")))
        elif kind == "close behind":
            await exchange.send(data)
            await faults.end(exchange, chance.choice(("fin", "rst")))
        elif kind == "cut":
            await exchange.send(data[: chance.randrange(len(data))])
            await faults.end(exchange, chance.choice(("fin", "rst")))
        elif kind == "no echo":
            if no_echo is not None:
                no_echo.append(exchange.request.name or "")
            await exchange.send(data.replace(exchange.echo, b"", 1))
        elif kind == "delay":
            await exchange.pause(chance.random() / 20)
            await exchange.send(data)
        elif kind == "swap":
            await reordered(swapped, chance.randrange(2, 9))(exchange)
        elif kind == "poison":
            await surplus(lambda request: (request.id or "",))(exchange)
        else:
            raise ValueError(f"no such harm: {kind!r}")

    async def fault(exchange: Exchange) -> None:
        if chance.random() < share:
            await harm(exchange, chance.choice(kinds))
        else:
            await exchange.healthy()

    return fault
