"""Where the directory of a test is: in memory, where a file costs no disk; or on disk, for a test marked `disk`.

Here: the choice, and the removal of what was in memory. Not here: `tmp_path_factory`, which is always on disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED_MEMORY = Path("/dev/shm")  # only its own directories below it are used
ROOM = 4 << 30  # bytes that must be free; the largest test takes 2 GiB
PREFIX = "shoal-pytest-"
YOUNG = 60  # s: a directory that was made just now may not be locked yet
ON_DISK = "SHOAL_TESTS_ON_DISK"  # set to put all tests on disk
FAILED = pytest.StashKey[bool]()


def has_room(place: Path) -> bool:
    """Whether tests can be in memory: there is enough, and its files have user attributes, as since Linux 6.6."""
    if os.environ.get(ON_DISK) or not place.is_dir() or shutil.disk_usage(place).free < ROOM:
        return False
    with tempfile.NamedTemporaryFile(dir=place) as file:
        try:
            os.setxattr(file.name, "user.shoal", b"")
        except OSError:
            return False
    return True


def remove_leftovers(place: Path) -> None:
    """Removes directories of earlier runs, which are kept for a look at what failed, unless that run goes on."""
    for left in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another worker removes them, too
            told = left.stat()
            if told.st_uid == os.getuid() and time.time() - told.st_ctime > YOUNG:
                with locked(left):
                    shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Locks a directory; fails with OSError if another process has. A process id says nothing in another container."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def directory_in_memory() -> Iterator[Path | None]:
    """Makes the directory of this process's tests, or returns None where there is no room."""
    if not has_room(SHARED_MEMORY):
        yield None
        return
    remove_leftovers(SHARED_MEMORY)
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=SHARED_MEMORY))
    with locked(place):
        yield place
    with contextlib.suppress(OSError):  # what a failed test has left stays until the next run
        place.rmdir()


def directory_of(test: pytest.Item, place: Path) -> Path:
    """Makes a directory with a name that begins as the test's does."""
    return Path(tempfile.mkdtemp(prefix=re.sub(r"\W", "_", test.name)[:30] + "-", dir=place))
