"""The contestants of `shoal bench save`: files that a Python function makes, or tables of the same numbers.

The study: "Save thousands of files" (SuperFastPython, 2023); its figures are for 5,000 files on 8 logical cores.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal import ConfigError
from shoal_bench import verify
from shoal_bench.arena import Scale
from shoal_bench.contestants import Contestant, Task, Told, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal_bench.measure import Measured
    from shoal_bench.settings import Settings

COUNT = 1_000
SIZE = None  # the study's function decides it: about 241 kB
BENCH = Path(__file__).parent.parent
STUDY = 5_000  # files of the study, for which it gives seconds
SCALE = Scale(STUDY, "5,000 files", "The author's: 8 logical cores, another machine.")
# Part of the files that is about a second's work, from what each does on two cores (files a second: 150 with one
# interpreter, 300 with two processes). The one without a bound gets all: how many it opens is what it is about.
SHARES = {
    "sequential": 0.1,
    "threads": 0.1,
    "processes": 0.2,
    "batches": 0.2,
    "processes_threads": 0.2,
    "event_loop": 0.1,
    "event_loop_unbounded": 1.0,
    "pipeline": 0.2,
}
TITLES = {
    "sequential": "sequential",
    "threads": "{} threads",
    "processes": "process pool, a file each",
    "batches": "process pool, a batch each",
    "processes_threads": "processes x 10 threads",
    "event_loop": "asyncio, aiofiles, 50 at once",
    "event_loop_unbounded": "asyncio, aiofiles, no bound",
    "pipeline": "processes make, threads save",
}
# Those that take a number of workers.
TOLD = {
    **dict.fromkeys(("threads", "processes", "batches", "event_loop"), Told()),
    **dict.fromkeys(("processes_threads", "pipeline"), Told(inner="--threads")),
}
NOTES = {
    "event_loop_unbounded": "as many files open as there are, with all contents in memory; the author's died of too "
    "many open files",
    "pipeline": "the author names it and leaves it open",
}


def _command(path: Path, *options: str) -> Callable[[Task], list[str]]:
    return lambda task: [sys.executable, str(path), str(task.directory), str(task.count), *options]


def _ours() -> list[Contestant]:
    """The rows of shoal, each with and without its default durability."""
    found = []
    tables = "the tables are made from NumPy's arrays; the bytes are the same"
    for durability, suffix, words in (("none", "", ""), ("batch", "-batch", ", batch")):
        for key, title, name, options, packages, note in (
            ("shoal-generate", "shoal.generate", "generate", (), (), ""),
            ("shoal-save-numpy", "shoal.save, NumPy", "save", (), ("numpy",), tables),
            ("shoal-save-arrow", "shoal.save, Arrow", "save", ("--form", "arrow"), ("numpy", "pyarrow"), tables),
        ):
            command = _command(BENCH / "ours" / f"{name}.py", "--durability", durability, *options)
            found.append(
                Contestant(
                    key + suffix,
                    title + words,
                    "shoal",
                    command,
                    packages=packages,
                    told=Told(),
                    durable="only" if suffix else "never",
                    note=note,
                )
            )
    return found


def _strategies() -> list[Contestant]:
    found = []
    for name in importlib.import_module("shoal_bench.strategies.save").ORDER:
        path = BENCH / "strategies" / "save" / f"{name}.py"
        says = script(path)
        for workers in [10, 100] if name == "threads" else [0]:
            seconds = says.published.get(workers) if workers else next(iter(says.published.values()), None)
            found.append(
                Contestant(
                    f"{name}-{workers}" if workers else name.replace("_", "-"),
                    TITLES[name].format(workers),
                    "strategy",
                    _command(path, *(["--workers", str(workers)] if workers else [])),
                    share=SHARES[name],
                    published=seconds / STUDY if seconds else None,
                    packages=says.requires,
                    told=TOLD.get(name),
                    may_fail=name == "event_loop_unbounded",
                    note=NOTES.get(name, ""),
                )
            )
    return found


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    return [
        *_ours(),
        Contestant(
            "limit",
            "bare probe: fork, make, write",
            "limit",
            _command(BENCH / "limits" / "save.py"),
            workers=len(os.sched_getaffinity(0)),
            told=Told(),
            note="no checks, no journal, not resumable; the study's function takes most of its time",
        ),
        *_strategies(),
    ]


def check(settings: Settings) -> None:
    """Refuses what the study has not.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.size is not None:
        raise ConfigError("the job save has no size: the study's function decides it", hint="leave out --size")
    if settings.into != "files":
        raise ConfigError("the job save writes files, it cannot do without", hint="leave out --into")


@dataclass(frozen=True)
class Saving:
    """Every run has an empty directory of its own; every byte is compared after it."""

    count: int
    place: Path
    content: Callable[[int], bytes]
    size: float
    checked: str = "every byte compared"
    proves: bool = False
    scale: Scale = SCALE

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Makes a fresh directory."""
        directory = self.place / f"{number}-{one.key}"
        directory.mkdir()
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
    yield Saving(settings.count, place, content, size)
