"""`shoal copy` and `shoal.copy`: every object arrives, once, and what is said of it is true."""

from __future__ import annotations

import datetime as dt
import http.server
import itertools
import json
import os
import pty
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import shoal as package
from destination import balanced
from shoal import _shoal
from terminal import rest_of
from trees import tree_of_raw_names

if TYPE_CHECKING:
    from conftest import Command, Service


def synthetic(number: int, size: int) -> bytes:
    """What the service's rule says an object holds, made apart from shoal."""
    line = f"object-{number:09}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def test_every_object_becomes_a_file_with_its_bytes(service: Service, tmp_path: Path) -> None:
    report = package.copy(service(synthetic="2500:100").url, tmp_path / "out", on_error="record")

    assert tree_of_raw_names(tmp_path / "out") == {f"object-{n:09}".encode(): synthetic(n, 100) for n in range(2500)}
    assert (report.listed, report.written, report.failed, report.unfinished) == (2500, 2500, 0, 0)
    assert report.bytes == 250_000
    assert report.complete
    assert report.completed_before is None
    assert balanced(report)
    assert balanced(report.total)
    assert report.workers >= 1
    assert report.workers_reason
    assert report.durability
    assert report.seconds > 0


def test_a_tree_with_odd_names_arrives_under_exactly_those_names(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "source"
    names = [
        "plain",
        "a/b/c",
        "with space",
        "new\nline",
        "x\x1b[31m",
        "100%",
        "%2e",
        "日本語",
        "CON",
        "q?a=b#c",
        "b" * 255,
    ]
    for number, name in enumerate(names):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * number)

    report = package.copy(service(source).url, tmp_path / "out")

    assert tree_of_raw_names(tmp_path / "out") == tree_of_raw_names(source)
    assert report.written == len(names)


def test_the_command_copies_and_reports_as_json(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="1000:10").url, "out", "--json")

    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    report = shoal.last_json(done)
    assert report["type"] == "report"
    assert report["listed"] == report["written"] == report["total"]["written"] == 1000
    assert report["bytes"] == 10_000
    assert report["complete"] is True
    assert report["failures"] == []
    assert len(tree_of_raw_names(shoal.directory / "out")) == 1000


def test_the_summary_goes_to_standard_error_and_data_alone_to_standard_output(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="1000:10").url, "out")

    assert done.returncode == 0
    assert done.stdout == ""
    assert "wrote 1,000 objects, 10 kB" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_how_it_was_done_is_said_on_request(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="1000:10").url, "out", "--verbose")

    assert "workers: " in done.stderr
    assert "durability: " in done.stderr


def test_quiet_says_nothing_of_a_run_that_went_well(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="10:10").url, "out", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet_tells_what_failed_and_that_nothing_was_done(shoal: Command) -> None:
    tree = shoal.directory / "tree"
    tree.mkdir()
    for number in range(30):
        (tree / f"{number:02}").write_text("x")
        (shoal.directory / "out" / f"{number:02}" / "in the way").mkdir(parents=True)
    (tree / "right").write_text("x")
    done = shoal.run("copy", "tree", "out", "-q")
    assert (done.returncode, done.stdout) == (1, "")
    first, *failures = done.stderr.splitlines()
    assert first.startswith("30 objects failed; to see them: shoal status out --failures all")
    assert len(failures) == 20
    assert all(line.startswith('  "') for line in failures)

    assert shoal.run("copy", "tree/right", "other", "-q").stderr == ""
    again = shoal.run("copy", "tree/right", "other", "-q")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.startswith("nothing to do: complete since ")
    assert "the source was not listed again (use --update)" in again.stderr


def test_log_format_json_says_everything_in_json(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="10:10").url, "out", "--log-format", "json", "--verbose")

    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["type"] for line in said] == ["start", "summary"]
    assert said[-1]["written"] == 10


def test_a_complete_run_run_again_fetches_nothing_and_says_so(shoal: Command, service: Service) -> None:
    server = service(synthetic="1000:10")
    assert shoal.run("copy", server.url, "out").returncode == 0
    before = server.stats.requests

    again = shoal.run("copy", server.url, "out")

    assert again.returncode == 0
    assert "nothing to do: complete since 20" in again.stderr
    assert "1,000 objects; the source was not listed again (use --update)" in again.stderr
    assert server.stats.requests == before

    anew = shoal.run("copy", server.url, "out", "--restart", "--json")
    assert anew.returncode == 0
    assert shoal.last_json(anew)["listed"] == 1000
    assert server.stats.requests > before


def test_a_complete_run_run_again_says_when_it_was_completed(service: Service, tmp_path: Path) -> None:
    server = service(synthetic="10:10")
    package.copy(server.url, tmp_path / "out")

    report = package.copy(server.url, tmp_path / "out")

    assert report.completed_before is not None
    assert abs(dt.datetime.now(dt.UTC) - report.completed_before) < dt.timedelta(minutes=5)
    assert (report.listed, report.total.written) == (0, 10)
    assert report.complete


def test_a_file_that_shoal_did_not_write_stays_and_is_a_failure(shoal: Command, service: Service) -> None:
    server = service(synthetic="10:20")
    mine = shoal.directory / "out" / "object-000000003"
    mine.parent.mkdir()
    mine.write_text("mine")

    done = shoal.run("copy", server.url, "out", "--json")

    report = shoal.last_json(done)
    assert done.returncode == 1
    assert (report["written"], report["failed"], report["unfinished"]) == (9, 1, 0)
    assert report["failures"][0]["name"] == "object-000000003"
    assert report["failures"][0]["kind"] == "exists"
    assert mine.read_text() == "mine"
    assert "1 object failed" in done.stderr
    assert '"object-000000003": ' in done.stderr

    # Nothing was repaired, so the same command again must not look like success.
    assert shoal.run("copy", server.url, "out").returncode == 1

    mine.unlink()
    retried = shoal.run("copy", server.url, "out", "--retry-failed", "--json")
    assert retried.returncode == 0
    assert shoal.last_json(retried)["total"]["failed"] == 0
    assert mine.read_bytes() == synthetic(3, 20)


def test_overwrite_always_replaces_a_file_that_shoal_did_not_write(service: Service, tmp_path: Path) -> None:
    mine = tmp_path / "out" / "object-000000003"
    mine.parent.mkdir()
    mine.write_text("mine")

    report = package.copy(service(synthetic="10:20").url, tmp_path / "out", overwrite="always", on_error="record")

    assert report.failed == 0
    assert mine.read_bytes() == synthetic(3, 20)


def test_no_output_shows_a_name_raw(shoal: Command, service: Service) -> None:
    name = "x\x1b[31m\x7f\u202e"
    for directory, text in (("source", "theirs"), ("out", "mine")):
        (shoal.directory / directory).mkdir()
        (shoal.directory / directory / name).write_text(text)

    server = service(shoal.directory / "source")
    done = shoal.run("copy", server.url, "out", "--json")
    status = shoal.run("status", "out", "--failures", "all")
    status_json = shoal.run("status", "out", "--failures", "all", "--json")

    assert done.returncode == 1
    assert shoal.last_json(done)["failures"][0]["name"] == name
    for text in (done.stdout, done.stderr, status.stdout, status.stderr, status_json.stdout):
        assert not any(character in text for character in "\x1b\x7f\u202e")
    assert "x\\x1b[31m\\x7f\\u{202e}" in done.stderr
    assert "x\\x1b[31m\\x7f\\u{202e}" in status.stdout


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain 日本語", "plain 日本語"),
        ("x\x1b[31m", "x\\x1b[31m"),
        (b"\xff\n", "\\xff\\n"),
        (os.fsdecode(b"\xff"), "\\xff"),
        ("\ud800", "\\\\ud800"),  # a surrogate that stands for no byte, as Python writes it
    ],
)
def test_a_name_is_escaped_wherever_it_came_from(name: str | bytes, shown: str) -> None:
    assert _shoal.escape(name) == shown


def test_include_and_exclude_choose_names(service: Service, tmp_path: Path) -> None:
    report = package.copy(
        service(synthetic="100:10").url, tmp_path / "out", include="object-00000001*", exclude=["*3", "*4"]
    )

    assert sorted(tree_of_raw_names(tmp_path / "out")) == [
        f"object-{n:09}".encode() for n in range(10, 20) if n not in (13, 14)
    ]
    assert (report.listed, report.written, report.skipped) == (100, 8, 92)


def test_null_counts_and_drops(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="1000:100").url, "null:", "--json")

    assert done.returncode == 0
    assert shoal.last_json(done)["bytes"] == 100_000
    assert list(shoal.directory.iterdir()) == []


def test_a_journal_elsewhere_lets_null_resume(service: Service, tmp_path: Path) -> None:
    server = service(synthetic="10:10")
    package.copy(server.url, "null:", journal=tmp_path / "journal")
    assert package.copy(server.url, "null:", journal=tmp_path / "journal").completed_before is not None
    assert package.status(tmp_path / "journal").runs[-1].total.written == 10


def test_on_error_stop_ends_at_the_first_failure(service: Service, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "object-000000000").write_text("mine")

    with pytest.raises(package.ObjectError) as caught:
        package.copy(service(synthetic="10:10").url, tmp_path / "out", on_error="stop")

    assert caught.value.kind == "exists"
    assert caught.value.name == "object-000000000"
    assert caught.value.report is not None
    assert not caught.value.report.complete


def test_progress_is_told_what_is_true_and_not_too_often(service: Service, tmp_path: Path) -> None:
    seen: list[tuple[float, package.Progress]] = []
    report = package.copy(
        service(synthetic="5000:100").url,
        tmp_path / "out",
        limit_rate=500_000,
        progress=lambda progress: seen.append((time.monotonic(), progress)),
    )

    times = [at for at, _ in seen]
    assert len(seen) >= 3
    assert min(late - early for early, late in itertools.pairwise(times)) > 0.09
    states = [state for _, state in seen]
    assert all(isinstance(state, package.Progress) for state in states)
    assert [state.run.written for state in states] == sorted(state.run.written for state in states)
    assert all(balanced(state.run) for state in states)
    assert states[-1].done <= report.written


@pytest.mark.timing
def test_an_exception_in_the_progress_function_stops_the_run_and_comes_out(service: Service, tmp_path: Path) -> None:
    class OfMyOwnError(Exception):
        pass

    def progress(_: package.Progress) -> None:
        raise OfMyOwnError

    server = service(synthetic="1000000:100")
    began = time.monotonic()
    with pytest.raises(OfMyOwnError) as caught:
        package.copy(server.url, tmp_path / "out", limit_rate="100kB", progress=progress)

    assert time.monotonic() - began < 3
    assert balanced(caught.value.report)  # type: ignore[attr-defined]  # attached to whatever ends a run
    # The journal is intact, and nobody holds it.
    assert package.status(tmp_path / "out").owner is None


def test_a_progress_function_may_start_another_run(service: Service, tmp_path: Path) -> None:
    server = service(synthetic="2000:100")
    inner: list[package.Report] = []

    def progress(_: package.Progress) -> None:
        if not inner:
            inner.append(package.copy(server.url, tmp_path / "inner"))

    outer = package.copy(server.url, tmp_path / "outer", limit_rate=400_000, progress=progress)

    assert outer.written == inner[0].written == 2000


def test_runs_in_several_threads_do_not_disturb_each_other(service: Service, tmp_path: Path) -> None:
    server = service(synthetic="2000:10")
    reports: list[package.Report] = []
    threads = [
        threading.Thread(target=lambda n=n: reports.append(package.copy(server.url, tmp_path / f"out{n}")))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [report.written for report in reports] == [2000] * 4


class OddService(http.server.BaseHTTPRequestHandler):
    """A list/get service with other paths and fields, and a secret."""

    names: ClassVar = [f"d/{n}.txt" for n in range(25)]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if self.headers["X-Secret"] != "open sesame":
            self.answer(401, b"")
        elif parts.path == "/v1/names":
            after = int(parse_qs(parts.query).get("after", ["0"])[0])
            page: dict[str, object] = {"items": self.names[after : after + 10]}
            if after + 10 < len(self.names):
                page["cursor"] = str(after + 10)
            self.answer(200, json.dumps(page).encode())
        elif "%2F" in parts.path and unquote(parts.path).removeprefix("/v1/raw/") in self.names:
            self.answer(200, b"bytes of " + unquote(parts.path).encode())
        else:
            self.answer(404, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        pass


@pytest.fixture
def odd_service() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OddService)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


ODD = {"list_path": "/names", "get_path": "/raw/{name}", "names_field": "items", "next_field": "cursor"}


@pytest.mark.parametrize("path", ["/raw", "/raw/{name}?of={name}"])
def test_46_the_path_of_an_object_has_its_name_once(shoal: Command, path: str) -> None:
    wrong = shoal.run("copy", "http://127.0.0.1:1/", "out", "--get-path", path)
    assert wrong.returncode == 2, wrong
    assert "must contain {name} exactly once" in wrong.stderr


def test_a_service_that_speaks_differently_is_described_by_list_get(odd_service: str, tmp_path: Path) -> None:
    source = package.list_get(
        odd_service,
        **ODD,  # type: ignore[arg-type]
        marker_param="after",
        headers={"X-Secret": "open sesame"},
        encode_slash=True,
    )
    report = package.copy(source, tmp_path / "out")

    assert report.written == 25
    assert (tmp_path / "out/d/7.txt").read_bytes() == b"bytes of /v1/raw/d/7.txt"


def test_a_service_that_speaks_differently_is_described_by_flags(shoal: Command, odd_service: str) -> None:
    (shoal.directory / "secrets").write_text("X-Secret: open sesame\n")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in ODD.items()]
    more = ["--marker-param=after", "--encode-slash", "--header", "@secrets"]

    done = shoal.run("copy", odd_service, "out", *flags, *more)

    assert done.returncode == 0, done.stderr
    assert (shoal.directory / "out/d/24.txt").read_bytes() == b"bytes of /v1/raw/d/24.txt"


def test_no_secret_is_shown_or_kept(shoal: Command, odd_service: str) -> None:
    secrets = ["hunter2", "tok3n", "s3cret"]
    url = odd_service.replace("//", "//me:hunter2@") + "?sig=tok3n"
    arguments = [odd_service, "out", "--header", "X-Secret: s3cret", "--names-field", "items", "--list-path", "/names"]
    refused = shoal.run("copy", *arguments, "--verbose", "--json")
    with_password = shoal.run("copy", url, "out2", "--verbose", "--json")

    assert refused.returncode == 3
    assert shoal.last_json(refused)["kind"] == "credentials"
    assert with_password.returncode in (2, 3)
    said = refused.stdout + refused.stderr + with_password.stdout + with_password.stderr
    kept = b"".join(path.read_bytes() for path in shoal.directory.rglob("*") if path.is_file())
    for secret in secrets:
        assert secret not in said
        assert secret.encode() not in kept


def test_the_description_of_a_service_shows_no_secret() -> None:
    source = package.list_get("http://me:hunter2@host/base?sig=tok3n", headers={"Authorization": "Bearer s3cret"})
    for text in (repr(source), str(source)):
        assert "Authorization" in text
        assert "http://host/base" in text
        assert not any(secret in text for secret in ("hunter2", "tok3n", "s3cret"))


def read_terminal(arguments: list[str], directory: Path) -> tuple[int, bytes]:
    """Runs a command on a terminal of its own; returns the exit code and all that the terminal got."""
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover  # the child becomes the command
        os.chdir(directory)
        os.execvpe(arguments[0], arguments, os.environ | {"TERM": "xterm", "COLUMNS": "100"})
    seen = rest_of(terminal)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), seen


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # pty forks while the service has threads
def test_progress_is_drawn_on_a_terminal_and_wiped_away(shoal: Command, service: Service) -> None:
    url = service(synthetic="5000:100").url
    code, seen = read_terminal([*shoal.argv, "copy", url, "out", "--limit-rate", "200kB"], shoal.directory)

    assert code == 0
    assert b" in flight" in seen
    assert b"of 5,000 objects" in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")  # the cursor is back
    assert b"wrote 5,000 objects" in seen[seen.rindex(b"\x1b[?25h") :]


def test_nothing_is_drawn_where_there_is_no_terminal(shoal: Command, service: Service) -> None:
    done = shoal.run("copy", service(synthetic="2000:100").url, "out", "--limit-rate", "200kB")
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    assert " in flight" not in done.stderr
