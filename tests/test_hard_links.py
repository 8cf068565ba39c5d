"""Names of one file become names of one file, with `--hard-links` or `--exact`, also after what groups go through."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rsync
import shoal as package
from conftest import Command
from every_kind import describe, differences, put, stamp
from faults.tracing import injected, traced
from trees import tree

SIZES = {"small": 100, "large": 300_000}  # bytes: whole in memory, and in pieces through a temporary file


def group(root: Path, *names: str, data: bytes = b"one file", size: int | None = None) -> Path:
    """Makes one file with these names; returns the first."""
    first = put(root / names[0], data if size is None else (data * size)[:size])
    for name in names[1:]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).hardlink_to(first)
    return first


def groups(root: Path) -> set[frozenset[str]]:
    """All groups of names that are one file."""
    return {frozenset(map(os.fsdecode, one.group)) for one in describe(root).values() if one.group}


def grouped(*names: str) -> frozenset[str]:
    return frozenset(names)


def copy(source: Path, out: Path, **options: Any) -> package.Report:
    return package.copy(source, out, hard_links=True, on_error="record", **options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Groups of 2, 3 and 150 names, across directories, and files that have one name there."""
    root = tmp_path / "source"
    group(root, "a", "z/a", data=b"two")
    group(root, "b/1", "1", "b/b/1", data=b"three", size=SIZES["large"])
    group(root, *(f"many/{number % 9}/{number}" for number in range(150)), data=b"many")
    group(tmp_path, "source/alone", "elsewhere/alone", data=b"its other name is not in the tree")
    put(root / "file", b"two")  # equal bytes, but another file
    return root


def test_groups_become_groups_and_all_names_count(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = copy(source, out)
    assert (report.written, report.failed, report.skipped) == (2 + 3 + 150 + 2, 0, 0)
    assert groups(out) == groups(source)
    assert tree(out) == tree(source)
    assert {(out / name).stat().st_nlink for name in ("a", "1", "many/0/0", "alone", "file")} == {2, 3, 150, 1}
    again = copy(source, out)
    assert (again.written, again.unchanged) == (0, report.written)


def test_by_default_each_name_becomes_a_file(source: Path, tmp_path: Path) -> None:
    package.copy(source, tmp_path / "out")
    assert groups(tmp_path / "out") == set()
    assert tree(tmp_path / "out") == tree(source)


def test_the_command_has_a_long_and_a_short_flag(shoal: Command, source: Path) -> None:
    for flag in ("-H", "--hard-links", "--exact"):
        out = shoal.directory / f"out{flag}"
        assert shoal.run("copy", flag, source, out).returncode == 0
        assert groups(out) == groups(source), flag


def test_hard_links_can_be_asked_for_later(source: Path, tmp_path: Path) -> None:
    package.copy(source, tmp_path / "out")
    assert copy(source, tmp_path / "out").ok
    assert groups(tmp_path / "out") == groups(source)


def test_a_group_has_the_attributes_and_the_time_of_its_file(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    for name, size in SIZES.items():
        first = group(source, f"{name}/1", f"{name}/2", f"3-{name}", size=size)
        first.chmod(0o640)
        os.setxattr(first, "user.one", b"1")
        stamp(first, 1_234_567_890_123_456_789)
    package.copy(source, out, exact=True)
    assert differences(describe(source), describe(out)) == []
    assert rsync.lines(source, out) == []


def test_names_of_a_followed_link_and_of_its_file_are_no_group(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "a", "b")
    (source / "link").symlink_to("a")
    report = package.copy(package.files(source, links="follow"), out, hard_links=True)
    assert report.written == 3
    assert tree(out) == dict.fromkeys(("a", "b", "link"), b"one file")
    assert grouped("a", "b") <= next(iter(groups(out)))


# What a group goes through between two copies.


def first_replaced(root: Path) -> None:
    (root / "g/1").unlink()
    put(root / "g/1", b"another file")


def last_replaced(root: Path) -> None:
    (root / "z/3").unlink()
    put(root / "z/3", b"another file")


def replaced_by_equal_bytes(root: Path, name: str = "g/2") -> None:
    """Only the inode tells that this is no name of the group any more."""
    data, told = (root / name).read_bytes(), (root / name).stat()
    (root / name).unlink()
    put(root / name, data)
    os.utime(root / name, ns=(told.st_atime_ns, told.st_mtime_ns))


def first_replaced_by_equal_bytes(root: Path) -> None:
    replaced_by_equal_bytes(root, "g/1")


def name_added(root: Path) -> None:
    group_of(root, "a/new")


def name_added_behind(root: Path) -> None:
    group_of(root, "zz")


def names_added_before_and_behind(root: Path) -> None:
    group_of(root, "0", "zz/9")


def group_of(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).hardlink_to(root / "g/1")


def split(root: Path) -> None:
    data = (root / "g/1").read_bytes()
    for name in ("g/1", "g/2"):
        (root / name).unlink()
    group(root, "g/1", "g/2", data=data)


def merged(root: Path) -> None:
    (root / "other/1").unlink()
    (root / "other/2").unlink()
    group_of(root, "other/1", "other/2")


def swapped(root: Path) -> None:
    """Two names of two groups change places."""
    (root / "g/2").rename(root / "away")
    (root / "other/2").rename(root / "g/2")
    (root / "away").rename(root / "other/2")


def changed_in_place(root: Path) -> None:
    (root / "g/1").write_bytes(b"other bytes of the whole group")


def file_joins(root: Path) -> None:
    (root / "single").unlink()
    group_of(root, "single")


def becomes_a_group(root: Path) -> None:
    (root / "single 2").hardlink_to(root / "single")


def split_with_other_permissions(root: Path) -> None:
    replaced_by_equal_bytes(root)
    (root / "g/2").chmod(0o600)


def link_joins(root: Path) -> None:
    (root / "link").unlink()
    group_of(root, "link")


def empty_directory_joins(root: Path) -> None:
    (root / "y").rmdir()
    group_of(root, "y")


def permissions_changed(root: Path) -> None:
    (root / "g/1").chmod(0o600)


CHANGES = [
    *[first_replaced, last_replaced, replaced_by_equal_bytes, first_replaced_by_equal_bytes],
    *[name_added, name_added_behind, names_added_before_and_behind],
    *[split, split_with_other_permissions, merged, swapped, changed_in_place, file_joins, link_joins],
    *[empty_directory_joins, becomes_a_group, permissions_changed],
]


@pytest.mark.parametrize("resume", ["auto", "restart"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", SIZES)
def test_an_update_brings_what_has_become_of_a_group(
    tmp_path: Path, change: Callable[[Path], None], resume: Any, size: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "g/1", "g/2", "z/3", size=SIZES[size])
    group(source, "other/1", "other/2", size=SIZES[size], data=b"another group")
    put(source / "single", b"single")
    (source / "link").symlink_to("single")
    (source / "y").mkdir()
    package.copy(source, out, exact=True)
    change(source)
    report = package.copy(source, out, exact=True, resume=resume)
    assert report.ok, report.failures
    assert differences(describe(source), describe(out)) == []
    assert list((out / ".shoal/tmp").iterdir()) == []
    assert package.copy(source, out, exact=True).written == 0


def test_a_name_that_the_source_has_lost_stays_as_it_was(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "1", "2", "3")
    copy(source, out)
    (source / "1").unlink()
    (source / "2").write_bytes(b"changed")
    assert copy(source, out).ok
    assert groups(out) == {grouped("2", "3")}
    assert tree(out) == {"1": b"one file", "2": b"changed", "3": b"changed"}


@pytest.mark.parametrize("deleted", ["0", "3"])
@pytest.mark.parametrize(
    "change", [first_replaced_by_equal_bytes, name_added_behind, permissions_changed, changed_in_place]
)
def test_a_group_of_which_the_user_has_deleted_a_name_is_updated_on_request(
    tmp_path: Path, change: Callable[[Path], None], deleted: str
) -> None:
    # The deletion stamps the file, so its other names count as changed by another program.
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "g/0", "g/1", "g/2", "g/3")
    package.copy(source, out, exact=True)
    for root in (source, out):
        (root / "g" / deleted).unlink()
    change(source)
    package.copy(source, out, exact=True, overwrite="always")
    assert differences(describe(source), describe(out)) == []


def test_a_group_that_the_destination_shares_with_a_snapshot_is_not_written_there(tmp_path: Path) -> None:
    source, out, snapshot = tmp_path / "source", tmp_path / "out", tmp_path / "snapshot"
    group(source, "1", "2")
    copy(source, out)
    shutil.copytree(out, snapshot, copy_function=os.link, ignore=shutil.ignore_patterns(".shoal"))  # as `cp -al`
    (source / "1").write_bytes(b"changed")
    copy(source, out, overwrite="always")
    assert tree(out) == dict.fromkeys("12", b"changed")
    assert tree(snapshot) == dict.fromkeys("12", b"one file")
    assert groups(out) == {grouped("1", "2")}


# Names that are left out, or fail.


@pytest.mark.parametrize("excluded", ["1", "2", "3"])
def test_the_names_that_a_filter_leaves_are_a_group(tmp_path: Path, excluded: str) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "d/1", "d/2", "e/3", "e/4")
    report = copy(source, out, exclude=f"{excluded}")
    assert (report.written, report.skipped, report.failed) == (3, 1, 0)
    assert groups(out) == {grouped(*({"d/1", "d/2", "e/3", "e/4"} - {f"d/{excluded}", f"e/{excluded}"}))}
    assert tree(out) == {name: data for name, data in tree(source).items() if not name.endswith(excluded)}


def test_a_name_alone_that_a_filter_leaves_is_a_file(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "a", "b")
    assert copy(source, out, include="b").written == 1
    assert (tree(out), (out / "b").stat().st_nlink) == ({"b": b"one file"}, 1)


@pytest.mark.parametrize("blocked", ["d/1", "d/2", "z"])
@pytest.mark.parametrize("size", SIZES)
def test_a_name_that_was_in_the_way_joins_its_group_when_it_is_retried(tmp_path: Path, blocked: str, size: str) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    names = {"d/1", "d/2", "z"}
    group(source, *sorted(names), size=SIZES[size])
    put(out / blocked / "mine", b"mine")
    report = copy(source, out)
    assert [(one.name, one.kind) for one in report.failures] == [(blocked, "name-conflict")]
    assert groups(out) == {frozenset(names - {blocked})}
    shutil.rmtree(out / blocked)
    report = copy(source, out, resume="failed")
    assert (report.failed, report.written) == (0, 1)
    assert groups(out) == {frozenset(names)}
    assert tree(out) == tree(source)


def test_a_foreign_file_with_the_name_of_a_group_stays_and_is_replaced_on_request(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "1", "2", "3")
    put(out / "2", b"mine")
    report = copy(source, out)
    assert [(one.name, one.kind) for one in report.failures] == [("2", "exists")]
    assert (out / "2").read_bytes() == b"mine"
    assert groups(out) == {grouped("1", "3")}
    assert copy(source, out, overwrite="always").ok
    assert groups(out) == groups(source)
    assert tree(out) == tree(source)


def test_a_group_whose_file_is_gone_when_it_is_read_fails_by_all_names(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "1", "2")
    put(source / "3", b"x")
    (source / "1").chmod(0)
    without_rights = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
    done = (shoal.under(*without_rights) if os.geteuid() == 0 else shoal).run("copy", "-H", source, "out")
    if done.returncode == 0:
        pytest.skip("root can read every directory")
    failed = {one.name: one.kind for one in package.status(out).runs[0].failures}
    assert failed == {"1": "denied", "2": "denied"}
    (source / "1").chmod(0o600)
    assert shoal.run("copy", "-H", source, "out", "--retry-failed").returncode == 0
    assert groups(out) == {grouped("1", "2")}
    assert tree(out) == tree(source)


# A destination that takes no links, or no more.


@pytest.mark.parametrize("error", ["EMLINK:when=5+", "EPERM"])
@pytest.mark.parametrize("size", SIZES)
def test_names_that_the_destination_cannot_link_become_files_which_a_note_says(
    shoal: Command, tmp_path: Path, error: str, size: str
) -> None:
    source, out, log = tmp_path / "source", tmp_path / "out", tmp_path / "log"
    group(source, *(f"{number:02}" for number in range(20)), size=SIZES[size])
    done = shoal.under(*traced(log, f"linkat:error={error}")).run("copy", "-H", source, out, "--workers", "1", "--json")
    assert injected(log) > 0
    assert done.returncode == 0, done.stderr
    report = shoal.last_json(done)
    assert (report["written"], report["failed"]) == (20, 0)
    assert tree(out) == tree(source)
    notes = [note for note in report["notes"] if "hard link" in note]
    assert len(notes) == 1, report["notes"]
    # The next update makes the group whole, if the destination now takes it.
    assert shoal.run("copy", "-H", source, out).returncode == 0
    assert tree(out) == tree(source)


def test_with_strict_attributes_names_that_cannot_be_linked_are_failures(shoal: Command, tmp_path: Path) -> None:
    source, out, log = tmp_path / "source", tmp_path / "out", tmp_path / "log"
    group(source, "1", "2", "3")
    under = shoal.under(*traced(log, "linkat:error=EPERM"))
    done = under.run("copy", "--exact", "--strict-attributes", source, out)
    assert injected(log) > 0
    assert done.returncode == 1, done.stderr
    failed = {one.name for one in package.status(out).runs[0].failures}
    assert len(failed) == 2
    assert failed < {"1", "2", "3"}
    assert shoal.run("copy", "--exact", "--strict-attributes", source, out, "--retry-failed").returncode == 0
    assert groups(out) == {grouped("1", "2", "3")}


@pytest.mark.slow
def test_more_names_than_the_destination_allows_one_file_to_have(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source, out = tmp_path / "source", tmp_path_factory.mktemp("out")  # in memory, and on disk
    names = [f"{number % 100}/{number}" for number in range(65_100)]  # ext4: 65,000
    try:
        group(source, *names)
    except OSError:
        shutil.rmtree(out)
        pytest.skip("no directory in memory here, which takes more links than disks do")
    report = copy(source, out)
    assert (report.written, report.failed) == (len(names), 0)
    assert {(out / name).read_bytes() for name in names} == {b"one file"}
    most = max((out / name).stat().st_nlink for name in names)
    assert most == len(names) or any("hard link" in note for note in report.notes)
    shutil.rmtree(out)


@pytest.mark.parametrize("destination", ["parquet:packed", "null:"])
def test_hard_links_are_refused_or_each_name_is_an_object_where_there_are_no_files(
    shoal: Command, source: Path, destination: str
) -> None:
    done = shoal.run("copy", "-H", source, destination, "--json")
    if done.returncode == 2:
        assert "--hard-links" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert shoal.last_json(done)["written"] == 2 + 3 + 150 + 2


def test_a_spool_of_many_groups_gives_each_of_them(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    for number in range(3_000):
        group(source, f"{number % 10}/{number}", f"other/{number}", data=b"%d" % number)
    done = shoal.run("copy", "-H", source, out)
    assert done.returncode == 0, done.stderr
    assert groups(out) == groups(source)
    assert tree(out) == tree(source)


def test_a_file_with_other_names_outside_of_the_source_is_copied_once_and_updated(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(tmp_path, "source/a", "elsewhere/a", data=b"first")
    copy(source, out)
    again = copy(source, out)
    assert (again.written, again.unchanged) == (0, 1)
    assert (out / "a").stat().st_nlink == 1
    assert list((out / ".shoal/tmp").iterdir()) == []
    put(source / "a", b"changed now")
    assert copy(source, out).written == 1
    assert (out / "a").read_bytes() == b"changed now"


def test_a_name_that_was_left_out_of_an_update_is_compared_by_the_next_one(tmp_path: Path) -> None:
    """Replacing one name of a file changes the file that the other name has, which says nothing of that name."""
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "a", "b", data=b"1111")
    os.utime(source / "a", (1, 1))
    copy(source, out)
    put(tmp_path / "other", b"YYYY")
    os.utime(tmp_path / "other", (1, 1))
    (tmp_path / "other").rename(source / "b")
    copy(source, out, resume="update", exclude=["b"])
    copy(source, out, resume="update")
    assert (out / "b").read_bytes() == b"YYYY"


def test_a_name_that_became_another_file_since_it_was_listed_is_not_linked(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "a", "b", data=b"o" * 30_000)
    os.utime(source / "a", (1, 1))
    for number in range(20):
        put(source / f"large{number}", b"l" * 1_000_000)
    put(tmp_path / "other", b"n" * 30_000)
    os.utime(tmp_path / "other", (1, 1))

    def swap(progress: package.Progress) -> None:
        if progress.run.bytes > 5_000_000 and (tmp_path / "other").exists():
            (tmp_path / "other").rename(source / "b")

    copy(source, out, limit_rate="10MB", workers=1, progress=swap)
    assert not (tmp_path / "other").exists(), "the run was over before the file was replaced"
    assert (out / "b").read_bytes() == b"n" * 30_000
    assert (out / "a").read_bytes() == b"o" * 30_000


@pytest.mark.parametrize("paths", [["a", "b"], "*"], ids=["list", "glob"])
def test_names_of_a_list_or_a_glob_cannot_stay_one_file(tmp_path: Path, paths: list[str] | str) -> None:
    group(tmp_path, "a", "b")
    what = [tmp_path / name for name in paths] if isinstance(paths, list) else str(tmp_path / paths)
    with pytest.raises(package.ConfigError, match="only a directory or file of this machine has hard links"):
        copy(what, tmp_path / "out")  # type: ignore[arg-type]


def test_names_stay_one_file_if_the_first_one_is_gone_when_it_is_fetched(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    group(source, "a", "b", "c")
    for number in range(20):
        put(source / f"large{number}", b"l" * 1_000_000)

    def remove(progress: package.Progress) -> None:
        if progress.run.bytes > 5_000_000:
            (source / "a").unlink(missing_ok=True)

    report = copy(source, out, limit_rate="10MB", workers=1, progress=remove, ignore_vanished=True)
    assert not (source / "a").exists(), "the run was over before the name was removed"
    assert (report.failed, (out / "a").exists()) == (0, False)
    assert groups(out) == {grouped("b", "c")}
    assert not any("of their own" in note or "of its own" in note for note in report.notes), report.notes
