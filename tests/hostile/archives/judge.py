"""Runs `shoal unzip` on hostile archives and judges every run by what must hold for all of them.

Whatever an archive holds: nothing beside the destination changes, only plain files and directories come into being,
without set-id bits, under 100 MB of memory, within a second, no panic, no raw control characters in the output, and
counts that add up. What is expected of one archive is told by its `Case`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from hostile.archives.case import Case, Expected
from hostile.oracle import (
    REPORT_FAILURES,
    Outcome,
    Shoal,
    assert_balanced,
    assert_quiet_bytes,
    assert_same_tree,
    is_name,
    left_over,
    shown,
)
from trees import tree

# verbose: stderr names every failure. durability none: a sync would be most of the time, and has its tests elsewhere.
OPTIONS = ("--json", "--verbose", "--durability", "none", "--workers", "4")
MEMORY_MAX = 100_000_000  # bytes, of the whole process: what issue 5 promises
SECONDS_MAX = 1.0  # of processor time: what issue 5 promises
WALL_MAX = (
    30.0  # seconds on the clock: a hang; opening a journal waits for a disk that others keep busy (7 s were seen)
)
BEFORE_ROOT = (Path("/etc/x"), Path("/tmp/shoal-escaped"))


def facts(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Returns everything below a directory: mode, size, time of change of its data, and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        told = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(told.st_mode) else b""
        if stat.S_ISLNK(told.st_mode):
            content = os.fsencode(path.readlink())
        found[str(path.relative_to(root))] = (told.st_mode, told.st_size, told.st_mtime_ns, content)
    return found


class Unzip:
    """The command in a world of its own: `around` lies beside the destination and must stay as it is."""

    def __init__(self, shoal: Shoal) -> None:
        self.shoal = shoal
        self.out = shoal.out
        self.around = shoal.directory / "around"
        self.archives = shoal.directory / "archives"
        self.around.mkdir()
        self.archives.mkdir()
        (self.around / "precious").write_bytes(b"precious")
        (self.around / "folder").mkdir()
        (self.around / "folder" / "kept").write_bytes(b"kept")

    def put(self, files: Mapping[str, bytes]) -> list[Path]:
        """Writes archives; returns their paths."""
        for name, data in files.items():
            path = self.archives / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return [self.archives / name for name in files]

    def run(
        self,
        paths: list[Path],
        *options: str,
        seconds: float = SECONDS_MAX,
        memory: int = MEMORY_MAX,
        test: bool = False,
    ) -> Outcome:
        """Unpacks archives into `out`, or only tests them, and judges what holds for every run."""
        before = self.world()
        planted = {path for path in self.out.rglob("*") if not path.is_dir() or path.is_symlink()}
        where = ["--test"] if test else ["-d", str(self.out)]
        arguments = ["unzip", *map(str, paths), *where, *OPTIONS, *options]
        outcome = self.shoal.run(*arguments, limit=60.0 + seconds)
        assert "Traceback" not in outcome.stderr, outcome
        assert "panicked" not in outcome.stderr, outcome
        assert outcome.code in (0, 1), outcome
        assert self.world() == before, outcome
        assert not any(path.exists() for path in BEFORE_ROOT)
        assert outcome.peak < memory, f"{outcome.peak / 1e6:.0f} MB of memory: {outcome.last}"
        assert outcome.processor < seconds, f"{outcome.processor:.2f} s of processor time: {outcome.last}"
        assert outcome.seconds < seconds - SECONDS_MAX + WALL_MAX, outcome.last
        assert_quiet_bytes(outcome.stdout)
        assert_quiet_bytes(outcome.stderr)
        assert_balanced(outcome.report)
        assert outcome.report["unfinished"] == 0, outcome
        assert (outcome.code == 1) == (outcome.report["failed"] > 0), outcome
        assert_plain_files(self.out, planted)
        assert left_over(self.out) == []
        if test:
            assert not self.out.exists(), outcome
        return outcome

    def failures(self) -> str:
        """Returns what the journal has of the failures, all of them, as it is shown."""
        outcome = self.shoal.run("status", self.out, "--failures", "all", limit=60.0)
        assert outcome.code == 0, outcome
        assert_quiet_bytes(outcome.stdout)
        return outcome.stdout

    def world(self) -> dict[str, object]:
        """Returns everything beside the destination: all of the test's directory but what runs leave in it."""
        ours = {"out"} | {f"std{name}-{run}" for run in range(50) for name in ("out", "err")}
        listed = sorted(path.name for path in self.shoal.directory.iterdir() if path.name not in ours)
        above = sorted(path.name for path in self.shoal.directory.parent.iterdir())
        return {"listed": listed, "above": above, "around": facts(self.around), "archives": facts(self.archives)}

    def case(self, case: Case) -> Outcome:
        """Unpacks one archive and holds the outcome against what is expected of it."""
        [path] = self.put({case.file: case.archive})
        outcome = self.run([path], *case.options)
        wrong = []
        for end in case.ends:
            try:
                assert_end(outcome, end, path.name)
            except AssertionError as error:
                wrong.append(str(error))
            else:
                return outcome
        raise AssertionError("\nnor: ".join(wrong))


def assert_plain_files(out: Path, planted: set[Path]) -> None:
    """Fails if anything but plain files and directories came into being, or one with too many rights."""
    for path in out.rglob("*"):
        if path in planted or path.relative_to(out).parts[0] == ".shoal":
            continue
        told = path.lstat()
        assert stat.S_ISREG(told.st_mode) or stat.S_ISDIR(told.st_mode), f"{path} is not a plain file"
        assert not told.st_mode & 0o7000, f"{path} has mode {told.st_mode:o}"
        assert stat.S_ISDIR(told.st_mode) or told.st_nlink == 1, f"{path} has {told.st_nlink} links"
        assert not told.st_mode & 0o002, f"{path} can be written by everybody"


def empty_directories(out: Path) -> set[str]:
    """Returns the directories with nothing in them."""
    return {
        str(path.relative_to(out))
        for path in out.rglob("*")
        if path.is_dir() and path.relative_to(out).parts[0] != ".shoal" and not any(path.iterdir())
    }


def assert_end(outcome: Outcome, end: Expected, archive: str) -> None:
    """Fails unless the run ended so: these files with these bytes, these failures of these kinds, these counts."""
    assert_same_tree(tree(outcome.out), end.written)
    report = outcome.report
    size = sum(map(len, end.written.values()))
    failed = len(end.failed) + bool(end.refused)
    wanted = {"written": len(end.written), "failed": failed, "skipped": end.skipped, "bytes": size}
    assert {key: report[key] for key in wanted} == wanted, outcome
    assert len(report["failures"]) == min(failed, REPORT_FAILURES), outcome
    for failure in report["failures"]:
        assert failure["reason"], failure
        # A directory may be named with its slash or without.
        name = next((name for name in end.failed if is_name(failure["name"].rstrip("/"), name.rstrip("/"))), None)
        if name is None:
            assert end.refused, f"failed, and should not have: {failure}"
            assert failure["name"].endswith(archive), failure
            assert failure["kind"] in end.refused, failure
        else:
            assert failure["kind"] in end.failed[name], failure
            assert shown(name.rstrip("/"))[:100] in outcome.stderr, f"no message names {name!r}: {outcome}"
    if end.refused:
        assert archive in outcome.stderr, outcome
    for text in end.said:
        assert text in outcome.stdout + outcome.stderr, f"no {text!r} in the messages: {outcome}"
    missing = set(end.empty) - empty_directories(outcome.out)
    assert not missing, f"empty directories that are not there: {missing}"


@pytest.fixture
def unzip(shoal_command: Shoal) -> Unzip:
    """Runs `shoal unzip` and judges what holds for every run."""
    return Unzip(shoal_command)
