"""Small file systems of a test's own; the directories of these tests are on disk."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
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
    """Mounts a tmpfs with the options given, or a ramfs; unmounted at the end of the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    mounted: list[Path] = []

    def mount(options: str, kind: str = "tmpfs") -> Path:
        place = tmp_path / f"mount-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", kind, "-o", options, kind, place], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no {kind} can be mounted here: {done.stderr.strip()}")
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


@pytest.fixture
def in_user_space(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of `folding.py`; unmounted at the end of the test."""
    # Not imported: where FUSE is missing, that fails with an error of its own.
    if importlib.util.find_spec("mfusepy") is None:
        pytest.skip("needs the development tools")
    with contextlib.ExitStack() as mounted:
        yield lambda kind: mounted.enter_context(mounted_in_user_space(kind, tmp_path))


@contextlib.contextmanager
def mounted_in_user_space(kind: str, base: Path) -> Iterator[Path]:
    """Mounts a file system of `folding.py`."""
    store, on = base / f"store-{kind}", base / kind
    store.mkdir()
    on.mkdir()
    program = Path(__file__).with_name("folding.py")
    server = subprocess.Popen([sys.executable, program, store, on, kind], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 10
        while not on.is_mount() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        if not on.is_mount():
            server.kill()
            said = server.stderr.read().strip() if server.stderr else ""
            pytest.skip(f"no FUSE here (fuse3 or libfuse2 from apt): {said.splitlines()[-1:]}")
        yield on
    finally:
        subprocess.run(["umount", "-l", on], capture_output=True)
        try:
            server.wait(timeout=10)
        finally:
            server.kill()
            server.communicate()
