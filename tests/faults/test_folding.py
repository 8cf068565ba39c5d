"""A destination that does not tell `case` from `CASE`: of two objects so named the second is a failure, never lost."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command
from servers.fixtures import MakeServer, fault_server
from trees import tree_of_raw_names

__all__ = ["fault_server"]

TWO = {"d/case": b"one object", "d/CASE": b"another object", "other": b"of neither"}


@pytest.fixture
def folding(in_user_space: Callable[[str], Path]) -> Path:
    """A directory in which names that differ in case alone are one."""
    return in_user_space("folding")


def assert_one_of_two(shoal: Command, out: Path, *command: str | Path) -> None:
    for again in ([], ["--update"]):
        done = shoal.run(*command, "--json", *again)
        assert done.returncode == 1, done.stderr
        report = shoal.last_json(done)
        assert [failure["kind"] for failure in report["failures"]] == ["name-conflict"], report
        found = tree_of_raw_names(out)
        assert found.pop(b"other") == TWO["other"]
        [(first, data)] = found.items()
        assert data == TWO[first.decode()]


@pytest.mark.mount
@pytest.mark.parametrize("overwrite", ["never", "always"])
def test_of_two_names_that_the_destination_takes_for_one_the_second_fails(
    shoal: Command, fault_server: MakeServer, folding: Path, overwrite: str
) -> None:
    server = fault_server(TWO).start()
    assert_one_of_two(shoal, folding / "out", "copy", server.url, folding / "out", "--overwrite", overwrite)


@pytest.mark.mount
def test_of_two_files_that_the_destination_takes_for_one_the_second_fails(
    shoal: Command, folding: Path, tmp_path: Path
) -> None:
    for name, data in TWO.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(data)
    assert_one_of_two(shoal, folding / "out", "copy", tmp_path / "source", folding / "out")


@pytest.mark.mount
def test_of_two_entries_that_the_destination_takes_for_one_the_second_fails(
    shoal: Command, folding: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as made:
        for name, data in TWO.items():
            made.writestr(name, data)
    assert_one_of_two(shoal, folding / "out", "unzip", tmp_path / "two.zip", "-d", folding / "out")
