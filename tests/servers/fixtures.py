"""Fixtures for the servers of this folder; a `conftest.py` imports those that its tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from servers.fault_server import FaultServer

MakeServer = Callable[[Mapping[str, bytes]], FaultServer]


@pytest.fixture
def fault_server() -> Iterator[MakeServer]:
    """Makes fault servers, not yet started, each stopped at the end if it was started."""
    with ExitStack() as stack:

        def make(objects: Mapping[str, bytes]) -> FaultServer:
            server = FaultServer(dict(objects))
            stack.callback(server.stop)
            return server

        yield make
