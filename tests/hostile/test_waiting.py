"""What a run says that only waits, and how it counts tries when it is gone on with."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from hostile.oracle import Running, Shoal
from servers import faults
from servers.fixtures import MakeServer
from trees import tree

LIMIT = 60  # s; a wait of more than a second comes after some five tries
OBJECTS = {"plain": b"p"}


def said_by(running: Running, pattern: str) -> re.Match[str]:
    """Waits until the run has said something on standard error."""
    deadline = time.monotonic() + LIMIT
    while not (found := re.search(pattern, running.logs[1].read_text())):
        assert running.process.poll() is None, running.logs[1].read_text()
        assert time.monotonic() < deadline, f"nothing like {pattern!r}: {running.logs[1].read_text()!r}"
        time.sleep(0.05)
    return found


def stubborn(fault_server: MakeServer) -> Any:
    """Starts a server with two objects that always fail."""
    server = fault_server(OBJECTS)
    server.names = ["plain", "one", "two"]
    for name in ("one", "two"):
        server.on_object(name, faults.status(500))
    server.start()
    return server


def test_a_run_that_only_waits_says_so_where_nothing_is_drawn(shoal_command: Shoal, fault_server: MakeServer) -> None:
    running = shoal_command.start_copy(stubborn(fault_server), "--max-retries", "50", "--retry-timeout", "600")
    said = said_by(running, r"(1 object waits|2 objects wait) for a retry, the next in (\d+) s\n")
    assert int(said[2]) <= 20
    running.interrupt()
    assert running.wait(LIMIT).code == 130


def test_a_run_that_only_waits_says_so_in_a_log_of_json(shoal_command: Shoal, fault_server: MakeServer) -> None:
    options = ("--max-retries", "50", "--retry-timeout", "600", "--log-format", "json")
    running = shoal_command.start_copy(stubborn(fault_server), *options)
    line = json.loads(said_by(running, r'\{"type": "waiting".*\n')[0])
    assert line["deferred"] in (1, 2)
    assert 0 <= line["retry_in"] <= 20
    running.interrupt()
    assert running.wait(LIMIT).code == 130


def test_a_run_that_is_told_to_be_quiet_says_nothing_while_it_waits(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = stubborn(fault_server)
    running = shoal_command.start_copy(server, "--max-retries", "6", "--retry-timeout", "600", "--quiet")
    assert "wait" not in running.wait(LIMIT).stderr


def test_a_session_counts_its_own_tries(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = stubborn(fault_server)
    running = shoal_command.start_copy(server, "--max-retries", "1000", "--retry-timeout", "600")
    said_by(running, "for a retry")  # so each has been tried some five times
    running.interrupt()
    assert running.wait(LIMIT).code == 130
    before = {name: len(server.asked(name)) for name in ("one", "two")}
    assert min(before.values()) > 3

    outcome = shoal_command.copy(server, "--max-retries", "2", "--retry-timeout", "600", limit=LIMIT)

    assert (outcome.code, outcome.report["failed"], tree(outcome.out)) == (1, 2, OBJECTS), outcome
    assert {failure["tries"] for failure in outcome.report["failures"]} == {3}
    assert {len(server.asked(name)) - count for name, count in before.items()} == {3}
