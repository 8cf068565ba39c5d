"""`--update` where disks are mounted in the place of the source, and onto a disk that stores no birth times."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

import shoal as package
from faults.disks import Disk, run
from trees import tree

pytestmark = [pytest.mark.root, pytest.mark.mount]

TIME = 1_000_000_000
SMALL, LARGE = 3, 200_000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where sources are mounted; nothing is mounted there at the end of the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    source = tmp_path / "source"
    source.mkdir()
    yield source
    run("umount", "-l", source)


def fill(directory: Path, text: str) -> None:
    (directory / "bin").mkdir()
    for name in ("bin/tool", "large"):
        (directory / name).write_text(text * (LARGE if name == "large" else 1))
        os.utime(directory / name, (TIME, TIME))


def filled(kind: str, base: Path, text: str) -> Disk:
    """A disk with these files that is not mounted."""
    base.mkdir()
    drive = Disk(kind, base)
    if (drive.on / "lost+found").is_dir():
        (drive.on / "lost+found").rmdir()
    fill(drive.on, text)
    drive.unmount()
    return drive


@pytest.mark.parametrize("kind", ["ext4", "ext4-without-births", "xfs", "btrfs", "bind"])
def test_another_file_system_in_the_place_of_the_source_is_compared_byte_by_byte(
    tmp_path: Path, place: Path, kind: str
) -> None:
    mounts: list[list[str | Path]] = []
    for text in ("old", "new"):
        if kind == "bind":
            (tmp_path / text).mkdir()
            fill(tmp_path / text, text)
            mounts.append(["--bind", tmp_path / text])
        else:
            mounts.append(["-o", "loop,ro", filled(kind, tmp_path / text, text).image])
    time.sleep(2.5 if kind == "ext4-without-births" else 0.05)  # its times are in steps
    for number, mount in enumerate(mounts):
        mounted = run("mount", *mount, place)
        assert mounted.returncode == 0, mounted.stderr
        report = package.copy(place, tmp_path / "out", resume="update" if number else "auto")
        assert report.written == 2, report
        assert tree(tmp_path / "out") == tree(place)
        assert run("umount", place).returncode == 0


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_the_same_file_system_on_another_device_is_believed_by_size_and_time(
    tmp_path: Path, place: Path, kind: str
) -> None:
    image = filled(kind, tmp_path / "disk", "old").image
    names = ("bin/tool", "large")

    def mount() -> int:
        mounted = run("mount", "-o", "loop,strictatime", image, place)
        assert mounted.returncode == 0, mounted.stderr
        return place.stat().st_dev

    device = mount()
    package.copy(place, tmp_path / "out")
    read = {name: (place / name).stat().st_atime_ns for name in names}
    loop = run("findmnt", "-n", "-o", "SOURCE", place).stdout.strip()
    assert run("umount", place).returncode == 0
    (tmp_path / "other").write_bytes(bytes(1 << 20))
    taken = run("losetup", loop, tmp_path / "other")
    # As after a reboot, another disk has its number: that may be one of another test.
    assert taken.returncode == 0 or "busy" in taken.stderr, taken.stderr
    try:
        assert mount() != device or kind == "btrfs"
        report = package.copy(place, tmp_path / "out", resume="update")
        assert report.unchanged == 2, report
        assert {name: (place / name).stat().st_atime_ns for name in names} == read, "nothing was read"
    finally:
        run("umount", place)
        if taken.returncode == 0:
            run("losetup", "--detach", loop)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("overwrite", ["never", "always"])
def test_without_birth_times_changed_permissions_and_times_arrive_where_the_run_has_written(
    tmp_path: Path, disk: Callable[[str], Disk], size: int, overwrite: Literal["never", "always"]
) -> None:
    source, out = tmp_path / "tree", disk("ext4-without-births").on / "out"
    source.mkdir()
    out.mkdir()
    for name in ("key", "times", "mine"):
        (source / name).write_text(name * size)
        (source / name).chmod(0o644)
    (out / "mine").write_text("mine" * size)
    (out / "mine").chmod(0o640)
    time.sleep(2.1)  # the disk's times are in whole seconds
    package.copy(source, out)
    (source / "key").chmod(0o600)
    (source / "mine").chmod(0o600)
    os.utime(source / "times", (TIME, TIME))
    time.sleep(2.1)
    report = package.copy(source, out, resume="update", overwrite=overwrite)
    assert (report.written, report.skipped, report.failed) == (2, 1, 0), report
    assert {name: stat.S_IMODE((out / name).stat().st_mode) for name in tree(source)} == {
        "key": 0o600,
        "times": 0o644,
        "mine": 0o640,
    }
    assert (out / "times").stat().st_mtime == TIME
    assert tree(out) == tree(source)
    assert package.copy(source, out, resume="update", overwrite=overwrite).skipped == 3
