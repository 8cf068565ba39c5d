"""Removes what the runs of a contest have written: millions of small files, which takes as long as a job.

In the order of the inodes and by several threads, since most of it is waiting for the disk: 120,000 files of an ext4 in
6.1 s, instead of 15.9 s with `shutil.rmtree`. Not here: when that may be (`contest.py`, `everything.py`).
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

AT_ONCE = 4  # directories; two took 1.4 times as long


def remove(place: Path) -> None:
    """Removes a directory with all that is in it; what cannot be removed stays."""
    found = (Path(parent) for parent, _, _ in os.walk(place))  # links are not followed
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(_empty, found):
            pass
    shutil.rmtree(place, ignore_errors=True)


def _empty(directory: Path) -> None:
    """Removes the files of one directory."""
    try:
        with os.scandir(directory) as entries:
            files = sorted((entry.inode(), entry.name) for entry in entries if not entry.is_dir(follow_symlinks=False))
        at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        for _, name in files:
            with suppress(OSError):
                os.unlink(name, dir_fd=at)  # very many
    finally:
        os.close(at)
