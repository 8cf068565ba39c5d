"""Services that pause while shoal still looks for the number of workers: that must not decide how fast the run is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hostile.oracle import Shoal, assert_arrived, numbered
from servers.fault_server import Exchange
from servers.fixtures import MakeServer

WORK = 0.03  # seconds for an answer
PAUSE = 0.6
OBJECTS = 3000
LIMIT = 5.0  # seconds: it takes two, and took some 25 when such a pause left it with a few workers


@pytest.mark.parametrize("begins", [0.25, 0.35, 0.45], ids=["early", "middle", "late"])
@pytest.mark.parametrize("echo", [False, True], ids=["alone", "echoes"])
@pytest.mark.timing
def test_a_pause_in_the_search_for_the_number_of_workers_does_not_leave_the_run_slow(
    fault_server: MakeServer, tmp_path: Path, echo: bool, begins: float
) -> None:
    objects = numbered(OBJECTS)
    server = fault_server(objects)
    server.echo = echo

    async def works(exchange: Exchange) -> None:
        await exchange.pause(WORK)
        now = time.monotonic() - server.connections[0]
        if begins <= now < begins + PAUSE:
            await exchange.pause(begins + PAUSE - now)
        await exchange.answer(*exchange.server.healthy_answer(exchange.request))

    server.on_objects(works)
    server.start()
    outcome = Shoal(tmp_path).copy(server, "--workers", "auto", "--timeout", "10")
    assert_arrived(outcome, objects)
    assert float(outcome.report["seconds"]) < LIMIT, outcome.report["concurrency"]
