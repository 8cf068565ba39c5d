"""`shoal unzip`: the command line, what it says and answers, and that the same command goes on after anything."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from trees import tree
from waiting import takes_signals, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

MANY = 12_000


def make_zip(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> dict[str, bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return entries


@pytest.fixture
def downloads(tmp_path: Path) -> dict[str, bytes]:
    """Three archives of a hundred entries each."""
    entries: dict[str, bytes] = {}
    for name in ("a", "b", "c"):
        new = {f"{name}/{number % 5}/{number}.txt": name.encode() * number * 30 for number in range(100)}
        entries |= make_zip(tmp_path / f"downloads/{name}.zip", new)
    return entries


def test_all_archives_are_unpacked_and_the_same_command_does_nothing_more(
    shoal: Command, downloads: dict[str, bytes]
) -> None:
    done = shoal.run("unzip", "downloads/*.zip", "-d", "out")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote 300 objects, ")
    assert tree(shoal.directory / "out") == downloads
    again = shoal.run("unzip", "downloads/*.zip", "-d", "out")
    assert again.returncode == 0
    assert again.stderr.startswith("nothing to do: complete since ")
    status = shoal.run("status", "out")
    assert "300 written" in status.stdout
    assert "complete since" in status.stdout


def test_archives_may_be_many_arguments_of_which_some_are_globs(shoal: Command, downloads: dict[str, bytes]) -> None:
    done = shoal.run("unzip", "downloads/a.zip", "downloads/[bc].zip", "--directory", "out", "--json")
    assert done.returncode == 0, done.stderr
    report = shoal.last_json(done)
    assert (report["type"], report["written"], report["failed"]) == ("report", 300, 0)
    assert tree(shoal.directory / "out") == downloads


@pytest.mark.parametrize("arguments", [[], ["-d", "out", "--test"]])
def test_where_to_is_asked_for(shoal: Command, downloads: dict[str, bytes], arguments: list[str]) -> None:
    done = shoal.run("unzip", "downloads/a.zip", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: use -d DIR to unpack, --test")
    assert not (shoal.directory / "out").exists()
    assert downloads


def test_no_archive_or_none_of_that_name_is_a_usage_error(shoal: Command, downloads: dict[str, bytes]) -> None:
    none = shoal.run("unzip", "-d", "out")
    assert none.returncode == 2
    assert "ARCHIVE" in none.stderr
    for missing in (["gone.zip"], ["downloads/a.zip", "gone.zip"]):
        done = shoal.run("unzip", *missing, "-d", "out")
        assert done.returncode == 2
        assert "gone.zip" in done.stderr
    assert not (shoal.directory / "out").exists()
    assert downloads


def test_a_glob_that_nothing_matches_is_said(shoal: Command, downloads: dict[str, bytes]) -> None:
    done = shoal.run("unzip", "nothing-*.zip", "--test")
    assert done.returncode == 2
    assert done.stderr.startswith('error: "nothing-*.zip": no file matches')
    some = shoal.run("unzip", "downloads/*.zip", "nothing-*.zip", "--test")
    assert some.returncode == 0
    assert 'note: no file matches "nothing-*.zip"' in some.stderr
    assert "300 entries are good" in some.stderr
    assert downloads


def test_test_checks_everything_and_writes_nothing(shoal: Command, downloads: dict[str, bytes]) -> None:
    before = sorted(shoal.directory.rglob("*"))
    done = shoal.run("unzip", "--test", "downloads/a.zip", "downloads/b.zip")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "200 entries are good"
    assert "durability" not in done.stderr
    hurt = os.urandom(1000)
    make_zip(shoal.directory / "hurt.zip", {"hurt": hurt, "fine": b"fine"}, zipfile.ZIP_STORED)
    data = (shoal.directory / "hurt.zip").read_bytes()
    (shoal.directory / "hurt.zip").write_bytes(data.replace(hurt, hurt[:500] + bytes([hurt[500] ^ 1]) + hurt[501:]))
    bad = shoal.run("unzip", "--test", "hurt.zip", "--json")
    assert bad.returncode == 1
    assert bad.stderr.splitlines()[0] == "1 entry is good, 1 failed"
    assert '"hurt"' in bad.stderr
    assert shoal.last_json(bad)["failures"][0]["kind"] == "integrity"
    assert sorted(path for path in shoal.directory.rglob("*") if path.name != "hurt.zip") == before
    assert downloads


def test_a_failure_is_named_and_tried_again_when_its_archive_was_mended(
    shoal: Command, downloads: dict[str, bytes]
) -> None:
    broken = shoal.directory / "downloads/b.zip"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-30])
    done = shoal.run("unzip", "downloads/*.zip", "-d", "out")
    assert done.returncode == 1
    assert '"b.zip": ' in done.stderr
    assert "1 object failed" in done.stderr
    assert "to see it: shoal status out --failures all; to retry: the same command with --update" in done.stderr
    assert tree(shoal.directory / "out") == {
        name: data for name, data in downloads.items() if not name.startswith("b/")
    }
    same = shoal.run("unzip", "downloads/*.zip", "-d", "out")
    assert same.returncode == 1, "what failed is missing still"
    # The archive as a whole had failed, so what it holds is listed anew.
    broken.write_bytes(whole)
    again = shoal.run("unzip", "downloads/*.zip", "-d", "out", "--update", "--json")
    assert again.returncode == 0, again.stderr
    assert tree(shoal.directory / "out") == downloads


def test_options_reach_the_source_from_every_command(shoal: Command, downloads: dict[str, bytes]) -> None:
    flags = ["--into-subdirectories", "--include", "a/**/1.txt"]
    done = shoal.run("unzip", "downloads/a.zip", "-d", "out", *flags[:1], "--include", "a/a/**/1.txt")
    assert done.returncode == 0, done.stderr
    assert set(tree(shoal.directory / "out")) == {"a/a/1/1.txt"}
    done = shoal.run("copy", "zip:downloads/a.zip", "copied", *flags[:1])
    assert done.returncode == 0, done.stderr
    assert (shoal.directory / "copied/a/a/1/1.txt").read_bytes() == downloads["a/1/1.txt"]
    done = shoal.run("read", "zip:downloads/*.zip", "--checksum", "sha256", "--into-subdirectories", "-q")
    assert done.returncode == 0, done.stderr
    shoal.run("unzip", "downloads/*.zip", "-d", "whole", "--into-subdirectories")
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "--strict"], cwd=shoal.directory / "whole", input=done.stdout, text=True
    )
    assert (checked.returncode, len(done.stdout.splitlines())) == (0, 300)
    limited = shoal.run("read", "zip:downloads/a.zip", "--max-entries", "10")
    assert limited.returncode == 1
    assert "raises the limit" in limited.stderr


def test_nothing_is_said_with_quiet_and_lines_of_json_on_request(shoal: Command, downloads: dict[str, bytes]) -> None:
    done = shoal.run("unzip", "downloads/*.zip", "-d", "out", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = shoal.run("unzip", "downloads/*.zip", "-d", "out2", "--log-format", "json", "-v")
    assert [line[:9] for line in done.stderr.splitlines()] == ['{"type": '] * 2
    assert downloads


def large(path: Path) -> dict[str, bytes]:
    """Archives that take a second or two to unpack."""
    entries: dict[str, bytes] = {}
    for part in range(4):
        new = {f"{part}/{number // 500}/{number}": b"%d " % number * 50 for number in range(MANY // 4)}
        entries |= make_zip(path / f"{part}.zip", new)
    return entries


def wait_for_files(process: subprocess.Popen[str], out: Path, count: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        if sum(1 for _ in out.glob("*/*/*")) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"no {count} files came; the code is {process.poll()}")


def test_a_killed_run_goes_on_and_loses_at_most_a_batch(shoal: Command, tmp_path: Path) -> None:
    entries = large(tmp_path / "in")
    command = ("unzip", "in/*.zip", "-d", "out", "--json")
    for count in (1_000, 4_000):
        process = shoal.start(*command, "--limit-rate", "1MB")
        wait_for_files(process, tmp_path / "out", count)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(tree(tmp_path / "out")) < MANY
    done = shoal.run(*command)
    assert done.returncode == 0, done.stderr
    report = shoal.last_json(done)
    assert (report["total"]["written"], report["total"]["failed"], report["total"]["unfinished"]) == (MANY, 0, 0)
    assert report["resumed_from"] > 0, "something was committed before"
    assert tree(tmp_path / "out") == entries
    assert list((tmp_path / "out/.shoal/tmp").iterdir()) == []


def test_an_interrupted_run_goes_on(shoal: Command, tmp_path: Path) -> None:
    entries = large(tmp_path / "in")
    process = shoal.start("unzip", "in/*.zip", "-d", "out", "--limit-rate", "1MB")
    wait_for_files(process, tmp_path / "out", 1_000)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "run the same command again to resume" in said
    done = shoal.run("unzip", "in/*.zip", "-d", "out")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == entries


def test_a_test_that_is_interrupted_does_not_promise_to_go_on(shoal: Command, tmp_path: Path) -> None:
    large(tmp_path / "in")
    process = shoal.start("unzip", "in/*.zip", "--test", "--limit-rate", "100kB")
    wait_until(lambda: takes_signals(process.pid))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "resume" not in said


def test_a_name_from_an_archive_reaches_no_terminal_raw(shoal: Command, tmp_path: Path) -> None:
    make_zip(tmp_path / "one.zip", {"../\x1b[2Jevil\u202egpj": b"x"})
    done = shoal.run("unzip", "one.zip", "-d", "out")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert "\\x1b[2Jevil" in done.stderr


def test_archives_whose_long_paths_begin_alike_are_two_sources(shoal: Command, tmp_path: Path) -> None:
    # Messages cut a path at 200 characters. What a run is known by must not.
    long = tmp_path / ("d" * 120) / ("e" * 120)
    for name in ("a", "b"):
        make_zip(long / f"{name}.zip", {f"{name}.txt": name.encode()})
        done = shoal.run("unzip", long / f"{name}.zip", "-d", "out")
        assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == {"a.txt": b"a", "b.txt": b"b"}


@pytest.mark.parametrize("globs", [["*.zip"], ["*.zip", "*.none"]])
def test_long_globs_that_begin_alike_are_two_sources(shoal: Command, tmp_path: Path, globs: list[str]) -> None:
    for name in ("a", "b"):
        directory = tmp_path / ("d" * 120) / ("e" * 120) / name
        make_zip(directory / "x.zip", {f"{name}.txt": name.encode()})
        done = shoal.run("unzip", *(directory / glob for glob in globs), "-d", "out")
        assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == {"a.txt": b"a", "b.txt": b"b"}
