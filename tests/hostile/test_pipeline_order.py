"""Requests sent ahead to a service whose answers come in another order, are forged, or have no right echo.

Under each name its own bytes, or the object is asked for again, alone, at no charge: most of these runs allow no retry.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hostile.oracle import Shoal, assert_balanced, numbered
from hostile.pipelining import MANY, assert_one_at_a_time, assert_pipelined, service
from servers import faults, pipeline_faults
from servers.conversation import ID_HEADER, Request
from servers.fault_server import Exchange, head
from servers.fixtures import MakeServer
from servers.pipeline_faults import Ids, ahead
from trees import tree

# Nothing of what goes wrong here may cost a try. No answer is missing, so the limit is for a busy machine.
FREE = (*MANY, "--max-retries", "0", "--timeout", "10")
GUESSED = "0123456789abcdef0123456789abcdef-"


def assert_asked_at_most(asked: Counter[str], most: int) -> None:
    """Fails if an object was asked for more often."""
    often = {name: count for name, count in asked.items() if count > most}
    assert not often, often


# Order


@pytest.mark.parametrize("order", [pipeline_faults.swapped, pipeline_faults.backwards])
def test_answers_out_of_order_are_found_out_by_their_ids(
    shoal_command: Shoal, fault_server: MakeServer, order: pipeline_faults.Order
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.reordered(order, 8))
    server.start()
    assert_pipelined(shoal_command.copy(server, *FREE, limit=60), server, objects)


@pytest.mark.parametrize("order", [pipeline_faults.swapped, pipeline_faults.backwards])
def test_one_batch_out_of_order_costs_a_few_requests_and_nothing_else(
    shoal_command: Shoal, fault_server: MakeServer, order: pipeline_faults.Order
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []
    for name in list(objects)[100:500:40]:
        server.on_object(name, ahead(pipeline_faults.reordered(order, 8), hit))
    server.start()
    assert_pipelined(shoal_command.copy(server, *FREE), server, objects)
    assert hit
    assert len(server.received) < 2 * len(objects)


def test_bodies_swapped_under_right_ids_stay_the_only_ones_that_are_wrong(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    # A service that sends other bytes under the right id could do so to one request as well: nobody can tell. What can
    # be promised is that all other objects, in the pipeline and after it, are untouched.
    objects = numbered(500)
    server = service(fault_server, objects)
    victims = list(objects)[100:500:100]
    swapped: list[tuple[str, str]] = []

    async def two(exchange: Exchange) -> None:
        taken = await pipeline_faults.batch(exchange, 2)
        if len(taken) == 2:
            swapped.append((taken[0].request.name or "", taken[1].request.name or ""))
        for one, other in zip(taken, reversed(taken), strict=True):
            await one.answer(200, other.body)

    for name in victims:
        server.on_object(name, two, times=1)
    server.start()
    outcome = shoal_command.copy(server, *MANY)
    assert outcome.code == 0, outcome
    assert_balanced(outcome.report)
    expected = dict(objects)
    for first, second in swapped:
        expected[first], expected[second] = objects[second], objects[first]
    assert tree(outcome.out) == expected
    assert swapped
    assert server.twice_at_once == []


# A body that goes on longer than announced, as an answer to the next request


def counted_on(request: Request) -> list[str]:
    """Returns a right counter under a random part that was guessed."""
    counter = (request.id or "-0").rpartition("-")[2]
    return [GUESSED + str(int(counter) + 1)]


FORGERS: dict[str, Ids] = {
    "no-id": lambda _: (),
    "empty": lambda _: ("",),
    "guessed": counted_on,
    "counter-alone": lambda request: (counted_on(request)[0].rpartition("-")[2],),
    "this-request's": lambda request: (request.id or "",),
    "several": lambda request: [GUESSED + str(number) for number in range(50)],
}


@pytest.mark.parametrize("ids", [*FORGERS, "first-request's"])
def test_a_body_that_forges_the_next_answer_is_never_saved(
    shoal_command: Shoal, fault_server: MakeServer, ids: str
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []

    def earlier(request: Request) -> list[str]:
        on_it = [one.id or "" for one in server.received if one.connection == request.connection]
        return on_it[:1]

    fault = pipeline_faults.surplus(FORGERS.get(ids, earlier))
    for name in list(objects)[50:500:50]:
        server.on_object(name, ahead(fault, hit))
    server.start()
    # The surplus may put the object itself in doubt, which is then asked for again.
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert hit


def test_a_forged_answer_in_a_chunked_body_or_behind_it_is_never_saved(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    poison = head(200, {"Content-Length": "6"}) + b"poison"
    inside = numbered(20, 300, "inside")
    objects = {**numbered(500), **{name: body + poison for name, body in inside.items()}}
    server = service(fault_server, objects)
    server.names = sorted(objects, key=lambda name: name[-3:] + name)
    hit: list[str] = []
    behind = pipeline_faults.chunked_with_surplus(poison)
    for name in objects:
        if name in inside:  # lawful: the poison is part of the object
            server.on_object(name, pipeline_faults.framed(b"HTTP/1.1 200 OK", chunk=307))
        elif name.endswith("50"):
            server.on_object(name, ahead(behind, hit))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert hit


# No echo, or none that is right


@pytest.mark.parametrize(
    ("code", "kind"), [(404, "vanished"), (410, "vanished"), (403, "forbidden"), (418, "bad-answer")]
)
def test_a_refusal_without_echo_is_asked_for_once_more_alone_and_believed_then(
    shoal_command: Shoal, fault_server: MakeServer, code: int, kind: str
) -> None:
    objects = numbered(500)
    names = list(objects)
    refused = names[100:500:100]
    server = service(fault_server, objects)

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(code, b"not this one", echo=False)

    for name in refused:
        server.on_object(name, refuse)
    server.start()
    arrived = {name: body for name, body in objects.items() if name not in refused}
    outcome = shoal_command.copy(server, *FREE)
    assert_pipelined(outcome, server, arrived, dict.fromkeys(refused, kind))
    assert {failure["tries"] for failure in outcome.report["failures"]} == {1}
    assert_asked_at_most(Counter(name for name in server.fetched() if name in refused), 2)


@pytest.mark.parametrize("code", [404, 410, 403, 418])
def test_a_refusal_with_echo_disturbs_nobody(shoal_command: Shoal, fault_server: MakeServer, code: int) -> None:
    objects = numbered(500)
    refused = list(objects)[100:500:100]
    server = service(fault_server, objects)
    for name in refused:
        server.on_object(name, faults.status(code))
    server.start()
    arrived = {name: body for name, body in objects.items() if name not in refused}
    kind = {404: "vanished", 410: "vanished", 403: "forbidden", 418: "bad-answer"}[code]
    assert_pipelined(shoal_command.copy(server, *FREE), server, arrived, dict.fromkeys(refused, kind))
    asked = Counter(server.fetched())
    if code in (403, 418):
        # One object that came is asked for again, to see whether the service refuses all of them now.
        again = {name: count for name, count in asked.items() if count > 1}
        assert len(again) <= 1, again
        assert sum(again.values()) <= 1 + len(refused), again
        asked -= Counter(again)
    assert_asked_at_most(asked, 1)


@pytest.mark.parametrize("code", [200, 401, 404, 429, 500, 502, 503])
def test_an_answer_without_echo_says_nothing_of_an_object_that_was_asked_for_ahead(
    shoal_command: Shoal, fault_server: MakeServer, code: int
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []

    async def somebody_else_answers(exchange: Exchange) -> None:
        await exchange.answer(code, b"an answer of a proxy in between", echo=False)

    for name in list(objects)[50:500:50]:
        server.on_object(name, ahead(somebody_else_answers, hit))
    server.start()
    assert_pipelined(shoal_command.copy(server, *FREE), server, objects)
    assert hit


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_failure_with_echo_is_tried_again_and_disturbs_nobody(
    shoal_command: Shoal, fault_server: MakeServer, code: int
) -> None:
    objects = numbered(500)
    failing = list(objects)[100:500:150]
    server = service(fault_server, objects)
    for name in failing:
        server.on_object(name, faults.status(code), times=1)
    server.start()
    outcome = shoal_command.copy(server, *MANY)
    assert_pipelined(outcome, server, objects)
    assert {name: count for name, count in Counter(server.fetched()).items() if count > 1} == dict.fromkeys(failing, 2)


def test_every_tenth_answer_without_echo_is_only_slower(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(500)
    tenth = set(list(objects)[::10])

    def mostly(request: Request) -> list[str]:
        return [] if request.name in tenth else [request.id or ""]

    server = service(fault_server, objects, echo=mostly).start()
    assert_pipelined(shoal_command.copy(server, *FREE, limit=60), server, objects)


def test_a_service_that_stops_echoing_for_ever_is_asked_one_at_a_time_from_then_on(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(2000)

    def at_first(request: Request) -> list[str]:
        return [request.id or ""] if len(server.requests) < 500 else []

    server = service(fault_server, objects, echo=at_first).start()
    assert_pipelined(shoal_command.copy(server, *FREE), server, objects)
    late = {request.connection for request in server.requests[-500:]}
    assert {server.depths[connection] for connection in late} == {1}


WRONG_FOR_EVER: dict[str, Ids] = {
    "as-a-cache-does": lambda request: [GUESSED + "7"] if request.name else [],
    "other-case": lambda request: [(request.id or "").upper() + "X"],
    "twice": lambda request: [request.id or ""] * 2,
}


@pytest.mark.parametrize("how", WRONG_FOR_EVER)
def test_a_service_that_always_echoes_wrongly_is_asked_one_at_a_time(
    shoal_command: Shoal, fault_server: MakeServer, how: str
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects, echo=WRONG_FOR_EVER[how]).start()
    assert_one_at_a_time(shoal_command.copy(server, *MANY), server, objects)


WRONG: dict[str, Ids] = {
    "other-case": lambda request: [(request.id or "").upper()],
    "cut": lambda request: [(request.id or "")[:-1]],
    "without-its-start": lambda request: [(request.id or "")[1:]],
    "prefixed": lambda request: ["0" + (request.id or "")],
    "something-behind": lambda request: [(request.id or "") + "0"],
    "quoted": lambda request: [f'"{request.id}"'],
    "in-a-list": lambda request: [f"{request.id}, {request.id}"],
    "with-parameter": lambda request: [f"{request.id}; ok"],
    "with-null": lambda request: [f"{request.id}\0"],
    "twice-the-same": lambda request: [request.id or ""] * 2,
    "twice-another-first": lambda request: [GUESSED + "1", request.id or ""],
    "twice-another-last": lambda request: [request.id or "", GUESSED + "1"],
    "another": lambda _: [GUESSED + "1"],
    "empty": lambda _: [""],
    "another-spelling-of-the-counter": lambda request: ["-0".join((request.id or "-").rsplit("-", 1))],
    "long": lambda request: [(request.id or "") * 100],
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_echo_once_is_asked_for_again_alone(shoal_command: Shoal, fault_server: MakeServer, how: str) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []

    async def wrong(exchange: Exchange) -> None:
        # Other bytes than the object's: were the echo taken for right, it would show.
        lines = b"".join(f"{ID_HEADER}: {value}\r\n".encode("latin-1") for value in WRONG[how](exchange.request))
        await exchange.send(b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 6\r\n\r\npoison")

    for name in list(objects)[50:500:50]:
        server.on_object(name, ahead(wrong, hit))
    server.start()
    assert_pipelined(shoal_command.copy(server, *FREE), server, objects)
    assert hit


@pytest.mark.parametrize("where", ["interim", "trailer", "body", "folded"])
def test_an_echo_in_another_place_is_none(shoal_command: Shoal, fault_server: MakeServer, where: str) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []

    async def elsewhere(exchange: Exchange) -> None:
        echo, poison = exchange.echo, b"poison"
        plain = head(200, {"Content-Length": "6"})
        answers = {
            "interim": b"HTTP/1.1 103 Early Hints\r\n" + echo + b"\r\n" + plain + poison,
            "trailer": head(200, {"Transfer-Encoding": "chunked"}) + faults.chunk(poison) + b"0\r\n" + echo + b"\r\n",
            "body": head(200, {"Content-Length": str(len(echo))}) + echo,
            "folded": b"HTTP/1.1 200 OK\r\nX-Filler: x\r\n " + echo + b"Content-Length: 6\r\n\r\n" + poison,
        }
        await exchange.send(answers[where])

    for name in list(objects)[50:500:50]:
        server.on_object(name, ahead(elsewhere, hit))
    server.start()
    # A folded line makes a head malformed, which is charged.
    assert_pipelined(shoal_command.copy(server, *(MANY if where == "folded" else FREE)), server, objects)
    assert hit
