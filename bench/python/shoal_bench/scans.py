"""Scans: programs at several numbers of workers and sizes of objects, all points of one size in one contest.

A program at any number of workers is a family: `threads-2`, `threads-8` and `threads-64` are the family `threads`.
How a program is told its number, the contestant says itself. Not here: what a curve is (`curves.py`), how one contest
runs (`contest.py`).
"""

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import contest, jobs, sizing
from shoal_bench.contestants import Contestant, Task
from shoal_bench.curves import Curve, Point, every, points
from shoal_bench.results import SCHEMA, Results
from shoal_bench.settings import Settings, parse_size

NUMBER = re.compile(r"\d+(?= threads)|(?<=pool of )\d+|\d+(?= at once)")  # of workers, in a title
BYTES = 200_000_000  # of all objects of one size, unless a count is given: a second's work for most


@dataclass(frozen=True)
class Family:
    """One program, at any number of workers.

    Attributes:
        key: What `--only` names: a contestant's key without its number.
        title: What the table says.
        contestant: One of those it is taken from.
    """

    key: str
    title: str
    contestant: Contestant

    @property
    def grid(self) -> bool:
        """It knows threads in each worker, too."""
        return self.contestant.told is not None and self.contestant.told.inner != ""

    def at(self, point: Point | None) -> Contestant:
        """Returns the contestant for a point; None: with its own number."""
        one = self.contestant
        if point is None:
            return replace(one, key=self.key, title=self.title)
        return replace(
            one,
            key=f"{self.key}@{point}",
            title=f"{self.title} @ {point}",
            command=lambda task: one.command_at(task, point.workers, point.threads),
            workers=point.workers,
            published=None,  # the study's figure is for its own number
        )


def families(contestants: Sequence[Contestant], given: tuple[Point, ...]) -> list[Family]:
    """Returns the programs among contestants that can be at one of the points, each once."""
    grid_only = all(point.threads is not None for point in given)
    found: dict[tuple[str, ...], Family] = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        task = Task(
            directory=place, count=1, scratch=place, url="http://there", names=("1",), archives=place, file=place
        )
        for one in contestants:
            if one.told is None or (grid_only and not one.told.inner):
                continue
            # Those that differ by their number alone are one program.
            plain = tuple(one.command_at(task, 1))
            # Of those, the one with a number of its own above 1 says best what it is.
            if plain not in found or _own(found[plain].contestant) == 1:
                title = one.title if one.told.inner and not grid_only else NUMBER.sub("N", one.title)
                found[plain] = Family(one.family, title, one)
    return list(found.values())


def _own(one: Contestant) -> int | None:
    number = re.search(r"-(\d+)$", one.key)
    return 1 if one.key.endswith("-serial") or (number and number[1] == "1") else one.workers


def families_of(settings: Settings, given: tuple[Point, ...]) -> list[Family]:
    """Returns the families that settings name.

    Raises:
        ConfigError: A key is not known, or none is left.
    """
    if given and settings.strategies:
        raise ConfigError("a strategy of your own takes no number of workers", hint="leave out --workers or --strategy")
    everyone = contest.chosen(replace(settings, only=(), skip=()))
    as_they_are = [Family(one.key, one.title, one) for one in everyone]
    found = families(everyone, given) if given else as_they_are
    of = {one.key: one.family for one in jobs.named(settings.job).contestants()}
    known = {family.key for family in found}

    def named(keys: tuple[str, ...]) -> set[str]:
        for key in keys:
            if key not in known and of.get(key) not in known:
                why = "takes no such number of workers" if key in of else "is not known"
                raise ConfigError(f"the contestant {key!r} {why}", hint=f"there are {', '.join(sorted(known))}")
        return {key if key in known else of[key] for key in keys}

    only, skip = named(settings.only), named(settings.skip)
    own = {family.key for family in found if family.contestant.own}
    left = [family for family in found if (not only or family.key in only | own) and family.key not in skip]
    if not left:
        raise ConfigError("no program is left that takes these workers", hint="see --list")
    return left


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
class Scan:
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

    def to_json(self) -> str:
        """Returns everything as JSON: `results` as of several contests, and `curves`, which is what a plot draws."""
        sizes = [results.settings["size"] for results in self.contests]
        parts: dict[str, Any] = {"schema": SCHEMA, "job": self.job, "failed": {}}
        parts["sweep"] = {"workers": [str(point) for point in self.points], "sizes": sizes}
        parts["curves"] = [curve.as_json() for curve in self.curves]
        parts["results"] = [results.parts() for results in self.contests]
        return json.dumps(parts, indent=1)


def scan(
    job: str,
    *,
    workers: str = "",
    sizes: Sequence[int | str] = (),
    progress: Callable[[str], object] | None = None,
    **settings: Any,
) -> Scan:
    """Measures the programs of a job at several numbers of workers, sizes of objects, or both.

    Args:
        job: Such as `"read"`.
        workers: Such as `"1,2,4"`, `"1..64"`, which doubles, or `"2x10"`: processes with threads in each; by default
            each program has its own number.
        sizes: Bytes of each object, as numbers or as text such as `"3.6MB"`; a contest for each.
        progress: Called with a line of text before each run.
        **settings: As of `shoal_bench.run`; `only` and `skip` name programs without their number, such as `"threads"`.

    Returns:
        The contests and the curves; `shoal_bench.table` shows them.

    Raises:
        shoal.ConfigError: An argument is wrong, no contestant is left, or the disk has no room.

    Example:
        >>> scan = shoal_bench.scan("read", workers="1,2", sizes=["1kB"], count=20, trials=1, only=["limit"])
        >>> [str(spot.point) for spot in scan.curves[0].spots]
        ['1', '2']
    """
    given = points(workers) if workers else ()
    wanted = tuple(parse_size(size, "sizes") for size in sizes)
    counted = settings.get("count") is not None
    return run(jobs.settings(job, **settings), given, wanted, progress or (lambda _: None), counted=counted)


def run(
    settings: Settings,
    given: tuple[Point, ...],
    wanted: tuple[int, ...],
    progress: Callable[[str], object],
    *,
    counted: bool = False,
    trials: int | None = None,
) -> Scan:
    """Runs a contest of all points for each size.

    Args:
        settings: What to run; `only` and `skip` name families or contestants.
        given: Numbers of workers; none: each contestant has its own.
        wanted: Bytes of each object, one contest for each; none: that of the settings.
        progress: Called with a line of text before each run.
        counted: The count of the settings was asked for; else it is made fewer for large objects.
        trials: Those of the settings, where a number was given; with `full`, the study has its own.

    Raises:
        ConfigError: An argument is wrong, no contestant is left, or the disk has no room.
    """
    known = families_of(settings, given)
    contests: list[Results] = []
    curves: list[Curve] = []
    for size in wanted or (settings.size,):
        count = settings.count if counted or size is None else max(1, min(settings.count, BYTES // size))
        one = replace(settings, size=size, count=count)
        if settings.full and settings.job == "read" and size is not None:
            one = replace(one, count=sizing.in_memory(count, size), trials=trials or sizing.trials(settings.job, size))
        entries = {
            (family.key, point): family.at(point)
            for point in given or (None,)
            for family in known
            if point is None or point.threads is None or family.grid
        }
        # What is found is compared with every fixed number, in the same rounds.
        entries |= {
            (family.key, None): family.at(None) for family in known if given and family.contestant.finds_workers
        }
        one = replace(one, count=sizing.fitting(one, entries.values(), counted=counted))
        if len(wanted) > 1:
            progress(f"objects of {size:,} bytes, {one.count:,} of them")
        results = contest.run(one, progress, list(entries.values()))
        contests.append(results)
        order = [family.key for family in known]
        curves += sorted(every(results), key=lambda curve: order.index(curve.key))
    return Scan(settings.job, given, tuple(contests), tuple(curves))
