"""`--update` brings changed permissions and times, and never gives more than the source does, not for a moment."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

import shoal as package
from test_permissions import SMALL, make, modes, needs_strace, strace, umask
from trees import tree

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

pytestmark = pytest.mark.disk

LARGE = 200_000  # bytes: handed over in pieces
TIME = 1_000_000_000


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_changed_permissions_and_times_arrive_where_the_bytes_are_the_same(tmp_path: Path, size: int) -> None:
    source = make(tmp_path / "tree", {"key": 0o644, "tool": 0o600, "times": 0o644, "same": 0o644}, size)
    package.copy(source, tmp_path / "out")
    (source / "key").chmod(0o600)
    (source / "tool").chmod(0o755)
    os.utime(source / "times", (TIME, TIME))
    report = package.copy(source, tmp_path / "out", resume="update")
    assert (report.written, report.unchanged) == (3, 1), report
    assert modes(tmp_path / "out") == {"key": 0o600, "tool": 0o755, "times": 0o644, "same": 0o644}
    assert (tmp_path / "out/times").stat().st_mtime == TIME
    assert package.copy(source, tmp_path / "out", resume="update").unchanged == 4


def test_an_update_takes_permissions_of_directories_away_and_adds_none(tmp_path: Path) -> None:
    # At the source before and after; at the destination before, if the user has made it there, and after.
    rows = {
        "private": (0o755, 0o700, None, 0o700),
        "closed": (0o755, 0o000, None, 0o000),
        "open": (0o700, 0o755, None, 0o700),
        "above/below": (0o755, 0o711, None, 0o711),
        "empty": (0o755, 0o750, None, 0o750),
        "own": (0o755, 0o750, 0o775, 0o750),
        "own-private": (0o755, 0o755, 0o700, 0o700),
        "group": (0o755, 0o750, 0o2775, 0o2750),
    }
    source, out = tmp_path / "tree", tmp_path / "out"
    for name, (before, _, there, _) in rows.items():
        (source / name).mkdir(parents=True)
        (source / name).chmod(before)
        if name != "empty":
            (source / name / "file").write_text(name)
        if there:
            make(out, {f"{name}/": there})
    (source / "file").write_text("file")
    out.chmod(0o755)
    kept = {f"{name}/": there or before for name, (before, _, there, _) in rows.items()}
    with umask(0o022):
        package.copy(source, out)
        for name, (_, after, _, _) in rows.items():
            (source / name).chmod(after)
        source.chmod(0o700)
        for resume in ("once", "relist", "restart"):
            package.copy(source, out, resume=resume, on_error="record")
            if resume != "once":
                kept["closed/"] = 0o055  # what the owner may do is as at the source at the end of each run
            found = modes(out)
            assert {name: found[name] for name in kept} == kept, f"{resume}: as they were"
        report = package.copy(source, out, resume="update", on_error="record")
    assert report.written == 0, report
    assert any("directories have fewer permissions than at the source, as" in note for note in report.notes), report
    found = modes(out)
    assert {name: found[f"{name}/"] for name in rows} == {name: wanted for name, (*_, wanted) in rows.items()}
    assert stat.S_IMODE(out.stat().st_mode) == 0o755, "the destination itself is the user's"


@needs_strace
def test_a_directory_that_became_private_is_private_before_anything_is_written_into_it(
    shoal: Command, tmp_path: Path
) -> None:
    source = make(tmp_path / "tree", {"keys/old": 0o644, "keys/": 0o755, "keys/more/": 0o755, "keys/more/old": 0o644})
    assert shoal.run("copy", source, "out").returncode == 0
    make(source, {"keys/new": 0o644, "keys/more/new": 0o644, "keys/old": 0o644}, LARGE)
    (source / "keys/more").chmod(0o700)
    (source / "keys").chmod(0o700)
    log = tmp_path / "log"
    calls = strace("-y", "-e", "trace=/chmod,openat,openat2,renameat,renameat2,linkat", log=log)
    done = subprocess.run(
        [*calls, *shoal.argv, "copy", str(source), "out", "--update"],
        cwd=shoal.directory,
        env=shoal.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    out = shoal.directory / "out"
    assert tree(out) == tree(source)
    assert {name: mode for name, mode in modes(out).items() if name.endswith("/")} == {
        "keys/": 0o700,
        "keys/more/": 0o700,
    }
    lines = log.read_text().splitlines()
    for name in ("keys", "keys/more"):
        place = re.escape(f"{out}/{name}>")
        narrowed = min(at for at, line in enumerate(lines) if re.search(rf"chmod\(\d+<{place}, 0700\b", line))
        written = [
            at for at, line in enumerate(lines) if re.search(rf"{place}.*O_CREAT|(rename|link)at.*{place}", line)
        ]
        assert written, lines
        assert narrowed < min(written), lines[narrowed]


def test_a_copy_that_another_program_has_linked_elsewhere_keeps_its_permissions_there(tmp_path: Path) -> None:
    source = make(tmp_path / "tree", {"key": 0o644})
    package.copy(source, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "snapshot", copy_function=os.link)
    (source / "key").chmod(0o600)
    package.copy(source, tmp_path / "out", resume="update", on_error="record")
    assert stat.S_IMODE((tmp_path / "snapshot/key").stat().st_mode) == 0o644
