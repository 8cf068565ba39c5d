"""Small file systems of a test's own; the directories of these tests are on disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.disks import Disk


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts all of these tests on disk: they are about what a file system says."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.disk)


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a tmpfs with the options given; unmounted at the end of the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"mount-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Disk]]:
    """Makes a file system of this kind on a loop device; unmounted and removed at the end of the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    disks: list[Disk] = []

    def make(kind: str) -> Disk:
        disks.append(Disk(kind, tmp_path))
        return disks[-1]

    yield make
    for made in disks:
        made.unmount()
        made.image.unlink()
