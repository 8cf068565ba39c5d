"""What the environment may not do: lend a login from ~/.netrc; row S16. Its proxies: `tests/test_proxies.py`."""

from __future__ import annotations

import base64
import netrc
from pathlib import Path

import pytest

from conftest import Command
from hostile.oracle import numbered
from servers.fault_server import FaultServer
from servers.fixtures import MakeServer

OBJECTS = numbered(20)
LOGIN, PASSWORD = "reader", "sesame-41c9"


@pytest.fixture
def server(fault_server: MakeServer) -> FaultServer:
    return fault_server(OBJECTS).start()


def test_a_login_in_a_netrc_is_never_sent(shoal: Command, server: FaultServer, tmp_path: Path) -> None:
    file = tmp_path / ".netrc"
    login = f"login {LOGIN} password {PASSWORD}\n"
    file.write_text(f"machine 127.0.0.1 {login}machine localhost {login}default {login}")
    file.chmod(0o600)
    assert netrc.netrc(file).authenticators("127.0.0.1"), "others would find it"
    url = server.url.replace("127.0.0.1", "localhost")
    for number, source in enumerate((server.url, url)):
        done = shoal.run("copy", source, f"out-{number}", HOME=str(tmp_path), NETRC=str(file))
        assert done.returncode == 0, done.stderr
    assert len(server.requests) >= 2 * (1 + len(OBJECTS))
    basic = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
    for request in server.requests:
        assert "authorization" not in request.headers
        assert not any(PASSWORD in value or basic in value for value in request.headers.values())
