"""Killed inside the system calls that only `parquet:` makes, a copy resumes with every row once.

strace kills the process before the call takes effect. So a kill at a rename is one between the journal's commit and the
file's name, and a kill at the first look into `.shoal/tmp` is one right after that was made.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.datasets import SMALL, assert_published_rows_are_right, assert_resumes, objects
from faults.runs import RATE, make_source
from faults.tracing import traced

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def kill(shoal: Command, log: Path, command: list[str], call: str, nth: int, *paths: Path) -> None:
    """Runs the command until it is killed inside the n-th of these calls of a thread."""
    killed = shoal.under(*traced(log, f"{call}:signal=SIGKILL:when={nth}", *paths)).run(*command, "--limit-rate", RATE)
    assert killed.returncode in KILLED, killed.stderr
    assert "killed by SIGKILL" in log.read_text()


@pytest.mark.parametrize("nth", [1, 3])
def test_killed_between_the_commit_and_the_name_of_a_file_every_committed_row_is_kept(
    shoal: Command, service: Service, tmp_path: Path, nth: int
) -> None:
    wanted = objects(make_source(tmp_path / "source"))
    out = tmp_path / "out"
    command = ["copy", service(tmp_path / "source").url, f"parquet:{out}", *SMALL]
    kill(shoal, tmp_path / "strace", command, "renameat2", nth)
    assert len(list(out.glob("*.parquet"))) == nth - 1
    verified = shoal.run("verify", f"parquet:{out}")
    assert f'"objects-{nth - 1:06}.parquet"' in verified.stdout + verified.stderr, "the journal has it as published"
    assert "missing" in verified.stdout + verified.stderr
    assert assert_published_rows_are_right(out, wanted) > 0
    assert_resumes(shoal, out, wanted, *command)


@pytest.mark.parametrize(
    ("call", "nth", "at", "has_begun"),
    [
        ("mkdirat", 2, "", False),
        ("getdents64", 1, ".shoal/tmp", False),
        ("fsync", 1, ".shoal/tmp", False),
        ("fsync", 2, ".shoal/tmp", True),
    ],
    ids=["before-tmp", "after-tmp", "first-sync-of-tmp", "second-sync-of-tmp"],
)
def test_killed_while_files_are_made_or_synced_every_committed_row_is_kept(
    shoal: Command, service: Service, tmp_path: Path, call: str, nth: int, at: str, has_begun: bool
) -> None:
    wanted = objects(make_source(tmp_path / "source"))
    out = tmp_path / "out"
    command = ["copy", service(tmp_path / "source").url, f"parquet:{out}", *SMALL]
    kill(shoal, tmp_path / "strace", command, call, nth, *([out / at] if at else []))
    assert (out / ".shoal/tmp").exists() == (call != "mkdirat")
    assert (assert_published_rows_are_right(out, wanted) > 0) == has_begun
    assert_resumes(shoal, out, wanted, *command)
