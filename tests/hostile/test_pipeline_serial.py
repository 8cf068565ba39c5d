"""Services that echo ids and gain nothing by it: they must get as many connections as one that echoes nothing."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from hostile.oracle import Shoal, assert_arrived, numbered
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer

WORK = 0.03  # seconds for an answer
OBJECTS = 3000  # finding out what an echo means costs a few answers once, which must not decide


def rate(directory: Path, server: FaultServer, objects: dict[str, bytes]) -> float:
    """Objects a second, as the report has it."""
    directory.mkdir()
    outcome = Shoal(directory).copy(server, "--workers", "auto")
    assert_arrived(outcome, objects)
    return OBJECTS / float(outcome.report["seconds"])


@pytest.mark.parametrize("close", [False, True], ids=["kept", "closed"])
@pytest.mark.timing
def test_an_echo_alone_makes_a_service_no_slower(fault_server: MakeServer, tmp_path: Path, close: bool) -> None:
    objects = numbered(OBJECTS)

    async def works(exchange: Exchange) -> None:
        await exchange.pause(WORK)
        status, body, headers = exchange.server.healthy_answer(exchange.request)
        await exchange.answer(status, body, headers | ({"Connection": "close"} if close else {}))
        if close:
            await exchange.finish()

    rates: dict[bool, list[float]] = {True: [], False: []}
    for attempt in range(5):  # others may be at work on this machine, and a short run now and then adds connections
        for echo in (True, False):
            server = fault_server(objects)
            server.echo = echo
            server.on_objects(works)
            server.start()
            rates[echo].append(rate(tmp_path / f"{attempt}-{echo}", server, objects))
        if median(rates[True]) >= 0.9 * median(rates[False]):
            return
    pytest.fail(f"{median(rates[True]):.0f}/s with ids, {median(rates[False]):.0f}/s without")
