"""What the tests of pipelining share: a service that sees how far ahead requests are sent, and what must hold then."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostile.oracle import Outcome, assert_arrived
from servers.fault_server import Echo, FaultServer
from servers.fixtures import MakeServer

MANY = ("--workers", "64")  # room for several requests on each of several connections
BATCHING = 0.001  # seconds: enough for what is being sent to come in before it is answered


def service(make: MakeServer, objects: Mapping[str, bytes], echo: Echo = True) -> FaultServer:
    """Makes a service, not yet started, that lets requests pile up."""
    server = make(objects)
    server.echo, server.batching = echo, BATCHING
    return server


def assert_pipelined(
    outcome: Outcome,
    server: FaultServer,
    objects: Mapping[str, bytes],
    failed: Mapping[str, str | Collection[str]] | None = None,
) -> None:
    """Fails unless exactly these objects arrived, none was in flight twice, and requests were sent ahead."""
    assert_arrived(outcome, objects, failed)
    assert server.twice_at_once == []
    assert server.depth > 1, "nothing was sent ahead, so this shows nothing"


def assert_one_at_a_time(outcome: Outcome, server: FaultServer, objects: Mapping[str, bytes]) -> None:
    """Fails unless exactly these objects arrived and no request was sent before its predecessor was answered."""
    assert_arrived(outcome, objects)
    assert server.twice_at_once == []
    assert server.depth == 1, server.depths
