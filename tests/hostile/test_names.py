"""Names chosen by a hostile service: none leaves the destination, none is changed, none reaches a terminal raw."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from hostile.oracle import (
    DEFAULTS,
    REPORT_FAILURES,
    SHOWN_MAX,
    Outcome,
    Shoal,
    assert_arrived,
    assert_balanced,
    assert_quiet_bytes,
    is_name,
    numbered,
    shown,
)
from servers import faults
from servers.fault_server import FaultServer, head
from servers.fixtures import MakeServer
from trees import tree

TABLE = Path(__file__).parent.parent / "names.json"
REFUSED = ("unsafe-name", "name-too-long")
SEVERAL = 12  # names in one run: its report carries the first 20 failures


def rows(group: str) -> list[str]:
    """Returns the names of one group of the table."""
    table = json.loads(TABLE.read_text("utf-8"))[group]
    return [row if isinstance(row, str) else row[0] * row[1] + "".join(row[2:]) for row in table]


def several(names: list[str]) -> list[list[str]]:
    """Cuts names into runs."""
    return [names[start : start + SEVERAL] for start in range(0, len(names), SEVERAL)]


@pytest.fixture
def surroundings(shoal_command: Shoal) -> Iterator[Path]:
    """A file beside the destination; fails if anything beside the destination has changed."""
    outside = shoal_command.directory / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    before = {path.name for path in shoal_command.directory.parent.iterdir()}
    yield outside
    assert tree(outside) == {"precious": b"precious"}
    assert {path.name for path in shoal_command.directory.parent.iterdir()} == before
    ours = {"out", "outside"} | {f"std{name}-{run}" for run in range(9) for name in ("out", "err")}
    assert {path.name for path in shoal_command.directory.iterdir()} <= ours
    assert not Path("/etc/x").exists()
    assert not Path("/tmp/shoal-escaped").exists()


def service(make: MakeServer, objects: dict[str, bytes], names: list[str]) -> FaultServer:
    """Returns a started service that lists these names, hostile ones first, and has bytes for all of them."""
    server = make({**dict.fromkeys(names, b"hostile"), **objects})
    server.names = [*names, *objects]
    return server.start()


def assert_status_is_quiet(shoal: Shoal, failed: dict[str, tuple[str, ...]]) -> None:
    """Fails unless `shoal status` names every failure and shows no character raw."""
    plain = shoal.run("status", shoal.out, "--failures", "all")
    assert_quiet_bytes(plain.stdout)
    assert_quiet_bytes(plain.stderr)
    machine = shoal.run("status", shoal.out, "--failures", "all", "--json")
    assert (plain.code, machine.code) == (0, 0), machine
    assert_quiet_bytes(machine.stdout)
    lines = [json.loads(line) for line in machine.stdout.splitlines()]
    failures = [line for line in lines if line["type"] == "failure"]
    assert len(failures) == len(failed), machine
    for name, kinds in failed.items():
        assert any(is_name(failure["name"], name) and failure["kind"] in kinds for failure in failures), name
        assert shown(name)[:SHOWN_MAX] in plain.stdout, plain


# Names that cannot be stored


@pytest.mark.parametrize("names", several(rows("unsafe")))
def test_names_that_would_leave_the_destination_are_recorded_failures(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path, names: list[str]
) -> None:
    objects = numbered(20)
    server = service(fault_server, objects, names)
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects, dict.fromkeys(names, REFUSED))
    assert set(server.fetched()) == objects.keys()  # what cannot be stored is not asked for either
    assert {failure["tries"] for failure in outcome.report["failures"]} <= {0, 1}
    assert_status_is_quiet(shoal_command, dict.fromkeys(names, REFUSED))


@pytest.mark.parametrize("group", ["unsafe", "legal"])
def test_no_name_breaks_the_lines_of_a_log_in_json(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path, group: str
) -> None:
    names = rows(group)
    server = fault_server(dict.fromkeys(names, b"hostile"))
    for name in names:
        server.on_object(name, faults.status(404))
    outcome = shoal_command.copy(server.start(), "--log-format", "json")
    assert outcome.code == 1, outcome
    said = [json.loads(line) for line in outcome.stderr.splitlines()]
    assert [line["type"] for line in said] == ["start", "summary"], outcome
    failures = said[-1]["failures"]
    assert len(failures) == min(len(names), REPORT_FAILURES)
    assert all(any(is_name(line["name"], name) for name in names) for line in failures), outcome
    assert_quiet_bytes(outcome.stderr)


def test_the_journal_survives_an_object_named_like_it(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path
) -> None:
    objects = numbered(20)
    names = [".shoal/journal.db", ".shoal/lock", ".SHOAL/Journal.DB", ".sHoAl"]
    server = service(fault_server, objects, names)
    assert_arrived(shoal_command.copy(server), objects, dict.fromkeys(names, "unsafe-name"))
    assert [path.name for path in shoal_command.out.iterdir() if path.name.lower() == ".shoal"] == [".shoal"]
    assert b"hostile" not in b"".join(p.read_bytes() for p in (shoal_command.out / ".shoal").iterdir() if p.is_file())
    assert_status_is_quiet(shoal_command, dict.fromkeys(names, ("unsafe-name",)))


def test_a_link_in_the_destination_is_not_followed(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path
) -> None:
    out = shoal_command.out
    (out / "real").mkdir(parents=True)
    (out / "link").symlink_to(surroundings)
    (out / "real" / "up").symlink_to("../../outside")
    (out / "loop").symlink_to("loop")
    objects = numbered(10) | {"real/x": b"inside"}
    names = ["link/x", "link/precious", "link/new/x", "real/up/x", "loop/x"]
    outcome = shoal_command.copy(service(fault_server, objects, names))
    before = {"link": os.fsencode(surroundings), "real/up": b"../../outside", "loop": b"loop"}
    assert outcome.code == 1, outcome
    assert tree(out) == objects | before
    assert_balanced(outcome.report)
    kinds = {"unsafe-name", "name-conflict", "exists", "denied"}
    assert {failure["name"] for failure in outcome.report["failures"]} == set(names)
    assert {failure["kind"] for failure in outcome.report["failures"]} <= kinds


@pytest.mark.parametrize("overwrite", ["never", "always"])
def test_a_link_with_the_name_of_an_object_is_not_written_through(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path, overwrite: str
) -> None:
    out = shoal_command.out
    out.mkdir()
    links = {"last": surroundings / "precious", "dangling": surroundings / "absent"}
    for name, target in links.items():
        (out / name).symlink_to(target)
    objects = numbered(10)
    server = service(fault_server, objects, list(links))
    outcome = shoal_command.copy(server, "--overwrite", overwrite)
    found = tree(out)
    if overwrite == "never":
        assert outcome.code == 1, outcome
        assert found == objects | {name: os.fsencode(target) for name, target in links.items()}
        assert {failure["kind"] for failure in outcome.report["failures"]} <= {"exists", "name-conflict", "unsafe-name"}
    else:  # the link itself may be replaced, never what it points to
        for name, target in links.items():
            assert found.pop(name) in (b"hostile", os.fsencode(target))
        assert found == objects
    assert_balanced(outcome.report)


@pytest.mark.parametrize("where", [".shoal", ".shoal/tmp", ".shoal/journal.db"])
def test_a_link_in_place_of_the_journal_stops_the_run(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path, where: str
) -> None:
    link = shoal_command.out / where
    link.parent.mkdir(parents=True)
    link.symlink_to(surroundings / "precious" if where.endswith("db") else surroundings)
    outcome = shoal_command.copy(service(fault_server, numbered(10), []))
    assert outcome.code == 3, outcome
    assert outcome.error["message"], outcome


def test_the_destination_itself_may_be_a_link(shoal_command: Shoal, fault_server: MakeServer) -> None:
    (shoal_command.directory / "real").mkdir()
    shoal_command.out.symlink_to("real")
    objects = numbered(10) | {"a/b": b"below"}
    outcome = shoal_command.copy(service(fault_server, objects, []))
    assert_arrived(outcome, objects)
    assert shoal_command.out.is_symlink()


@pytest.mark.parametrize("order", [["a", "a/b"], ["a/b", "a"], ["a/b/c", "a/b"]])
def test_of_a_file_and_a_directory_with_one_name_the_second_fails(
    shoal_command: Shoal, fault_server: MakeServer, order: list[str]
) -> None:
    objects = numbered(10)
    outcome = shoal_command.copy(service(fault_server, objects, order), "--workers", "1")
    assert_arrived(outcome, {order[0]: b"hostile", **objects}, {order[1]: ("name-conflict", "exists")})


# Names that are odd and legal


@pytest.mark.parametrize("names", several(rows("legal")))
def test_odd_names_arrive_under_exactly_these_names(
    shoal_command: Shoal, fault_server: MakeServer, surroundings: Path, names: list[str]
) -> None:
    objects = {name: name.encode() + b"\n" for name in names}
    server = fault_server(objects).start()
    assert_arrived(shoal_command.copy(server), objects)
    sent = {request.target for request in server.requests if not request.is_list}
    assert sent == {"/get/" + quote(name, safe="/-._~") for name in names}
    assert_status_is_quiet(shoal_command, {})


def test_with_encode_slash_a_slash_is_sent_encoded(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = {"a/b c": b"1"}
    server = fault_server(objects).start()
    assert_arrived(shoal_command.copy(server, "--encode-slash"), objects)
    assert server.requests[-1].target == "/get/a%2Fb%20c"


@pytest.mark.parametrize("names", several(rows("legal")))
def test_odd_names_that_fail_are_shown_escaped(
    shoal_command: Shoal, fault_server: MakeServer, names: list[str]
) -> None:
    server = fault_server({})
    server.names = names
    server.start()
    assert_arrived(shoal_command.copy(server), {}, dict.fromkeys(names, "vanished"))
    assert_status_is_quiet(shoal_command, dict.fromkeys(names, ("vanished",)))


def test_what_a_server_says_is_shown_escaped(shoal_command: Shoal, fault_server: MakeServer) -> None:
    evil = "\x1b]0;owned\x07 \u202e".encode().decode("latin-1")
    answers = {
        "reason": faults.raw(f"HTTP/1.1 404 {evil}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"), then="fin"),
        "location": faults.raw(head(302, {"Location": f"/{evil}", "Content-Length": "0"}), then="fin"),
        "type": faults.raw(head(200, {"Content-Type": f"text/{evil}", "Content-Length": "0"}), then="fin"),
        "body": faults.status(400, evil.encode("latin-1")),
        "garbage": faults.raw(evil.encode("latin-1") + b"\r\n\r\n", then="fin"),
    }
    objects = numbered(10)
    server = fault_server({**dict.fromkeys(answers, b""), **objects})
    for name, fault in answers.items():
        server.on_object(name, fault)
    server.start()
    outcome = shoal_command.copy(server, "--expect-type", "application/*", "--max-retries", "0")
    # Control characters in a head also make it malformed, which is as good a cause.
    assert_arrived(outcome, objects, dict.fromkeys(answers, ("vanished", "bad-answer", "protocol", "disconnected")))
    assert_status_is_quiet(
        shoal_command, dict.fromkeys(answers, ("vanished", "bad-answer", "protocol", "disconnected"))
    )


@pytest.mark.parametrize("page", [{"NextMarker": "\x1b]0;owned\x07\u202e"}, {"FileNames": "\x1b]0;owned\x07"}])
def test_a_broken_listing_is_shown_escaped(
    shoal_command: Shoal, fault_server: MakeServer, page: dict[str, object]
) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.page(["a"], **page), times=1)
    server.on_list(faults.status(404))
    server.start()
    outcome = shoal_command.copy(server)
    assert outcome.code == 3, outcome
    assert_quiet_bytes(outcome.stdout)
    assert_quiet_bytes(outcome.stderr)


def run_in_terminal(shoal: Shoal, *arguments: str | Path) -> Outcome:
    """Runs the command on a terminal of its own; what it showed is in `stdout`."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 1000, 0, 0))
    command = [sys.executable, "-m", "shoal", *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm"}, close_fds=True
    ) as process:
        os.close(theirs)
        received = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # how Linux tells that the other side has gone
                break
            received += piece
    os.close(ours)
    return Outcome(command, process.returncode, received.decode("utf-8", "replace"), "", 0, shoal.out)


def test_a_terminal_gets_no_sequence_from_a_name(shoal_command: Shoal, fault_server: MakeServer) -> None:
    names = ["x\x1b]0;owned\x07y", "rtl\u202egpj.exe", "c1\u009b31m", "line\nbreak", "[bold]markup[/bold]"]
    server = fault_server(numbered(200))
    server.names = [*names, *server.objects]
    server.start()
    options = [option for option in DEFAULTS if option != "--json"]
    outcome = run_in_terminal(shoal_command, "copy", server.url, shoal_command.out, *options)
    assert outcome.code == 1, outcome
    for raw in ("\x1b]0;owned", "\u202e", "\u009b31m", "line\nbreak", "line\r\nbreak"):
        assert raw not in outcome.stdout, outcome
    assert "x\\x1b]0;owned\\x07y" in outcome.stdout, outcome
    assert "[bold]markup[/bold]" in outcome.stdout, outcome
    status = run_in_terminal(shoal_command, "status", shoal_command.out)
    for raw in ("\x1b]0;owned", "\u202e", "\u009b31m"):
        assert raw not in status.stdout, status
