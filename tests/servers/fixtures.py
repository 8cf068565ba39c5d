"""Fixtures for the servers of this folder; a `conftest.py` imports those that its tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from servers.fault_server import FaultServer
from servers.url_server import UrlServer

MakeServer = Callable[[Mapping[str, bytes]], FaultServer]

# A test so marked runs twice: with a service that echoes ids, to which requests are sent ahead, and with one that does
# not, which is asked for one object at a time. Others run with the first alone.
with_and_without_echo = pytest.mark.parametrize("fault_server", [True, False], ids=["echo", "no-echo"], indirect=True)


@pytest.fixture
def fault_server(request: pytest.FixtureRequest) -> Iterator[MakeServer]:
    """Makes fault servers, not yet started, each stopped at the end if it was started."""
    echo = bool(getattr(request, "param", True))
    with ExitStack() as stack:

        def make(objects: Mapping[str, bytes]) -> FaultServer:
            server = FaultServer(dict(objects), echo=echo)
            stack.callback(server.stop)
            return server

        yield make


@pytest.fixture(name="server")
def url_server() -> Iterator[UrlServer]:
    """A server of any URL, running."""
    with UrlServer() as running:
        yield running
