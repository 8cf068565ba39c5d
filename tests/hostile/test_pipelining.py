"""Requests sent ahead: when they are, and that lawful answers of every kind pass through a pipeline unharmed."""

from __future__ import annotations

import re
import time
from collections import defaultdict

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_balanced, numbered
from hostile.pipelining import MANY, assert_one_at_a_time, assert_pipelined, service
from servers import faults, pipeline_faults
from servers.fault_server import Exchange
from servers.fixtures import MakeServer, with_and_without_echo
from trees import tree

OK = b"HTTP/1.1 200 OK"
BIG = bytes(range(251)) * 1200  # 301,200 bytes: above the 64 KiB that end sending ahead on a connection
SILENCE = 0.3  # seconds in the middle of a large body


# When requests are sent ahead


def test_a_service_that_echoes_is_sent_requests_ahead(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(2000)
    server = service(fault_server, objects).start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--max-retries", "0"), server, objects)
    assert sorted(server.fetched()) == sorted(objects)  # and nothing was asked for again


def test_the_first_request_of_every_connection_is_sent_alone(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(1000)
    server = service(fault_server, objects)
    answered: dict[int, float] = {}

    async def slowly_at_first(exchange: Exchange) -> None:
        connection = exchange.request.connection
        if connection not in answered:
            await exchange.pause(0.05)
            assert len(exchange.conversation.waiting) == 0, "sent before the first echo was seen"
            answered[connection] = time.monotonic()
        await exchange.healthy()

    server.on_objects(slowly_at_first)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)


@pytest.mark.parametrize("options", [(), ("--pipeline", "auto")])
def test_a_service_that_echoes_nothing_is_asked_one_at_a_time(
    shoal_command: Shoal, fault_server: MakeServer, options: tuple[str, ...]
) -> None:
    objects = numbered(1000)
    server = service(fault_server, objects, echo=False).start()
    assert_one_at_a_time(shoal_command.copy(server, *MANY, *options), server, objects)
    assert all(request.id for request in server.received if request.name)


@with_and_without_echo
def test_switched_off_it_sends_no_id_and_nothing_ahead(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(1000)
    server = fault_server(objects)
    server.batching = 0.001
    server.start()
    assert_one_at_a_time(shoal_command.copy(server, *MANY, "--pipeline", "off"), server, objects)
    assert {request.id for request in server.received} == {None}


@pytest.mark.parametrize("depth", ["0", "1", "257", "-1", "on", "", "16.0"])
def test_a_depth_that_is_none_is_a_usage_error(shoal_command: Shoal, fault_server: MakeServer, depth: str) -> None:
    server = fault_server({"a": b"1"}).start()
    outcome = shoal_command.copy(server, f"--pipeline={depth}")
    assert outcome.code == 2, outcome
    assert "pipeline" in outcome.stderr, outcome
    assert server.connections == []


@pytest.mark.parametrize("options", [(), ("--pipeline", "8")])
def test_ids_are_random_for_each_connection_and_counted_and_say_nothing(
    shoal_command: Shoal, fault_server: MakeServer, options: tuple[str, ...]
) -> None:
    objects = numbered(1000)
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.close_after_every(50, "fin"))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, *options), server, objects)
    counters = defaultdict(list)
    prefixes: dict[int, set[str]] = defaultdict(set)
    for request in server.received:
        if request.name is not None:
            shape = re.fullmatch(r"([0-9a-f]{32})-([0-9]+)", request.id or "")
            assert shape, request
            prefixes[request.connection].add(shape[1])
            counters[request.connection].append(int(shape[2]))
    assert len(prefixes) >= 20
    assert {len(found) for found in prefixes.values()} == {1}
    for cut in (slice(0, 8), slice(8, 16), slice(16, 24), slice(24, 32)):  # 32 bits: two alike among 100 are a defect
        parts = {next(iter(found))[cut] for found in prefixes.values()}
        assert len(parts) == len(prefixes), "ids of two connections have a part in common"
    for counted in counters.values():
        assert counted == sorted(set(counted)), "an id came twice or out of order"


# Lawful answers of every kind


@pytest.mark.parametrize("size", [1, 7, 200])
def test_answers_in_many_pieces_arrive(shoal_command: Shoal, fault_server: MakeServer, size: int) -> None:
    objects = numbered(150, 60)
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.byte_by_byte(size))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--max-retries", "0"), server, objects)


def test_many_answers_in_one_piece_arrive(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(2000) | {"empty-1": b"", "empty-2": b"", "half": bytes(40_000)}
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.one_segment())
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--max-retries", "0"), server, objects)


def test_the_name_of_the_echo_is_read_without_case(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)

    async def whispering(exchange: Exchange) -> None:
        await exchange.send(exchange.healthy_bytes().replace(b"Shoal-Request-Id:", b"shoal-REQUEST-id:\t"))

    server.on_objects(whispering)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunked_answers_arrive(shoal_command: Shoal, fault_server: MakeServer, chunk: int) -> None:
    objects = numbered(300)
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.framed(OK, chunk=chunk))
    server.start()
    outcome = shoal_command.copy(server, *MANY, "--max-retries", "0")
    assert_pipelined(outcome, server, objects)
    assert outcome.report["unverified"] == 0


def test_interim_answers_in_between_are_passed_over(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    server.on_objects(pipeline_faults.framed(OK, interim=interim))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--max-retries", "0"), server, objects)


@pytest.mark.parametrize("then", ["keep", "fin"])
def test_an_http_1_0_answer_ends_its_connection_and_nothing_else(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []
    old = pipeline_faults.framed(b"HTTP/1.0 200 OK", then=then)
    for name in list(objects)[100:500:50]:
        server.on_object(name, pipeline_faults.ahead(old, hit))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert hit


@pytest.mark.parametrize("code", [204, 304])
@pytest.mark.parametrize(("length", "body"), [(None, b""), ("100", b""), ("6", b"poison")])
def test_an_answer_without_body_takes_none_of_the_next(
    shoal_command: Shoal, fault_server: MakeServer, code: int, length: str | None, body: bytes
) -> None:
    objects = numbered(500)
    server = service(fault_server, {**objects, "bare-1": b"", "bare-2": b""})
    server.names = sorted(server.objects, key=lambda name: name[-3:] + name)  # the bare ones among the others

    async def bare(exchange: Exchange) -> None:
        await exchange.send(exchange.head(code, {"Content-Length": length} if length else {}) + body)

    for name in ("bare-1", "bare-2"):
        server.on_object(name, bare)
    server.start()
    outcome = shoal_command.copy(server, *MANY)
    assert_pipelined(outcome, server, objects, dict.fromkeys(("bare-1", "bare-2"), "bad-answer"))


@pytest.mark.parametrize("chunk", [0, 50_000])
def test_a_large_body_among_small_ones_ends_sending_ahead_on_its_connection(
    shoal_command: Shoal, fault_server: MakeServer, chunk: int
) -> None:
    objects = numbered(1500)
    names = list(objects)
    server = service(fault_server, {**objects, "big-1": BIG, "big-2": BIG})
    server.names = [*names[:300], "big-1", *names[300:800], "big-2", *names[800:]]
    silences: list[tuple[int, float, float]] = []

    async def slowly(exchange: Exchange) -> None:
        if chunk:
            pieces = b"".join(faults.chunk(BIG[start : start + chunk]) for start in range(0, len(BIG), chunk))
            data = exchange.head(200, {"Transfer-Encoding": "chunked"}) + pieces + b"0\r\n\r\n"
        else:
            data = exchange.healthy_bytes()
        await exchange.send(data[:200_000])
        start = time.monotonic() + SILENCE / 3  # by then the client has read what there is
        await exchange.pause(SILENCE)
        silences.append((exchange.request.connection, start, time.monotonic()))
        await exchange.send(data[200_000:])

    server.on_object("big-1", slowly)
    server.on_object("big-2", slowly)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--max-retries", "0"), server, server.objects)
    for connection, start, end in silences:
        late = [one.name for one in server.received if one.connection == connection and start < one.at < end]
        assert late == [], "sent ahead behind a large body"
    assert len(silences) == 2


def test_extra_bytes_after_the_last_answer_harm_nothing(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(300)
    server = service(fault_server, objects)
    for name in list(objects)[-3:]:
        server.on_object(name, pipeline_faults.surplus(lambda _: (), b"poison"), times=1)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)


def test_an_answer_without_length_takes_none_of_the_answers_behind_it(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)
    hit: list[str] = []

    async def forgets_the_length(exchange: Exchange) -> None:
        answers = [exchange.head(200, {}) + exchange.body]
        while behind := exchange.behind():
            answers.append(behind.healthy_bytes())
        await exchange.send(b"".join(answers))
        await exchange.finish()

    for name in list(objects)[100:500:50]:
        server.on_object(name, pipeline_faults.ahead(forgets_the_length, hit))
    server.start()
    outcome = shoal_command.copy(server, *MANY, "--max-retries", "0")
    assert_pipelined(outcome, server, objects)
    assert hit
    assert outcome.report["retries"] == 0, "no try is charged"
    assert outcome.report["unverified"] == 0, "asked again alone, they say how long they are"


# A depth given by hand, to a service that echoes nothing


@pytest.mark.parametrize("depth", [2, 16, 256])
def test_a_given_depth_is_used_without_echo_and_never_exceeded(
    shoal_command: Shoal, fault_server: MakeServer, depth: int
) -> None:
    objects = numbered(2000)
    server = service(fault_server, objects, echo=False).start()
    outcome = shoal_command.copy(server, "--workers", "256", "--pipeline", str(depth))
    assert_pipelined(outcome, server, objects)
    assert server.depth <= depth


def test_a_given_depth_is_used_for_fewer_objects_than_are_compared(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(5)
    server = service(fault_server, objects, echo=False).start()
    assert_arrived(shoal_command.copy(server, *MANY, "--pipeline", "16"), objects)
    assert server.twice_at_once == []


@pytest.mark.parametrize("order", [pipeline_faults.swapped, pipeline_faults.backwards])
def test_without_echo_a_service_that_reorders_is_caught_by_comparing(
    shoal_command: Shoal, fault_server: MakeServer, order: pipeline_faults.Order
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects, echo=False)
    server.on_objects(pipeline_faults.reordered(order, 16))
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--pipeline", "16"), server, objects)
    tried = [depth for depth in server.depths.values() if depth > 1]
    assert len(tried) <= 2, f"pipelined on {len(tried)} connections to a service that reorders"


def test_without_echo_a_service_that_cannot_take_several_requests_is_asked_one_at_a_time(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects, echo=False)

    async def only_the_first(exchange: Exchange) -> None:
        await exchange.pause(0.001)
        await exchange.healthy()
        while exchange.behind():  # read and forgotten, as by a server that drops its buffer
            pass

    server.on_objects(only_the_first)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY, "--pipeline", "16", "--timeout", "0.5"), server, objects)


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_without_echo_a_service_that_closes_after_ten_requests_is_no_harm(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects, echo=False)
    server.on_objects(pipeline_faults.close_after_every(10, then))
    server.start()
    outcome = shoal_command.copy(server, *MANY, "--pipeline", "16", "--retry-timeout", "60", limit=60)
    assert_pipelined(outcome, server, objects)


@pytest.mark.parametrize("order", [pipeline_faults.swapped, pipeline_faults.backwards])
def test_with_a_given_depth_echoes_are_checked_where_there_are_any(
    shoal_command: Shoal, fault_server: MakeServer, order: pipeline_faults.Order
) -> None:
    objects = numbered(1000)
    server = service(fault_server, objects)
    # Well behaved for long enough to pass every comparison.
    server.on_objects(pipeline_faults.reordered(order, 8), skip=300)
    server.start()
    outcome = shoal_command.copy(server, *MANY, "--pipeline", "16", limit=60)
    assert_pipelined(outcome, server, objects)


def test_the_bytes_compared_are_counted_apart(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(2000)
    server = service(fault_server, objects, echo=False).start()
    outcome = shoal_command.copy(server, *MANY, "--pipeline", "4")
    assert outcome.code == 0, outcome
    assert_balanced(outcome.report)
    assert tree(outcome.out) == objects
    assert outcome.report["bytes"] == sum(map(len, objects.values()))
    assert len(server.fetched()) > len(objects)  # some were asked for twice, to compare


def test_a_service_without_echo_gets_all_the_connections_that_were_asked_for(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(400)
    server = service(fault_server, objects, echo=False)

    async def slowly(exchange: Exchange) -> None:
        await exchange.pause(0.02)
        await exchange.healthy()

    server.on_objects(slowly)
    server.start()
    assert_one_at_a_time(shoal_command.copy(server, "--workers", "16"), server, objects)
    # One of them is the listing's.
    assert len(server.connections) == 17
