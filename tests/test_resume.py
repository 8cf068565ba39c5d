"""The same command again goes on: with the same options, by one process at a time, also with the failures alone."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

import shoal as package
from conftest import PATIENCE, Command, Service
from waiting import wait_until

pytestmark = pytest.mark.disk


def test_a_second_run_on_one_destination_is_refused_and_names_the_first(shoal: Command, service: Service) -> None:
    server = service(synthetic="200000:100")
    first = shoal.start("copy", server.url, "out", "--limit-rate", "100kB")
    wait_until(
        lambda: (shoal.directory / "out" / ".shoal" / "lock").exists() and any(shoal.directory.glob("out/object*"))
    )
    second = shoal.run("copy", server.url, "out")
    assert second.returncode == 3
    assert str(first.pid) in second.stderr, second.stderr
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = shoal.start("copy", server.url, "out", "--limit-rate", "100kB")
    # The lock of a dead process is no lock.
    wait_until(lambda: (owner := package.status(shoal.directory / "out").owner) is not None and owner.pid == third.pid)
    third.send_signal(signal.SIGINT)
    assert third.wait(timeout=PATIENCE) == 130


def test_a_second_run_on_one_destination_is_refused_although_its_journal_is_another(
    shoal: Command, service: Service
) -> None:
    url = service(synthetic="200000:100").url
    first = shoal.start("copy", url, "out", "--journal", "first.db", "--limit-rate", "100kB")
    wait_until(lambda: any(shoal.directory.glob("out/object*")))
    second = shoal.run("copy", url, "out", "--journal", "second.db")
    assert second.returncode == 3
    assert str(first.pid) in second.stderr, second.stderr
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=PATIENCE) == 130


def test_other_options_are_refused_with_the_difference_unless_all_is_listed_anew(
    shoal: Command, service: Service
) -> None:
    url = service(synthetic="300:10").url
    assert shoal.run("copy", url, "out").returncode == 0
    refused = shoal.run("copy", url, "out", "--exclude", "*7")
    assert refused.returncode == 3
    assert "exclude" in refused.stderr
    assert "*7" in refused.stderr
    assert "update" in refused.stderr
    assert shoal.run("copy", url, "out", "--exclude", "*7", "--update").returncode == 0


def test_another_source_is_another_run_and_never_replaces_what_is_there(shoal: Command, service: Service) -> None:
    assert shoal.run("copy", service(synthetic="100:10").url, "out").returncode == 0
    longer = shoal.run("copy", service(synthetic="150:20").url, "out", "--json")
    assert longer.returncode == 1
    report = shoal.last_json(longer)
    assert (report["written"], report["failed"]) == (50, 100)
    assert {failure["kind"] for failure in report["failures"]} == {"exists"}
    assert (shoal.directory / "out" / "object-000000000").stat().st_size == 10


def test_update_replaces_what_it_wrote(shoal: Command, tmp_path: Path, service: Service) -> None:
    (tmp_path / "source").mkdir()
    for number in range(50):
        (tmp_path / "source" / f"file-{number}").write_text("old")
    url = service(tmp_path / "source").url
    assert shoal.run("copy", url, "out").returncode == 0
    for number in range(60):
        (tmp_path / "source" / f"file-{number}").write_text("newer")
    unchanged = shoal.run("copy", url, "out")
    assert "complete" in unchanged.stderr
    assert "--update" in unchanged.stderr
    again = shoal.run("copy", url, "out", "--update", "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["total"]["written"] == 60
    assert {path.read_text() for path in (tmp_path / "out").glob("file-*")} == {"newer"}


def test_update_after_names_came_in_before_all_others_still_replaces_everything(
    shoal: Command, tmp_path: Path, service: Service
) -> None:
    # Far more new names than the journal's mark runs ahead: the old ones move to partitions never handed out before.
    source = tmp_path / "source"
    source.mkdir()
    for number in range(100):
        (source / f"z-{number}").write_text("old")
    url = service(source, page_size=1).url
    assert shoal.run("copy", url, "out").returncode == 0
    for number in range(100):
        (source / f"z-{number}").write_text("newer")
    for number in range(1500):
        (source / f"a-{number}").write_text("new")
    again = shoal.run("copy", url, "out", "--update", "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["written"] == 1600
    assert {path.read_text() for path in (tmp_path / "out").glob("z-*")} == {"newer"}


def test_retry_failed_runs_the_failures_and_nothing_else(shoal: Command, tmp_path: Path, service: Service) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(200):
        (source / f"file-{number}").write_text(f"content {number}")
    log = tmp_path / "access.log"
    server = service(source, access_log=log)
    blocked = tmp_path / "out" / "file-7"
    blocked.mkdir(parents=True)  # a directory stands where the file should go
    first = shoal.run("copy", server.url, "out", "--json")
    assert first.returncode == 1
    assert [failure["kind"] for failure in shoal.last_json(first)["failures"]] == ["name-conflict"]
    blocked.rmdir()
    second = shoal.run("copy", server.url, "out", "--retry-failed", "--json")
    assert second.returncode == 0, second.stderr
    report = shoal.last_json(second)
    assert (report["listed"], report["written"]) == (1, 1)
    assert report["total"]["written"] == 200
    assert report["total"]["failed"] == 0
    server.stop()
    assert log.read_text().count("/get/") == 201
    assert log.read_text().count("/list") == 1


@pytest.mark.parametrize("limit", [64, 80])
def test_few_file_descriptors_mean_fewer_workers_and_no_failure(shoal: Command, service: Service, limit: int) -> None:
    url = service(synthetic="3000:100").url
    done = subprocess.run(
        [*shoal.argv, "copy", url, "out", "--workers", "200", "--json"],
        cwd=shoal.directory,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    report = shoal.last_json(done)
    assert (report["written"], report["failed"]) == (3000, 0)
    assert report["workers"] < limit


def test_a_small_soft_limit_of_descriptors_is_raised(shoal: Command, service: Service) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 256:
        pytest.skip("the hard limit of open files is small here")
    done = subprocess.run(
        [*shoal.argv, "copy", service(synthetic="3000:100").url, "null:", "--workers", "100", "--json"],
        cwd=shoal.directory,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard)),
    )
    assert done.returncode == 0, done.stderr
    assert shoal.last_json(done)["workers"] == 100


def test_a_file_size_limit_fails_the_large_object_and_no_other(
    shoal: Command, tmp_path: Path, service: Service
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(os.urandom(3 << 20))
    for number in range(50):
        (tmp_path / "source" / f"small-{number}").write_bytes(os.urandom(100))
    done = subprocess.run(
        [*shoal.argv, "copy", service(tmp_path / "source").url, "out", "--json"],
        cwd=shoal.directory,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)),
    )
    assert done.returncode == 1, done.stderr
    report = shoal.last_json(done)
    assert [(failure["name"], failure["kind"]) for failure in report["failures"]] == [("large", "too-large")]
    assert not (tmp_path / "out" / "large").exists()
    assert report["written"] == 50
