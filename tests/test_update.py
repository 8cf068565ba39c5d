"""`resume="update"` and `dry_run`: the destination becomes what the source is, and nothing of others is touched."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import time
import warnings
from typing import TYPE_CHECKING

import pytest

import shoal as package
from conftest import PATIENCE, Command, Service
from trees import tree
from waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.disk


def make(directory: Path, numbers: range, text: str) -> None:
    directory.mkdir(exist_ok=True)
    for number in numbers:
        (directory / f"file-{number:04}").write_text(f"{text} {number}")
    time.sleep(0.05)  # the clock that stamps files moves in steps


def changes(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """What tells that a file or directory was changed, by path; not when it was last read."""
    states = {path: path.stat() for path in directory.rglob("*")}
    return {path: (state.st_ino, state.st_size, state.st_ctime_ns) for path, state in states.items()}


def has(path: Path, text: str) -> bool:
    return path.read_text().startswith(text)


def test_a_killed_update_goes_on_with_the_same_command_and_with_the_plain_one(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", shoal.directory / "out"
    make(source, range(2_000), "old")
    assert shoal.run("copy", source, out).returncode == 0
    edited = out / "file-1999"
    edited.write_text("mine")
    for turn, last in enumerate(([], ["--update"])):
        make(source, range(500, 2_000), f"new {turn}")
        killed = shoal.start("copy", source, out, "--update", "--limit-rate", "4kB")
        wait_until(functools.partial(has, out / "file-0600", f"new {turn}"))
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=PATIENCE)
        done = shoal.run("copy", source, out, *last, "--json")
        report = shoal.last_json(done)
        assert (done.returncode, report["failed"]) == (1, 1), done.stderr
        assert [failure["kind"] for failure in report["failures"]] == ["exists"]
        found = tree(out)
        assert found.pop("file-1999") == b"mine"
        assert found == {name: data for name, data in tree(source).items() if name != "file-1999"}


def test_an_archive_that_has_not_changed_is_unchanged_at_every_update(tmp_path: Path) -> None:
    make(tmp_path / "source", range(10), "old")
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path / "source")
    assert package.unzip([archive], tmp_path / "out").written == 10
    for turn in range(4):
        report = package.unzip([archive], tmp_path / "out", resume="update")
        assert (report.written, report.unchanged) == (0, 10), (turn, report)


def test_a_destination_need_not_be_utf_8(shoal: Command, tmp_path: Path) -> None:
    make(tmp_path / "source", range(3), "old")
    out = tmp_path / os.fsdecode(b"out\xff")
    assert shoal.run("copy", tmp_path / "source", out).returncode == 0
    assert package.copy(tmp_path / "source", out, resume="update").unchanged == 3


@pytest.mark.parametrize(
    "address", ["htp://u:SECRET@h/", "user:SECRET@host", "http://u:SEC/RET@h", "HTTP://u:SECRET@h:1"]
)
def test_no_message_shows_a_password_of_an_address(shoal: Command, address: str) -> None:
    for arguments in ((address, "out"), (".", address)):
        done = shoal.run("copy", *arguments, "--json", "--max-retries", "0", "--log-format", "json")
        assert done.returncode not in (0, 1)
        assert "SEC" not in done.stdout + done.stderr, done.stderr


def test_a_service_is_updated_by_the_bytes_of_its_objects(tmp_path: Path, service: Service) -> None:
    make(tmp_path / "source", range(100), "old")
    url = service(tmp_path / "source").url
    assert package.copy(url, tmp_path / "out").written == 100
    before = {path.name: path.stat().st_ino for path in (tmp_path / "out").glob("file-*")}
    make(tmp_path / "source", range(90, 110), "new")
    report = package.copy(url, tmp_path / "out", resume="update")
    assert (report.written, report.skipped, report.unchanged) == (20, 90, 90), report
    assert tree(tmp_path / "out") == tree(tmp_path / "source")
    after = {path.name: path.stat().st_ino for path in (tmp_path / "out").glob("file-*")}
    assert all(before[f"file-{number:04}"] == after[f"file-{number:04}"] for number in range(90)), "left as they were"


def test_options_that_are_not_bound_can_be_added_on_a_resume(tmp_path: Path) -> None:
    make(tmp_path / "source", range(10), "old")
    assert package.copy(tmp_path / "source", tmp_path / "out", keep_times=False).written == 10
    os.utime(tmp_path / "source/file-0000", (1_000_000_000, 1_000_000_000))
    assert package.copy(
        tmp_path / "source", tmp_path / "out", keep_times=True, overwrite="always", resume="once"
    ).completed_before
    report = package.copy(tmp_path / "source", tmp_path / "out", resume="update", keep_times=True)
    assert (report.failed, report.written) == (0, 10), report  # the bytes are the same; now the times arrive
    assert (tmp_path / "out/file-0000").stat().st_mtime == 1_000_000_000
    report = package.copy(tmp_path / "source", tmp_path / "out", resume="update", keep_times=True)
    assert (report.written, report.unchanged) == (0, 10), report


def test_a_dry_run_says_what_would_be_copied_and_creates_nothing(shoal: Command, tmp_path: Path) -> None:
    make(tmp_path / "source", range(20), "old")
    done = shoal.run("copy", tmp_path / "source", "out", "-n", "--exclude", "file-000*")
    assert done.returncode == 0, done.stderr
    assert "would copy 10 objects" in done.stderr
    assert not (shoal.directory / "out").exists()
    report = package.copy(tmp_path / "source", shoal.directory / "out", dry_run=True)
    assert (report.dry_run, report.ok, report.written, report.bytes) == (True, True, 20, None)
    assert not (shoal.directory / "out").exists()


def test_a_dry_run_of_an_update_says_that_it_compares_nothing(shoal: Command, tmp_path: Path) -> None:
    make(tmp_path / "source", range(20), "old")
    first = shoal.run("copy", tmp_path / "source", "out", "--update", "-n")
    assert "compares" not in first.stderr, "nothing is there to compare with"
    assert shoal.run("copy", tmp_path / "source", "out").returncode == 0
    before = changes(shoal.directory / "out")
    done = shoal.run("copy", tmp_path / "source", "out", "--update", "-n")
    assert "would copy 20 objects" in done.stderr
    assert "the update will skip those of these objects that have not changed" in done.stderr
    assert changes(shoal.directory / "out") == before


def test_a_finished_run_says_that_it_did_not_look_and_how_it_would(shoal: Command, tmp_path: Path) -> None:
    make(tmp_path / "source", range(3), "old")
    source = tmp_path / "source"
    assert shoal.run("copy", source, "out").returncode == 0
    updated = shoal.run("copy", source, "out")
    assert "3 skipped (3 unchanged)" in updated.stderr, updated.stderr
    assert "nothing to do: complete since" in shoal.run("copy", source, "out", "--once").stderr
    # What is not a tree is not listed again by itself.
    paths = [source / "file-0000", source / "file-0001"]
    for destination, advice in (("list", 'use `resume="update"`'), ("parquet:rows", "use a new directory")):
        target = destination.replace("rows", str(tmp_path / "rows")) if ":" in destination else tmp_path / destination
        assert package.copy(paths, target).not_listed is None
        with pytest.warns(package.ShoalWarning, match=advice) as caught:
            report = package.copy(paths, target)
        assert report.completed_before
        assert advice in (report.not_listed or "")
        assert caught[0].filename == __file__, "it points to the caller"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert package.copy(paths, target, resume="once").not_listed is None
    (tmp_path / "paths").mkdir()
    assert shoal.run("copy", source / "file-0000", tmp_path / "paths", "-q").stderr == ""
    quiet = shoal.run("copy", source / "file-0000", tmp_path / "paths", "-q")
    assert "the source was not listed again (use --update)" in quiet.stderr


def test_a_copy_that_was_edited_stays_and_is_counted_while_its_source_is_unchanged(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    make(source, range(6), "old")
    assert package.copy(source, out).ok
    (out / "file-0001").write_text("mine")
    (out / "file-0002").write_text("mine, too")
    make(source, range(2, 3), "new")
    (out / "file-0003").chmod(0o600)  # not its bytes
    (out / "file-0004").unlink()
    report = package.copy(source, out, on_error="record")
    assert (report.written, report.skipped, report.unchanged, report.failed) == (1, 4, 2, 1), report
    assert [(one.name, one.kind) for one in report.failures] == [("file-0002", "exists")], "both have changed"
    (run,) = package.status(out).runs
    assert run.skipped_by["edited"] == 1
    assert (out / "file-0001").read_text() == "mine"
    assert any("1 copy was changed at the destination" in note for note in report.notes)
    report = package.copy(source, out, overwrite="always")
    assert report.ok
    assert tree(out) == tree(source)


def test_a_backup_that_was_killed_ten_times_is_right_with_the_same_command(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", shoal.directory / "out"
    make(source, range(1_500), "old")
    for turn in range(10):
        make(source, range(turn * 100, turn * 100 + 300), f"turn {turn}")
        killed = shoal.start("copy", source, out, "--limit-rate", "100kB", "--workers", "2")
        seen = len(tree(out)) if out.is_dir() else 0
        wait_until(functools.partial(changed, killed, out, seen, turn))
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=PATIENCE)
    for _ in range(2):  # a first copy goes on where it was, and is updated by the next one
        assert shoal.run("copy", source, out).returncode == 0
    assert tree(out) == tree(source)


def changed(running: subprocess.Popen[str], out: Path, seen: int, turn: int) -> bool:
    """Whether a run has written something new, or has ended."""
    first = out / f"file-{turn * 100:04}"
    if running.poll() is not None or (first.exists() and has(first, f"turn {turn}")):
        return True
    return out.is_dir() and len(list(out.iterdir())) > seen + 20


def test_what_keeps_no_names_cannot_be_updated(tmp_path: Path) -> None:
    make(tmp_path / "source", range(3), "old")
    with pytest.raises(package.ConfigError, match="compare"):
        package.copy(tmp_path / "source", "null:", resume="update")
