"""Answers that point elsewhere, and secrets that must stay where they are: rows S14 and S15."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hostile.oracle import Outcome, Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fixtures import MakeServer
from waiting import wait_until

USER, PASSWORD = "reader", "sesame-7d1f"  # what the tests look for, and nothing else has
TOKEN, COOKIE = "bearer-token-93ac", "cookie-value-5e02"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_of_an_object_to_elsewhere_is_a_failure_and_is_not_followed(
    shoal_command: Shoal, fault_server: MakeServer, code: int
) -> None:
    elsewhere = fault_server({"moved": b"not for you"}).start()
    targets = {
        "moved": f"{elsewhere.url}/get/moved",
        "metadata": "http://169.254.169.254/latest/meta-data/",
        "file": "file:///etc/passwd",
    }
    server = fault_server({**dict.fromkeys(targets, b"x"), **numbered(10)})
    for name, location in targets.items():
        server.on_object(name, faults.redirect(code, location))
    server.start()
    outcome = shoal_command.copy(server, "--header", f"Authorization: Bearer {TOKEN}")
    assert_arrived(outcome, numbered(10), dict.fromkeys(targets, "bad-answer"))
    assert all(str(code) in failure["reason"] for failure in outcome.report["failures"])
    assert elsewhere.requests == []
    assert all(len(server.asked(name)) == 1 for name in targets)


def test_a_redirect_of_the_listing_to_elsewhere_ends_the_run_and_is_not_followed(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    elsewhere = fault_server(numbered(5)).start()
    server = fault_server({})
    server.on_list(faults.redirect(307, f"{elsewhere.url}/list"))
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "307")
    assert elsewhere.connections == []


def secrets() -> list[str]:
    """Returns every form in which a secret could show."""
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return [PASSWORD, TOKEN, COOKIE, basic.rstrip("=")]


def assert_no_secret(outcome: Outcome, *roots: Path) -> None:
    """Fails if a secret is in the output or in any file below the roots."""
    for secret in secrets():
        assert secret not in outcome.stdout, outcome
        assert secret not in outcome.stderr, outcome
        for root in roots:
            for path in root.rglob("*"):
                if path.is_file():
                    assert secret.encode() not in path.read_bytes(), f"{path} holds {secret!r}"


HEADERS = ["--header", f"Authorization: Bearer {TOKEN}", "--header", f"Cookie: session={COOKIE}"]


def test_headers_are_sent_and_shown_nowhere(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server({**objects, "bad": b""})
    server.on_object("bad", faults.status(403))
    server.start()
    outcome = shoal_command.copy(server, *HEADERS)
    assert_arrived(outcome, objects, {"bad": "forbidden"})
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["cookie"] == f"session={COOKIE}"
    assert_no_secret(outcome, shoal_command.directory)
    assert_no_secret(shoal_command.run("status", shoal_command.out, "--json"))
    assert_no_secret(shoal_command.run("status", shoal_command.out, "--failures", "all"))


def test_secrets_stay_secret_when_the_run_is_interrupted_or_cannot_go_on(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    server.page_size = 100
    server.on_object("plain-0150", faults.cut_head(0, "hold"))
    server.start()
    running = shoal_command.start_copy(server, *HEADERS, "--timeout", "60")
    wait_until(lambda: len(server.asked("plain-0150")) > 0)
    running.interrupt()
    assert_no_secret(running.wait(10), shoal_command.directory)

    server.heal()
    server.on_any(faults.status(401))
    outcome = shoal_command.copy(server, *HEADERS, "--timeout", "60")
    assert_stopped(outcome, "credentials", "401", manifest=objects)
    assert_no_secret(outcome, shoal_command.directory)


@pytest.mark.parametrize("broken", [False, True])
def test_a_password_in_the_url_is_shown_nowhere(shoal_command: Shoal, fault_server: MakeServer, broken: bool) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    if broken:
        server.on_any(faults.status(500))
    server.start()
    url = server.url.replace("http://", f"http://{USER}:{PASSWORD}@")
    outcome = shoal_command.copy(url, "--max-retries", "1", "--retry-timeout", "2")
    assert outcome.code in ((2, 3) if broken else (0, 2)), outcome  # taken as credentials, or refused as a usage error
    if outcome.code == 0:
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert {request.headers.get("authorization") for request in server.requests} == {f"Basic {basic}"}
    assert_no_secret(outcome, shoal_command.directory)


def test_a_token_in_the_query_of_the_url_is_shown_nowhere(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server(numbered(5)).start()
    outcome = shoal_command.copy(f"{server.url}/?sig={TOKEN}", "--max-retries", "0", "--retry-timeout", "1")
    assert outcome.code in (2, 3), outcome  # a base address has no query
    assert_no_secret(outcome, shoal_command.directory)


def test_a_header_that_is_none_is_refused_without_showing_its_value(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({}).start()
    outcome = shoal_command.copy(server, "--header", f"X-Key: {TOKEN}\r\nX-Other: 1")
    assert outcome.code == 2, outcome
    assert server.requests == []
    assert_no_secret(outcome)
