"""What the environment may not do: lend a login from ~/.netrc, or slip a proxy in between; rows S16 and N20."""

from __future__ import annotations

import base64
import netrc
from pathlib import Path

import pytest

from conftest import Command
from hostile.oracle import numbered
from servers.fault_server import FaultServer
from servers.fixtures import MakeServer
from trees import tree

OBJECTS = numbered(20)
LOGIN, PASSWORD = "reader", "sesame-41c9"


@pytest.fixture
def server(fault_server: MakeServer) -> FaultServer:
    return fault_server(OBJECTS).start()


@pytest.fixture
def proxy(fault_server: MakeServer) -> FaultServer:
    """Stands where a proxy would; it would see every request sent to it."""
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


@pytest.mark.parametrize(
    ("scheme", "variable"),
    [("http", name) for name in ("http_proxy", "all_proxy", "ALL_PROXY")]
    + [("https", name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy")],
)
def test_a_proxy_that_would_apply_ends_the_command_before_anything_is_sent(
    shoal: Command, server: FaultServer, proxy: FaultServer, scheme: str, variable: str
) -> None:
    url = server.url.replace("http", scheme)
    shoal.environment[variable] = proxy.url.replace("//", f"//{LOGIN}:{PASSWORD}@")
    done = shoal.run("copy", url, "out", "--json")
    assert done.returncode == 2
    assert shoal.last_json(done)["kind"] == "config"
    for part in (url, f"the variable {variable} sets a proxy", f"hint: unset {variable}", "no_proxy"):
        assert part in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert server.connections == proxy.connections == []
    assert list(shoal.directory.iterdir()) == [], "nothing is made either"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"HTTP_PROXY": "PROXY"}, id="a variable that a request to a CGI program can set"),
        pytest.param({"https_proxy": "PROXY", "HTTPS_PROXY": "PROXY"}, id="a proxy for https"),
        pytest.param({"http_proxy": ""}, id="an empty variable"),
        pytest.param({"http_proxy": "PROXY", "no_proxy": "files.example, 127.0.0.1"}, id="no_proxy"),
        pytest.param({"all_proxy": "PROXY", "NO_PROXY": "*"}, id="NO_PROXY for every host"),
    ],
)
def test_a_proxy_that_does_not_apply_is_ignored(
    shoal: Command, server: FaultServer, proxy: FaultServer, variables: dict[str, str]
) -> None:
    shoal.environment |= {name: value.replace("PROXY", proxy.url) for name, value in variables.items()}
    done = shoal.run("copy", server.url, "out")
    assert done.returncode == 0, done.stderr
    assert tree(shoal.directory / "out") == OBJECTS
    assert proxy.connections == []
