"""Bodies that are longer than they say, the surplus in a segment of its own: the object before it is to be doubted."""

from __future__ import annotations

import pytest

from hostile.oracle import Outcome, Shoal, assert_balanced, numbered, tree
from hostile.pipelining import MANY, assert_pipelined, service
from servers import pipeline_faults
from servers.fault_server import Exchange, Fault
from servers.fixtures import MakeServer

BIG = bytes(range(251)) * 1200  # 301,200 bytes: streamed to disk


def late(surplus: bytes = b"", wait: float = 0.002) -> Fault:
    """The right body under a length that is one too small, the last byte later; or the right one and a surplus."""

    async def fault(exchange: Exchange) -> None:
        body = exchange.body + surplus
        said = len(exchange.body) - (not surplus)
        await exchange.send(exchange.head(200, {"Content-Length": str(said)}) + body[:said])
        await exchange.pause(wait)
        await exchange.send(body[said:])

    return fault


@pytest.mark.parametrize("surplus", [b"", b"H", b"HTTP/1.", b"\r\n"])
def test_pipelined_an_answer_longer_than_it_says_is_fetched_again(
    shoal_command: Shoal, fault_server: MakeServer, surplus: bytes
) -> None:
    objects = numbered(600)
    server = service(fault_server, objects)
    hit: list[str] = []
    for name in list(objects)[100:600:60]:
        server.on_object(name, pipeline_faults.ahead(late(surplus), hit))
    server.start()

    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert hit


def named(outcome: Outcome, names: set[str]) -> None:
    """Fails unless the report says of how many objects, these among them, that they may be short."""
    notes = [note for note in outcome.report["notes"] if "longer than" in note]
    assert len(notes) == 1, outcome.report["notes"]
    assert notes[0].startswith(f"{len(names)} "), notes
    assert any(name in notes[0] for name in names), notes


def test_one_at_a_time_an_object_that_may_be_short_is_named(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(200, 20)
    server = service(fault_server, objects, echo=False)
    names = list(objects)
    hit = set(names[10:190:20])
    for name in hit:
        server.on_object(name, late())
    server.start()

    # One connection, so that each of them has an answer behind it.
    outcome = shoal_command.copy(server, "--workers", "1", "--max-retries", "3")

    assert outcome.code in (0, 1), outcome
    assert_balanced(outcome.report)
    found = tree(outcome.out)
    short = {name for name in found if found[name] != objects[name]}
    failed = {failure["name"] for failure in outcome.report["failures"]}
    assert short | failed == hit, "what lies behind them is not to blame"
    named(outcome, short)
    assert outcome.report["retries"] == 0 or failed


def test_a_request_timeout_said_on_an_idle_connection_blames_no_object(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(60)
    server = service(fault_server, objects, echo=False)

    async def says_goodbye(exchange: Exchange) -> None:
        await exchange.healthy()
        await exchange.pause(0.002)
        await exchange.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await exchange.finish()

    # Alone, and slow enough behind it that the goodbye comes before the next request.
    server.on_object("plain-0030", says_goodbye)
    server.start()
    outcome = shoal_command.copy(server, "--workers", "1", "--limit-rate", "100KB")
    assert outcome.code == 0, outcome
    assert tree(outcome.out) == objects
    assert not [note for note in outcome.report["notes"] if "longer than" in note]


def test_no_large_body_that_is_longer_than_it_says_is_kept_without_a_word(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    big = {f"big-{n:02}": bytes([n]) + BIG for n in range(40)}
    objects = big | numbered(100)  # these show what stands behind the last large ones
    server = service(fault_server, objects, echo=False)
    for name in big:
        server.on_object(name, late(wait=0.001))
    server.start()

    # Whether the surplus is there when the body ends is a matter of luck; that it comes is not.
    outcome = shoal_command.copy(server, "--max-retries", "0")

    assert outcome.code in (0, 1), outcome
    found = tree(outcome.out)
    short = {name for name in found if found[name] != objects[name]}
    assert len(found) + outcome.report["failed"] == len(objects)
    assert len(short) + outcome.report["failed"] == len(big)
    if short:
        named(outcome, short)
