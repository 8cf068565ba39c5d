"""What `--update` believes by size and time alone, and what it compares byte by byte."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import shoal as package
from faults.runs import wait_for_commit
from trees import tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Command

pytestmark = pytest.mark.disk

TIME = 1_000_000_000  # of all files, as in reproducible archives and packages


def make(directory: Path, text: str, names: tuple[str, ...] = ("bin/tool", "conf", "large")) -> Path:
    """A tree of files that have the same size and time for all texts of one length."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}: {text}" * (20_000 if name == "large" else 1))
        os.utime(path, (TIME, TIME))
    return directory


def settle() -> None:
    """Waits for the next step of the clock that stamps files."""
    time.sleep(0.05)


def numbers_of_files(out: Path) -> dict[str, int]:
    return {name: (out / name).stat().st_ino for name in tree(out)}


@pytest.mark.parametrize("kind", ["directory", "glob", "file"])
def test_another_directory_in_the_place_of_the_source_is_compared_byte_by_byte(tmp_path: Path, kind: str) -> None:
    first, second = make(tmp_path / "v1", "old"), make(tmp_path / "v2", "new")
    source, out = tmp_path / "source", tmp_path / "out"
    what = {"directory": str(source), "glob": f"{source}/**", "file": f"{source}/conf"}[kind]
    settle()
    first.rename(source)
    package.copy(what, out)
    before = numbers_of_files(out)
    assert package.copy(what, out, resume="update").unchanged == len(before)
    source.rename(first)
    second.rename(source)
    report = package.copy(what, out, resume="update")
    assert (report.written, report.unchanged) == (len(before), 0), report
    wanted = {name: data for name, data in tree(source).items() if name in before}
    assert tree(out) == wanted
    written = numbers_of_files(out)
    assert package.copy(what, out, resume="update").unchanged == len(before)
    assert numbers_of_files(out) == written


@pytest.mark.parametrize("link", ["directory", "file", "middle", "outside"])
def test_a_link_that_was_set_to_another_target_is_compared_byte_by_byte(tmp_path: Path, link: str) -> None:
    make(tmp_path / "v1", "old")
    make(tmp_path / "v2", "new")
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "plain").mkdir(parents=True)
    links = {
        "directory": (source / "current", "../v%s"),
        "file": (source / "tool", "../v%s/bin/tool"),
        "middle": (source / "plain/now", "../../v%s/bin"),
        "outside": (tmp_path / "current", "v%s"),
    }
    for path, target in links.values():
        path.symlink_to(target % 1)
    (source / "far").symlink_to(tmp_path / "current/bin/tool")
    (source / "farther").symlink_to("far")
    (source / "plain/stays").symlink_to("../../v1/conf")
    files = package.files(source, links="follow")
    settle()
    count = package.copy(files, out).written
    assert package.copy(files, out, resume="update").unchanged == count
    before = numbers_of_files(out)
    path, target = links[link]
    (tmp_path / "new link").symlink_to(target % 2)
    (tmp_path / "new link").rename(path)
    report = package.copy(files, out, resume="update")
    shutil.copytree(source, tmp_path / "wanted")  # which follows links
    assert tree(out) == tree(tmp_path / "wanted")
    assert report.written == {"directory": 3, "file": 1, "middle": 1, "outside": 2}[link], report
    after = numbers_of_files(out)
    assert sum(before[name] != after[name] for name in after) == report.written, "the others stay"


def test_the_link_that_is_the_source_is_looked_at(tmp_path: Path) -> None:
    for number in (1, 2):
        make(tmp_path / "one", f"version {number}", (f"db-{number}",))
        (tmp_path / f"one/db-{number}").write_text(f"version {number}")
        os.utime(tmp_path / f"one/db-{number}", (TIME, TIME))
    link = tmp_path / "one/latest.db"
    link.symlink_to("db-1")
    settle()
    package.copy(link, tmp_path / "out")
    link.unlink()
    link.symlink_to("db-2")
    assert package.copy(link, tmp_path / "out", resume="update").written == 1
    assert tree(tmp_path / "out") == {"latest.db": b"version 2"}


def set_back(path: Path, before: os.stat_result) -> None:
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def written_in_place(path: Path) -> None:
    path.write_text("new")


def put_in_its_place(path: Path) -> None:
    path.with_name("other").write_text("new")
    path.with_name("other").rename(path)


def written_through_a_mapping(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = b"new"
        mapped.flush()


@pytest.mark.parametrize("change", [written_in_place, put_in_its_place, written_through_a_mapping])
def test_a_file_of_equal_size_whose_time_was_set_back_is_copied(tmp_path: Path, change: Callable[[Path], None]) -> None:
    source = make(tmp_path / "source", "old", ("file", "other"))
    (source / "file").write_text("old")
    os.utime(source / "file", (TIME, TIME))
    settle()
    package.copy(source, tmp_path / "out")
    before = (source / "file").stat()
    change(source / "file")
    set_back(source / "file", before)
    assert (source / "file").stat().st_mtime_ns == before.st_mtime_ns
    package.copy(source, tmp_path / "out", resume="update")
    assert (tmp_path / "out/file").read_text() == "new"


def test_a_restart_compares_all_bytes_and_leaves_what_is_the_same(shoal: Command, tmp_path: Path) -> None:
    source = make(tmp_path / "source", "old")
    make(tmp_path / "other", "new", ("bin/tool",))
    settle()
    assert shoal.run("copy", source, "out").returncode == 0
    before = numbers_of_files(shoal.directory / "out")
    (source / "bin").rename(tmp_path / "away")
    (tmp_path / "other/bin").rename(source / "bin")  # below the root, an update does not see that
    done = shoal.run("copy", source, "out", "--restart")
    assert done.returncode == 0, done.stderr
    assert tree(shoal.directory / "out") == tree(source)
    after = numbers_of_files(shoal.directory / "out")
    assert [name for name in before if before[name] != after[name]] == ["bin/tool"]


def test_a_copy_that_was_interrupted_says_that_it_goes_on_in_another_directory_and_an_update_compares_all(
    tmp_path: Path, shoal: Command
) -> None:
    names = tuple(f"file-{number:04}" for number in range(6_000))
    source, other = make(tmp_path / "source", "old", names), make(tmp_path / "other", "new", names)
    out = tmp_path / "out"
    settle()
    argv = [*shoal.argv, "copy", str(source), str(out), "--limit-rate", "30kB", "--durability", "none"]
    process = subprocess.Popen(argv, env=shoal.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_commit(out)
    finally:
        process.kill()
        process.wait()
    source.rename(tmp_path / "away")
    other.rename(source)
    report = package.copy(source, out)
    assert any("the source is another directory than before" in note for note in report.notes), report
    package.copy(source, out, resume="update")
    assert tree(out) == tree(source)
