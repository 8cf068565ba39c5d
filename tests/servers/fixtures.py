"""Fixtures for the servers of this folder; a `conftest.py` imports those that its tests use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from servers.fault_server import FaultServer
from servers.s3_store import S3Store
from servers.signatures import Key
from servers.url_server import UrlServer

MakeServer = Callable[[Mapping[str, bytes]], FaultServer]
MakeStore = Callable[..., S3Store]

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


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment in which nothing of this machine's settings for AWS is left, but the key of the tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", Key().access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", Key().secret_key)
    return monkeypatch


@pytest.fixture
def s3_store(aws: pytest.MonkeyPatch) -> Iterator[MakeStore]:
    """Makes object stores, running; their key is in the environment."""
    with ExitStack() as stack:

        def make(objects: Mapping[str, bytes], **how: Any) -> S3Store:
            return stack.enter_context(S3Store(dict(objects), **how))

        yield make
