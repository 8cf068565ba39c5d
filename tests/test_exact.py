"""After `--exact`, a copy of a directory is equal in everything that a file system holds, and rsync has nothing to say.

Here: whole trees of every kind, by root and by an ordinary user, killed and resumed. Not here: single attributes, what
cannot be kept, and copies without `--exact` (`test_exact_attributes.py`); random changes (`test_exact_model.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import rsync
import shoal as package
from conftest import Command
from every_kind import build, deep, describe, differences, put, special_count
from faults.tracing import traced
from ordinary_user import OrdinaryUser, ordinary_user


@pytest.fixture
def user(place_in_memory: Path | None) -> Iterator[OrdinaryUser]:
    with ordinary_user(place_in_memory) as made:
        yield made


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tree on disk, for tests that only read it."""
    root = tmp_path_factory.mktemp("kinds") / "source"
    build(root)
    yield root
    shutil.rmtree(root)


def assert_equal(source: Path, out: Path) -> None:
    """Fails if anything tells the trees apart, or if temporary files are left."""
    assert differences(describe(source), describe(out)) == []
    assert rsync.lines(source, out) == []
    assert list((out / ".shoal/tmp").iterdir()) == []


def stamps(root: Path) -> dict[Path, tuple[int, int]]:
    """When anything about each file was changed last, and which file it is."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {path: (path.stat().st_ino, path.stat().st_ctime_ns) for path in files if ".shoal" not in path.parts}


@pytest.mark.parametrize("place", ["memory", pytest.param("disk", marks=pytest.mark.disk)])
def test_an_exact_copy_of_every_kind_is_equal_and_rsync_has_nothing_to_say(
    shoal: Command, tmp_path: Path, place: str
) -> None:
    source, out = tmp_path / "source", tmp_path / place
    build(source)
    done = shoal.run("copy", "--exact", source, out)
    assert done.returncode == 0, done.stderr
    assert_equal(source, out)
    (run,) = package.status(out).runs
    assert {one.reason for one in run.skipped} == special_count().keys()
    assert {reason: run.skipped_by[reason] for reason in special_count()} == special_count()
    assert run.total.failed == 0


def test_an_exact_copy_that_is_run_again_writes_nothing(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    build(source)
    first = package.copy(source, out, exact=True)
    before = stamps(out)
    again = package.copy(source, out, exact=True)
    assert (again.written, again.unchanged) == (0, first.written)
    assert stamps(out) == before
    assert_equal(source, out)


@pytest.mark.disk  # where the other tree is, since blocks are compared
@pytest.mark.parametrize("durability", ["none", "file"])
def test_every_durability_gives_an_exact_copy(every_kind: Path, tmp_path: Path, durability: str) -> None:
    package.copy(every_kind, tmp_path / "out", exact=True, durability=durability)  # type: ignore[arg-type]
    assert_equal(every_kind, tmp_path / "out")


def test_an_exact_copy_made_by_a_user_is_equal(user: OrdinaryUser) -> None:
    source, out = user.build(user.home / "source"), user.home / "out"
    done = user.shoal.run("copy", "--exact", source, out)
    assert done.returncode == 0, done.stderr
    assert_equal(source, out)
    assert rsync.lines(source, out, *user.before) == []


def test_what_a_user_cannot_read_is_a_failure_and_all_else_is_equal(user: OrdinaryUser) -> None:
    source, out = user.build(user.home / "source", "--unreadable"), user.home / "out"
    done = user.shoal.run("copy", "--exact", source, out)
    assert done.returncode == 1, done.stderr
    (run,) = package.status(out).runs
    failures = {one.name: one.kind for one in run.failures}
    assert failures == dict.fromkeys(("unreadable/file", "unreadable/directory"), "denied")
    wanted, found = (
        {path: one for path, one in describe(root).items() if not path.startswith(b"unreadable/")}
        for root in (source, out)
    )
    assert differences(wanted, found) == []
    lines = rsync.lines(source, out, *user.before)
    assert [line for line in lines if " unreadable/" not in line and not line.startswith("IO error")] == []


def test_a_user_can_update_what_the_source_has_made_read_only(user: OrdinaryUser) -> None:
    source, out = user.build(user.home / "source"), user.home / "out"
    assert user.shoal.run("copy", "--exact", source, out).returncode == 0
    for number, folder in enumerate((source / "modes/directory-0555", source / "modes/directory-0500/below")):
        mode = folder.stat().st_mode
        folder.chmod(0o755)
        put(folder / "new", b"new", 0o440)
        put(folder / "file", f"changed {number}".encode(), 0o444)
        for path in (folder, folder / "new", folder / "file"):
            os.chown(path, source.stat().st_uid, source.stat().st_gid)
        folder.chmod(mode)
    done = user.shoal.run("copy", "--exact", source, out)
    assert done.returncode == 0, done.stderr
    assert_equal(source, out)


def test_a_path_that_is_too_long_is_a_failure_by_name_and_all_else_is_equal(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "other").mkdir(parents=True)
    put(source / "other/file", b"x")
    path = os.fsdecode(deep(source, levels=17))  # of 4,251 bytes: a system call takes 4,095
    done = shoal.run("copy", "--exact", source, out)
    assert done.returncode == 1, done.stderr
    (run,) = package.status(out).runs
    (failure,) = run.failures
    assert len(failure.name) > 100
    assert path.startswith(failure.name)
    others = {name: one for name, one in describe(source).items() if not name.startswith(b"00-d")}
    assert differences(others, {name: one for name, one in describe(out).items() if name in others}) == []


# The system calls of an exact copy that a kill can come in, counted for each thread apart.
MOMENTS = [
    *[("mkdirat", 1), ("mkdirat", 20), ("openat2", 40), ("openat2", 150), ("write", 5), ("write", 20)],
    *[("close", 200), ("pwrite64", 8), ("pwrite64", 30), ("fsync", 3), ("syncfs", 1), ("linkat", 10), ("symlinkat", 5)],
    *[("/^renameat2?$", 3), ("fchmod", 20), ("fchmod", 70), ("fchown", 3), ("fsetxattr", 4), ("utimensat", 40)],
    *[("utimensat", 75), ("copy_file_range", 6), ("readlinkat", 5)],
]


@pytest.mark.disk
@pytest.mark.parametrize(("call", "nth"), MOMENTS)
def test_killed_inside_the_nth_system_call_an_exact_copy_resumes_and_is_equal(
    shoal: Command, every_kind: Path, tmp_path: Path, call: str, nth: int
) -> None:
    out = tmp_path / "out"
    kill = traced(tmp_path / "strace", f"{call}:signal=SIGKILL:when={nth}")
    killed = shoal.under(*kill).run("copy", "--exact", every_kind, out, "--workers", "2")
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    done = shoal.run("copy", "--exact", every_kind, out)
    assert done.returncode == 0, done.stderr
    assert_equal(every_kind, out)


@pytest.mark.disk
@pytest.mark.parametrize("call", ["utimensat", "fchmod"])
@pytest.mark.parametrize("directory", ["", "modes", "hard/150/3"])
def test_killed_in_the_last_walk_over_directories_an_exact_copy_resumes_and_is_equal(
    shoal: Command, every_kind: Path, tmp_path: Path, directory: str, call: str
) -> None:
    out = tmp_path / "out"
    kill = traced(tmp_path / "strace", f"{call}:signal=SIGKILL:when=1", out / directory)
    killed = shoal.under(*kill).run("copy", "--exact", every_kind, out)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    done = shoal.run("copy", "--exact", every_kind, out)
    assert done.returncode == 0, done.stderr
    assert_equal(every_kind, out)
