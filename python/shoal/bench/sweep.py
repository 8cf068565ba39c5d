"""Curves: programs at several numbers of workers and sizes of objects, all points of one size in one contest.

A *family* is one program at any number of workers: `threads-2`, `threads-8` and `threads-64` are the family `threads`.
Which programs take a number is read from what they are, not written down for each: a script says `--workers`, and in a
grid `--threads` or `--requests` besides. Not here: the table of a sweep (`sweep_table.py`), a contest (`contest.py`).
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._errors import ConfigError
from shoal._options import parse_size
from shoal.bench import contest, full, jobs, room
from shoal.bench.contestants import Task
from shoal.bench.results import SCHEMA
from shoal.bench.settings import Settings

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from shoal.bench.contestants import Contestant
    from shoal.bench.results import Results, Row

MOST = 1000  # workers, as the strategies have it
POINTS = 64  # points of a curve: more are a mistake in writing
BYTES = 200_000_000  # of all objects of one size, unless a count is given: a second's work for most
POSITIONS = {"ReadFiles.java": 3, "unzip.rb": 3}  # where in a command these programs have their number of threads
INNER = ("--threads", "--requests")  # what a process of a grid has many of
NUMBER = re.compile(r"\d+(?= threads)|(?<=pool of )\d+|\d+(?= at once)")  # of workers, in a title


@dataclass(frozen=True, order=True)
class Point:
    """Workers, and threads in each of them where it is a point of a grid."""

    workers: int
    threads: int | None = None

    def __str__(self) -> str:
        """As it is written on the command line."""
        return str(self.workers) if self.threads is None else f"{self.workers}x{self.threads}"


def points(text: str) -> tuple[Point, ...]:
    """Reads points such as "1..64" (which doubles: 1, 2, 4, ... 64), "1,2,8" or "2x10"; one worker is always added.

    Raises:
        ConfigError: It is something else.
    """
    found: set[Point] = set()
    for part in text.split(","):
        first, cross, second = part.strip().partition("x")
        if cross:
            found |= {Point(workers, threads) for workers in _numbers(first) for threads in _numbers(second)}
        else:
            found |= {Point(workers) for workers in _numbers(first)}
    found |= {Point(1, None if point.threads is None else 1) for point in found}
    if len(found) > POINTS:
        raise ConfigError(f"--workers has {len(found)} points, the most is {POINTS}: {text!r}")
    return tuple(sorted(found, key=lambda point: (point.threads is not None, point.workers, point.threads or 0)))


def _numbers(text: str) -> list[int]:
    ends = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text.strip())
    if ends is None:
        raise ConfigError(
            f"--workers is not a list of numbers: {text.strip()!r}",
            hint="write 8, or 1,2,4, or 1..64 for 1, 2, 4, ... 64, or 2x10 for 2 processes with 10 threads each",
        )
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= first <= last <= MOST:
        raise ConfigError(f"--workers is not a range within 1 to {MOST:,}: {text.strip()!r}")
    found = [first]
    while found[-1] * 2 <= last:
        found.append(found[-1] * 2)
    return found if found[-1] == last else [*found, last]


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
class Family:
    """One program, at any number of workers.

    Attributes:
        key: What `--only` names: a contestant's key without its number.
        title: What the table says.
        contestant: One of those it is taken from.
        grid: It knows threads in each worker, too.
    """

    key: str
    title: str
    contestant: Contestant
    grid: bool

    def at(self, point: Point | None) -> Contestant:
        """Returns the contestant for a point; None: with its own number."""
        one = self.contestant
        if point is None:
            return replace(one, key=self.key, title=self.title)
        return replace(
            one,
            key=f"{self.key}@{point}",
            title=f"{self.title} @ {point}",
            command=lambda task: _placed(one.command(task), point),
            workers=point.workers,
            published=None,  # the study's figure is for its own number
        )


def _program(command: list[str]) -> tuple[str, str]:
    """Returns name and text of the program of a command, where it is one that can be told how many workers."""
    for word in command[1:3]:
        path = Path(word)
        if path.suffix in (".py", ".java", ".rb") and path.is_file():
            return path.name, path.read_text()
    if command[1:4] == ["-m", "shoal", "copy"]:
        return "shoal", '"--workers"'
    return "", ""


def _inner(text: str) -> str | None:
    return next((option for option in INNER if f'"{option}"' in text), None)


def _takes(command: list[str]) -> bool:
    """Whether a program can be told how many workers."""
    name, text = _program(command)
    one = re.search(r'"--workers",\s*type=int,\s*choices=\(1,\)', text)
    return name in POSITIONS or ('"--workers"' in text and one is None)


def _placed(command: list[str], point: Point) -> list[str]:
    """Returns the command for a point, without the number that it had."""
    name, text = _program(command)
    if name in POSITIONS:
        at = POSITIONS[name]
        return [*command[:at], str(point.workers), *command[at + 1 :]]
    found = list(command)
    while "--workers" in found:
        at = found.index("--workers")
        del found[at : at + 2]
    found += ["--workers", str(point.workers)]
    inner = _inner(text)
    return [*found, inner, str(point.threads)] if inner and point.threads is not None else found


def families(contestants: Sequence[Contestant], given: tuple[Point, ...]) -> list[Family]:
    """Returns the programs among contestants that can be at one of the points, each once."""
    grid_only = all(point.threads is not None for point in given)
    found: dict[tuple[str, ...], Family] = {}
    with tempfile.TemporaryDirectory() as scratch:
        nowhere = Path(scratch)
        task = Task(
            directory=nowhere,
            count=1,
            scratch=nowhere,
            url="http://localhost",
            names=("one",),
            archives=nowhere,
            file=nowhere,
        )
        for one in contestants:
            command = one.command(task)
            if not _takes(command):
                continue
            grid = _inner(_program(command)[1]) is not None
            if grid_only and not grid:
                continue
            plain = tuple(_placed(command, Point(1)))
            # Of those that differ by their number, the one whose own is above 1 says best what it is.
            if plain not in found or _own(found[plain].contestant) == 1:
                title = one.title if grid and not grid_only else NUMBER.sub("N", one.title)
                found[plain] = Family(re.sub(r"-\d+$", "", one.key), title, one, grid)
    return list(found.values())


def _own(one: Contestant) -> int | None:
    number = re.search(r"-(\d+)$", one.key)
    return 1 if one.key.endswith("-serial") or (number and number[1] == "1") else one.workers


@dataclass(frozen=True)
class Spot:
    """One measured point of a curve: where it is, and its row."""

    point: Point | None
    row: Row


@dataclass(frozen=True)
class Curve:
    """One program at one size, over the points."""

    family: Family
    results: Results
    spots: tuple[Spot, ...]

    @property
    def best(self) -> Spot | None:
        """The fastest point, if one has run."""
        ran = [spot for spot in self.spots if spot.row.trials]
        return max(ran, key=lambda spot: spot.row.rate, default=None)

    def ratio(self, spot: Spot) -> float | None:
        """Returns how many times as fast a point is as one worker: the median over the rounds, pair by pair."""
        if spot.point is None or not spot.row.trials:
            return None
        base = Point(1, None if spot.point.threads is None else 1)
        first = next((one for one in self.spots if one.point == base), None)
        return self.results.ratio(spot.row.key, first.row.key) if first and first.row.trials else None

    def as_json(self) -> dict[str, Any]:
        """Returns it for a plot: everything of a point in one place."""
        best = self.best
        return {
            "family": self.family.key,
            "title": self.family.title,
            "kind": self.family.contestant.kind,
            "size": self.results.settings["size"],
            "count": self.results.settings["count"],
            "best": None if best is None or best.point is None else str(best.point),
            "points": [
                {
                    "point": None if spot.point is None else str(spot.point),
                    "workers": None if spot.point is None else spot.point.workers,
                    "threads": None if spot.point is None else spot.point.threads,
                    "row": spot.row.key,
                    "rate": spot.row.rate,
                    "rates": [trial.rate for trial in spot.row.trials],
                    "spread": spot.row.spread,
                    "ratio": self.ratio(spot),
                    "failed": spot.row.failed,
                    "missing": spot.row.missing,
                }
                for spot in self.spots
            ],
        }


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
        from shoal.bench.sweep_table import text

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
        >>> sweep = shoal.bench.curves("read", workers="1,2", sizes=["1kB"], count=20, trials=1, only=["limit"])
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
    contests, curves = [], []
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
        for family in known:
            spots = tuple(
                Spot(point, results.row(entry.key)) for (key, point), entry in entries.items() if key == family.key
            )
            curves.append(Curve(family, results, spots))
    return Sweep(settings.job, given, tuple(contests), tuple(curves))


def chosen(settings: Settings, given: tuple[Point, ...]) -> list[Family]:
    """Returns the families that settings name.

    Raises:
        ConfigError: A key is not known, or none is left.
    """
    if given and settings.strategies:
        raise ConfigError("a strategy of your own takes no number of workers", hint="leave out --workers or --strategy")
    everyone = contest.chosen(replace(settings, only=(), skip=()))
    as_they_are = [Family(one.key, one.title, one, grid=False) for one in everyone]
    found = families(everyone, given) if given else as_they_are
    of = {one.key: re.sub(r"-\d+$", "", one.key) for one in jobs.named(settings.job).contestants()}
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
        raise ConfigError("no contestant is left that takes these workers", hint="see --list")
    return left
