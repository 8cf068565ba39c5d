"""Every job, one after the other. Not here: how one is measured (`contest.py`).

What the jobs write stays until the last has ended, since a file system that has just freed inodes is slow to give new
ones; only large files are cut to nothing, so that the disk does not fill.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from shoal import ConfigError
from shoal_bench import contest, jobs, removal, verify
from shoal_bench.results import Collection
from shoal_bench.settings import Settings

# In this order: `copy` makes most files by far, so that the others come before it. Jobs that are not named come first.
LAST = ("read", "unzip", "save", "copy")
MINUTES = 9.5  # for all of them; with what cannot be left out, and the removal, that is below twelve on two cores
CUT = 32 << 10  # bytes from which on a file is cut: most of the bytes are in few files


def run_all(
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    of: Sequence[str] = (),
    trials: int = 3,
    scale: float = 1.0,
    minutes: float = MINUTES,
    directory: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
    finished: Callable[[Collection], object] | None = None,
) -> Collection:
    """Runs every job of the lab, one after the other, with its defaults.

    Args:
        only: Keys of the contestants to run, in whatever jobs they take part; by default all that can be.
        skip: Keys of contestants to leave out.
        of: The jobs to run; by default all.
        trials: Rounds that count, where there is time for them.
        scale: The part of each job's objects that is worked on.
        minutes: In which it should end: where a job has no time left, it runs fewer rounds that count, but one.
        directory: Where files are written, in a new directory that is removed at the end; by default here.
        progress: Called with a line of text before each run.
        finished: Called with all there is after each job.

    Returns:
        The results of the jobs, and the errors of those that have none: a job that fails does not stop the others.

    Raises:
        shoal.ConfigError: An argument is wrong.

    Example:
        >>> found = shoal_bench.all(of=["save"], only=["limit"], trials=1, scale=0.01)
        >>> [results.job for results in found.results], found.failed
        (['save'], {})
    """
    say = progress or (lambda _: None)
    names = _ordered(of)
    if not scale > 0 or not minutes > 0:
        raise ConfigError("neither scale nor minutes can be 0 or less")
    known = {one.key for name in names for one in jobs.named(name).contestants()}
    for key in (*only, *skip):
        if key not in known:
            raise ConfigError(f"unknown program {key!r}", hint="shoal bench JOB --list names them")
    each = ((name, _settings(name, only, skip, trials, scale)) for name in names)
    settings = {name: one for name, one in each if one is not None}
    if not settings:
        raise ConfigError("no program is left", hint="shoal bench JOB --list names them")
    place = contest.new_place(directory)
    try:
        return _run(settings, place, minutes * 60, say, finished or (lambda _: None))
    finally:
        say("removing what was written")
        removal.remove(place)


def _run(
    settings: dict[str, Settings],
    place: Path,
    seconds: float,
    say: Callable[[str], object],
    finished: Callable[[Collection], object],
) -> Collection:
    """Runs the jobs; each has its part of the time that is left. The results are in the order of the list of jobs."""
    found = Collection([])
    order = list(jobs.JOBS)
    until = time.monotonic() + seconds
    for at, (name, chosen) in enumerate(settings.items()):
        left = len(settings) - at
        here = place / name
        here.mkdir()
        say(f"{name}: job {at + 1} of {len(settings)}")
        try:
            results = contest.run(
                replace(chosen, directory=here),
                lambda line, name=name: say(f"{name}: {line}"),  # type: ignore[misc]
                within=max(until - time.monotonic(), 0) / left,
                remove=False,
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, it must not cost the other jobs their results
            found.failed[name] = f"{type(error).__name__}: {error}" if not str(error) else str(error)
            say(f"{name}: failed: {found.failed[name]}")
        else:
            found.results.append(results)
            found.results.sort(key=lambda one: order.index(one.job))
        finished(found)
        if left > 1:
            cut(here)
    return found


def cut(directory: Path) -> None:
    """Cuts large files to nothing without deleting any."""
    for path in verify.files(directory):
        if not os.path.islink(path) and os.lstat(path).st_size >= CUT:  # noqa: PTH114  # very many
            os.truncate(path, 0)


def _ordered(of: Sequence[str]) -> list[str]:
    for name in of:
        jobs.named(name)
    chosen = [name for name in jobs.JOBS if not of or name in of]
    return [name for name in chosen if name not in LAST] + [name for name in LAST if name in chosen]


def _settings(name: str, only: Sequence[str], skip: Sequence[str], trials: int, scale: float) -> Settings | None:
    """Returns the settings of a job with those of the keys that take part in it; None: no contestant is left."""
    job = jobs.named(name)
    keys = {one.key for one in job.contestants()}
    mine = tuple(key for key in only if key in keys)
    if only and not mine:
        return None
    settings = Settings(
        job=name,
        count=max(1, round(job.COUNT * scale)),
        size=job.SIZE,
        trials=trials,
        only=mine,
        skip=tuple(key for key in skip if key in keys),
    )
    settings.check()
    try:
        contest.chosen(settings)
    except ConfigError:
        return None
    return settings
