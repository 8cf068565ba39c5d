"""A script can trust a report: `ok` and `failed` tell of all that is missing, whichever run missed it."""

from __future__ import annotations

import signal
import zipfile
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Command, Service
    from shoal._options import Resume

GENERATE = """
import os
def text(number):
    if number == 3 and not os.path.exists("mended"):
        raise ValueError("not today")
    return str(number)
"""


def copy(place: Path, *, resume: Resume = "once") -> package.Report:
    """Copies 10 files, one of which has its place taken by a directory."""
    tree = place / "tree"
    if not tree.exists():
        tree.mkdir()
        for number in range(10):
            (tree / f"{number}").write_text(f"{number}")
        (place / "out" / "3").mkdir(parents=True)
    return package.copy(tree, place / "out", resume=resume, on_error="record")


def mend_copy(place: Path) -> None:
    (place / "out" / "3").rmdir()


def unzip(place: Path, *, resume: Resume = "auto") -> package.Report:
    """Unpacks 10 entries, with the same in the way."""
    archive = place / "a.zip"
    if not archive.exists():
        with zipfile.ZipFile(archive, "w") as made:
            for number in range(10):
                made.writestr(f"{number}", f"{number}")
        (place / "out" / "3").mkdir(parents=True)
    return package.unzip(archive, place / "out", resume=resume, on_error="record")


RUNS = {"copy": copy, "unzip": unzip}


@pytest.mark.parametrize("run", RUNS)
def test_a_resumed_run_reports_the_failures_that_stand(tmp_path: Path, run: str) -> None:
    again: Callable[..., package.Report] = RUNS[run]
    first = again(tmp_path)
    assert (first.ok, first.failed, first.run.failed, first.written) == (False, 1, 1, 9)
    second = again(tmp_path)
    assert (second.ok, second.failed, second.run.failed, second.written) == (False, 1, 1, 0)
    assert [failure.name for failure in second.failures] == ["3"]
    retried = again(tmp_path, resume="failed")
    assert (retried.ok, retried.failed, retried.run.failed) == (False, 1, 1)
    mend_copy(tmp_path)
    mended = again(tmp_path, resume="failed")
    assert (mended.ok, mended.failed, mended.run.written, mended.total.written) == (True, 0, 1, 10)
    for report in (first, second, retried, mended):
        for counts in (report.run, report.total):
            assert counts.listed == counts.written + counts.skipped + counts.failed + counts.unfinished
        own = report.run
        assert (report.listed, report.written, report.skipped) == (own.listed, own.written, own.skipped)


def test_a_resumed_generate_reports_the_failures_that_stand(shoal: Command) -> None:
    (shoal.directory / "make.py").write_text(GENERATE)
    line = ("generate", "make:text", "10", "out", "--name", "{}", "--json")
    reports = []
    for options, code in (((), 1), ((), 1), (("--retry-failed",), 0), ((), 0)):
        if options:
            (shoal.directory / "mended").touch()
        done = shoal.run(*line, *options)
        assert done.returncode == code, done.stderr
        reports.append(shoal.last_json(done))
    assert [report["ok"] for report in reports] == [False, False, True, True]
    assert [report["failed"] for report in reports] == [1, 1, 0, 0]
    assert [report["run"]["failed"] for report in reports] == [1, 1, 0, 0], "the same command retries"
    assert [report["total"]["written"] for report in reports] == [9, 9, 10, 10]


def test_the_command_fails_and_its_json_is_not_ok_while_failures_stand(shoal: Command) -> None:
    assert not copy(shoal.directory).ok
    done = shoal.run("copy", "tree", "out", "--json")
    report = shoal.last_json(done)
    assert (done.returncode, report["ok"], report["failed"], report["run"]["failed"]) == (1, False, 1, 1)
    assert "1 object failed: " in done.stderr


def test_a_run_that_was_stopped_is_not_ok(shoal: Command, service: Service) -> None:
    url = service(synthetic="20000:1000").url
    process = shoal.start("copy", url, "out", "--limit-rate", "1MB", "--json")
    while not list(shoal.directory.glob("out/object-*")):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=30)[0]
    assert process.returncode == 130
    assert '"ok": false' in printed


def test_what_was_left_out_on_purpose_does_not_make_a_report_bad(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()
    (tmp_path / "tree" / "link").symlink_to("file")
    files = package.files(tmp_path / "tree", links="skip")
    report = package.copy(files, tmp_path / "out")
    assert (report.ok, report.written, report.skipped) == (True, 1, 1)
    with package.read(files) as reader:
        assert len(list(reader)) == 1
    assert reader.report is not None
    assert reader.report.ok
