"""Requests sent ahead on connections that close, break off or fall silent; and everything together, at random.

Only the first unanswered request of a connection that ends is charged a try; those behind it are asked again, free.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_same_tree, numbered
from hostile.pipelining import MANY, assert_pipelined, service
from servers import faults, pipeline_faults
from servers.fault_server import Exchange, Fault
from servers.fixtures import MakeServer
from servers.pipeline_faults import ahead
from trees import tree

FREE = (*MANY, "--max-retries", "0")
# A connection that closes costs its host 14 tokens, an answer brings 2: a service that closes all the time is paused.
PATIENT = (*MANY, "--max-retries", "10", "--retry-timeout", "60")


# Closed


# The numbers of objects: enough for many closes, or for one; the more often it closes, the longer each takes.
@pytest.mark.parametrize(("every", "count"), [(1, 60), (2, 120), (7, 700), (400, 4_000)])
@pytest.mark.parametrize("then", ["fin", "rst"])
def test_a_close_after_every_so_many_requests_loses_nothing(
    shoal_command: Shoal, fault_server: MakeServer, every: int, count: int, then: faults.Then
) -> None:
    objects = numbered(count)
    server = service(fault_server, objects)
    closed: list[int] = []
    server.on_objects(pipeline_faults.close_after_every(every, then, closed))
    server.start()
    outcome = shoal_command.copy(server, *PATIENT, "--workers", "16", limit=90)
    assert_arrived(outcome, objects)
    assert server.twice_at_once == []
    if every > 1:  # where the first answer is the last, nothing sent ahead may ever come in
        assert server.depth > 1
    assert len(closed) >= max(1, count // every // 2 - 16)


@pytest.mark.parametrize("every", [2, 7, 50])
def test_an_announced_close_loses_nothing_of_what_is_behind(
    shoal_command: Shoal, fault_server: MakeServer, every: int
) -> None:
    objects = numbered(60 * every)
    server = service(fault_server, objects)
    server.on_objects(pipeline_faults.close_after_every(every, "fin", announced=True))
    server.start()
    assert_pipelined(shoal_command.copy(server, *PATIENT, limit=90), server, objects)


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_a_close_before_an_answer_is_charged_to_the_first_unanswered_request_alone(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(600)
    server = service(fault_server, {**objects, "killer": b""})
    names = list(objects)
    server.names = [*names[:300], "killer", *names[300:]]
    server.on_object("killer", faults.cut_head(0, then))
    server.start()
    outcome = shoal_command.copy(server, *MANY, "--max-retries", "1")
    assert_pipelined(outcome, server, objects, {"killer": "disconnected"})
    assert outcome.report["failures"][0]["tries"] == 2
    assert outcome.report["retries"] == 1
    # Twice, and each time once more where the connection had been used before: a close says little then.
    assert 2 <= len(server.asked("killer")) <= 4


@pytest.mark.parametrize("place", ["head", "body"])
def test_an_answer_cut_short_is_charged_to_its_object_alone(
    shoal_command: Shoal, fault_server: MakeServer, place: str
) -> None:
    objects = numbered(600)
    server = service(fault_server, {**objects, "cut": b"0123456789"})
    names = list(objects)
    server.names = [*names[:300], "cut", *names[300:]]
    server.on_object("cut", faults.cut_head(20, "fin") if place == "head" else faults.cut_body(5, "fin"))
    server.start()
    kinds = {"disconnected", "short-body"} | ({"protocol"} if place == "head" else set())
    assert_pipelined(shoal_command.copy(server, *FREE), server, objects, {"cut": kinds})


def test_after_a_close_the_charged_object_is_asked_for_alone(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(1000)
    server = service(fault_server, objects)
    hit: list[str] = []
    company: list[int] = []

    async def second_time(exchange: Exchange) -> None:
        if exchange.request.name not in hit:
            await ahead(faults.cut_head(0, "fin"), hit)(exchange)
            return
        await exchange.pause(0.05)  # whatever is sent behind it is here by then
        company.append(len(exchange.conversation.waiting))
        await exchange.healthy()

    for name in list(objects)[100:1000:100]:
        server.on_object(name, second_time)
    server.start()
    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert company
    assert set(company) == {0}


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_a_service_that_cannot_bear_requests_sent_ahead_is_soon_asked_one_at_a_time(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(500)
    server = service(fault_server, objects)

    async def allergic(exchange: Exchange) -> None:
        if exchange.conversation.waiting:
            await faults.end(exchange, then)
        await exchange.healthy()

    server.on_objects(allergic)
    server.start()
    outcome = shoal_command.copy(server, *PATIENT, "--workers", "16", limit=60)
    assert_pipelined(outcome, server, objects)
    # Three in a row without an answer are enough; those under way at that moment come on top.
    assert sum(depth > 1 for depth in server.depths.values()) <= 3 + 16
    late = {request.connection for request in server.requests[-200:]}
    assert {server.depths[connection] for connection in late} == {1}


# Broken off


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_answers_cut_at_every_byte_all_arrive_in_the_end(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(4000, 20)
    server = service(fault_server, objects)
    last = 220  # bytes: a little more than an answer has, so that the cut comes behind it too
    cut: list[int] = []
    # A close costs as much as seven answers bring: with twelve of them in between, the host is never paused.
    server.on_objects(pipeline_faults.cut_everywhere(last, 12, then, cut))
    server.start()
    assert_pipelined(shoal_command.copy(server, *PATIENT, limit=60), server, objects)
    assert cut == list(range(last + 1))


# Silent


@pytest.mark.parametrize("place", ["before", "head", "body"])
@pytest.mark.timing
def test_a_stall_is_charged_to_its_object_alone(shoal_command: Shoal, fault_server: MakeServer, place: str) -> None:
    objects = numbered(600)
    server = service(fault_server, {**objects, "stall": b"0123456789"})
    names = list(objects)
    server.names = [*names[:300], "stall", *names[300:]]
    stalls: dict[str, Fault] = {
        "before": faults.cut_head(0, "hold"),
        "head": faults.cut_head(20, "hold"),
        "body": faults.cut_body(5, "hold"),
    }
    server.on_object("stall", stalls[place])
    server.start()
    outcome = shoal_command.copy(server, *FREE, "--timeout", "0.5")
    assert_pipelined(outcome, server, objects, {"stall": "timeout"})
    assert outcome.seconds < 8


def test_slow_answers_one_after_the_other_are_no_stall(shoal_command: Shoal, fault_server: MakeServer) -> None:
    # Each comes in time; the last of those sent ahead waits many times as long, and through no fault of its own.
    objects = numbered(60)
    server = service(fault_server, objects)

    async def slow(exchange: Exchange) -> None:
        await exchange.pause(0.1)
        await exchange.healthy()

    server.on_objects(slow)
    server.start()
    options = ["--workers", "16", "--max-retries", "0", "--timeout", "0.5"]
    assert_pipelined(shoal_command.copy(server, *options), server, objects)


@pytest.mark.parametrize("code", [429, 503])
def test_patience_asked_for_in_the_middle_is_given(shoal_command: Shoal, fault_server: MakeServer, code: int) -> None:
    objects = numbered(2000)
    server = service(fault_server, objects)
    name = list(objects)[500]
    server.on_object(name, faults.status(code, b"slow down", {"Retry-After": "1"}), times=1)
    server.start()
    outcome = shoal_command.copy(server, *MANY)
    assert_pipelined(outcome, server, objects)
    first, second = server.asked(name)
    assert second.at - first.at >= 1
    # Those on their way are answered, not called back.
    assert {again: count for again, count in Counter(server.fetched()).items() if count > 1} == {name: 2}


# Everything together


HARM = ("close", "close behind", "cut", "no echo", "delay", "swap", "poison")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_at_random_every_object_has_its_own_bytes(
    shoal_command: Shoal, fault_server: MakeServer, seed: int
) -> None:
    objects = numbered(2000)
    server = service(fault_server, objects)
    # Six harms in seven cost tokens, 14 each against 2 for an answer: at 3 in 100 the host is not paused.
    no_echo: list[str] = []
    server.on_objects(pipeline_faults.at_random(seed, 0.03, HARM, no_echo))
    server.start()
    outcome = shoal_command.copy(server, *PATIENT, limit=60)
    # Where a later answer of its connection was another object's, an object without an id is in doubt.
    doubted = {failure["name"] for failure in outcome.report["failures"]}
    assert doubted <= set(no_echo)
    arrived = {name: data for name, data in objects.items() if name not in doubted}
    assert_pipelined(outcome, server, arrived, dict.fromkeys(doubted, "short-body"))
    server.heal()
    again = shoal_command.copy(server, "--retry-failed")
    assert again.code == 0, again
    assert_same_tree(tree(again.out), objects)
