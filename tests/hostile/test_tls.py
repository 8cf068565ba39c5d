"""Services behind TLS: whom to trust, whom not, and ends of connections that nobody announced; rows N16 and S16."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

import shoal
from hostile.oracle import Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import Fault, head
from servers.fixtures import MakeServer
from servers.ports import bound_socket
from servers.tls_server import TlsFront
from trees import tree
from waiting import wait_until

HERE = "127.0.0.1"
BIG = bytes(range(251)) * 1200  # 301,200 bytes: above what is handed on whole (64 KiB), so it is streamed to disk


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Whoever signs the certificates that are good."""
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def context_with(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    certificate.configure_cert(context)
    return context


def good(authority: trustme.CA) -> ssl.SSLContext:
    return context_with(authority.issue_cert(HERE))


def expired(authority: trustme.CA) -> ssl.SSLContext:
    then = dt.datetime(2020, 1, 31, tzinfo=dt.UTC)
    return context_with(authority.issue_cert(HERE, not_before=then - dt.timedelta(days=30), not_after=then))


def not_yet_valid(authority: trustme.CA) -> ssl.SSLContext:
    then = dt.datetime(2090, 1, 1, tzinfo=dt.UTC)
    return context_with(authority.issue_cert(HERE, not_before=then, not_after=then + dt.timedelta(days=30)))


def other_host(authority: trustme.CA) -> ssl.SSLContext:
    return context_with(authority.issue_cert("other.example"))


def unknown_authority(_: trustme.CA) -> ssl.SSLContext:
    return context_with(trustme.CA().issue_cert(HERE))


def self_signed(_: trustme.CA) -> ssl.SSLContext:
    own = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with own.private_key_pem.tempfile() as key, own.cert_pem.tempfile() as certificate:
        context.load_cert_chain(certificate, key)
    return context


def old_versions(authority: trustme.CA) -> ssl.SSLContext:
    context = good(authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1
    return context


BAD: dict[str, tuple[Callable[[trustme.CA], ssl.SSLContext], list[str]]] = {
    "expired": (expired, ["expired", "31 Jan 2020"]),
    "not yet valid": (not_yet_valid, ["not valid before", "2090"]),
    "other host": (other_host, ["another host", HERE, "other.example"]),
    "unknown authority": (unknown_authority, ["unknown issuer"]),
    "self-signed": (self_signed, ["self-signed"]),
    "TLS 1.0 only": (old_versions, ["neither TLS 1.2 nor TLS 1.3"]),
}


# Good certificates


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_everything_arrives_through_tls(
    shoal_command: Shoal,
    fault_server: MakeServer,
    authority: trustme.CA,
    ca_file: str,
    version: ssl.TLSVersion,
) -> None:
    objects = {**numbered(300), "big": BIG, "empty": b"", "record": b"x" * (1 << 14), "two": b"y" * ((1 << 14) + 1)}
    server = fault_server(objects).start()
    context = good(authority)
    context.minimum_version = context.maximum_version = version
    with TlsFront(context, server.port) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file)
    assert_arrived(outcome, objects)
    assert {shaken.protocol for shaken in front.handshakes} == {"http/1.1"}
    assert {shaken.version for shaken in front.handshakes} == {version.name.replace("_", ".")}
    assert len(server.connections) < 20, "connections are kept"
    assert outcome.report["notes"] == []


def test_sessions_are_resumed_and_a_closed_connection_costs_no_try(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str
) -> None:
    objects = numbered(30)
    server = fault_server(objects)
    server.on_any(lambda exchange: closing(exchange.body if exchange.request.name else page)(exchange))
    page = server.page(None) or b""
    server.start()
    with TlsFront(good(authority), server.port) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file, "--max-retries", "0")
    assert_arrived(outcome, objects)
    assert len(front.handshakes) == 31
    # The first of each of the four connections, and the listing's, has no session to resume.
    assert sum(shaken.resumed for shaken in front.handshakes) >= 20, front.handshakes


def closing(body: bytes) -> Fault:
    return faults.raw(head(200, {"Content-Length": str(len(body)), "Connection": "close"}) + body, then="fin")


def test_the_certificates_of_the_environment_are_trusted_and_the_name_is_sent(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = numbered(5)
    server = fault_server(objects).start()
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    with TlsFront(context_with(authority.issue_cert("localhost")), server.port) as front:
        outcome = shoal_command.copy(f"https://localhost:{front.port}", "--workers", "1")
    assert_arrived(outcome, objects)
    assert {shaken.host for shaken in front.handshakes} <= {"localhost", None}
    assert "localhost" in {shaken.host for shaken in front.handshakes}


# Bad ones


@pytest.mark.parametrize("kind", BAD)
def test_who_cannot_be_trusted_is_refused_at_once_with_the_cause(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str, kind: str
) -> None:
    server = fault_server(numbered(50)).start()
    context, causes = BAD[kind]
    with TlsFront(context(authority), server.port) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file, "--header", "Authorization: Bearer hush")
    assert_stopped(outcome, "tls", f"https://{HERE}:{front.port}", *causes)
    assert server.requests == [], "nothing is sent to whom nobody trusts"
    assert front.accepted <= 5, "asking again would not change it"
    assert "hush" not in outcome.stderr
    if kind != "TLS 1.0 only":
        assert "--insecure" in outcome.stderr


def test_without_the_option_nobody_knows_the_authority(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA
) -> None:
    server = fault_server(numbered(5)).start()
    with TlsFront(good(authority), server.port) as front:
        outcome = shoal_command.copy(front.url)
    # A machine without any certificate says so instead.
    assert outcome.error["kind"] in ("tls", "config"), outcome
    assert "--ca-file" in outcome.stderr
    assert server.requests == []


@pytest.mark.parametrize("kind", ["expired", "other host", "unknown authority", "self-signed"])
def test_insecure_trusts_anybody_and_says_so(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, kind: str
) -> None:
    objects = numbered(5)
    server = fault_server(objects).start()
    with TlsFront(BAD[kind][0](authority), server.port) as front:
        outcome = shoal_command.copy(front.url, "--insecure")
    assert_arrived(outcome, objects)
    assert any("--insecure" in note for note in outcome.report["notes"]), outcome
    assert "--insecure" in outcome.stderr


def test_a_certificate_that_is_replaced_by_a_bad_one_stops_the_run_which_then_resumes(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str
) -> None:
    objects = numbered(2000)
    server = fault_server(objects)
    server.page_size = 100
    server.start()
    front = TlsFront(good(authority), server.port)

    def rotate() -> None:
        wait_until(lambda: len(server.fetched()) > 500)
        front.context = unknown_authority(authority)
        front.drop_connections()

    with front:
        rotating = threading.Thread(target=rotate)
        rotating.start()
        options = ("--ca-file", ca_file, "--limit-rate", "100KB")
        outcome = shoal_command.copy(front.url, *options)
        rotating.join()
        assert_stopped(outcome, "tls", "unknown issuer", manifest=objects)
        some = len(tree(outcome.out))
        assert 0 < some < len(objects)
        front.context = good(authority)
        again = shoal_command.copy(front.url, "--ca-file", ca_file)
    assert again.code == 0, again
    assert tree(again.out) == objects
    assert again.report["total"]["written"] == len(objects)


def test_a_service_in_the_clear_is_no_tls(shoal_command: Shoal, fault_server: MakeServer, ca_file: str) -> None:
    server = fault_server(numbered(5)).start()
    # It answers a handshake as it would any line that is no request.
    with bound_socket() as sock:
        sock.listen()

        def answer() -> None:
            peer, _ = sock.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        outcome = shoal_command.copy(f"https://{HERE}:{sock.getsockname()[1]}", "--ca-file", ca_file)
        answering.join()
    assert_stopped(outcome, "tls", "not TLS")
    assert "http://" in outcome.stderr
    assert server.requests == []


def test_a_handshake_that_never_ends_is_a_connection_that_could_not_be_made(shoal_command: Shoal, ca_file: str) -> None:
    with bound_socket() as sock:
        sock.listen(100)
        url = f"https://{HERE}:{sock.getsockname()[1]}"
        outcome = shoal_command.copy(url, "--ca-file", ca_file, "--connect-timeout", "0.3", "--retry-timeout", "1")
    assert_stopped(outcome, {"unreachable", "connect"}, "no connection within", within=10)


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nno base64\n-----END CERTIFICATE-----\n"])
def test_certificates_that_cannot_be_read_are_a_mistake_of_the_user(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(shoal.ConfigError, match=r"ca\.pem"):
        shoal.copy(shoal.list_get(f"https://{HERE}:1", ca_file=path), "null:")


# Ends


def test_an_end_that_tls_was_not_told_of_is_no_end_of_an_object(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str
) -> None:
    objects = {"until-closed": b"z" * 1000, "chunked": b"c" * 1000, "plain": b"p"}
    server = fault_server(objects)
    server.on_object("until-closed", faults.headers({}, then="fin"))
    server.start()
    with TlsFront(good(authority), server.port, announce_end=False) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file, "--max-retries", "1")
    rest = {name: data for name, data in objects.items() if name != "until-closed"}
    assert_arrived(outcome, rest, {"until-closed": "short-body"})


def test_an_announced_end_is_one(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str
) -> None:
    objects = {"until-closed": b"z" * 1000, "big": BIG}
    server = fault_server(objects)
    for name in objects:
        server.on_object(name, faults.headers({}, then="fin"))
    server.start()
    with TlsFront(good(authority), server.port) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file)
    assert_arrived(outcome, objects)
    assert outcome.report["unverified"] == 2


def test_a_body_cut_in_the_middle_is_fetched_again(
    shoal_command: Shoal, fault_server: MakeServer, authority: trustme.CA, ca_file: str
) -> None:
    objects = {"cut": BIG, **numbered(5)}
    server = fault_server(objects)
    server.on_object("cut", faults.cut_body(100_000, then="fin"), times=1)
    server.start()
    with TlsFront(good(authority), server.port, announce_end=False) as front:
        outcome = shoal_command.copy(front.url, "--ca-file", ca_file)
    assert_arrived(outcome, objects)
