"""System calls that fail or kill under an exact copy: nothing is lost silently, and the same command mends it.

Not here: file systems that cannot hold something, full disks, power cuts (`test_exact_disks.py`); the faults that every
kind of job meets (`jobs.py`, which has an exact copy, too).
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command
from every_kind import Entry, describe, differences, put, stamp
from faults import exact
from faults.runs import errors
from faults.tracing import traced
from trees import tree
from waiting import wait_until

pytestmark = pytest.mark.disk

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
LARGE = 3_000_000
LOST = "could not keep"  # of a note


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree with some of each kind, and a file that is large enough to be copied by the kernel."""
    root = tmp_path / "source"
    for number in range(40):
        put(root / f"{number % 4}/{number}", f"{number}".encode() * 100)
    put(root / "large", random.Random(1).randbytes(LARGE))
    exact.add_every_kind(root)
    return root


def copied(shoal: Command, source: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return shoal.run("copy", source, "out", "--exact", "--json", "--workers", "2", *more)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The report of a command, or its error."""
    return Command.last_json(done)


def lost(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The notes of a command that say what the destination does not have."""
    return [note for note in told(done)["notes"] if LOST in note or "became" in note]


def met(log: Path) -> int:
    """How many calls were tampered with, not counting those for the journal."""
    lines = log.read_text().splitlines() if log.exists() else []
    return sum("(INJECTED)" in line and "journal.db" not in line for line in lines)


def failures(out: Path) -> dict[str, tuple[str, str]]:
    """All failures that the journal has, with their kinds and reasons."""
    return {one.name: (one.kind, one.reason.lower()) for one in package.status(out).runs[-1].failures}


def assert_all_that_is_there_is_right(source: Path, out: Path) -> None:
    """Fails if the bytes of a file or the text of a link are not those of the source."""
    wanted = tree(source)
    assert [name for name, data in tree(out).items() if wanted[name] != data] == []


def directories_apart(source: Path, out: Path) -> set[str]:
    """The directories of the source that the destination has otherwise, or not at all."""
    wanted, found = describe(source), describe(out)
    return {os.fsdecode(name) for name, one in wanted.items() if one.kind == "directory" and found.get(name) != one}


def directory_named(done: subprocess.CompletedProcess[str], root: Path) -> str:
    """The directory below `root` that the only error of a run names, which has ended with it."""
    assert done.returncode == 3, done
    (error,) = errors(done.stderr)
    (quoted,) = re.findall(r'"([^"]+)"', error)
    assert (root / quoted).is_dir(), error
    return str((root / quoted).relative_to(root))


def assert_nothing_is_there_but_beginnings(source: Path, out: Path) -> None:
    """Fails if a run that was killed has left more of a file than its beginning, or another link."""
    wanted = tree(source) if out.exists() else {}
    for name, data in tree(out).items():
        assert (out / name).is_symlink() == (source / name).is_symlink(), name
        assert data == wanted[name] or (wanted[name].startswith(data) and not (out / name).is_symlink()), name


def assert_mended(shoal: Command, source: Path, *more: str) -> None:
    """Runs the command without a fault; fails unless it makes the copy equal to the source, and has nothing to say."""
    again = copied(shoal, source, *more)
    assert again.returncode == 0, again.stderr
    assert lost(again) == []
    out = shoal.directory / "out"
    exact.assert_equal(source, out)
    assert list((out / ".shoal/tmp").iterdir()) == []
    last = told(copied(shoal, source, *more))
    assert last["unchanged"] == len(tree(source)), "what was mended stays so"


# The directories that need a call at the end of a run; none needs one that is not here.
OF_DIRECTORIES: dict[str, Callable[[Entry], bool]] = {
    "fsetxattr": lambda one: one.attributes != {},
    "fchown": lambda one: one.owner != (os.geteuid(), os.getegid()),
    "fchmod": lambda one: True,
}
ATTRIBUTES = [
    *[("fsetxattr", error) for error in ("EPERM", "EOPNOTSUPP", "ENOSPC")],
    *[(call, error) for call in ("fchown", "fchownat") for error in ("EPERM", "EINVAL")],
    ("fchmod", "EPERM"),
    *[("linkat", error) for error in ("EPERM", "EOPNOTSUPP", "EMLINK")],
]


def moments(calls: list[tuple[str, str]], ordinary: set[str]) -> list[object]:
    """The cases of a test; the first error of each call is in the normal run, and the others if they are `ordinary`."""
    seen: set[str] = set()
    found: list[object] = []
    for call, error in calls:
        marks = [] if call not in seen or error in ordinary else [pytest.mark.slow]
        seen.add(call)
        found.append(pytest.param(call, error, marks=[*marks, *([NEEDS_ROOT] if call.startswith("fchown") else [])]))
    return found


@pytest.mark.parametrize(("call", "error"), moments(ATTRIBUTES, {"EOPNOTSUPP"}))
def test_what_the_destination_refuses_to_hold_is_counted_and_said_once(
    shoal: Command, source: Path, call: str, error: str
) -> None:
    log = shoal.directory / "log"
    done = copied(shoal.under(*traced(log, f"{call}:error={error}")), source)
    assert met(log) > 0
    assert done.returncode == 0, done.stderr
    (note,) = lost(done)
    assert re.search(r"\d", note), "it says how many"
    assert tree(shoal.directory / "out") == tree(source), "no bytes are lost"
    assert differences(describe(source), describe(shoal.directory / "out")) != []
    assert_mended(shoal, source)


@pytest.mark.parametrize(("call", "error"), moments(ATTRIBUTES, set()))
def test_strict_attributes_makes_each_file_that_the_destination_cannot_hold_whole_a_failure(
    shoal: Command, source: Path, call: str, error: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    done = copied(shoal.under(*traced(log, f"{call}:error={error}")), source, "--strict-attributes")
    assert met(log) > 0
    wanted, found = describe(source), describe(out)
    needs = OF_DIRECTORIES.get(call)
    all_directories = {os.fsdecode(name): one for name, one in wanted.items() if one.kind == "directory"}
    directories = {name for name, one in all_directories.items() if needs is not None and needs(one)}
    assert directories_apart(source, out) == directories, "all others have theirs"
    if directories:
        assert directory_named(done, out) in directories
    else:
        assert done.returncode == 1, done.stderr
        assert errors(done.stderr) == []
    failed = failures(out)
    assert {kind for kind, _ in failed.values()} == {"attribute"}
    assert told(done)["failed"] == len(failed) >= 3
    assert failed.keys() <= tree(source).keys(), "a directory is no object"
    assert tree(out).keys() >= tree(source).keys() - failed.keys(), "all else is copied"
    assert_all_that_is_there_is_right(source, out)
    apart = {os.fsdecode(name) for name in wanted if found.get(name) != wanted[name] and wanted[name].kind == "file"}
    if call != "linkat":  # one file of a group is whole, and has fewer names
        assert apart <= failed.keys(), "nothing is written that is not as it should be"
    assert_mended(shoal, source, "--strict-attributes")


@pytest.mark.parametrize("error", ["EPERM", "EOPNOTSUPP", "ENOSYS"])
def test_links_that_the_destination_refuses_to_hold_are_never_left_out_silently(
    shoal: Command, source: Path, error: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    done = copied(shoal.under(*traced(log, f"symlinkat:error={error}")), source)
    assert met(log) > 0
    assert done.returncode == 1, done.stderr
    links = {name for name in tree(source) if (source / name).is_symlink()}
    assert tree(out).keys() == tree(source).keys() - links, "no link is stored as a file"
    assert failures(out).keys() == links
    assert_all_that_is_there_is_right(source, out)
    assert_mended(shoal, source)


SETTING = ("symlinkat", "linkat", "fsetxattr", "fchown", "fchownat", "fchmod", "utimensat")


@pytest.mark.parametrize(("call", "error"), moments([(call, "EIO") for call in SETTING], set()))
def test_a_disk_error_at_a_link_or_an_attribute_is_an_error_with_its_cause(
    shoal: Command, source: Path, call: str, error: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    done = copied(shoal.under(*traced(log, f"{call}:error={error}")), source)
    assert met(log) > 0
    assert done.returncode in (1, 3), done.stderr
    reasons = errors(done.stderr) + [failure["reason"] for failure in told(done).get("failures", [])]
    assert any("input/output error" in reason.lower() for reason in reasons), done
    assert len(errors(done.stderr)) == (done.returncode == 3), done.stderr
    assert_all_that_is_there_is_right(source, out)
    assert_mended(shoal, source)


FULL = [(call, error) for error in ("ENOSPC", "EDQUOT") for call in ("symlinkat", "linkat", "copy_file_range")]


@pytest.mark.parametrize(("call", "error"), moments(FULL, set()))
def test_no_space_for_a_link_or_in_the_kernel_stops_the_run_and_the_same_command_completes_it(
    shoal: Command, source: Path, call: str, error: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    done = copied(shoal.under(*traced(log, f"{call}:error={error}")), source)
    assert met(log) > 0
    assert done.returncode == 3, done.stderr
    assert told(done)["kind"] == "destination-full"
    assert len(errors(done.stderr)) == 1, done.stderr
    assert_all_that_is_there_is_right(source, out)
    assert_mended(shoal, source)


KERNEL = [
    *[("copy_file_range", error) for error in ("EOPNOTSUPP", "EXDEV", "EINVAL", "EIO", "EPERM", "ENOSYS")],
    *[("lseek", error) for error in ("EINVAL", "EOPNOTSUPP", "EIO")],
]


@pytest.mark.parametrize(("call", "error"), moments(KERNEL, {"EIO"}))
def test_without_holes_or_copies_by_the_kernel_every_byte_arrives(
    shoal: Command, source: Path, call: str, error: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    paths = [source / "large", *(source / "holes").iterdir()]
    under = traced(log, f"{call}:error={error}", *(paths if call == "lseek" else []))  # Python asks at its start
    done = copied(shoal.under(*under), source)
    assert met(log) > 0
    assert done.returncode == 0, done.stderr
    assert tree(out) == tree(source)
    assert lost(done) == []


READS = [
    ("readlinkat", "EIO", "links"),
    ("readlinkat", "EACCES", "links"),
    ("flistxattr", "EIO", "attributes/3"),
    ("fgetxattr", "EIO", "attributes/3"),
    ("fgetxattr", "EACCES", "attributes/3"),
]


@pytest.mark.parametrize(("call", "error", "path"), READS)
def test_a_link_or_an_attribute_that_cannot_be_read_is_a_failure_and_never_a_gap(
    shoal: Command, source: Path, call: str, error: str, path: str
) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    done = copied(shoal.under(*traced(log, f"{call}:error={error}", source / path)), source)
    assert met(log) > 0
    assert done.returncode == 1, done
    below = [name for name in tree(source) if name.startswith(f"{path}/")] if path == "links" else [path]
    failed = failures(out)
    assert failed.keys() == set(below)
    assert all(os.strerror(getattr(errno, error)).lower() in reason for _, reason in failed.values())
    assert_all_that_is_there_is_right(source, out)
    assert_mended(shoal, source)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("error", ["EIO", "EACCES"])
def test_attributes_of_a_directory_that_cannot_be_read_are_an_error_once_all_else_is_copied(
    shoal: Command, source: Path, error: str, strict: bool
) -> None:
    log, out, directory = shoal.directory / "log", shoal.directory / "out", "attributes/below/3"
    more = ["--strict-attributes"] * strict
    done = copied(shoal.under(*traced(log, f"flistxattr:error={error}", source / directory)), source, *more)
    assert met(log) > 0
    assert directory_named(done, source) == directory
    assert os.strerror(getattr(errno, error)).lower() in errors(done.stderr)[0].lower()
    assert failures(out) == {}, "a directory is no object"
    assert tree(out) == tree(source)
    assert directories_apart(source, out) == {directory}, "all others have theirs"
    assert_mended(shoal, source, *more)


@pytest.mark.parametrize("error", ["ENODATA", "ERANGE"])
def test_an_attribute_that_changes_while_it_is_read_does_no_harm(shoal: Command, source: Path, error: str) -> None:
    """Removed, or longer than it was a moment before."""
    log = shoal.directory / "log"
    done = copied(shoal.under(*traced(log, f"fgetxattr:error={error}:when=1", source / "attributes/3")), source)
    assert met(log) > 0
    assert done.returncode == 0, done.stderr
    assert tree(shoal.directory / "out") == tree(source)
    # One that was removed in truth has changed the file, so that an update looks at it.
    os.setxattr(source / "attributes/3", "user.number", b"other")
    assert_mended(shoal, source)


# Counted for each thread apart.
KILLS = [
    *[("symlinkat", n) for n in (1, 4)],
    *[("linkat", n) for n in (1, 5)],
    *[("fsetxattr", n) for n in (1, 10)],
    *[("fchown", n) for n in (1, 3)],
    *[("fchownat", n) for n in (1, 4)],
    *[("fchmod", n) for n in (1, 8)],
    *[("utimensat", n) for n in (1, 20)],
    *[("copy_file_range", 1), ("lseek", 1), ("lseek", 3), ("ftruncate", 1), ("syncfs", 1)],
]
MORE_KILLS = [
    *[("symlinkat", n) for n in (2, 3, 5)],
    *[("linkat", n) for n in (2, 3, 8)],
    *[("fsetxattr", n) for n in (2, 3, 5, 7, 14)],
    *[("fchown", n) for n in (2, 4)],
    *[("fchmod", n) for n in (2, 4, 12)],
    *[("utimensat", n) for n in (2, 5, 10, 30, 40)],
    *[("lseek", 2), ("lseek", 4)],
    *[("/^renameat2?$", n) for n in (1, 2)],
]


def assert_never_wider(source: Path, out: Path) -> None:
    """Fails if a file that is not as it should be yet is open to more users than it will be."""
    for path in out.rglob("*"):
        if path.is_symlink() or not path.is_file() or ".shoal" in path.relative_to(out).parts:
            continue
        now, wanted = path.lstat(), (source / path.relative_to(out)).lstat()
        beyond = stat.S_IMODE(now.st_mode) & ~stat.S_IMODE(wanted.st_mode)
        assert not beyond & 0o7177, f"{path} has {stat.S_IMODE(now.st_mode):04o}"
        if (now.st_uid, now.st_gid) != (wanted.st_uid, wanted.st_gid):
            assert not now.st_mode & 0o7077, f"{path} is open to its former group or has set-id bits"


@pytest.mark.parametrize(("call", "nth"), [*KILLS, *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE_KILLS)])
def test_killed_inside_the_nth_call_for_links_or_attributes_the_same_command_makes_the_copy_equal(
    shoal: Command, source: Path, call: str, nth: int
) -> None:
    if call.startswith("fchown") and os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    paths = sorted((source / "holes").iterdir()) if call == "lseek" else []
    kill = traced(shoal.directory / "log", f"{call}:signal=SIGKILL:when={nth}", *paths)
    killed = copied(shoal.under(*kill), source)
    assert killed.returncode in KILLED, killed.stderr
    assert_nothing_is_there_but_beginnings(source, shoal.directory / "out")
    assert_never_wider(source, shoal.directory / "out")
    assert_mended(shoal, source)


DIRECTORY = "attributes/below/10"  # with an owner, an ACL and attributes
LAST = [("utimensat", 1), ("fchmod", 1), ("fsetxattr", 1), ("fsetxattr", 3), ("fchown", 1)]


@pytest.mark.parametrize(("call", "nth"), LAST)
def test_killed_in_the_last_walk_over_directories_the_same_command_completes_it(
    shoal: Command, source: Path, call: str, nth: int
) -> None:
    if call == "fchown" and os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    kill = traced(shoal.directory / "log", f"{call}:signal=SIGKILL:when={nth}", shoal.directory / "out" / DIRECTORY)
    killed = copied(shoal.under(*kill), source)
    assert killed.returncode in KILLED, killed.stderr
    status = shoal.run("status", shoal.directory / "out", "--json")
    assert json.loads(status.stdout)["runs"][0]["completed"] is None, "its directories are not done"
    assert copied(shoal, source, "--once").returncode == 0
    assert_mended(shoal, source)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("call", ["utimensat", "fchmod", "fsetxattr"])
def test_what_a_directory_is_refused_is_counted_or_an_error_once_all_else_is_copied(
    shoal: Command, source: Path, call: str, strict: bool
) -> None:
    log, out, directory = shoal.directory / "log", shoal.directory / "out", "attributes/below/1"
    under = traced(log, f"{call}:error=EPERM", out / directory)
    more = ["--strict-attributes"] * strict
    done = copied(shoal.under(*under), source, *more)
    assert met(log) > 0
    if strict:
        assert directory_named(done, out) == directory
    else:
        assert done.returncode == 0, done.stderr
        (note,) = lost(done)
        assert re.search(r"\d", note), "it says how many"
    assert failures(out) == {}, "a directory is no object"
    assert tree(out) == tree(source)
    assert directories_apart(source, out) == {directory}, "all others have theirs"
    assert_mended(shoal, source, *more)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["utimensat", "fsetxattr", "linkat", "symlinkat"])
def test_killed_at_one_call_after_the_other_a_copy_ends_equal(shoal: Command, source: Path, call: str) -> None:
    for nth in range(1, 40):
        done = copied(shoal.under(*traced(shoal.directory / "log", f"{call}:signal=SIGKILL:when={nth}")), source)
        if done.returncode not in KILLED:
            assert done.returncode == 0, done.stderr
            break
        assert_nothing_is_there_but_beginnings(source, shoal.directory / "out")
    assert_mended(shoal, source)


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("call", "path"), [("fchmod|fchmodat", "closed"), ("utimensat", "closed"), ("write", "closed/below/3"), ("", "")]
)
def test_directories_that_their_owner_may_not_write_to_are_filled_also_after_a_kill(
    shoal: Command, tmp_path: Path, call: str, path: str
) -> None:
    """Root without its rights is an ordinary user."""
    source, out = tmp_path / "closed-source", tmp_path / "out"
    for number in range(20):
        put(source / f"closed/below/{number}", f"{number}".encode())
        put(source / f"open/{number}", f"{number}".encode(), (0o644, 0o444, 0o4755, 0o400)[number % 4])
    for name, mode in (("closed/below", 0o555), ("closed", 0o500)):
        stamp(source / name, 1_234_567_890_123_456_789)
        (source / name).chmod(mode)
    if call:
        calls = f"/^({call})$" if "|" in call else call
        kill = traced(tmp_path / "log", f"{calls}:signal=SIGKILL:when=1", out / path)
        killed = copied(shoal.under(*kill, *WITHOUT_RIGHTS), source)
        assert killed.returncode in KILLED, killed.stderr
    user = shoal.under(*WITHOUT_RIGHTS)
    # An update may write once more what was changed in the tick in which the barrier of the killed run began.
    assert copied(user, source).returncode == 0
    assert_mended(user, source)
    (source / "closed/below").chmod(0o755)
    put(source / "closed/below/new", b"new")
    (source / "closed/below/0").write_bytes(b"changed")
    stamp(source / "closed/below", 1_234_567_890_987_654_321)
    (source / "closed/below").chmod(0o555)
    assert copied(user, source).returncode == 0
    exact.assert_equal(source, out)
    assert_mended(user, source)


@pytest.mark.parametrize("change", ["written", "truncated", "replaced"])
def test_a_file_that_changes_while_the_kernel_copies_it_is_a_failure(shoal: Command, source: Path, change: str) -> None:
    log, file = shoal.directory / "log", source / "large"
    under = traced(log, "copy_file_range:delay_enter=2s:when=1", file)
    run = shoal.under(*under).start("copy", source, "out", "--exact", "--json", "--workers", "2")
    wait_until(lambda: log.exists() and "copy_file_range(" in log.read_text())
    if change == "written":
        with file.open("r+b") as opened:
            opened.write(b"other bytes")
    elif change == "truncated":
        os.truncate(file, LARGE // 2)
    else:
        file.rename(source.parent / "away")
        file.write_bytes(b"another file")
    printed, said = run.communicate(timeout=60)
    assert printed
    failed = failures(shoal.directory / "out")
    if change == "replaced":  # the file that was opened is whole
        assert not failed or "change" in failed["large"][1], said
    else:
        assert run.returncode == 1, said
        assert "change" in failed["large"][1]
        assert not (shoal.directory / "out/large").exists()
    assert_mended(shoal, source)


@pytest.mark.timing
def test_ctrl_c_ends_a_copy_by_the_kernel_at_once_and_the_same_command_completes_it(
    shoal: Command, source: Path
) -> None:
    size = 60_000_000
    with (source / "large").open("r+b") as file:
        file.seek(size - 1_000_000)
        file.write(random.Random(2).randbytes(1_000_000))
    put(source / "solid", bytes(range(256)) * (size // 256))
    run = shoal.start("copy", source, "out", "--exact", "--limit-rate", "10MB")
    temporary = shoal.directory / "out/.shoal/tmp"
    wait_until(lambda: temporary.is_dir() and any(path.stat().st_size > 5_000_000 for path in temporary.iterdir()))
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert time.monotonic() - began < 2, said
    assert run.returncode == 130, said
    assert_all_that_is_there_is_right(source, shoal.directory / "out")
    assert_mended(shoal, source)
