"""Proxies: what goes through them and with which secrets, what does not, and what a run makes of one that fails.

The rules of `no_proxy` have their tests beside the code (`shoal-http/src/proxy.rs`). Names here end in `.test`: only
the proxy of the test resolves them, so a request that went another way would fail.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

import shoal as package
from hostile.oracle import numbered
from servers import faults
from servers.fault_server import FaultServer
from servers.fixtures import MakeServer, fault_server, with_and_without_echo
from servers.forward_proxy import ForwardProxy
from servers.tls_server import TlsFront
from servers.url_server import Answer, UrlServer
from trees import tree
from url_copies import copy, write
from waiting import wait_until

if TYPE_CHECKING:
    import subprocess

    from conftest import Command

__all__ = ["fault_server"]

OBJECTS = numbered(60)
NAME = "files.example.test"
LOGIN, PASSWORD = "commuter", "sesame-41c9"
BASIC = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
KEY = "key-93ac41"
DEAD = ("--retry-timeout", "1", "--durability", "none")


@pytest.fixture
def origin(fault_server: MakeServer) -> FaultServer:
    """A list/get service, which is called `NAME` behind the proxy."""
    return fault_server(OBJECTS).start()


@pytest.fixture
def proxy(origin: FaultServer) -> Iterator[ForwardProxy]:
    """A proxy with a password, behind which `NAME` is the service."""
    with ForwardProxy({NAME: port_of(origin.url)}, f"{LOGIN}:{PASSWORD}") as running:
        yield running


@pytest.fixture
def secure(origin: FaultServer, proxy: ForwardProxy, tmp_path: Path) -> Iterator[TlsFront]:
    """TLS before the service, with a certificate for `NAME`; `ca.pem` has signed it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(NAME).configure_cert(context)
    with TlsFront(context, port_of(origin.url)) as front:
        proxy.places = {NAME: front.port}
        yield front


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def everywhere(proxy: ForwardProxy) -> dict[str, str]:
    return {"http_proxy": proxy.url, "https_proxy": proxy.url}


def assert_secret(done: subprocess.CompletedProcess[str], out: Path) -> None:
    """Fails if the password of the proxy is in an output, or in a file of the run."""
    files = [path for path in out.rglob("*") if path.is_file()]
    kept = [done.stdout.encode(), done.stderr.encode(), *(path.read_bytes() for path in files)]
    assert not [text for text in kept if PASSWORD.encode() in text or BASIC.rstrip("=").encode() in text]


def test_a_service_is_copied_through_the_proxy_of_the_environment(
    shoal: Command, origin: FaultServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    source = f"http://reader:own-7d1f@{NAME}"
    done = shoal.run("copy", source, "out", "--header", f"X-Api-Key: {KEY}", "--json", "-v", http_proxy=proxy.url)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == OBJECTS
    assert sorted(set(proxy.seen("GET"))) == sorted(f"http://{NAME}{request.target}" for request in origin.requests)
    assert proxy.seen("CONNECT") == []
    for request in origin.requests:
        assert request.headers["host"] == NAME
        assert request.headers["x-api-key"] == KEY
        assert request.headers["authorization"] == "Basic " + base64.b64encode(b"reader:own-7d1f").decode()
        assert "proxy-authorization" not in request.headers
    assert_secret(done, tmp_path / "out")
    for options in ([], ["--csv"], ["--json"]):
        assert_secret(shoal.run("status", "out", *options), tmp_path / "out")


def test_an_https_service_gets_a_tunnel_that_has_no_secret_of_it(
    shoal: Command, origin: FaultServer, proxy: ForwardProxy, secure: TlsFront, tmp_path: Path
) -> None:
    source = f"https://reader:own-7d1f@{NAME}"
    options = ("--ca-file", "ca.pem", "--header", f"X-Api-Key: {KEY}", "--header", "User-Agent: mine/1")
    ahead = ("--pipeline", "8", "--workers", "16")
    done = shoal.run("copy", source, "out", *options, *ahead, "--json", "-v", https_proxy=proxy.url)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == OBJECTS
    assert set(proxy.seen("CONNECT")) == {f"{NAME}:443"}
    assert len(proxy.requests) == len(secure.handshakes) == proxy.connections
    assert secure.handshakes[0].host == NAME
    for _, fields in proxy.requests:
        assert fields.keys() == {"host", "user-agent"}, "its own credentials were taken off"
        assert fields["user-agent"].startswith("shoal/")
    assert all(request.headers["x-api-key"] == KEY for request in origin.requests)
    assert not any("proxy-authorization" in request.headers for request in origin.requests)
    assert origin.depth > 1, "a tunnel is as good as a connection"
    assert_secret(done, tmp_path / "out")


def test_an_untrusted_certificate_behind_a_proxy_names_the_service(
    shoal: Command, proxy: ForwardProxy, secure: TlsFront, origin: FaultServer
) -> None:
    done = shoal.run("copy", f"https://{NAME}", "out", "--json", https_proxy=proxy.url)
    assert done.returncode == 3
    assert shoal.last_json(done)["kind"] == "tls"
    assert f'"https://{NAME}' in done.stderr
    assert len(origin.requests) == len(secure.handshakes) == 0


def test_the_option_is_for_python_too_and_its_password_is_not_shown(
    origin: FaultServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    source = package.list_get(f"http://{NAME}", proxy=proxy.url)
    assert PASSWORD not in repr(source)
    assert {obj.name: bytes(obj.data) for obj in package.read(source)} == OBJECTS
    assert len(proxy.requests) == len(origin.requests) > 0
    # The way to a service is not which service it is: the same run goes on without a proxy, or with another.
    assert copy(package.list_get(origin.url, proxy=proxy.url), tmp_path / "out").written == len(OBJECTS)
    assert copy(package.list_get(origin.url), tmp_path / "out", resume="update").unchanged == len(OBJECTS)


@pytest.mark.parametrize(
    ("options", "variables", "is_proxied"),
    [
        pytest.param([], {"http_proxy": "PROXY", "all_proxy": "PROXY"}, False, id="loopback, by the environment"),
        pytest.param(["--proxy", "PROXY"], {}, True, id="loopback, by the option"),
        pytest.param(["--proxy", "PROXY"], {"no_proxy": "example.test, 127.0.0.0/8"}, False, id="no_proxy"),
        pytest.param(["--proxy", "none"], {"http_proxy": "PROXY"}, False, id="none"),
    ],
)
def test_what_no_proxy_is_for_is_requested_directly(
    shoal: Command,
    origin: FaultServer,
    proxy: ForwardProxy,
    options: list[str],
    variables: dict[str, str],
    is_proxied: bool,
) -> None:
    options = [option.replace("PROXY", proxy.url) for option in options]
    shoal.environment |= {name: value.replace("PROXY", proxy.url) for name, value in variables.items()}
    done = shoal.run("copy", origin.url, "out", *options)
    assert done.returncode == 0, done.stderr
    assert tree(shoal.directory / "out") == OBJECTS
    assert len(proxy.requests) == (len(origin.requests) if is_proxied else 0)


def test_a_list_of_urls_has_hosts_with_and_without_a_proxy(
    shoal: Command, server: UrlServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    hosts = [f"h{number}.example.test" for number in range(5)]
    proxy.places = dict.fromkeys(hosts, port_of(server.url))
    urls = [f"http://{host}/{host}/{number}" for number in range(20) for host in hosts]
    list_file = write(tmp_path / "list", *urls, f"{server.url}/direct")
    done = shoal.run("copy", "--urls", list_file, "out", "--json", http_proxy=proxy.url, no_proxy="other.test")
    assert done.returncode == 0, done.stderr
    assert len(tree(tmp_path / "out")) == len(urls) + 1
    assert sorted(proxy.seen("GET")) == sorted(urls)
    assert len(server.requests) == len(urls) + 1
    assert_secret(done, tmp_path / "out")


@pytest.mark.parametrize("is_list", [False, True], ids=["service", "list of hosts"])
def test_a_proxy_that_dies_ends_the_run_with_one_error_and_the_next_is_complete(
    shoal: Command, server: UrlServer, proxy: ForwardProxy, tmp_path: Path, is_list: bool
) -> None:
    shoal.environment |= everywhere(proxy)
    hosts = [f"h{number}.example.test" for number in range(30)]
    source: tuple[str, ...]
    if is_list:
        proxy.places = dict.fromkeys(hosts, port_of(server.url))
        server.delay = 0.01
        list_file = write(tmp_path / "list", *(f"http://{host}/{host}/{n}" for n in range(10) for host in hosts))
        source, wanted = ("--urls", str(list_file)), {f"{host}/{n}" for n in range(10) for host in hosts}
    else:
        source, wanted = (f"http://{NAME}",), set(OBJECTS)
    proxy.stop_after = 20
    done = shoal.run("copy", *source, "out", "--json", *DEAD)
    assert done.returncode == 3, done.stderr
    error = shoal.last_json(done)
    assert error["kind"] == "unreachable"
    assert "no connection to the proxy" in error["message"]
    assert proxy.shown in error["message"]
    assert error["failed"] == 0, "no object failed for it, and no host"
    assert len(tree(tmp_path / "out")) < len(wanted)
    assert_secret(done, tmp_path / "out")
    proxy.stop()
    proxy.stop_after = None
    proxy.start()
    again = shoal.run("copy", *source, "out", "--json")
    assert again.returncode == 0, again.stderr
    assert set(tree(tmp_path / "out")) == wanted


def test_a_proxy_that_comes_back_is_waited_for(shoal: Command, proxy: ForwardProxy, tmp_path: Path) -> None:
    proxy.stop_after = 20
    shoal.environment |= everywhere(proxy)
    with shoal.start("copy", f"http://{NAME}", "out", "--json") as copying:
        wait_until(lambda: not proxy.is_running)
        proxy.stop()
        proxy.stop_after = None
        proxy.start()
        output, errors = copying.communicate(timeout=60)
    assert copying.returncode == 0, errors
    assert tree(tmp_path / "out") == OBJECTS
    assert "the proxy could not be reached for" in output, "the report says so"


def test_a_proxy_that_was_never_there_is_one_error_before_anything_fails(
    shoal: Command, proxy: ForwardProxy, tmp_path: Path
) -> None:
    shoal.environment |= everywhere(proxy)
    proxy.stop()
    list_file = write(tmp_path / "list", *(f"http://h{number}.example.test/x{number}" for number in range(50)))
    for source in ((f"https://{NAME}",), ("--urls", list_file)):
        done = shoal.run("copy", *source, "out", "--json", *DEAD)
        assert done.returncode == 3, done.stderr
        error = shoal.last_json(done)
        assert (error["kind"], error.get("failed", 0)) == ("unreachable", 0)
        assert proxy.shown in done.stderr
        assert "proxy" in done.stderr.partition("hint:")[2]
        assert_secret(done, tmp_path / "out")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("is_list", [False, True], ids=["service", "list"])
def test_a_wrong_password_for_the_proxy_ends_the_run(
    shoal: Command, proxy: ForwardProxy, origin: FaultServer, tmp_path: Path, scheme: str, is_list: bool
) -> None:
    list_file = write(tmp_path / "list", *(f"{scheme}://h{n}.example.test/x" for n in range(9)))
    source = ("--urls", str(list_file)) if is_list else (f"{scheme}://{NAME}",)
    wrong = proxy.url.replace(PASSWORD, "wrong-5e02")
    shoal.environment |= {"http_proxy": wrong, "https_proxy": wrong}
    done = shoal.run("copy", *source, "out", "--json")
    assert done.returncode == 3, done.stderr
    assert shoal.last_json(done)["kind"] == "credentials"
    assert f'"{proxy.shown}": the proxy rejects the given credentials (407)' in done.stderr
    assert f"{scheme}_proxy" in done.stderr
    assert "wrong-5e02" not in done.stdout + done.stderr
    assert origin.requests == []


def test_a_tunnel_that_the_proxy_does_not_permit_is_named(
    shoal: Command, server: UrlServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    shoal.environment |= everywhere(proxy)
    proxy.statuses[NAME] = 403
    done = shoal.run("copy", f"https://{NAME}", "out", "--json")
    assert done.returncode == 3, done.stderr
    why = f"the proxy {proxy.shown} refuses a connection to {NAME}:443 (403)"
    assert why in shoal.last_json(done)["message"]
    assert "no_proxy" in done.stderr
    # In a list, the other hosts do not suffer.
    list_file = write(tmp_path / "list", f"https://{NAME}/a", f"{server.url}/b")
    done = shoal.run("copy", "--urls", list_file, "list-out", "--json")
    assert done.returncode == 1, done.stderr
    (failure,) = shoal.last_json(done)["failures"]
    assert (failure["name"], failure["kind"]) == ("a", "forbidden")
    assert why in failure["reason"]
    assert set(tree(tmp_path / "list-out")) == {"b"}
    assert len(proxy.requests) == 2, "none was tried again"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_host_that_the_proxy_does_not_reach_is_one_of_many(
    shoal: Command, server: UrlServer, proxy: ForwardProxy, tmp_path: Path, scheme: str
) -> None:
    shoal.environment |= everywhere(proxy)
    hosts = [f"h{number}.example.test" for number in range(5)]
    proxy.places = dict.fromkeys(hosts, port_of(server.url))
    proxy.statuses[NAME] = 502
    urls = [f"http://{host}/{host}/{number}" for number in range(10) for host in hosts]
    list_file = write(tmp_path / "list", f"{scheme}://{NAME}/absent", *urls)
    done = shoal.run("copy", "--urls", list_file, "out", "--json", *DEAD, "--max-retries", "2")
    assert done.returncode == 1, done.stderr
    (failure,) = shoal.last_json(done)["failures"]
    assert failure["name"] == "absent"
    assert "the proxy" in failure["reason"]
    assert "502" in failure["reason"]
    assert len(tree(tmp_path / "out")) == len(urls)


def test_redirects_go_through_the_proxy_of_the_host_to_which_they_lead(
    shoal: Command, origin: FaultServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    shoal.environment |= everywhere(proxy)
    with UrlServer() as elsewhere:
        proxy.places = {**proxy.places, "cdn.example.test": port_of(elsewhere.url)}
        for name in ("plain-0001", "plain-0002"):
            place = "http://cdn.example.test" if name == "plain-0001" else elsewhere.url
            origin.on_object(name, faults.redirect(302, f"{place}/{name}"))
        allow = ("--allow-host", "cdn.example.test", "--allow-host", elsewhere.authority)
        done = shoal.run("copy", f"http://{NAME}", "out", "--header", f"X-Api-Key: {KEY}", *allow)
        assert done.returncode == 0, done.stderr
        moved = {"plain-0001": b"/plain-0001", "plain-0002": b"/plain-0002"}
        assert tree(tmp_path / "out") == OBJECTS | moved
        assert "http://cdn.example.test/plain-0001" in proxy.seen("GET")
        assert f"{elsewhere.url}/plain-0002" not in proxy.seen("GET"), "loopback has no proxy of the environment"
        for _, fields in elsewhere.requests:
            assert not {"X-Api-Key", "Proxy-Authorization"} & fields.keys()


@pytest.mark.parametrize(
    "place", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "localhost", "127.1", "2130706433"]
)
def test_a_private_address_in_a_redirect_is_refused_behind_a_proxy_too(
    shoal: Command, server: UrlServer, proxy: ForwardProxy, tmp_path: Path, place: str
) -> None:
    proxy.places = {NAME: port_of(server.url)}
    server.answers["/x"] = Answer(status=302, headers={"Location": f"http://{place}:8080/secret"})
    list_file = write(tmp_path / "list", f"http://{NAME}/x")
    done = shoal.run("copy", "--urls", list_file, "out", "--json", "--proxy", proxy.url)
    assert done.returncode == 1, done.stderr
    (failure,) = shoal.last_json(done)["failures"]
    assert failure["kind"] == "bad-answer"
    assert "is an address" in failure["reason"]
    assert proxy.seen("GET") == [f"http://{NAME}/x"]


@pytest.mark.parametrize("fault_server", [False], ids=["no-echo"], indirect=True)
def test_a_proxy_that_gets_whole_urls_is_not_sent_requests_ahead_by_a_number(
    shoal: Command, origin: FaultServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    shoal.environment |= everywhere(proxy)
    done = shoal.run("copy", f"http://{NAME}", "out", "--pipeline", "8")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == OBJECTS
    assert origin.depth == 1
    assert "note: requests to http:// services behind a proxy" in done.stderr


@with_and_without_echo
def test_a_proxy_that_closes_after_each_answer_costs_connections_and_no_object(
    shoal: Command, origin: FaultServer, proxy: ForwardProxy, tmp_path: Path
) -> None:
    shoal.environment |= everywhere(proxy)
    proxy.closes = True
    done = shoal.run("copy", f"http://{NAME}", "out")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == OBJECTS
    assert proxy.connections >= len(OBJECTS)


@pytest.mark.parametrize(
    "url", ["socks5://u:hunter2@p.test:1080", "https://u:hunter2@p.test", "http://u:hunter2@p.test:x"]
)
def test_what_is_no_http_proxy_is_refused_before_anything_is_sent(shoal: Command, url: str) -> None:
    for options, variable, named in ((("--proxy", url), "", "--proxy"), ((), url, "https_proxy")):
        done = shoal.run("copy", f"https://{NAME}", "out", *options, "--json", https_proxy=variable)
        assert done.returncode == 2
        assert shoal.last_json(done)["kind"] == "config"
        assert named in done.stderr
        assert "hint: use http://HOST:PORT" in done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        assert list(shoal.directory.iterdir()) == [], "nothing is made either"


def test_a_header_for_the_proxy_is_refused_as_it_would_be_sent_to_the_service(
    shoal: Command, origin: FaultServer
) -> None:
    done = shoal.run("copy", origin.url, "out", "--header", f"Proxy-Authorization: Basic {BASIC}")
    assert done.returncode == 2
    assert "this header cannot be sent" in done.stderr
    assert origin.requests == []
