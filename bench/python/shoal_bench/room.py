"""How much the runs of a contest may write: there are many, and nothing is deleted before the last one ends.

Not here: what each contestant gets of the sizes of the studies (`full.py`).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal_bench.contestants import Contestant
    from shoal_bench.settings import Settings

PART = 0.5  # of what is free on the disk, of its bytes and its inodes, and of the memory
BLOCK = 4096  # bytes that a small file takes
USUAL = 10_000_000_000  # bytes of all runs, unless a count is given
USUAL_FILES = 3_000_000  # the same for files: to delete as many takes minutes
LEAST = 20  # objects: with fewer there is no contest
OWN = {"save": 250_000, "unzip": BLOCK}  # bytes that an object leaves, where the job decides it (unzip cuts large ones)


@dataclass(frozen=True)
class Room:
    """What may be written: bytes and files."""

    size: float
    files: float

    def objects(self, size: float, times: float) -> int:
        """Returns how many objects of this size can be written so many times."""
        return int(min(self.size / max(size, BLOCK), self.files) / times)

    def enough(self, size: float) -> int:
        """Returns how many objects of this size one run can write.

        Raises:
            RunError: So few that there is no contest.
        """
        found = self.objects(size, 1)
        if found < LEAST:
            raise RunError(
                f"the disk is almost full: each run may write {self.size / 1e6:,.0f} MB and {self.files:,.0f} files",
                hint="name another disk with --dir, or fewer contestants with --only",
            )
        return found


def free_at(place: Path) -> Room:
    """Returns what may be written in a directory."""
    found = os.statvfs(place)
    files = found.f_favail * PART if found.f_files else float("inf")  # some file systems do not count them
    return Room(shutil.disk_usage(place).free * PART, files)


def free(settings: Settings) -> Room:
    """Returns what may be written where the files of a contest go."""
    base = Path(settings.directory) if settings.directory else Path.cwd()
    while not base.exists():
        base = base.parent
    return free_at(base)


def check(settings: Settings, contestants: Iterable[Contestant]) -> None:
    """Refuses a contest that would take more than its part of the disk.

    Raises:
        ConfigError: The disk has no room for it.
    """
    # Those leave out what they need not write: `unzip` looks itself, and of the studies' sizes each gets what fits.
    if settings.job != "unzip" and not settings.full:
        fitting(settings, contestants, counted=True)


def fitting(settings: Settings, contestants: Iterable[Contestant], *, counted: bool) -> int:
    """Returns how many objects a contest of a sweep gets: those of the settings, or fewer if nobody asked for them.

    Raises:
        ConfigError: The disk has no room for them, or for so few that there is no contest.
    """
    size = settings.size or OWN.get(settings.job, 0)
    if settings.into != "files" or size == 0:
        return settings.count
    # What is read is written once; what is written, in each round, by each its share.
    times = 1.0 if settings.job == "read" else sum(one.share for one in contestants) * (settings.trials + 1)
    room = free(settings)
    most = room.objects(size, times)
    if most < (settings.count if counted else min(settings.count, LEAST)):
        needed = settings.count * max(size, BLOCK) * times
        raise ConfigError(
            f"the disk has no room for this: it would write {needed / 1e9:,.1f} GB in "
            f"{settings.count * times:,.0f} files, and may take {room.size / 1e9:,.1f} GB and {room.files:,.0f} files",
            hint="take fewer objects with --count or fewer contestants with --only, or name another disk with --dir",
        )
    if counted:
        return settings.count
    usual = Room(USUAL, USUAL_FILES).objects(size, times)
    return min(settings.count, most, max(LEAST, usual))
