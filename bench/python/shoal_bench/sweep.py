"""Curves: programs at several numbers of workers and sizes of objects, all points of one size in one contest.

Not here: which programs take part (`families.py`), what a curve is (`curve.py`), the table of a sweep
(`sweep_table.py`), a contest (`contest.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal import ConfigError
from shoal_bench import contest, full, jobs, room
from shoal_bench.curve import Curve, Point, every, points
from shoal_bench.families import chosen
from shoal_bench.results import SCHEMA
from shoal_bench.settings import Settings, parse_size

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from shoal_bench.results import Results

BYTES = 200_000_000  # of all objects of one size, unless a count is given: a second's work for most


def sizes(text: str) -> tuple[int, ...]:
    """Reads sizes such as "10KB,1MB,3.6MB", in the order given.

    Raises:
        ConfigError: One is not a size, or is there twice.
    """
    found = tuple(parse_size(part, "--sizes") for part in text.split(","))
    if len(set(found)) < len(found):
        raise ConfigError(f"--sizes names one size twice: {text!r}")
    return found


@dataclass(frozen=True)
class Sweep:
    """What came of it.

    Attributes:
        job: The job.
        points: The numbers of workers; none: each program had its own.
        contests: One for each size, in the order given.
        curves: One for each program and size.
    """

    job: str
    points: tuple[Point, ...]
    contests: tuple[Results, ...]
    curves: tuple[Curve, ...]

    @property
    def failed(self) -> list[str]:
        """The titles of rows that failed and should not have, at any size."""
        return [title for results in self.contests for title in results.failed]

    def table(self) -> str:
        """Returns the tables as text, at most 120 columns wide."""
        from shoal_bench.sweep_table import text

        return text(self)

    def to_json(self) -> str:
        """Returns everything as JSON: `results` as of several contests, and `curves`, which is what a plot draws."""
        parts: dict[str, Any] = {"schema": SCHEMA, "job": self.job, "failed": {}}
        parts["sweep"] = {
            "workers": [str(point) for point in self.points],
            "sizes": [results.settings["size"] for results in self.contests],
        }
        parts["curves"] = [curve.as_json() for curve in self.curves]
        parts["results"] = [json.loads(results.to_json()) for results in self.contests]
        return json.dumps(parts, indent=1)


def curves(
    job: str,
    *,
    workers: str = "",
    sizes: Sequence[int | str] = (),
    count: int | None = None,
    trials: int = 3,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    strategies: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Sweep:
    """Measures the programs of a job at several numbers of workers, sizes of objects, or both.

    Args:
        job: Such as `"read"`.
        workers: Such as `"1,2,4"`, `"1..64"`, which doubles, or `"2x10"`: processes with threads in each; by default
            each program has its own number.
        sizes: Bytes of each object, as numbers or as text such as `"3.6MB"`; a contest for each.
        count: Objects; by default what the job usually has, and fewer if they are large.
        trials: Rounds that count; one more is run before them and thrown away, unless there is only one.
        only: Programs to run, such as `"threads"`; by default all that take workers.
        skip: Programs to leave out.
        strategies: Functions of your own, as `"MODULE:FUNCTION"` or `"FILE.py:FUNCTION"`; without `workers` only, as
            they take none.
        directory: Where the files are written, in a new directory that is removed at the end; by default here.
        progress: Called with a line of text before each run.

    Returns:
        The contests and the curves; `table()` shows them.

    Raises:
        shoal.ConfigError: An argument is wrong, no contestant is left, or the disk has no room.

    Example:
        >>> sweep = shoal_bench.curves("read", workers="1,2", sizes=["1kB"], count=20, trials=1, only=["limit"])
        >>> [str(spot.point) for spot in sweep.curves[0].spots]
        ['1', '2']
    """
    chosen_job = jobs.named(job)
    settings = Settings(
        job=job,
        count=chosen_job.COUNT if count is None else count,
        size=chosen_job.SIZE,
        trials=trials,
        only=tuple(only),
        skip=tuple(skip),
        strategies=tuple(strategies),
        directory=directory,
    )
    given = points(workers) if workers else ()
    wanted = tuple(parse_size(size, "sizes") for size in sizes)
    return run(settings, given, wanted, progress or (lambda _: None), counted=count is not None)


def run(
    settings: Settings,
    given: tuple[Point, ...],
    wanted: tuple[int, ...],
    progress: Callable[[str], object],
    *,
    counted: bool = False,
    trials: int | None = None,
) -> Sweep:
    """Runs a contest of all points for each size.

    Args:
        settings: What to run; `only` and `skip` name families or contestants.
        given: Numbers of workers; none: each contestant has its own.
        wanted: Bytes of each object, one contest for each; none: that of the settings.
        progress: Called with a line of text before each run.
        counted: The count of the settings was asked for; else it is made fewer for large objects.
        trials: Those of the settings, where somebody asked for so many; with `full`, the study has its own.

    Raises:
        ConfigError: An argument is wrong, nobody is left, or the disk has no room.
    """
    known = chosen(settings, given)
    contests: list[Results] = []
    curves: list[Curve] = []
    for size in wanted or (settings.size,):
        count = settings.count if counted or size is None else max(1, min(settings.count, BYTES // size))
        one = replace(settings, size=size, count=count)
        if settings.full and settings.job == "read" and size is not None:
            one = replace(one, count=full.in_memory(count, size), trials=trials or full.trials(settings.job, size))
        entries = {
            (family.key, point): family.at(point)
            for point in given or (None,)
            for family in known
            if point is None or point.threads is None or family.grid
        }
        one = replace(one, count=room.fitting(one, entries.values(), counted=counted))
        if len(wanted) > 1:
            progress(f"objects of {size:,} bytes, {one.count:,} of them")
        results = contest.run(one, progress, list(entries.values()))
        contests.append(results)
        order = [family.key for family in known]
        curves += sorted(every(results), key=lambda curve: order.index(curve.key))
    return Sweep(settings.job, given, tuple(contests), tuple(curves))
