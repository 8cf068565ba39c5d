"""Answers that point elsewhere: where shoal goes, what it takes along, and what a file is called; rows S2, S13, S14."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme

from hostile.oracle import Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.conversation import Request
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer
from servers.ports import bound_socket
from servers.tls_server import TlsFront

BIG = bytes(range(251)) * 1200  # 301,200 bytes: above what is handed on whole (64 KiB), so it is streamed to disk
SECRETS = {"authorization": "Bearer hush", "x-api-key": "hush", "cookie": "a=hush", "x-amz-security-token": "hush"}
SECRET_OPTIONS = [part for name, value in SECRETS.items() for part in ("--header", f"{name}: {value}")]
# All that a server may see to which only a redirect has led.
HARMLESS = {"host", "accept-encoding", "accept", "user-agent"}


@pytest.fixture
def elsewhere(fault_server: MakeServer) -> FaultServer:
    """Another service on another port, and so of another origin."""
    return fault_server({**numbered(50, prefix="there"), "big": BIG}).start()


def address(server: FaultServer) -> str:
    return f"127.0.0.1:{server.port}"


def sent(request: Request) -> Mapping[str, str]:
    """What a request carried, without the id that lets answers be told apart."""
    return {name: value for name, value in request.headers.items() if name != "shoal-request-id"}


# Within the service


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("pipeline", ["auto", "off"])
def test_a_redirect_within_the_service_is_followed_with_everything_and_keeps_the_name(
    shoal_command: Shoal, fault_server: MakeServer, code: int, pipeline: str
) -> None:
    objects = numbered(20)
    server = fault_server({**objects, "target.exe": b"the bytes", "large.exe": BIG})
    server.names = [*objects, "moved", "moved-far"]
    server.on_object("moved", faults.redirect(code, "/get/target.exe"))
    server.on_object("moved-far", faults.redirect(code, f"{server.url}/x/../get/./large.exe#part"))
    server.start()
    outcome = shoal_command.copy(server, *SECRET_OPTIONS, "--pipeline", pipeline)
    assert_arrived(outcome, {**objects, "moved": b"the bytes", "moved-far": BIG})
    asked = server.asked("target.exe") + server.asked("large.exe")
    assert len(asked) == 2
    assert all(SECRETS.items() <= request.headers.items() for request in asked)


def test_relative_redirects_are_resolved(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"b/c": b"1", "target": b"2"})
    server.names = ["a/one", "a/two", "a/three"]
    server.on_object("a/one", faults.redirect(302, "../b/c"))
    server.on_object("a/two", faults.redirect(302, "//" + address(server) + "/get/target?x=1"))
    server.on_object("a/three", faults.redirect(302, "/get/t%61rget"))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {"a/one": b"1", "a/two": b"2", "a/three": b"2"})


@pytest.mark.parametrize(("steps", "arrives"), [(5, True), (6, False)])
def test_five_redirects_in_a_row_are_followed_and_no_more(
    shoal_command: Shoal, fault_server: MakeServer, steps: int, arrives: bool
) -> None:
    server = fault_server({"step-0": b"there", "plain": b"p"})
    server.names = [f"step-{steps}", "plain"]
    for step in range(1, steps + 1):
        server.on_object(f"step-{step}", faults.redirect(307, f"/get/step-{step - 1}"))
    server.start()
    outcome = shoal_command.copy(server)
    if arrives:
        assert_arrived(outcome, {f"step-{steps}": b"there", "plain": b"p"})
    else:
        assert_arrived(outcome, {"plain": b"p"}, {f"step-{steps}": "bad-answer"})


def test_a_loop_of_redirects_comes_to_an_end(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["round", "plain", "itself"]
    server.on_object("round", faults.redirect(302, "/get/and-round"))
    server.on_object("and-round", faults.redirect(302, "/get/round"))
    server.on_object("itself", faults.redirect(302, "itself"))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {"plain": b"p"}, {"round": "bad-answer", "itself": "bad-answer"})
    # Once more for each where requests were sent ahead.
    assert len(server.fetched()) <= 1 + 7 + 7


def test_the_listing_may_move_within_the_service(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(30)
    server = fault_server(objects)
    server.page_size = 10
    server.on(lambda request: request.target == "/v1/names", faults.redirect(301, "/list"))
    server.start()
    outcome = shoal_command.copy(server, "--list-path", "/v1/names", "--header", "X-Secret: s", "--pipeline", "off")
    # The marker is added to the path that was given, which this service redirects only for the first page.
    assert outcome.code == 3
    assert all(request.headers["x-secret"] == "s" for request in server.requests)
    moved = server.requests[1]
    assert moved.target == "/list"


# To another origin


def test_another_origin_is_refused_with_the_option_that_would_allow_it(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.names = [*objects, "moved"]
    server.on_object("moved", faults.redirect(302, f"{elsewhere.url}/get/there-0001?signature=s3cret"))
    server.start()
    outcome = shoal_command.copy(server, *SECRET_OPTIONS)
    assert_arrived(outcome, objects, {"moved": "bad-answer"})
    reason = outcome.report["failures"][0]["reason"]
    assert elsewhere.url in reason
    assert "s3cret" not in outcome.stdout + outcome.stderr
    assert elsewhere.connections == []


def test_an_allowed_origin_gets_nothing_that_was_given_for_the_service(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer
) -> None:
    names = [f"here-{number}" for number in range(40)]
    server = fault_server(numbered(20))
    server.names = [*server.objects, *names, "big"]
    for number, name in enumerate(names):
        server.on_object(name, faults.redirect(302, f"{elsewhere.url}/get/there-{number:04}"))
    server.on_object("big", faults.redirect(307, f"{elsewhere.url}/get/big"))
    server.start()
    url = f"http://user:hush@{address(server)}"
    options = [part for part in SECRET_OPTIONS if "authorization" not in part and part != "--header"]
    headers = [part for option in options for part in ("--header", option)]
    outcome = shoal_command.copy(url, *headers, "--header", "User-Agent: hush", "--allow-host", address(elsewhere))
    moved = {name: elsewhere.objects[f"there-{number:04}"] for number, name in enumerate(names)}
    assert_arrived(outcome, {**server.objects, **moved, "big": BIG})
    basic = "Basic " + base64.b64encode(b"user:hush").decode()
    assert {request.headers["authorization"] for request in server.requests} == {basic}
    assert len(elsewhere.requests) == 41
    for request in elsewhere.requests:
        assert set(request.headers) == HARMLESS, request
        assert request.headers["host"] == address(elsewhere)
        assert "hush" not in str(request.headers)
    assert len(elsewhere.connections) <= 5, "connections are kept there too"
    assert len(server.connections) <= 12


def test_credentials_are_not_sent_again_when_another_host_leads_back(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer
) -> None:
    server = fault_server({"private": b"readable without a word"})
    server.names = ["bait"]
    server.on_object("bait", faults.redirect(302, f"{elsewhere.url}/get/back"))
    elsewhere.on_object("back", faults.redirect(302, f"{server.url}/get/private"))
    server.start()
    outcome = shoal_command.copy(server, *SECRET_OPTIONS, "--allow-host", address(elsewhere))
    assert_arrived(outcome, {"bait": b"readable without a word"})
    (asked,) = server.asked("private")
    assert set(asked.headers) == HARMLESS


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.1:1", "localhost:{port}", "other.example"])
def test_an_allowed_host_is_that_host_and_port_alone(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer, allowed: str
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "moved"]
    server.on_object("moved", faults.redirect(302, f"{elsewhere.url}/get/there-0001"))
    server.start()
    outcome = shoal_command.copy(server, "--allow-host", allowed.format(port=elsewhere.port))
    assert_arrived(outcome, {"plain": b"p"}, {"moved": "bad-answer"})
    assert elsewhere.connections == []


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("169.254.169.254", "169.254.169.254"),
        ("169.254.169.254:8080", "169.254.169.254:8080"),
        ("2852039166", "2852039166"),  # the same as one number, as inet_aton reads it
        ("0.0.0.0", "0.0.0.0"),
        ("[::ffff:169.254.169.254]", "::ffff:169.254.169.254"),
        ("[fe80::1]", "fe80::1"),
    ],
)
@pytest.mark.timing
def test_no_server_leads_to_where_machines_keep_their_credentials_even_if_allowed(
    shoal_command: Shoal, fault_server: MakeServer, host: str, allowed: str
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "bait"]
    server.on_object("bait", faults.redirect(302, f"http://{host}/latest/meta-data/iam"))
    server.start()
    outcome = shoal_command.copy(server, "--allow-host", allowed)
    assert_arrived(outcome, {"plain": b"p"}, {"bait": "bad-answer"})
    assert outcome.seconds < 5, "no server is asked"


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1:70/",
        "javascript:0",
        "data:text/plain,x",
        "http://user:pw@{here}/get/plain",
        "http://{here}\\@other.example/",
        "http:/get/plain",
        "http://",
        "http://[::1",
        "//{here}:1:2/",
        "",
    ],
)
def test_a_place_that_is_none_is_a_failure(shoal_command: Shoal, fault_server: MakeServer, location: str) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "bait"]
    server.on_object("bait", faults.redirect(302, location.format(here=address(server))))
    server.start()
    outcome = shoal_command.copy(server, "--allow-host", "127.0.0.1")
    assert_arrived(outcome, {"plain": b"p"}, {"bait": "bad-answer"})
    assert "pw@" not in outcome.stdout + outcome.stderr


def test_a_redirect_that_names_no_place_or_asks_for_none_is_a_failure(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = {"plain": b"p"}
    server = fault_server(objects)
    server.names = ["plain", "nowhere", "choices", "proxy"]
    server.on_object("nowhere", faults.status(302))
    server.on_object("choices", faults.redirect(300, "/get/plain"))
    server.on_object("proxy", faults.redirect(305, "/get/plain"))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects, dict.fromkeys(["nowhere", "choices", "proxy"], "bad-answer"))
    # Asked for again at most once for each that was refused, to see whether the service refuses all of them now.
    assert 1 <= len(server.asked("plain")) <= 1 + 3


def test_a_listing_elsewhere_stops_the_run_with_the_option_that_would_allow_it(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer
) -> None:
    server = fault_server({})
    server.on_list(faults.redirect(302, f"{elsewhere.url}/list?token=s3cret"))
    server.start()
    outcome = shoal_command.copy(server, *SECRET_OPTIONS)
    assert_stopped(outcome, "listing", elsewhere.url)
    assert server.listed() == [None], "asking again would not change it"
    assert f"--allow-host {address(elsewhere)}" in outcome.stderr
    assert "s3cret" not in outcome.stderr
    assert elsewhere.connections == []
    # What is listed there is asked for here.
    server.objects.update(elsewhere.objects)
    outcome = shoal_command.copy(server, *SECRET_OPTIONS, "--allow-host", address(elsewhere))
    assert_arrived(outcome, elsewhere.objects)
    assert {request.target for request in elsewhere.requests} == {"/list?token=s3cret"}
    assert set(sent(elsewhere.requests[0])) == HARMLESS


def test_the_file_is_never_named_by_the_server(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer, tmp_path: Path
) -> None:
    async def named(exchange: Exchange) -> None:
        await exchange.answer(200, b"bytes", {"Content-Disposition": 'attachment; filename="../../evil"'})

    server = fault_server({})
    server.names = ["good"]
    server.on_object("good", faults.redirect(302, f"{elsewhere.url}/get/..%2F..%2Fevil"))
    elsewhere.on(lambda request: request.name is not None, named)
    server.start()
    outcome = shoal_command.copy(server, "--allow-host", address(elsewhere))
    assert_arrived(outcome, {"good": b"bytes"})
    assert not list(tmp_path.rglob("*evil*"))


def test_an_allowed_host_that_is_not_there_fails_its_objects_alone(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["moved", "plain"]
    with bound_socket() as nobody:
        port = nobody.getsockname()[1]
        server.on_object("moved", faults.redirect(302, f"http://127.0.0.1:{port}/x"))
        server.start()
        outcome = shoal_command.copy(server, "--allow-host", f"127.0.0.1:{port}", "--max-retries", "1")
    assert_arrived(outcome, {"plain": b"p"}, {"moved": "connect"})
    assert f"127.0.0.1:{port}" in outcome.stderr


# Between http and https


def secure_front(server: FaultServer, directory: Path) -> tuple[TlsFront, str]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return TlsFront(context, server.port), str(directory / "ca.pem")


def test_https_never_leads_to_http(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer, tmp_path: Path
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "moved"]
    server.on_object("moved", faults.redirect(302, f"{elsewhere.url}/get/there-0001"))
    server.start()
    front, ca_file = secure_front(server, tmp_path)
    with front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file, "--allow-host", address(elsewhere))
    assert_arrived(outcome, {"plain": b"p"}, {"moved": "bad-answer"})
    assert "from https" in outcome.report["failures"][0]["reason"]
    assert elsewhere.connections == []


def test_http_may_lead_to_https_where_the_host_is_allowed(
    shoal_command: Shoal, fault_server: MakeServer, elsewhere: FaultServer, tmp_path: Path
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "moved", "big"]
    server.start()
    front, ca_file = secure_front(elsewhere, tmp_path)
    server.on_object("moved", faults.redirect(301, f"{front.url}/get/there-0001"))
    server.on_object("big", faults.redirect(301, f"{front.url}/get/big"))
    with front:
        options = ("--ca-file", ca_file, "--allow-host", f"127.0.0.1:{front.port}")
        outcome = shoal_command.copy(server, *options, *SECRET_OPTIONS)
    assert_arrived(outcome, {"plain": b"p", "moved": elsewhere.objects["there-0001"], "big": BIG})
    assert all(set(request.headers) == HARMLESS for request in elsewhere.requests)
