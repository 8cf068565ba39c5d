"""Connections that fail, break, stall or are closed behind the client's back: rows N1, N2, N4, N7 and N19."""

from __future__ import annotations

import re
import signal
import time

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import AwayKind, Exchange, Fault, head
from servers.fixtures import MakeServer, with_and_without_echo
from servers.ports import black_hole, closed_port
from waiting import wait_until

BROKEN = {"disconnected", "short-body"}  # a close inside an announced body is both
BODY = bytes(range(250)) * 4
BIG = bytes(range(251)) * 1200  # 301,200 bytes: above what is handed on whole (64 KiB), so it is streamed to disk
HEAD = len(head(200, {"Content-Length": str(len(BODY))}))


# Row N1: connections refused or reset


def test_a_refused_connection_ends_the_run_with_the_address_and_the_cause(shoal_command: Shoal) -> None:
    with closed_port() as port:
        outcome = shoal_command.copy(f"http://127.0.0.1:{port}", "--retry-timeout", "1")
    assert_stopped(outcome, {"unreachable", "connect"}, f"127.0.0.1:{port}", "refused", within=10)


def test_connections_reset_at_once_are_tried_again(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.drop_connections = 2
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "5")
    assert_arrived(outcome, objects)
    assert len(server.connections) > 2


@pytest.mark.parametrize("kind", ["refuse", "reset"])
def test_a_service_that_comes_up_a_second_late_is_waited_for(
    shoal_command: Shoal, fault_server: MakeServer, kind: AwayKind
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    absence = server.go_away(1.0, kind)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "10")
    assert_arrived(outcome, objects)
    assert absence.ended is not None
    assert server.requests[0].at >= absence.ended


# Row N2: nothing answers a SYN


def test_a_black_hole_is_given_up_after_the_connect_timeout(shoal_command: Shoal) -> None:
    with black_hole() as port:
        options = ["--connect-timeout", "0.5", "--max-retries", "1", "--retry-timeout", "2"]
        outcome = shoal_command.copy(f"http://127.0.0.1:{port}", *options)
    assert_stopped(outcome, {"unreachable", "connect", "timeout"}, f"127.0.0.1:{port}", within=8)
    assert re.search(r"timed out|time-?out|no connection within", outcome.stderr), outcome


# Row N4: closed inside an answer


def cuts(then: faults.Then) -> dict[str, Fault]:
    """Returns a fault for each place at which a small answer can break off; the bytes sent are in its name."""
    places = {f"head-{size}": faults.cut_head(size, then) for size in (0, 1, HEAD // 2, HEAD - 1)}
    return places | {f"body-{size}": faults.cut_body(size, then) for size in (0, 1, 500, len(BODY) - 1)}


@pytest.mark.parametrize("then", ["fin", "rst"])
@with_and_without_echo
def test_an_answer_cut_short_once_is_asked_for_again_whole(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    broken = cuts(then)
    objects = {**dict.fromkeys(broken, BODY), **numbered(20)}
    server = fault_server(objects)
    for name, fault in broken.items():
        server.on_object(name, fault, times=1)
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects)
    assert outcome.report["retries"] >= 4  # every broken body; an answer that never began may not be counted
    assert all(len(server.asked(name)) == 2 for name in broken)


@pytest.mark.parametrize("then", ["fin", "rst"])
@with_and_without_echo
def test_an_answer_always_cut_short_is_a_recorded_failure_and_no_file(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    broken = cuts(then)
    server = fault_server({**numbered(20), **dict.fromkeys(broken, BODY)})
    for name, fault in broken.items():
        server.on_object(name, fault)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    kinds = {name: BROKEN | {"protocol"} if name.startswith("head") else BROKEN for name in broken}
    assert_arrived(outcome, numbered(20), kinds)
    for failure in outcome.report["failures"]:
        assert failure["tries"] == 2, failure


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_a_close_after_the_last_byte_loses_nothing(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    objects = numbered(10, 1000)
    server = fault_server(objects)
    for name in objects:
        server.on_object(name, faults.cut_body(1000, then), times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


@pytest.mark.parametrize("then", ["fin", "rst"])
def test_a_large_body_cut_short_leaves_nothing_until_it_is_whole(
    shoal_command: Shoal, fault_server: MakeServer, then: faults.Then
) -> None:
    sizes = (0, 1, 1 << 16, 200_000, len(BIG) - 1)
    once = {f"once-{size}": faults.cut_body(size, then) for size in sizes}
    always = {f"always-{size}": faults.cut_body(size, then) for size in sizes}
    good = dict.fromkeys(once, BIG)
    server = fault_server(good | dict.fromkeys(always, BIG))
    for name, fault in once.items():
        server.on_object(name, fault, times=1)
    for name, fault in always.items():
        server.on_object(name, fault)
    server.start()
    assert_arrived(shoal_command.copy(server, "--max-retries", "1"), good, dict.fromkeys(always, BROKEN))


def test_a_listing_cut_short_once_is_asked_for_again(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(30)
    server = fault_server(objects)
    server.page_size = 10
    page = server.page("page-1") or b""
    cut = head(200, {"Content-Length": str(len(page))}) + page[: len(page) // 2]
    server.on_list(faults.raw(cut, then="rst"), page=1, times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    assert server.listed() == [None, "page-1", "page-1", "page-2"]


# Row N7: too slow


@pytest.mark.parametrize("place", ["before", "head", "body", "large body"])
@pytest.mark.timing
def test_a_stalled_answer_times_out_and_holds_nobody_else_up(
    shoal_command: Shoal, fault_server: MakeServer, place: str
) -> None:
    cut = {
        "before": faults.cut_head(0, "hold"),
        "head": faults.cut_head(10, "hold"),
        "body": faults.cut_body(500, "hold"),
        "large body": faults.cut_body(100_000, "hold"),
    }[place]
    body = BIG if place == "large body" else BODY
    server = fault_server({"never": body, "once": body, **numbered(30)})
    server.on_object("never", cut)
    server.on_object("once", cut, times=1)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1", "--workers", "3", "--timeout", "0.5")
    assert_arrived(outcome, {"once": body, **numbered(30)}, {"never": "timeout"})
    assert outcome.seconds < 8
    stalled = server.asked("never")[-1].at
    assert all(request.at < stalled + 2 for request in server.requests)


@with_and_without_echo
@pytest.mark.timing
def test_the_slots_of_stalled_answers_are_freed(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"stall-1": BODY, "stall-2": BODY, **numbered(30)})
    for name in ("stall-1", "stall-2"):
        server.on_object(name, faults.cut_body(10, "hold"))
    server.start()
    options = ["--workers", "2", "--max-retries", "0", "--timeout", "0.5"]
    outcome = shoal_command.copy(server, *options)
    assert_arrived(outcome, numbered(30), {"stall-1": "timeout", "stall-2": "timeout"})
    assert outcome.seconds < 5


def test_a_body_that_drips_is_given_up_though_it_never_falls_silent(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"drip": BIG, **numbered(10)})
    server.on_object("drip", faults.drip(0.2))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0", limit=60)
    assert_arrived(outcome, numbered(10), {"drip": "timeout"})
    assert outcome.seconds < 30


def test_headers_that_never_end_are_given_up(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"slow": BODY, "flood": BODY, **numbered(10)})
    line = b"X-Filler: " + b"x" * 90 + b"\r\n"
    sent: list[int] = []
    server.on_object("slow", faults.endless(b"HTTP/1.1 200 OK\r\n", line, 0.2))
    server.on_object("flood", faults.endless(b"HTTP/1.1 200 OK\r\n", line * 100, sent=sent))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0", limit=60)
    assert_arrived(outcome, numbered(10), {"slow": {"timeout", "protocol"}, "flood": "protocol"})
    assert outcome.seconds < 30
    assert sum(sent) < 16 << 20  # bytes: what the kernel's buffers take is sent, whether it is read or not


def test_a_slow_but_steady_body_arrives(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"steady": BIG})
    server.on_object("steady", faults.drip(0.2, size=len(BIG) // 10))
    server.start()
    assert_arrived(shoal_command.copy(server, "--timeout", "1", "--max-retries", "0"), {"steady": BIG})


# Row N19: closed between two requests


@with_and_without_echo
def test_a_connection_closed_as_the_next_request_is_sent_costs_no_try(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    answered: set[int] = set()

    async def once_per_connection(exchange: Exchange) -> None:
        if exchange.request.connection in answered:
            await exchange.reset()
        answered.add(exchange.request.connection)
        await exchange.healthy()

    server.on_any(once_per_connection)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, objects)
    assert any(len(server.asked(name)) == 2 for name in objects)


@pytest.mark.parametrize("announced", [True, False])
@with_and_without_echo
def test_a_server_that_closes_after_every_answer_is_no_fault(
    shoal_command: Shoal, fault_server: MakeServer, announced: bool
) -> None:
    objects = numbered(20)
    server = fault_server(objects)

    async def answer_and_close(exchange: Exchange) -> None:
        fields = {"Connection": "close"} if announced else {}
        await exchange.answer(200, exchange.body, fields)
        await exchange.finish()

    server.on(lambda request: request.name is not None, answer_and_close)
    server.start()
    assert_arrived(shoal_command.copy(server, "--max-retries", "0"), objects)
    assert len(server.connections) >= 20


# Row C6: the process is stopped for a while and goes on


@with_and_without_echo
def test_a_copy_that_is_stopped_for_a_while_goes_on_exactly_though_its_connections_were_closed(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(400) | {f"big-{number}": BIG for number in range(10)}
    server = fault_server(objects)
    server.names = [name for pair in zip(numbered(10), [f"big-{n}" for n in range(10)], strict=True) for name in pair]
    server.names += [name for name in objects if name not in server.names]
    server.idle = 0.5
    server.start()
    # Longer than every limit: the times out while stopped are none of the service's.
    running = shoal_command.start_copy(server, "--limit-rate", "1MB", "--max-retries", "2", "--timeout", "1")
    wait_until(lambda: len(server.fetched()) >= 6)
    running.process.send_signal(signal.SIGSTOP)
    try:
        before = len(server.connections)
        time.sleep(3)
    finally:
        running.process.send_signal(signal.SIGCONT)
    outcome = running.wait(30)
    assert_arrived(outcome, objects)
    assert len(server.connections) > before, "none of the old ones was left"
