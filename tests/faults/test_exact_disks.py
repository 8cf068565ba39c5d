"""An exact copy onto file systems that cannot hold all of it, that are full, or that lose their power."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Command
from every_kind import Entry, describe, differences, put, sparse
from faults import exact
from faults.disks import Disk
from faults.runs import errors
from faults.test_exact_faults import (
    assert_all_that_is_there_is_right,
    directories_apart,
    directory_named,
    failures,
    lost,
    told,
)
from trees import tree
from waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.mount]

Paths = Callable[..., Path]
Disks = Callable[[str], Disk]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree with some of each kind."""
    root = tmp_path / "source"
    for number in range(40):
        put(root / f"{number % 4}/{number}", f"{number}".encode() * 100)
    exact.add_every_kind(root)
    return root


def without_attributes(tree: dict[bytes, Entry]) -> dict[bytes, object]:
    """What a file system holds that has only bytes, owners, links and times."""
    return {name: (one.kind, one.digest, one.owner, one.target, one.mtime) for name, one in tree.items()}


def copied(shoal: Command, source: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return shoal.run("copy", source, out, "--exact", "--json", *more)


def assert_completes(shoal: Command, source: Path, out: Path, *more: str) -> None:
    """Runs the command; fails unless the copy then equals the source, and stays so."""
    again = copied(shoal, source, out, *more)
    assert again.returncode == 0, again.stderr
    assert lost(again) == []
    exact.assert_equal(source, out)
    assert list((out / ".shoal/tmp").iterdir()) == []
    assert told(copied(shoal, source, out, *more))["unchanged"] == len(tree(source))


def test_a_file_system_without_attributes_gets_all_else_and_the_loss_is_said_once(
    shoal: Command, source: Path, tmpfs: Paths
) -> None:
    out = tmpfs("size=64m", "ramfs") / "out"
    done = copied(shoal, source, out)
    assert done.returncode == 0, done.stderr
    (note,) = lost(done)
    with_attributes = [one for one in describe(source).values() if one.attributes]
    assert re.search(r"\d", note), note
    assert with_attributes
    assert without_attributes(describe(out)) == without_attributes(describe(source))
    again = copied(shoal, source, out)
    assert again.returncode == 0, again.stderr
    assert lost(again) != [], "each run says what the copy lacks"

    out = out.with_name("strict")
    strict = copied(shoal, source, out, "--strict-attributes")
    apart = {os.fsdecode(name) for name, one in describe(source).items() if one.kind == "directory" and one.attributes}
    assert directories_apart(source, out) == apart, "all others have theirs"
    assert directory_named(strict, out) in apart
    failed = failures(out).keys()
    assert tree(source).keys() >= failed >= {name for name in tree(source) if re.fullmatch(r"attributes/\d+", name)}
    assert tree(out).keys() == tree(source).keys() - failed


@pytest.mark.parametrize("kind", ["ramfs", "ext4-without-births"])
def test_hard_links_are_made_or_counted_where_a_file_has_no_birth_time(
    shoal: Command, tmp_path: Path, tmpfs: Paths, disk: Disks, kind: str
) -> None:
    """There shoal cannot tell by its time that a file is its own, but it has just written it."""
    source = filled(tmp_path / "source", "hard-links", 40)
    out = (tmpfs("size=64m", "ramfs") if kind == "ramfs" else disk(kind).on) / "out"
    done = copied(shoal, source, out)
    assert done.returncode == 0, done.stderr
    assert tree(out) == tree(source)
    names = len({(out / name).stat().st_ino for name in tree(out)})
    assert names == 1 or any("hard link" in note for note in lost(done)), f"{names} files, and no word of it"


def test_a_file_system_without_attributes_is_a_source_like_any_other(
    shoal: Command, tmp_path: Path, tmpfs: Paths
) -> None:
    source = tmpfs("size=64m", "ramfs") / "source"
    put(source / "d/file", b"x", 0o4711)
    (source / "link").symlink_to("d")
    done = copied(shoal, source, tmp_path / "out", "--strict-attributes")
    assert done.returncode == 0, done.stderr
    assert lost(done) == []
    exact.assert_equal(source, tmp_path / "out")


def test_a_file_system_without_acls_gets_all_else_and_the_loss_is_said_once(
    shoal: Command, source: Path, disk: Disks
) -> None:
    drive = disk("btrfs")
    drive.unmount()
    drive.options += ",noacl"
    drive.mount()
    out = drive.on / "out"
    done = copied(shoal, source, out)
    assert done.returncode == 0, done.stderr
    (note,) = lost(done)
    assert re.search(r"\d", note), note
    assert without_attributes(describe(out)) == without_attributes(describe(source))
    wanted, found = describe(source), describe(out)
    for name, one in wanted.items():
        kept = {key: value for key, value in one.attributes.items() if not key.startswith("system.posix_acl")}
        assert found[name].attributes == kept, name
        has_acl = kept != one.attributes
        assert found[name].mode == one.mode or has_acl, name
        # The bits show the mask of an ACL in place of the group's, which may have less.
        assert not has_acl or not (found[name].mode or 0) & ~(one.mode or 0), name
    out = out.with_name("strict")
    strict = copied(shoal, source, out, "--strict-attributes")
    with_acl = {
        os.fsdecode(name): one.kind
        for name, one in wanted.items()
        if any(key.startswith("system.posix_acl") for key in one.attributes)
    }
    apart = {name for name, kind in with_acl.items() if kind == "directory"}
    assert directories_apart(source, out) == apart, "all others have theirs"
    assert directory_named(strict, out) in apart
    failed = failures(out)
    assert {kind for kind, _ in failed.values()} == {"attribute"}
    assert tree(source).keys() >= failed.keys() >= with_acl.keys() - apart, "a directory is no object"
    assert tree(out).keys() == tree(source).keys() - failed.keys()


def test_a_file_system_with_nothing_but_files_gets_all_bytes_and_each_link_that_it_lacks_is_named(
    shoal: Command, source: Path, in_user_space: Callable[[str], Path]
) -> None:
    out = in_user_space("plain") / "out"
    links = {name for name in tree(source) if (source / name).is_symlink()}
    done = copied(shoal, source, out)
    assert done.returncode == 1, done.stderr
    assert failures(out).keys() == links
    assert lost(done) != []
    wanted = {name: data for name, data in tree(source).items() if name not in links}
    assert tree(out) == wanted, "a hard link that cannot be made is a file of its own, and no link is stored as one"
    again = copied(shoal, source, out)
    assert again.returncode == 1, again.stderr
    assert tree(out) == wanted

    plain = shoal.run("copy", source, out.with_name("not-exact"), "--links", "skip", "--json")
    assert plain.returncode == 0, plain.stderr
    assert tree(out.with_name("not-exact")) == wanted


def filled(root: Path, kind: str, count: int = 400, size: int = 800) -> Path:
    """A tree of so many objects of this kind, and few others; an attribute has so many bytes."""
    put(root / "files/first", b"x")
    for number in range(count):
        path = root / f"{kind}/{number:03}"
        path.parent.mkdir(exist_ok=True)
        if kind == "links":
            path.symlink_to(f"../files/{number}")
        elif kind == "hard-links":
            path.hardlink_to(root / "files/first")
        else:
            path.touch()
            os.setxattr(path, "user.random", random.Random(number).randbytes(size))
    return root


@pytest.mark.parametrize("kind", ["links", "hard-links"])
def test_a_disk_without_inodes_for_more_links_stops_the_run_and_space_lets_it_complete(
    shoal: Command, tmp_path: Path, tmpfs: Paths, kind: str
) -> None:
    """A tmpfs counts every name as an inode."""
    source, place = filled(tmp_path / "source", kind), tmpfs("size=64m,nr_inodes=250")
    full = copied(shoal, source, place / "out")
    assert full.returncode == 3, full.stderr
    assert told(full)["kind"] == "destination-full"
    (error,) = errors(full.stderr)
    assert "inode" in error or "space" in error
    assert_all_that_is_there_is_right(source, place / "out")
    subprocess.run(["mount", "-o", "remount,nr_inodes=5000", place], check=True)
    assert_completes(shoal, source, place / "out")


def test_a_file_on_another_mount_with_the_number_of_the_first_is_no_name_of_it(
    shoal: Command, tmp_path: Path, tmpfs: Paths
) -> None:
    source, out, other = tmp_path / "source", tmpfs("size=8m") / "out", tmpfs("size=8m")
    first = put(source / "above", b"bytes of the source")
    (source / "below").mkdir()
    (source / "below/second").hardlink_to(first)
    (out / "below").mkdir(parents=True)
    subprocess.run(["mount", "--bind", other, out / "below"], check=True)
    try:
        assert copied(shoal, source, out).returncode == 0
        number, stale = (out / "above").stat().st_ino, put(other / "stale-0", b"stale")
        while stale.stat().st_ino < number:
            stale = put(other / f"stale-{stale.stat().st_ino}", b"stale")
        assert stale.stat().st_ino == number
        (other / "other name").hardlink_to(stale)
        stale.replace(other / "second")
        assert copied(shoal, source, out, "--overwrite", "always").returncode == 0
        assert (out / "below/second").read_bytes() == b"bytes of the source"
    finally:
        subprocess.run(["umount", out / "below"], check=True)


def test_attributes_for_which_a_disk_has_no_room_are_never_left_out_silently(
    shoal: Command, tmp_path: Path, tmpfs: Paths
) -> None:
    """A tmpfs counts 1 kB of attributes as an inode; an error that says so says also that one is too large for any."""
    source, place = filled(tmp_path / "source", "attributes", size=3_000), tmpfs("size=64m,nr_inodes=900")
    full = copied(shoal, source, place / "out")
    assert full.returncode == 3 or (full.returncode == 0 and lost(full)), full
    assert_all_that_is_there_is_right(source, place / "out")
    subprocess.run(["mount", "-o", "remount,nr_inodes=5000", place], check=True)
    assert_completes(shoal, source, place / "out")


def test_a_full_disk_while_attributes_are_set_stops_the_run_and_space_lets_it_complete(
    shoal: Command, tmp_path: Path, disk: Disks
) -> None:
    """Of files without contents, each of which takes a block of 1 kB for its attributes."""
    source, drive = filled(tmp_path / "source", "attributes", 2_000), disk("ext4")
    room = 1_500_000  # bytes, of 2 MB
    ballast, free = drive.on / "ballast", os.statvfs(drive.on)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bfree * free.f_frsize - room)
    full = copied(shoal, source, drive.on / "out")
    assert full.returncode == 3 or (full.returncode == 0 and lost(full)), full
    assert_all_that_is_there_is_right(source, drive.on / "out")
    ballast.unlink()
    assert_completes(shoal, source, drive.on / "out")


@pytest.mark.parametrize("kind", ["ext4", pytest.param("xfs", marks=pytest.mark.slow)])
def test_an_exact_copy_that_says_it_is_complete_survives_a_power_cut(
    shoal: Command, source: Path, disk: Disks, kind: str
) -> None:
    drive = disk(kind)
    done = copied(shoal, source, drive.on / "out")
    drive.cut_power()
    drive.restart()
    assert done.returncode == 0, done.stderr
    wanted, found = describe(source), describe(drive.on / "out")
    if kind == "xfs":
        wanted, found = without_details(wanted), without_details(found)
    assert differences(wanted, found) == []


def without_details(tree: dict[bytes, Entry]) -> dict[bytes, Entry]:
    """Leaves out how XFS stores a file: its ACL as another attribute, and in how many blocks."""
    details = ("trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")
    kept = {
        name: {key: value for key, value in one.attributes.items() if key not in details} for name, one in tree.items()
    }
    return {name: replace(one, blocks=None, attributes=kept[name]) for name, one in tree.items()}


def test_acls_arrive_on_xfs_once_and_what_it_stores_them_in_is_not_copied(
    shoal: Command, source: Path, tmp_path: Path, disk: Disks
) -> None:
    """It shows root each ACL twice: also as an attribute in its own format, whose removal removes the ACL."""
    out = disk("xfs").on / "out"
    assert copied(shoal, source, out).returncode == 0
    before = {path: path.stat().st_ctime_ns for path in (out / "attributes").rglob("*")}
    again = copied(shoal, source, out)
    assert told(again)["written"] == 0
    changed = [path for path, time in before.items() if path.stat().st_ctime_ns != time]
    assert changed == [], "an ACL that is as it should be was removed and set again"
    assert copied(shoal, out, tmp_path / "back").returncode == 0
    assert differences(without_details(describe(source)), without_details(describe(out))) == []
    names = {key for one in describe(tmp_path / "back").values() for key in one.attributes}
    assert not any(key.startswith("trusted.SGI_ACL") for key in names)


@pytest.mark.parametrize("again", ["", "--update"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_files_with_holes_that_a_power_cut_has_emptied_are_written_again(
    shoal: Command, tmp_path: Path, disk: Disks, seed: int, again: str
) -> None:
    """Such a file has its size before its bytes: with another program's fsync, a disk has one and not the other."""
    source, drive, moments = tmp_path / "source", disk("ext4"), random.Random(seed)
    for number in range(500):
        path = sparse(source / f"{number % 5}/{number}", 60_000, (20_000, 40_000), 2_000)
        if number % 2:
            path.with_name(f"{number}-too").hardlink_to(path)
    out, emptied = drive.on / "out", 0
    for _ in range(2):
        run = shoal.start("copy", source, out, "--exact", "--limit-rate", "10MB")
        wait_until(lambda: any(out.glob("?/*")))
        with (drive.on / "other").open("wb") as other:
            end = time.monotonic() + moments.uniform(0.1, 0.8)
            while time.monotonic() < end:
                other.write(b"x")
                other.flush()
                os.fsync(other.fileno())
        run.kill()
        run.communicate(timeout=30)
        drive.cut_power()
        drive.restart()
        found = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size == 60_000]
        emptied += sum(not any(path.read_bytes()) for path in found)
    if not emptied:
        pytest.skip("not reached in time: a file with a size and no bytes")
    done = copied(shoal, source, out, *[again] * bool(again))
    assert done.returncode == 0, done.stderr
    assert_completes(shoal, source, out)


@pytest.mark.parametrize("durability", ["batch", "file"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_after_power_cuts_at_any_time_the_same_command_makes_an_exact_copy_equal(
    shoal: Command, source: Path, disk: Disks, durability: str, seed: int
) -> None:
    """Of a tree in which links and attributes are most of it, at moments that are between them."""
    for number in range(300):
        (source / f"links/more-{number}").symlink_to(f"{number}")
        exact.attributed(put(source / f"attributes/more-{number}", b"x" * 3_000), number)
        (source / f"shared/below/more-{number}").hardlink_to(source / f"attributes/more-{number}")
    drive, moments = disk("ext4"), random.Random(seed)
    command = ("copy", source, drive.on / "out", "--exact", "--durability", durability)
    for _ in range(2):
        run = shoal.start(*command, "--limit-rate", "700kB")  # two seconds
        wait_until(lambda: (drive.on / "out").exists())
        time.sleep(moments.uniform(0.05, 2))
        drive.cut_power()
        run.communicate(timeout=30)
        drive.restart()
    assert_completes(shoal, source, drive.on / "out", "--durability", durability)
