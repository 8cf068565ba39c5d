"""Servers that ask for patience, fail now and then, or are away for a while: rows N8 and N9."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate

import pytest

from hostile.oracle import Shoal, assert_arrived, numbered
from servers import faults
from servers.fault_server import Absence, AwayKind, Exchange, Fault, FaultServer
from servers.fixtures import MakeServer, with_and_without_echo

BUCKET = 500  # tokens a host has; each error costs 14 and each request to slow down 5: then the host pauses


def throttle(code: int, retry_after: str) -> Fault:
    """Asks to slow down."""
    return faults.status(code, b"slow down", {"Retry-After": retry_after})


def pause_of(server: FaultServer, name: str) -> float:
    """Returns the seconds between the first and the second request for an object."""
    first, second = server.asked(name)[:2]
    return second.at - first.at


# Row N8: Retry-After


@pytest.mark.parametrize("code", [429, 503])
def test_a_retry_after_of_five_seconds_is_kept_by_the_whole_host(
    shoal_command: Shoal, fault_server: MakeServer, code: int
) -> None:
    objects = numbered(3000)
    server = fault_server(objects)
    name = list(objects)[200]
    server.on_object(name, throttle(code, "5"), times=1)
    server.start()
    outcome = shoal_command.copy(server, "--workers", "4")
    assert_arrived(outcome, objects)
    assert 5 <= pause_of(server, name) < 11
    asked = server.asked(name)[0].at
    # Those on their way, and one that was being sent, are not called back; no others are made.
    during = [request for request in server.requests if asked + 0.2 < request.at < asked + 4.9]
    assert len(during) <= 8, f"{len(during)} requests while the host had asked for patience"


@pytest.mark.timing  # how many requests a server answers in two seconds
@pytest.mark.parametrize("code", [429, 503])
def test_a_shorter_retry_after_of_a_few_objects_holds_up_no_others(
    shoal_command: Shoal, fault_server: MakeServer, code: int
) -> None:
    objects = numbered(3000)
    server = fault_server(objects)
    refused = list(objects)[::50]
    for name in refused:
        server.on_object(name, throttle(code, "2"), times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    for name in refused:
        assert [pause_of(server, name) >= 2, len(server.asked(name))] == [True, 2]
    first, second = server.asked(refused[0])
    during = [request for request in server.requests if first.at < request.at < second.at]
    assert len(during) > len(objects) / 2, f"{len(during)} requests while one object had to wait"


def test_retry_after_as_a_date_is_kept(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(50)
    server = fault_server(objects)

    async def until_a_date(exchange: Exchange) -> None:
        await throttle(503, formatdate(time.time() + 3, usegmt=True))(exchange)

    server.on_object("plain-0010", until_a_date, times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    assert 1.5 <= pause_of(server, "plain-0010") < 8  # a date has no fraction of a second


@pytest.mark.parametrize(
    "value",
    ["0", "-5", "soon", "1e3", "", "99999999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT", "0x10", "2, 3"],
)
def test_a_retry_after_without_sense_leaves_it_to_shoal(
    shoal_command: Shoal, fault_server: MakeServer, value: str
) -> None:
    objects = numbered(50)
    server = fault_server(objects)
    server.on_object("plain-0010", throttle(503, value), times=1)
    server.start()
    if value.startswith("999"):  # too large to be a time at all: read as such, or as the longest that is kept
        outcome = shoal_command.copy(server, "--retry-timeout", "3")
        assert outcome.code in (0, 1, 3), outcome
    else:
        outcome = shoal_command.copy(server)
        assert_arrived(outcome, objects)
    assert outcome.seconds < 10


def test_a_retry_after_of_thirty_years_is_not_kept(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(50)
    server = fault_server(objects)
    server.on_object("plain-0010", throttle(429, "1000000000"))
    server.start()
    outcome = shoal_command.copy(server, "--retry-timeout", "3")
    # The cap is 120 s, more than this run is given: it ends without the object, or without going on.
    assert outcome.code in (1, 3), outcome
    assert outcome.seconds < 15
    assert outcome.last["type"] == ("report" if outcome.code == 1 else "error")


# Row N9: failures and absences


@with_and_without_echo
def test_a_few_objects_that_fail_several_times_all_arrive(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(1000)
    stubborn = list(objects)[::100]
    server = fault_server(objects)
    for name in stubborn:
        server.on_object(name, faults.status(500), times=4)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "10")
    assert_arrived(outcome, objects)
    assert {len(server.asked(name)) for name in stubborn} == {5}
    assert outcome.report["retries"] == 4 * len(stubborn)
    # Nobody waited for them: all others had been asked for when the last of them came.
    last = max(server.asked(name)[-1].at for name in stubborn)
    assert all(request.at < last for request in server.requests if request.name not in stubborn)


@pytest.mark.slow(minutes=4)
def test_one_percent_that_fail_ten_times_each_all_arrive(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(10_000, 20)
    stubborn = list(objects)[::100]
    server = fault_server(objects)
    for name in stubborn:
        server.on_object(name, faults.status(500), times=10)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "10", "--retry-timeout", "180", limit=240)
    assert_arrived(outcome, objects)
    assert {len(server.asked(name)) for name in stubborn} == {11}


@with_and_without_echo
def test_objects_that_fail_for_ever_are_recorded_and_tried_no_more_than_allowed(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(200)
    server = fault_server({**objects, "bad-1": b"", "bad-2": b""})
    for name in ("bad-1", "bad-2"):
        server.on_object(name, faults.status(500))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "3")
    assert_arrived(outcome, objects, {"bad-1": "server-error", "bad-2": "server-error"})
    assert [len(server.asked(name)) for name in ("bad-1", "bad-2")] == [4, 4]
    assert [failure["tries"] for failure in outcome.report["failures"]] == [4, 4]

    server.heal()
    again = shoal_command.copy(server, "--retry-failed", "--max-retries", "3")
    assert again.code == 0, again
    assert (again.report["written"], again.report["failed"]) == (2, 0), again
    assert again.report["total"]["failed"] == 0, again


@pytest.mark.timing
def test_a_few_objects_that_are_broken_for_good_end_soon_after_the_others(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects, broken = numbered(500), [f"bad-{number}" for number in range(5)]
    server = fault_server({**objects, **dict.fromkeys(broken, b"")})
    for name in broken:
        server.on_object(name, faults.status(500))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "10", "--retry-timeout", "180", limit=120)
    assert (outcome.report["written"], outcome.report["failed"]) == (len(objects), len(broken)), outcome
    others = max(request.at for request in server.requests if request.name not in broken)
    for name in broken:
        asked = server.asked(name)
        assert len(asked) == 11
        assert asked[-1].at - others <= 15


def assert_sat_out(
    shoal_command: Shoal, server: FaultServer, objects: dict[str, bytes], absence: Absence, recovery: float
) -> None:
    """Fails unless the absence cost time and nothing else, and few requests were made in it."""
    server.start()
    limit = absence.seconds + recovery
    outcome = shoal_command.copy(server, "--workers", "8", "--max-retries", "10", "--retry-timeout", "180", limit=limit)
    assert_arrived(outcome, objects)
    assert absence.started is not None
    assert absence.ended is not None
    assert outcome.report["paused"] > 0
    tries = [request.at for request in server.requests] if absence.kind == "status" else server.connections
    during = [at for at in tries if absence.started < at < absence.ended]
    # A full bucket, those in flight when it ran empty, and after that one probe at a time, less and less often.
    assert len(during) <= BUCKET // 14 + 16 + 2 * absence.seconds, f"{len(during)} requests to an absent host"
    assert len(during) >= 1 or absence.kind == "refuse"


@pytest.mark.parametrize(("kind", "seconds"), [("refuse", 3), ("reset", 3), ("status", 8)])
def test_a_host_that_is_away_for_a_while_is_waited_for(
    shoal_command: Shoal, fault_server: MakeServer, kind: AwayKind, seconds: float
) -> None:
    objects = numbered(2000)
    server = fault_server(objects)
    absence = server.go_away(seconds, kind, after_gets=700)
    assert_sat_out(shoal_command, server, objects, absence, recovery=30)


@pytest.mark.slow(minutes=3)
@pytest.mark.parametrize("kind", ["refuse", "reset", "status"])
def test_a_host_that_is_away_for_a_minute_is_waited_for(
    shoal_command: Shoal, fault_server: MakeServer, kind: AwayKind
) -> None:
    objects = numbered(5000)
    server = fault_server(objects)
    absence = server.go_away(60, kind, after_gets=2000)
    assert_sat_out(shoal_command, server, objects, absence, recovery=60)


def test_a_host_that_stays_away_stops_the_run_and_the_next_run_goes_on(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(2000)
    server = fault_server(objects)
    back = threading.Event()
    server.on(lambda _: len(server.fetched()) > 1000 and not back.is_set(), faults.status(500))
    server.start()
    first = shoal_command.copy(server, "--retry-timeout", "3", "--max-retries", "10")
    assert first.code == 3, first
    assert first.error["kind"] == "unreachable", first
    assert "500" in first.stderr

    back.set()
    before = len(server.fetched())
    second = shoal_command.copy(server, "--retry-timeout", "3", "--max-retries", "10")
    assert second.code == 0, second
    total = second.report["total"]
    assert (total["written"], total["failed"], total["unfinished"]) == (2000, 0, 0), second
    assert len(server.fetched()) - before == 2000 - second.report["resumed_from"]
    assert second.report["resumed_from"] > 0


def test_a_limit_of_requests_a_second_is_met_by_working_more_slowly(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    served: list[float] = []

    async def at_most_a_hundred_a_second(exchange: Exchange) -> None:
        now = time.monotonic()
        if sum(at > now - 1 for at in served) >= 100:
            await throttle(429, "1")(exchange)
        else:
            served.append(now)
            await exchange.healthy()

    server.on(lambda request: request.name is not None, at_most_a_hundred_a_second)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "10", "--retry-timeout", "60")
    assert_arrived(outcome, objects)
    assert len(server.fetched()) < 2 * len(objects)
