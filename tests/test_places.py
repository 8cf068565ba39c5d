"""Where the directory of a test is, and what stays of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import places

TWO_TESTS = """
def test_passes(tmp_path):
    (tmp_path / "left").touch()

def test_fails(tmp_path):
    (tmp_path / "left").touch()
    assert False
"""


@pytest.mark.disk
@pytest.mark.parametrize("on_disk", [False, True])
def test_only_a_test_that_fails_leaves_its_directory(tmp_path: Path, on_disk: bool) -> None:
    (tmp_path / "test_two.py").write_text(TWO_TESTS)
    where = ["-c", os.devnull, "--rootdir", str(tmp_path), "--basetemp", str(tmp_path / "base")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--noconftest", *where, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)} | ({places.ON_DISK: "1"} if on_disk else {}),
        capture_output=True,
        text=True,
        timeout=200,  # on a busy machine
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    place = tmp_path / "base"
    if not on_disk and places.has_room(places.SHARED_MEMORY):
        assert not list(place.glob("test_*"))
        found = list(places.SHARED_MEMORY.glob(f"{places.PREFIX}*/test_fails-*"))
        place = max(found, key=lambda path: path.stat().st_ctime).parent
    assert [path.name.rpartition("-")[0] for path in place.glob("test_*")] == ["test_fails"]
    shutil.rmtree(place)


def test_directories_of_runs_that_ended_are_removed_but_not_those_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, in_use = (tmp_path / f"{places.PREFIX}{name}" for name in ("ended", "in_use"))
    ended.mkdir()
    in_use.mkdir()
    places.remove_leftovers(tmp_path)
    assert ended.exists(), "its run may not have locked it yet"
    monkeypatch.setattr(places, "YOUNG", -1)
    with places.locked(in_use):
        places.remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [in_use]


def test_without_room_in_memory_tests_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(places.ON_DISK, raising=False)
    monkeypatch.setattr(os, "setxattr", lambda *_: None)  # some file systems have no user attributes
    assert not places.has_room(tmp_path / "missing")
    monkeypatch.setattr(places, "ROOM", 1 << 62)
    assert not places.has_room(tmp_path)
    monkeypatch.setattr(places, "ROOM", 0)
    assert places.has_room(tmp_path)
    monkeypatch.setenv(places.ON_DISK, "1")
    assert not places.has_room(tmp_path)
