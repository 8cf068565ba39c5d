"""`shoal status` and `shoal.status`: what the journal says, whoever is at work."""

from __future__ import annotations

import csv
import datetime as dt
import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

import shoal as package
from servers.ports import mute_port

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Service

pytestmark = pytest.mark.disk


def copy_with_failures(service: Service, destination: Path, failures: int) -> str:
    """Copies 100 objects into a place where some names are taken; returns the URL."""
    destination.mkdir()
    for number in range(failures):
        (destination / f"object-{number:09}").write_text("mine")
    url = service(synthetic="100:10").url
    assert package.copy(url, destination, on_error="record").failed == failures
    return url


def test_status_has_the_counts_the_times_and_the_failures(service: Service, tmp_path: Path) -> None:
    url = copy_with_failures(service, tmp_path / "out", 7)

    status = package.status(tmp_path / "out", failures=3)

    assert status.owner is None
    assert status.path == str(tmp_path / "out")
    (run,) = status.runs
    assert run.source == url
    assert run.completed is not None
    assert abs(dt.datetime.now(dt.UTC) - run.started) < dt.timedelta(minutes=5)
    assert run.sessions == 1
    assert run.total == package.Counts(listed=100, written=93, skipped=0, failed=7, unfinished=0, bytes=930)
    assert [failure.kind for failure in run.failures] == ["exists"] * 3
    assert len(package.status(tmp_path / "out", failures=None).runs[0].failures) == 7


def test_the_command_prints_counts_and_the_first_failures(shoal: Command, service: Service) -> None:
    url = copy_with_failures(service, shoal.directory / "out", 7)

    done = shoal.run("status", "out")

    assert done.returncode == 0
    assert done.stderr == ""
    assert f"{url} into out: complete since " in done.stdout
    assert "93 written (930 bytes), 100 listed" in done.stdout
    assert "7 objects failed" in done.stdout
    assert done.stdout.count('  "object-') == 5
    assert "... and 2 more: --failures all" in done.stdout


def test_a_retry_that_was_stopped_is_not_complete_and_its_objects_are_named(shoal: Command) -> None:
    out = shoal.directory / "out"
    with mute_port() as port:
        urls = shoal.directory / "list"
        urls.write_text("".join(f"http://127.0.0.1:{port}/{n}\n" for n in range(3)))
        source = package.urls(urls, timeout=0.5, retry_timeout=0.5)
        assert package.copy(source, out, on_error="record").failed == 3
        assert package.status(out).runs[0].completed is not None
        with shoal.start("copy", "--urls", urls, out) as retrying:
            while package.status(out).runs[0].deferred < 3:
                time.sleep(0.02)
            retrying.send_signal(signal.SIGKILL)

    (run,) = package.status(out).runs
    assert (run.completed, run.deferred, run.total.unfinished, run.total.failed) == (None, 3, 3, 0)
    assert not shoal.last_json(shoal.run("status", "out", "--json"))["ok"]
    assert "not complete" in shoal.run("status", "out").stdout
    rows = list(csv.DictReader(shoal.run("status", "out", "--csv").stdout.splitlines()))
    assert sorted((row["state"], row["name"]) for row in rows) == [("deferred", str(n)) for n in range(3)]
    assert all("no complete answer" in row["reason"] for row in rows)


def test_all_failures_are_printed_when_asked_for(shoal: Command, service: Service) -> None:
    copy_with_failures(service, shoal.directory / "out", 7)
    assert shoal.run("status", "out", "--failures", "all").stdout.count('  "object-') == 7
    assert shoal.run("status", "out", "--failures", "0").stdout.count('  "object-') == 0


def test_json_has_all_of_it_with_one_line_for_each_failure(shoal: Command, service: Service) -> None:
    copy_with_failures(service, shoal.directory / "out", 7)

    done = shoal.run("status", "out", "--json", "--failures", "all")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["failure"] * 7 + ["report"]
    assert {line["name"] for line in lines[:-1]} == {f"object-{number:09}" for number in range(7)}
    assert lines[-1]["runs"][0]["written"] == 93
    assert lines[-1]["path"] == "out"


def test_status_may_be_asked_while_a_run_is_at_work(shoal: Command, service: Service) -> None:
    url = service(synthetic="1000000:100").url
    process = shoal.start("copy", url, "out", "--limit-rate", "1MB")
    deadline = time.monotonic() + 20
    while True:
        done = shoal.run("status", "out", "--json")
        status = shoal.last_json(done)
        if done.returncode == 0 and status["runs"] and status["runs"][0]["written"]:
            break
        assert time.monotonic() < deadline, done
        time.sleep(0.1)

    assert status["owner"]["pid"] == process.pid
    assert status["runs"][0]["completed"] is None
    text = shoal.run("status", "out").stdout
    assert f"pid {process.pid} on " in text
    assert "not complete" in text

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert "not running" in shoal.run("status", "out").stdout


def test_two_runs_into_one_destination_are_two_runs(shoal: Command, service: Service) -> None:
    first, second = service(synthetic="10:10").url, service(synthetic="10:10").url
    shoal.run("copy", first, "out")
    shoal.run("copy", second, "out")

    assert {run.source for run in package.status(shoal.directory / "out").runs} == {first, second}
    text = shoal.run("status", "out").stdout
    assert f"{first} into out" in text
    assert f"{second} into out" in text


def test_an_attempt_that_listed_nothing_is_not_shown_and_does_not_bind(shoal: Command, service: Service) -> None:
    url = service(synthetic="10:10").url
    mistyped = ("copy", url, "out", "--list-path", "/lsit")
    assert shoal.run(*mistyped).returncode == 3
    assert shoal.run(*mistyped, "--include", "*9").returncode == 3

    assert package.status(shoal.directory / "out").runs == ()
    done = shoal.run("status", "out", "--exit-code")
    assert (done.returncode, done.stdout) == (1, "out: no run has listed anything yet\n")
    assert shoal.run("copy", url, "out", "--include", "*9").returncode == 0
    text = shoal.run("status", "out", "--exit-code")
    assert text.returncode == 0
    assert "lsit" not in text.stdout
    assert "1 written" in text.stdout
    assert "other options" in shoal.run("copy", url, "out").stderr, "a run that has listed something binds"


def test_the_history_of_rates_is_drawn(shoal: Command, service: Service) -> None:
    shoal.run("copy", service(synthetic="3000:100").url, "out", "--limit-rate", "75kB")
    text = shoal.run("status", "out", PYTHONUTF8="1").stdout
    assert "objects per second: " in text
    assert "█" in text
    assert "peak " in text
    assert shoal.run("status", "out", PYTHONUTF8="0", PYTHONIOENCODING="ascii").stdout.isascii()


def test_no_journal_is_said_so(shoal: Command) -> None:
    done = shoal.run("status", "nowhere", "--json")

    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "no journal" in done.stderr
    assert shoal.last_json(done)["kind"] == "config"
    with pytest.raises(package.NotFoundError, match="no journal"):
        package.status(shoal.directory)


def test_a_number_of_failures_that_is_none_is_refused(shoal: Command) -> None:
    done = shoal.run("status", ".", "--failures", "some")
    assert done.returncode == 2
    assert "neither a number nor 'all'" in done.stderr
    with pytest.raises(package.ConfigError):
        package.status(shoal.directory, failures=-1)


def test_a_reader_that_goes_away_is_no_error(shoal: Command, service: Service) -> None:
    destination = shoal.directory / "out"
    destination.mkdir()
    for number in range(3000):
        (destination / f"object-{number:09}").write_text("mine")
    package.copy(service(synthetic="3000:10").url, destination, on_error="record")

    process = shoal.start("status", "out", "--failures", "all")
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=10) == 0
