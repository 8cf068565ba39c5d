"""Every kind of secret at once, and everything that a run says or leaves, however it ended: row S15.

Single secrets in single places are in `test_secrets.py`.
"""

from __future__ import annotations

import base64
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hostile.oracle import Outcome, Shoal, assert_same_tree, numbered
from servers import faults
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer
from trees import tree
from waiting import wait_until

# Where each stands; no two have a part in common.
SECRETS = {
    "a header": "header-93ac41",
    "a cookie": "cookie-5e02d7",
    "the user": "reader-71b0aa",
    "the password": "sesame-7d1f3c",
    "the query of --list-path": "listing-c84e19",
    "a parameter without a name": "nameless-20f6bd",
    "the query of --get-path": "getting-e5a372",
    "a redirect to elsewhere": "elsewhere-b96c08",
    "a redirect within the service": "within-4f7d21",
    "a password in a redirect": "planted-a13e5f",
}
BASIC = base64.b64encode(f"{SECRETS['the user']}:{SECRETS['the password']}".encode()).decode()
MARKER = "marker-6c9e84"

OPTIONS = [
    *("--header", f"X-Api-Key: {SECRETS['a header']}", "--header", f"Cookie: session={SECRETS['a cookie']}"),
    *("--list-path", f"/list?key={SECRETS['the query of --list-path']}&{SECRETS['a parameter without a name']}"),
    *("--get-path", f"/get/{{name}}?sig={SECRETS['the query of --get-path']}"),
]
OBJECTS = numbered(60)
BAD = dict.fromkeys(("away", "gone", "planted", "tattle", "malformed"), b"in the end")
CUT_PAGE = b'{"NextMarker": "%s' % MARKER.encode()


def assert_nothing_shows(*texts: str) -> None:
    """Fails if a secret or a marker is in one of them."""
    for text in texts:
        for place, secret in {**SECRETS, "both as sent": BASIC.rstrip("="), "a marker of a page": MARKER}.items():
            assert secret not in text, f"{place} is in {text!r}"


def assert_nothing_is_kept(root: Path) -> None:
    """Fails if a secret is in a file; the markers are in the journal alone, which cannot resume without."""
    files = [path for path in root.rglob("*") if path.is_file()]
    assert any(path.name == "journal.db" for path in files)
    for path in files:
        data = path.read_bytes()
        for place, secret in {**SECRETS, "both as sent": BASIC.rstrip("=")}.items():
            assert secret.encode() not in data, f"{path} holds {place}"
        if not path.name.startswith("journal.db"):
            assert MARKER.encode() not in data, f"{path} holds a marker"


async def tattle(exchange: Exchange) -> None:
    """Refuses, and says in the body what it was sent."""
    said = f"{exchange.request.target} {dict(exchange.request.headers)}"
    await exchange.answer(403, said.encode(), {"X-Said": said, "WWW-Authenticate": f"Bearer error={said}"})


def misbehave(server: FaultServer) -> None:
    """Lets some objects be answered badly, each time with a secret in the answer."""
    planted = server.url.replace("//", f"//{SECRETS['the user']}:{SECRETS['a password in a redirect']}@")
    answers = {
        "away": faults.redirect(302, f"http://localhost:{server.port}/x?sig={SECRETS['a redirect to elsewhere']}"),
        "gone": faults.redirect(307, f"/get/missing?sig={SECRETS['a redirect within the service']}"),
        "planted": faults.redirect(301, f"{planted}/get/plain-0001"),
        "tattle": tattle,
        "malformed": faults.raw(b"HTTP/1.1 200 OK\r\n" + SECRETS["a header"].encode() + b"\r\n\r\n", then="fin"),
    }
    assert answers.keys() == BAD.keys()
    for name, answer in answers.items():
        server.on_object(name, answer)


def service(make: MakeServer) -> FaultServer:
    """Makes a service of several pages, some objects of which are answered badly."""
    server = make(OBJECTS | BAD)
    server.page_size, server.marker = 20, MARKER
    misbehave(server)
    return server


def judge(shoal: Shoal, outcome: Outcome, code: int) -> None:
    """Fails if a run did not end so, or if a secret shows in what it said or left, or in what is said of it later."""
    assert outcome.code == code, outcome
    assert_nothing_shows(outcome.stdout, outcome.stderr)
    assert_nothing_is_kept(shoal.directory)
    for form in (["--json"], ["--failures", "all"]):
        status = shoal.run("status", shoal.out, *form)
        assert "plain" in status.stdout or str(shoal.out) in status.stdout, status
        assert_nothing_shows(status.stdout, status.stderr)


def assert_everything_was_sent(server: FaultServer) -> None:
    """Fails if something was looked for that was never there."""
    sent = "".join(f"{request.target} {dict(request.headers)}" for request in server.requests)
    answered = {place for place in SECRETS if "redirect" in place} | {"the user", "the password"}
    for place in SECRETS.keys() - answered:
        assert SECRETS[place] in sent, place
    assert BASIC in sent
    assert f"next-marker={MARKER}" in sent


def hold(server: FaultServer) -> None:
    """Lets one object be awaited."""
    server.on_object("plain-0050", faults.cut_head(0, "hold"))


# How a run ends: what else the service does wrong, the signal that is sent while an object is awaited, the exit code.
Spoil = Callable[[FaultServer], None]
ENDINGS: dict[str, tuple[Spoil, signal.Signals | None, int]] = {
    "complete": (lambda _: None, None, 1),
    "an object refused": (lambda server: server.on_object("plain-0050", faults.status(401)), None, 3),
    "a page refused": (lambda server: server.on_list(tattle, page=2), None, 3),
    "a page cut": (lambda server: server.on_list(faults.status(200, CUT_PAGE)), None, 3),
    "pages in a circle": (lambda server: server.on_list(faults.page(["new"], f"{MARKER}-1"), page=1), None, 3),
    "interrupted": (hold, signal.SIGINT, 130),
    "killed": (hold, signal.SIGKILL, -signal.SIGKILL),
}


@pytest.mark.parametrize("log", ["text", "json"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_no_secret_is_said_or_kept_however_a_run_ends_and_when_it_is_resumed(
    shoal_command: Shoal, fault_server: MakeServer, ending: str, log: str
) -> None:
    spoil, stopped_by, code = ENDINGS[ending]
    server = service(fault_server)
    spoil(server)
    server.start()
    url = server.url.replace("//", f"//{SECRETS['the user']}:{SECRETS['the password']}@")
    options = [*OPTIONS, "--log-format", log, "--progress", "plain", "--max-retries", "1", "--timeout", "20"]

    running = shoal_command.start_copy(url, *options)
    if stopped_by:
        wait_until(lambda: len(server.asked("plain-0050")) > 0)
        running.process.send_signal(stopped_by)
    judge(shoal_command, running.wait(30), code)
    if stopped_by == signal.SIGKILL:
        assert (shoal_command.out / ".shoal" / "journal.db-wal").stat().st_size > 0, "or there was less to search"

    server.heal()
    misbehave(server)
    judge(shoal_command, shoal_command.copy(url, *options), 1)
    server.heal()
    judge(shoal_command, shoal_command.copy(url, *options, "--retry-failed"), 0)
    assert_same_tree(tree(shoal_command.out), server.objects)
    assert_everything_was_sent(server)
