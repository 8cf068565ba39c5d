"""What was left out without being asked for can be listed with its reason; the rest is counted by reason."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

import shoal as package
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A tree with one of each thing that is no file, an empty directory and an excluded name."""
    root = tmp_path / "source"
    (root / "d/empty").mkdir(parents=True)
    (root / "d/file").write_text("x")
    (root / "d/file.tmp").write_text("x")
    (root / "d/link").symlink_to("file")
    (root / "d/link.tmp").symlink_to("file")
    (root / "dangling\x1b").symlink_to("nowhere")
    (root / "d/loop").symlink_to("..")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "d/socket"))
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 3))
    return root


def listed(run: package.RunStatus) -> dict[str, str]:
    """Names and reasons; each name once."""
    names = {one.name: one.reason for one in run.skipped}
    assert len(names) == len(run.skipped)
    return names


def wait_until_more_is_skipped(destination: Path, skipped: int) -> None:
    def more() -> bool:
        runs = package.status(destination).runs if (destination / ".shoal/journal.db").exists() else []
        return bool(runs) and runs[0].total.skipped > skipped

    wait_until(more)
    time.sleep(0.2)  # into what is not committed


def test_links_and_special_files_are_listed_and_the_excluded_only_counted(shoal: Command, odd: Path) -> None:
    done = shoal.run("copy", "--links", "skip", odd, "out", "--exclude", "**/*.tmp")
    assert done.returncode == 0, done.stderr
    device = {"device": "device"} if os.geteuid() == 0 else {}

    (run,) = package.status(shoal.directory / "out").runs
    special = {"pipe": "pipe", "d/socket": "socket", **device}
    assert listed(run) == {"d/link": "link", "d/loop": "link", "dangling\x1b": "link", **special}
    counts = {"filtered": 2, "link": 3, "pipe": 1, "socket": 1, "directory": 1}
    assert run.skipped_by == counts | dict.fromkeys(device, 1)
    assert sum(run.skipped_by.values()) == run.total.skipped
    assert (run.skipped_more, run.kept) == (0, 0)

    assert shoal.run("copy", "--links", "follow", odd, "followed", "--exclude", "**/*.tmp").returncode == 1
    (run,) = package.status(shoal.directory / "followed").runs
    assert listed(run) == {"d/loop": "looping-link", **special}
    assert [(one.name, one.kind) for one in run.failures] == [("dangling\x1b", "vanished")]

    assert shoal.run("copy", odd, "copied", "--exclude", "**/*.tmp").returncode == 0
    (run,) = package.status(shoal.directory / "copied").runs
    assert (listed(run), run.total.written) == (special, 4)


def test_the_command_lists_as_many_as_asked_for_with_safe_names(shoal: Command, odd: Path) -> None:
    shoal.run("copy", "--links", "skip", odd, "out")

    plain = shoal.run("status", "out").stdout
    assert "  skipped: 4 link, 1 pipe, 1 socket, " in plain
    assert ": skipped," not in plain
    two = shoal.run("status", "out", "--skipped", "2").stdout
    assert two.count(": skipped, ") == 2
    count = 7 if os.geteuid() == 0 else 6
    assert f"... and {count - 2} more: --skipped all" in two
    every = shoal.run("status", "out", "--skipped", "all").stdout
    assert every.count(": skipped, ") == count
    assert '"dangling\\x1b": skipped, link' in every
    assert "more" not in every
    assert "\x1b" not in every


def test_json_has_the_names_as_lines_and_the_counts_by_reason(shoal: Command, odd: Path) -> None:
    shoal.run("copy", "--links", "skip", odd, "out", "--exclude", "**/*.tmp")

    done = shoal.run("status", "out", "--json", "--skipped", "all")
    *names, status = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"type": "skipped", "name": "d/link", "reason": "link"} in names
    assert len(names) == (6 if os.geteuid() == 0 else 5)
    (run,) = status["runs"]
    assert run["skipped_by"]["filtered"] == 2
    assert sum(run["skipped_by"].values()) == run["skipped"]
    assert (run["skipped_more"], run["skipped_names"]) == (0, [])

    (run,) = shoal.last_json(shoal.run("status", "out", "--json", "--skipped", "1"))["runs"]
    assert (len(run["skipped_names"]), run["skipped_more"]) == (1, len(names) - 1)
    (run,) = shoal.last_json(shoal.run("status", "out", "--json"))["runs"]
    assert (run["skipped_names"], run["skipped_more"]) == ([], len(names))


def test_after_kills_the_list_has_each_name_once(shoal: Command, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(4000):
        (source / f"{number}").write_text("x" * 1000)
        (source / f"{number}.link").symlink_to("nowhere")

    skipped = 0
    for _ in range(3):
        process = shoal.start("copy", "--links", "skip", source, "out", "--limit-rate", "1MB")
        wait_until_more_is_skipped(tmp_path / "out", skipped)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
        (run,) = package.status(tmp_path / "out", skipped=None).runs
        assert skipped < len(listed(run)) == run.total.skipped < 4000
        skipped = run.total.skipped
    done = shoal.run("copy", "--links", "skip", source, "out")

    assert done.returncode == 0, done.stderr
    (run,) = package.status(tmp_path / "out", skipped=None).runs
    assert listed(run) == {f"{number}.link": "link" for number in range(4000)}
    assert (run.skipped_by, run.total.written) == ({"link": 4000}, 4000)
    assert 0 < run.kept < 4000, "written by a session that was killed before it could say so"
    assert len(package.status(tmp_path / "out").runs[0].skipped) == 100


def test_a_number_of_names_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="`skipped` must not be negative"):
        package.status(tmp_path, skipped=-1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the command is run without its rights")
@pytest.mark.parametrize("source", ["source", "source/**", "source/l*"])
def test_46_a_link_to_what_may_not_be_looked_at_is_a_failure(shoal: Command, source: str) -> None:
    outside = shoal.directory / "outside"
    (outside / "data").mkdir(parents=True)
    (outside / "data/f").write_text("f")
    (shoal.directory / "source").mkdir()
    (shoal.directory / "source/link").symlink_to("../outside/data")
    (shoal.directory / "source/none").symlink_to("nowhere")
    outside.chmod(0)
    os.chown(outside, 1, 1)
    other = shoal.under("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")

    done = other.run("copy", "--links", "follow", source, "out")
    if (shoal.directory / "out/link/f").exists():
        pytest.skip("this root may read everything")
    (run,) = package.status(shoal.directory / "out").runs
    others = {} if source == "source/l*" else {"none": "vanished"}
    assert {one.name: one.kind for one in run.failures} == {"link": "denied", **others}
    assert (done.returncode, listed(run)) == (1, {})
    assert other.run("read", "--links", "follow", source).returncode == 1


def test_46_what_is_only_spelled_like_the_journal_is_not_left_out_silently(shoal: Command) -> None:
    source = shoal.directory / "source"
    (source / ".SHOAL").mkdir(parents=True)
    (source / ".SHOAL/f").write_text("f")
    (source / ".Shoal").write_text("f")
    (source / "d/.shoal").mkdir(parents=True)
    (source / "d/.shoal/f").write_text("f")

    done = shoal.run("copy", source, "out", "-v")
    assert done.returncode == 1, done.stderr
    (run,) = package.status(shoal.directory / "out").runs
    assert {one.name: one.kind for one in run.failures} == dict.fromkeys((".SHOAL/f", ".Shoal"), "unsafe-name")
    assert 'note: ".shoal" was skipped' not in done.stderr
    assert (shoal.directory / "out/d/.shoal/f").read_text() == "f"

    assert shoal.run("copy", source, "out2", "--exclude", ".SHOAL/**", "--exclude", ".Shoal").returncode == 0
    (source / ".SHOAL").rename(source / ".shoal")
    done = shoal.run("copy", source, "out3", "-v", "--exclude", ".Shoal")
    assert done.returncode == 0
    assert 'note: ".shoal" was skipped' in done.stderr
