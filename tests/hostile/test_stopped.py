"""Programs that are stopped for longer than any limit and go on: the copy, or the service; row C6.

A copy that is stopped for a moment is in `test_connection.py`.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from hostile.oracle import Shoal, assert_arrived, numbered
from servers.fixtures import MakeServer
from waiting import wait_until

# The limits of a user who names none. (The last one given counts.)
DEFAULTS = ("--timeout", "30", "--connect-timeout", "10", "--max-retries", "10", "--retry-timeout", "180")


@pytest.mark.slow(minutes=3)
def test_a_copy_that_is_stopped_for_ninety_seconds_loses_nothing_and_wastes_no_try(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(400) | numbered(20, size=300_000, prefix="large")
    server = fault_server(objects)
    server.names = sorted(objects)  # the large ones first: some are half-way when it is stopped
    server.idle = 5
    server.start()
    running = shoal_command.start_copy(server, *DEFAULTS, "--limit-rate", "1MB")
    wait_until(lambda: len(server.fetched()) >= 6)
    running.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(90)
    finally:
        running.process.send_signal(signal.SIGCONT)
    outcome = running.wait(60)
    assert_arrived(outcome, objects)
    assert outcome.report["retries"] <= 8, "no more than were under way"


@pytest.mark.parametrize(
    ("seconds", "options"),
    [
        (4, ("--timeout", "1", "--max-retries", "10")),
        pytest.param(90, DEFAULTS, marks=pytest.mark.slow(minutes=3)),
    ],
    ids=["4 s", "90 s"],
)
@pytest.mark.parametrize("pipeline", ["auto", "off"])
def test_a_service_that_is_stopped_for_longer_than_the_timeout_is_waited_for(
    shoal_command: Shoal, tmp_path: Path, seconds: float, options: tuple[str, ...], pipeline: str
) -> None:
    chance = random.Random(6)
    objects = {f"{number:04}": chance.randbytes(100_000 if number % 50 == 0 else 2_000) for number in range(1_000)}
    (tmp_path / "source").mkdir()
    for name, data in objects.items():
        (tmp_path / "source" / name).write_bytes(data)
    serving = shoal_command.start("serve", tmp_path / "source", "--port", "0")
    try:
        wait_until(lambda: serving.logs[0].read_text().endswith("\n"))
        url = serving.logs[0].read_text().strip()
        running = shoal_command.start_copy(url, *options, "--pipeline", pipeline, "--limit-rate", "1MB")
        wait_until(lambda: any(shoal_command.out.glob("*1")))
        serving.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        assert running.process.poll() is None, "it is under way"
        serving.process.send_signal(signal.SIGCONT)
        outcome = running.wait(60)
    finally:
        serving.process.kill()
        serving.process.wait()
    assert_arrived(outcome, objects)
    assert outcome.report["retries"] > 0, "it was noticed"
