"""A file that the user names as the journal: what is not a journal stays as it is."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

import shoal as package


def database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE mine (number)")


def text(path: Path) -> None:
    path.write_text("notes, and no database\n" * 100)


@pytest.mark.parametrize("make", [database, text])
def test_a_file_that_is_not_a_journal_is_rejected_before_anything_is_changed_or_created(
    tmp_path: Path, make: object
) -> None:
    assert callable(make)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_text("1")
    make(tmp_path / "mine")
    before = (tmp_path / "mine").read_bytes()

    with pytest.raises(package.JournalError, match="journal"):
        package.copy(tmp_path / "source", tmp_path / "out", journal=tmp_path / "mine")

    assert (tmp_path / "mine").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == {"mine", "source"}
    assert not (tmp_path / "out/a").exists()


def test_a_pipe_is_rejected_before_anything_is_created(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine")
    (tmp_path / "source").mkdir()
    with pytest.raises(package.JournalError, match="not a regular file"):
        package.copy(tmp_path / "source", tmp_path / "out", journal=tmp_path / "mine")
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == {"mine", "source"}


def test_an_empty_file_becomes_the_journal_and_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_text("1")
    (tmp_path / "mine").touch()
    for done in (None, True):
        report = package.copy(tmp_path / "source", tmp_path / "out", journal=tmp_path / "mine", resume="once")
        assert (report.ok, bool(report.completed_before)) == (True, bool(done))
