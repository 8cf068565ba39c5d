"""How many objects each contestant gets: what the disk has room for, and the sizes of the studies.

Nothing is deleted before the last run of a contest ends, so all runs share the disk. With `--full` each contestant gets
about a second's worth of the study's objects: the round that does not count measures a tenth of what that is on two
cores. Not here: how many objects are made for a job (`jobs/`), which contestant is next (`contest.py`).
"""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from shoal import ConfigError, RunError
from shoal_bench import jobs
from shoal_bench.contestants import Arena, Contestant
from shoal_bench.results import Trial
from shoal_bench.settings import Settings

PART = 0.5  # of what is free on the disk, of its bytes and its inodes, and of the memory
BLOCK = 4096  # bytes that a small file takes
USUAL = 10_000_000_000  # bytes of all runs, unless a count is given
USUAL_FILES = 3_000_000  # the same for files: to delete as many takes minutes
LEAST = 20  # objects: with fewer there is no contest
OWN = {"save": 250_000, "unzip": BLOCK}  # bytes that an object leaves, where the job decides it (unzip cuts large ones)
SECOND = 1.0  # of work for each run
PILOT = 0.1  # part of a job's usual count that the first, uncounted run gets
SMALL = 100_000  # bytes: up to these the study of reading has 20 trials


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
    """Returns how many objects a contest of a scan gets: those of the settings, or fewer if no count was given.

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
# than any program unpacks in a second. Of records, the study's own file: slow contestants get a part of it anyhow.
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
        ConfigError: There is no study.
    """
    if job not in STUDIES:
        raise ConfigError(f"the job {job} has no --full", hint=f"there are {', '.join(STUDIES)}")
    return STUDIES[job]


def trials(job: str, size: int | None) -> int:
    """Returns how many trials a contest has by default: the study of reading has 20 for small files."""
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
