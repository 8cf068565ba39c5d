"""The contestants of `shoal bench save`: files that a Python function makes, or tables of the same numbers.

The study: "Save thousands of files" (SuperFastPython, 2023); its figures are for 5,000 files on 8 logical cores.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import verify
from shoal_bench.contestants import WORKERS, Arena, Contestant, Kind, Task, Told, python
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

COUNT = 1_000
SIZE = None  # the study's function decides it: about 241 kB
STUDY = 5_000  # files of the study, for which it gives seconds
SCALE = Scale(STUDY, "5,000 files", "The author's: 8 logical cores, another machine.")
TABLES = "the tables are made from NumPy's arrays; the bytes are the same"
BARE = "no checks, no journal, not resumable; the study's function takes most of its time"
UNBOUNDED = "as many files open as there are, with all contents in memory; the author's died of too many open files"


def _script(kind: Kind, key: str, title: str, path: str, *options: str, **about: Any) -> Contestant:
    def command(task: Task) -> list[str]:
        return python(path, task.directory, task.count, *options)

    return Contestant(key, title, kind, command, **({"told": WORKERS} | about))


def _ours(durability: str) -> list[Contestant]:
    """The rows of shoal; those with its default durability, batch, run in durable contests alone."""

    def one(key: str, what: str, script: str, *options: str, **about: Any) -> Contestant:
        batch = durability == "batch"
        title = f"{what}, durability {durability}"
        about["durable"] = "only" if batch else "never"
        key = f"{key}-batch" if batch else key
        return _script("shoal", key, title, f"ours/{script}.py", "--durability", durability, *options, **about)

    arrow = ("numpy", "pyarrow")
    return [
        one("shoal-generate", "shoal.generate", "generate"),
        one("shoal-save-numpy", "shoal.save, NumPy", "save", packages=("numpy",), note=TABLES),
        one("shoal-save-arrow", "shoal.save, Arrow", "save", "--form", "arrow", packages=arrow, note=TABLES),
    ]


# Key, title, script and its options, share, the study's seconds. The share is about a second's work, from what each
# does on two cores (files a second: 150 with one interpreter, 300 with two processes). The one without a bound gets
# all: how many it opens is what it is about.
STRATEGIES = (
    ("sequential", "sequential", "sequential", 0.1, 63.4),
    ("threads-10", "10 threads", "threads --workers 10", 0.1, None),
    ("threads-100", "100 threads", "threads --workers 100", 0.1, 64.6),
    ("processes", "process pool, a file each", "processes", 0.2, 21.43),
    ("batches", "process pool, a batch each", "processes --batch=0", 0.2, 20.86),
    ("processes-threads", "processes x 10 threads", "processes_threads", 0.2, 20.56),
    ("event-loop", "asyncio, aiofiles, 50 at once", "event_loop", 0.1, 62.36),
    ("event-loop-unbounded", "asyncio, aiofiles, no bound", "event_loop --workers 0", 1.0, None),
    ("pipeline", "processes make, threads save", "pipeline", 0.2, None),
)
# What else there is to say of some.
ABOUT: dict[str, dict[str, Any]] = {
    "sequential": {"told": None},
    "processes-threads": {"told": Told(inner="--threads")},
    "event-loop": {"packages": ("aiofiles",)},
    "event-loop-unbounded": {"packages": ("aiofiles",), "told": None, "may_fail": True, "note": UNBOUNDED},
    "pipeline": {"told": Told(inner="--threads"), "note": "the author names it and leaves it open"},
}


def _strategies() -> list[Contestant]:
    def one(key: str, title: str, words: str, share: float, seconds: float | None) -> Contestant:
        script, *options = words.split()
        about = {"share": share, "published": seconds and seconds / STUDY} | ABOUT.get(key, {})
        return _script("strategy", key, title, f"strategies/save/{script}.py", *options, **about)

    return [one(*row) for row in STRATEGIES]


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    title, workers = "bare probe: fork, make, write", len(os.sched_getaffinity(0))
    limit = _script("limit", "limit", title, "limits/save.py", workers=workers, note=BARE)
    return [*_ours("none"), *_ours("batch"), limit, *_strategies()]


def check(settings: Settings) -> None:
    """Refuses what the study has not.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.size is not None:
        raise ConfigError("the job save has no size: the study's function decides it", hint="leave out --size")
    if settings.into != "files":
        raise ConfigError("the job save writes files, it cannot do without", hint="leave out --into")


@dataclass(frozen=True, kw_only=True)
class Saving(Arena):
    """Every run has an empty directory of its own; every byte is compared after it."""

    content: Callable[[int], bytes]

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Makes a fresh directory."""
        directory = self.fresh(one, number)
        count = max(1, round(self.count * one.share))
        yield Task(directory=directory, count=count, scratch=scratch, size=round(self.size * count), fills=True)

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:  # noqa: ARG002
        """Compares every file."""
        if task.directory is None:
            return "it has no directory"
        numbers = {f"data-{number:04d}.csv": number for number in range(task.count)}
        return verify.difference(task.directory, numbers, lambda name: self.content(numbers[name]))


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[Saving]:
    """Makes the lines that the files are compared with."""
    content = verify.tables(settings.count)
    size = sum(len(content(number)) for number in range(settings.count)) / settings.count
    yield Saving(place=place, count=settings.count, size=size, scale=SCALE, content=content)
