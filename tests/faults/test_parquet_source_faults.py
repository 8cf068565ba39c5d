"""A disk that cannot read part of a dataset, and files that change while they are read: failures, and no wrong byte."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command
from faults.runs import wait_for_commit
from faults.tracing import injected, traced
from trees import tree

FILES, ROWS = 3, 200
OBJECTS = {
    f"{file}/{row:03}": random.Random(file * ROWS + row).randbytes(3_000)
    for file in range(FILES)
    for row in range(ROWS)
}


def dataset(directory: Path) -> list[Path]:
    """Packs the objects, 200 in each file; returns the files."""
    for file in range(FILES):
        rows = [(name, data) for name, data in OBJECTS.items() if name.startswith(f"{file}/")]
        package.save(rows, f"parquet:{directory}/{file}")
        (directory / f"{file}/objects-000000.parquet").rename(directory / f"objects-{file:06}.parquet")
    return sorted(directory.glob("*.parquet"))


def assert_all_that_is_there_is_right(out: Path, report: dict[str, Any]) -> dict[str, bytes]:
    """Fails if a file has other bytes than its object, or if the counts are not those of the files."""
    found = tree(out)
    assert {name for name, data in found.items() if OBJECTS[name] != data} == set()
    assert report["total"]["written"] == len(found)
    return found


@pytest.mark.parametrize("nth", [1, 2, 3, 8])
def test_rows_that_cannot_be_read_are_failures_and_arrive_when_they_can(
    shoal: Command, tmp_path: Path, nth: int
) -> None:
    bad = dataset(tmp_path / "in")[1]
    command = ("copy", f"parquet:{tmp_path}/in", "out", "--workers", "1", "--json")
    log = tmp_path / "strace"
    failed = shoal.under(*traced(log, f"pread64:error=EIO:when={nth}", bad)).run(*command)
    assert injected(log) > 0
    assert failed.returncode == 1, failed.stderr
    report = shoal.last_json(failed)
    found = assert_all_that_is_there_is_right(tmp_path / "out", report)
    assert {name[0] for name in OBJECTS.keys() - found.keys()} == {"1"}, "only rows of that file"
    assert all("input/output error" in failure["reason"] for failure in report["failures"])
    damaged = any(failure["name"] == bad.name for failure in report["failures"])
    again = shoal.run(*command, *(["--update"] if damaged else []))
    assert again.returncode == 0, again.stderr
    assert tree(tmp_path / "out") == OBJECTS


@pytest.mark.parametrize("how", ["rewritten", "replaced", "cut"])
def test_rows_of_a_file_that_changes_meanwhile_are_failures_and_never_mixed(
    shoal: Command, tmp_path: Path, how: str
) -> None:
    last = dataset(tmp_path / "in")[-1]
    other = random.Random(9).randbytes(last.stat().st_size)
    command = ("copy", f"parquet:{tmp_path}/in", "out", "--workers", "1")
    run = shoal.start(*command, "--limit-rate", "300kB", "--json")
    wait_for_commit(tmp_path / "out")
    if how == "rewritten":
        last.write_bytes(other)
    elif how == "cut":
        os.truncate(last, 10_000)
    else:
        (tmp_path / "other").write_bytes(other)
        (tmp_path / "other").rename(last)
    printed, said = run.communicate(timeout=60)
    assert run.returncode == 1, said
    report = shoal.last_json(subprocess.CompletedProcess([], 1, printed))
    found = assert_all_that_is_there_is_right(tmp_path / "out", report)
    assert {name for name in OBJECTS if name[0] != "2"} <= found.keys()
    assert report["failed"] > 0
    assert {failure["kind"] for failure in report["failures"]} <= {"changed", "archive", "integrity"}
