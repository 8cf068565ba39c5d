"""Permissions, owners, ACLs and attributes: what a copy has with `--exact` and without, and what it cannot have.

Whole trees are in `test_exact.py`.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rsync
import shoal as package
from conftest import Command, Service
from every_kind import (
    ACCESS,
    ACCESS_ACL,
    CAPABILITY,
    DEFAULT,
    DEFAULT_ACL,
    GROUP,
    NARROW_ACL,
    NET_BIND,
    ROOT,
    USER,
    WIDE_ACL,
    Entry,
    acl,
    build,
    describe,
    differences,
    put,
    stamp,
)
from faults.tracing import injected, traced
from ordinary_user import OrdinaryUser, ordinary_user
from test_permissions import needs_strace, strace, umask

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners, and attributes of the system")
SHOALS_OWN = r"/\.shoal>|clock"  # files that have nothing of the user's
SETXATTR = "/setxattr"
OWNERS_ACL = acl((1, 6, None), (4, 4, None), (32, 0, None))  # says no more than permission bits do


@pytest.fixture
def user(place_in_memory: Path | None) -> Iterator[OrdinaryUser]:
    with ordinary_user(place_in_memory) as made:
        yield made


def as_copied(tree: Mapping[bytes, Entry], mask: int) -> dict[bytes, Entry]:
    """What a copy without `--exact` must be: no owners, no ACLs, no hard links, and nine bits less the umask."""
    me = os.geteuid(), os.getegid()
    found = {}
    for path, one in tree.items():
        mode = None if one.mode is None else one.mode & 0o777 & ~mask
        kept = {name: value for name, value in one.attributes.items() if name.startswith("user.")}
        found[path] = replace(one, mode=mode, owner=me, attributes=kept, group=())
    return found


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_without_exact_a_copy_has_times_links_holes_and_attributes_of_users_and_nothing_that_gives_rights(
    tmp_path: Path, mask: int
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    build(source)
    with umask(mask):
        report = package.copy(source, out)
    assert report.ok
    wanted, found = as_copied(describe(source), mask), describe(out)
    del wanted[ROOT], found[ROOT]  # the destination itself is the user's
    assert differences(wanted, found) == []


def test_exact_makes_a_finished_copy_exact(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    build(source)
    assert shoal.run("copy", source, out).returncode == 0
    done = shoal.run("copy", "--exact", source, out)
    assert done.returncode == 0, done.stderr
    assert differences(describe(source), describe(out)) == []


@pytest.mark.parametrize("source", ["tree", "zip", "service"])
@pytest.mark.parametrize("destination", ["out", "parquet:packed", "null:"])
@pytest.mark.parametrize("option", ["--exact", "--strict-attributes"])
def test_only_a_directory_can_be_copied_exactly_and_only_into_a_directory(
    shoal: Command, service: Service, tmp_path: Path, source: str, destination: str, option: str
) -> None:
    put(tmp_path / "tree/file", b"x")
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("file", "x")
    named = {"tree": "tree", "zip": "zip:one.zip"}.get(source) or service(tmp_path / "tree").url
    done = shoal.run("copy", *dict.fromkeys([option, "--exact"]), named, destination)
    if (source, destination) == ("tree", "out"):
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2, done.stderr
    assert "--exact" in done.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "packed").exists()


def test_in_python_the_error_is_one_of_the_configuration_and_names_the_parameter(tmp_path: Path) -> None:
    put(tmp_path / "tree/file", b"x")
    for destination in ("null:", f"parquet:{tmp_path}/packed"):
        with pytest.raises(package.ConfigError, match="`exact=True`"):
            package.copy(tmp_path / "tree", destination, exact=True)


def test_an_exact_copy_into_a_directory_inherits_nothing_of_it(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    build(source)
    (out / "acl").mkdir(parents=True)
    (out / "files").mkdir()
    for folder in (out, out / "acl", out / "files"):
        os.setxattr(folder, DEFAULT, DEFAULT_ACL)
        os.setxattr(folder, "user.other", b"of the destination")
        folder.chmod(0o2777)
    report = package.copy(source, out, exact=True)
    assert report.ok
    found = describe(out)
    assert found.pop(b"files").kind == "directory"
    wanted = describe(source)
    # Its time is the source's, although this run did not make it.
    assert differences(wanted, found) == []


def set_one(path: Path) -> None:
    os.setxattr(path, "user.new", b"new")


def drop_one(path: Path) -> None:
    os.removexattr(path, "user.old")


def change_one(path: Path) -> None:
    os.setxattr(path, "user.old", b"another value")


def set_acl(path: Path) -> None:
    os.setxattr(path, ACCESS, NARROW_ACL)


def drop_acl(path: Path) -> None:
    os.removexattr(path, ACCESS)
    path.chmod(0o750)


def set_id(path: Path) -> None:
    path.chmod(0o6755)


def chown(path: Path) -> None:
    os.chown(path, GROUP, USER)


def set_capability(path: Path) -> None:
    os.setxattr(path, CAPABILITY, NET_BIND)


def set_time(path: Path) -> None:
    stamp(path, 1_111_111_111_111_111_111)


FILES = ("small", "large")
CHANGES = [set_one, drop_one, change_one, set_acl, drop_acl, set_id, set_time]
CASES = [(change, kind) for change in CHANGES for kind in (*FILES, "directory")]
CASES_OF_ROOT = [(chown, kind) for kind in (*FILES, "directory")] + [(set_capability, kind) for kind in FILES]


@pytest.mark.parametrize(
    ("change", "kind"), [*CASES, *(pytest.param(*case, marks=needs_root) for case in CASES_OF_ROOT)]
)
def test_an_update_brings_a_change_of_nothing_but_attributes(tmp_path: Path, change: Any, kind: str) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    put(source / "small", b"small")
    put(source / "large", b"large" * 100_000)
    put(source / "directory/file", b"x")
    put(source / "other", b"other")
    for name in (*FILES, "directory"):
        os.setxattr(source / name, "user.old", b"old")
        os.setxattr(source / name, ACCESS, WIDE_ACL)
    package.copy(source, out, exact=True)
    inode = (out / "other").stat().st_ino
    change(source / kind)
    report = package.copy(source, out, exact=True)
    assert report.ok
    assert differences(describe(source), describe(out)) == []
    assert (out / "other").stat().st_ino == inode
    assert package.copy(source, out, exact=True).written == 0


@needs_root
def test_labels_of_the_system_and_of_overlays_are_never_copied(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    path = put(source / "directory/file", b"x")
    for one in (path, path.parent):
        os.setxattr(one, "trusted.overlay.opaque", b"y")
        os.setxattr(one, "trusted.other", b"kept")
    assert package.copy(source, out, exact=True, strict_attributes=True).ok
    for found in (out / "directory", out / "directory/file"):
        assert [name for name in os.listxattr(found) if name.startswith("trusted.")] == ["trusted.other"]


@needs_root
def test_a_user_who_copies_files_of_others_is_told_once_that_the_owners_are_lost(user: OrdinaryUser) -> None:
    source, out = user.home / "source", user.home / "out"
    for number in range(30):
        put(source / f"{number % 3}/{number}", b"x", 0o644)
    source.chmod(0o755)
    done = user.shoal.run("copy", "--exact", source, out, "--json")
    assert done.returncode == 0, done.stderr
    notes = [note for note in user.shoal.last_json(done)["notes"] if "owner" in note]
    assert len(notes) == 1, done.stdout
    assert re.search(r"\b3[0-9]\b", notes[0]), "30 files, and perhaps directories"
    assert done.stderr.count("owner") >= 1
    mine = {path: replace(one, owner=(0, 0)) for path, one in describe(out).items()}
    assert differences(describe(source), mine) == []

    strict = user.shoal.run("copy", "--exact", "--strict-attributes", source, user.home / "strict")
    assert strict.returncode == 3, "the directories have lost theirs, too"
    (run,) = package.status(user.home / "strict", failures=None).runs
    files = {f"{number % 3}/{number}" for number in range(30)}
    assert {one.name: one.kind for one in run.failures if one.name in files} == dict.fromkeys(files, "attribute")


@pytest.mark.parametrize("strict", [False, True])
def test_attributes_that_the_destination_cannot_hold_are_counted_and_said_once_or_are_failures(
    shoal: Command, tmp_path: Path, strict: bool
) -> None:
    source, out, log = tmp_path / "source", tmp_path / "out", tmp_path / "log"
    for number in range(20):
        put(source / f"{number}", b"x")
        put(source / f"plain-{number}", b"x")
        os.setxattr(source / f"{number}", "user.one", b"1")
        os.setxattr(source / f"{number}", "user.two", b"2")
    given = ["--strict-attributes"] if strict else []
    under = traced(log, f"{SETXATTR}:error=EOPNOTSUPP")
    done = shoal.under(*under).run("copy", "--exact", source, out, "--json", *given)
    assert injected(log) >= 20
    report = shoal.last_json(done)
    notes = [note for note in report["notes"] if "attribute" in note]
    if strict:
        assert done.returncode == 1, done.stderr
        (run,) = package.status(out, failures=None).runs
        assert {one.name: one.kind for one in run.failures} == {f"{number}": "attribute" for number in range(20)}
        assert shoal.run("copy", "--exact", source, out, *given).returncode == 0
        assert differences(describe(source), describe(out)) == []
    else:
        assert done.returncode == 0, done.stderr
        assert len(notes) == 1, report
        assert "40" in notes[0]
        found = {path: replace(one, attributes={}) for path, one in describe(source).items()}
        assert differences(found, describe(out)) == []


@needs_root
@needs_strace
def test_nothing_that_gets_an_owner_an_acl_or_set_id_is_open_to_others_before(shoal: Command, tmp_path: Path) -> None:
    source, out, log = tmp_path / "source", tmp_path / "out", tmp_path / "log"
    for name, size in (("small", 10), ("large", 300_000)):
        os.chown(put(source / f"owner-{name}", b"x" * size, 0o644), USER, GROUP)
        path = put(source / f"set-id-{name}", b"x" * size)
        os.chown(path, USER, GROUP)
        path.chmod(0o6755)
        os.setxattr(put(source / f"acl-{name}", b"x" * size, 0o644), ACCESS, OWNERS_ACL)
        os.setxattr(put(source / f"user-acl-{name}", b"x" * size, 0o666), ACCESS, ACCESS_ACL)
    calls = "trace=open,openat,openat2,creat,/chmod,/chown"
    with umask(0):
        done = shoal.under(*strace("-y", "-e", calls, log=log)).run("copy", "--exact", source, out)
    assert done.returncode == 0, done.stderr
    assert differences(describe(source), describe(out)) == []
    lines = [line for line in log.read_text().splitlines() if f"<{out}" in line and " = -1 E" not in line]
    made = [line for line in lines if re.search("O_CREAT|O_TMPFILE", line) and not re.search(SHOALS_OWN, line)]
    assert len(made) >= 8, lines
    modes = {line: int(found[-1], 8) for line in made if (found := re.findall(r"(?:mode=|, )(0[0-7]{2,3})\b", line))}
    assert {line for line, mode in modes.items() if mode & 0o077} == set()
    owned: set[str] = set()
    for line in lines:
        if given := re.search(r"fchown(?:at)?\((\d+<[^>]*>)", line):
            owned.add(given[1])
        elif permitted := re.search(r"fchmod(?:at)?\((\d+<[^>]*>).*\b0?6755\b", line):
            assert permitted[1] in owned, f"set-id of root: {line}"


def test_the_time_of_a_file_is_set_last(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    for size in (1, 100_000, 3_000_000):
        path = put(source / f"{size}", b"x" * size)
        os.setxattr(path, "user.one", b"1" * 500)
        stamp(path, 1_000_000_000_123_456_789)
    package.copy(source, out, exact=True)
    for path in source.iterdir():
        assert (out / path.name).stat().st_mtime_ns == 1_000_000_000_123_456_789
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(source.stat().st_mode)
    assert rsync.lines(source, out) == []
