"""The sizes of the studies: each contestant gets about a second's worth of them, and nobody fills the disk.

What a second's worth is, the round that does not count tells, on a tenth of what it would be on two cores. Not here:
how many objects are made for a job (`jobs/`), whose turn it is (`contest.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shoal import ConfigError
from shoal_bench import jobs
from shoal_bench.room import PART, Room, free_at

if TYPE_CHECKING:
    from pathlib import Path

    from shoal_bench.arena import Arena
    from shoal_bench.contestants import Contestant
    from shoal_bench.results import Trial

SECOND = 1.0  # of work for each run
PILOT = 0.1  # part of a job's usual count that the first, uncounted run gets
SMALL = 100_000  # bytes: up to these the study of reading has 20 trials


@dataclass(frozen=True)
class Study:
    """What a study worked on.

    Attributes:
        count: Objects.
        sizes: Bytes of each, a contest for each size; none: as the job has it.
        fitted: Each contestant gets a second's worth; else all get everything.
    """

    count: int
    sizes: tuple[int, ...] = ()
    fitted: bool = True


# A billion of 100 bytes; 5,000 files; 500 files of each size; of the 182 archives of 12.7 MB, 12 (15,000 entries): more
# than anybody unpacks in a second. Of records, the study's own file: slow contestants get a part of it anyhow.
STUDIES = {
    "copy": Study(1_000_000_000),
    "save": Study(5_000),
    "read": Study(500, (10_000, 1_000_000, 3_600_000), fitted=False),
    "unzip": Study(15_000),
    "records": Study(93_368_320, fitted=False),
}


def study(job: str) -> Study:
    """Returns what the study of a job worked on.

    Raises:
        ConfigError: There is none.
    """
    if job not in STUDIES:
        raise ConfigError(f"the job {job} has no --full", hint=f"there are {', '.join(STUDIES)}")
    return STUDIES[job]


def trials(job: str, size: int | None) -> int:
    """Returns how many trials a contest has where nobody says: the study of reading has 20 for small files."""
    return 20 if job == "read" and size is not None and size <= SMALL else 3


def budget(place: Path, runs: int) -> Room:
    """Returns what each of so many runs may take of the disk: nothing is deleted before the end."""
    room = free_at(place)
    return Room(room.size / runs, room.files / runs)


def in_memory(count: int, size: int) -> int:
    """Returns how many of these objects the page cache can hold: what is read must be there."""
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(count, int(memory * PART / size)))


def pilot(one: Contestant, job: str, arena: Arena, room: Room) -> Contestant:
    """Returns a contestant for the first, uncounted run."""
    if not study(job).fitted:
        return one
    count = jobs.named(job).COUNT * one.share * PILOT
    # What fails as the study's did, does so because of how much it is given: it gets all that there is room for.
    return _with(one, arena.count if one.may_fail else count, arena, room)


def fitted(one: Contestant, trial: Trial, job: str, arena: Arena, room: Room) -> Contestant:
    """Returns a contestant with a second's worth of objects, by what it did in the first run."""
    if not study(job).fitted or one.may_fail:
        return one
    return _with(one, trial.rate * SECOND, arena, room)


def _with(one: Contestant, count: float, arena: Arena, room: Room) -> Contestant:
    objects = max(1, min(round(count), arena.count, room.enough(arena.size)))
    return replace(one, share=objects / arena.count, null_times=1)
