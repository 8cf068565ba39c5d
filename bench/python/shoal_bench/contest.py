"""Runs the contestants of a job in turn and has each checked. Not here: the contestants (`jobs/`).

The traps it avoids, each of which has spoilt a published table: one contestant after the other instead of in turn
(the machine changes), a directory used twice or made after a deletion (ext4 skips freed inodes for minutes),
write-back of one run inside the next, a fast wrong answer.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

from shoal import ConfigError, RunError
from shoal_bench import jobs, machine, measure, own, removal, sizing, verify
from shoal_bench.contestants import Arena, Contestant, Task, version_of
from shoal_bench.measure import Measured
from shoal_bench.results import Asked, Results, Row, Step, Trial
from shoal_bench.settings import Settings

SHOWN = 200  # characters of what a contestant said last, where that is why its row has no figures


def chosen(settings: Settings) -> list[Contestant]:
    """Returns the contestants that settings name, whether they can run here or not.

    Raises:
        ConfigError: A key is not known, or none is left.
    """
    everyone = [*jobs.named(settings.job).contestants(), *own.contestants(settings)]
    keys = [contestant.key for contestant in everyone]
    for key in (*settings.only, *settings.skip):
        if key not in keys:
            raise ConfigError(f"unknown program {key!r}", hint=f"the programs are {', '.join(keys)}")
    found = [
        contestant
        for contestant in everyone
        if (not settings.only or contestant.key in settings.only or contestant.own)
        and contestant.key not in settings.skip
        and settings.into in contestant.into
        and (not contestant.cases or settings.case in contestant.cases)
        and contestant.durable != ("never" if settings.durable else "only")
    ]
    if not found:
        raise ConfigError("no program is left", hint="see --list")
    return found


def run(
    settings: Settings,
    progress: Callable[[str], object],
    contestants: Sequence[Contestant] | None = None,
    *,
    within: float | None = None,
    remove: bool = True,
) -> Results:
    """Runs a contest; see `shoal_bench.run`.

    Args:
        settings: What to run.
        progress: Called with a line of text before each run.
        contestants: The contestants; by default all that settings name.
        within: Seconds in which it should end: rounds that count are left out, but one, if there is no time for them.
        remove: Without it, what was written is left as it lies, for the caller to remove.

    Raises:
        ConfigError: A setting is wrong, no contestant is left, or the disk has no room for it.
    """
    began = time.monotonic()
    job = jobs.named(settings.job)
    settings.check()
    job.check(settings)
    contestants = chosen(settings) if contestants is None else contestants
    rows = {}
    for one in contestants:
        known = (one.key, one.title, one.kind, one.published, one.note, one.missing())
        rows[one.key] = Row(*known, may_fail=one.may_fail, python2=one.python2)
    able = [one for one in contestants if rows[one.key].missing is None]
    sizing.check(settings, able)
    place = new_place(settings.directory)
    try:
        with job.arena(settings, place) as arena:
            until = began + within if within is not None else None
            rounds = _rounds(settings, arena, place, able, rows, progress, until)
            about = machine.describe(place)
    finally:
        if remove and not settings.keep:
            removal.remove(place)
    about |= {program: version_of(program) for one in able for program in one.programs}
    about |= {package: metadata.version(package) for one in able for package in one.packages}
    wanted: Asked = {
        "count": arena.count,
        "size": round(arena.size),
        "trials": rounds,
        "into": settings.into,
        "durable": settings.durable,
        "case": settings.case,
        "cold": settings.cold,
        "full": settings.full,
    }
    ordered = sorted(rows.values(), key=lambda row: -row.rate)
    first = next((row.key for row in rows.values() if row.trials), contestants[0].key)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Results(settings.job, wanted, about, ordered, first, arena.scale, arena.checked, when)


def new_place(directory: str | os.PathLike[str] | None) -> Path:
    """Makes a new directory for what is written: in this one, or by default here."""
    base = Path(directory or Path.cwd())
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="shoal-bench-", dir=base))


def _rounds(
    settings: Settings,
    arena: Arena,
    place: Path,
    able: list[Contestant],
    rows: dict[str, Row],
    progress: Callable[[str], object],
    until: float | None,
) -> int:
    """Runs them in turn; one that fails or is wrong once is out, whatever it did before.

    Returns how many rounds were run that count.
    """
    budget = sizing.budget(place, len(able) * (settings.trials + 1)) if settings.full else None
    if budget is not None:
        able = [sizing.pilot(one, settings.job, arena, budget) for one in able]
    warm = settings.trials > 1 or arena.proves or budget is not None
    for number in range(0 if warm else 1, settings.trials + 1):
        began = time.monotonic()
        for at, one in enumerate(able):
            if rows[one.key].failed is not None:
                continue
            progress((f"round {number} of {settings.trials}" if number else "warming up") + f": {one.title}")
            trial = _trial(settings, arena, place, one, number)
            if isinstance(trial, str):
                progress(f"{one.title}: {trial}")
                rows[one.key].failed = trial
                rows[one.key].trials.clear()
            elif number:
                rows[one.key].trials.append(trial)
            elif budget is not None:
                able[at] = sizing.fitted(one, trial, settings.job, arena, budget)
        now = time.monotonic()
        if until is not None and 1 <= number < settings.trials and now + (now - began) > until:
            progress(f"no time for more than {number} of {settings.trials} rounds")
            return number
    return settings.trials


def _trial(settings: Settings, arena: Arena, place: Path, one: Contestant, number: int) -> Trial | str:
    """Runs a contestant once; returns why its row cannot stand, if it cannot."""
    with tempfile.TemporaryDirectory() as scratch, arena.task(one, number, Path(scratch)) as task:
        command = one.command(task)
        measure.sync_file_system(place)  # what others wrote must not be written back in this one's time
        if task.directory is not None or task.file is not None:
            measure.touch_memory(task.size)
        try:
            measured = measure.run(command, task.directory if settings.durable else None)
        except RunError as error:
            return str(error)
        if measured.code != 0:
            return f"it ended with code {measured.code}{_last_words(measured.printed)}"
        # Before anything else: what a job does to the files afterwards changes when they were changed.
        first, last = _done(task, measured)
        fault = (own.unfinished(measured) if one.own else None) or arena.fault(one, task, measured)
    if fault:
        return f"it did not do the job: {fault}"
    objects = task.count if one.rate is None else round(one.rate(measured.printed) * measured.seconds)
    workers = measured.said.get("workers", one.workers)
    took = (measured.seconds, measured.cpu, measured.rss)
    path = measured.said.get("concurrency", ()) if one.finds_workers else ()
    steps = msgspec.convert(path, tuple[Step, ...])
    return Trial(number, objects, *took, workers, measured.start, first, last, steps)


def _done(task: Task, measured: Measured) -> tuple[float | None, float | None]:
    """Returns how long after its time began the first and the last object of a run were there, if that can be seen."""
    span = verify.span(task.directory) if task.directory is not None and task.fills else None
    if span is None:
        return None, None
    # Not below 0: a kernel may stamp files with a clock that moves a few milliseconds at a time.
    first, last = (max(0.0, moment - measured.began) for moment in span)
    return first, last


def _last_words(printed: str) -> str:
    """Returns the last line of what a program said, of those that name an error if there are any."""
    lines = [line.strip(" |+-") for line in printed.splitlines()]  # Python draws a frame around a group of errors
    lines = [line for line in lines if "Error: " in line] or [line for line in lines if line]
    return f": {lines[-1][:SHOWN]}" if lines else ""
