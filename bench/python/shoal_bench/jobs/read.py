"""The contestants of `shoal bench read`: every file below a directory, its content handed to the program.

The study: "Multi Threaded File IO" (2019, in Java); it publishes curves over the number of threads, no table.
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
from shoal_bench.contestants import BARE_LOOPS, Contestant, Task, Told, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal_bench.measure import Measured
    from shoal_bench.settings import Settings

COUNT = 50_000
SIZE = 10_000
BENCH = Path(__file__).parent.parent
FOLDERS = 8
TITLES = {
    "sequential": "sequential",
    "threads": "task list, {} threads",
    "chunks": "thread pool, chunks of 50",
    "processes": "process pool, sizes only",
    "processes_returning": "process pool, all sent back",
}
NOTES = {"processes": "the contents stay in its processes: nobody gets them"}
THREADS = (2, 8, 64)  # of the study's curve: few, some, and the most it has
JAVA = "its threads keep the contents to themselves; the start of the JVM and its compiler, {start}, is not in its time"
AUTHOR = (
    "The study gives no table. It found: for small files more threads help, up to those of the hardware; for large "
    "files two at most."
)


def _command(path: Path, *options: str, program: tuple[str, ...] = (sys.executable,)) -> Callable[[Task], list[str]]:
    """Makes the command of a contestant: program, script, directory, options, and --verify where that is asked for."""
    return lambda task: [*program, str(path), str(task.directory), *options, *(["--verify"] if task.prove else [])]


def _ours() -> list[Contestant]:
    path = BENCH / "ours" / "read.py"
    return [
        Contestant("shoal", "shoal.read", "shoal", _command(path), told=Told()),
        Contestant(
            "shoal-batches",
            "shoal.read, batches",
            "shoal",
            _command(path, "--batches"),
            packages=("pyarrow",),
            told=Told(),
        ),
        Contestant("shoal-given", "shoal.read, order given", "shoal", _command(path, "--order", "given"), told=Told()),
    ]


def _strategies() -> list[Contestant]:
    return [
        Contestant(
            f"{name}-{workers}" if workers else name.replace("_", "-"),
            TITLES[name].format(workers),
            "strategy",
            _command(path, *(["--workers", str(workers)] if workers else [])),
            packages=script(path).requires,
            told=Told() if name != "sequential" else None,
            note=NOTES.get(name, ""),
        )
        for name in importlib.import_module("shoal_bench.strategies.read").ORDER
        for path in [BENCH / "strategies" / "read" / f"{name}.py"]
        for workers in (THREADS if name == "threads" else (0,))
    ]


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    java = BENCH / "peers" / "ReadFiles.java"
    return [
        *_ours(),
        Contestant(
            "limit",
            "bare loop: open, read, close",
            "limit",
            lambda task: [BARE_LOOPS, "read", str(task.directory)],
            told=Told(),
            proves=False,
            note="hands over nothing; the walk is not in its time",
        ),
        *(
            Contestant(
                f"java-{workers}",
                f"Java, {workers} threads",
                "peer",
                _command(java, str(workers), program=("java",)),
                programs=("java", "javac"),
                told=Told(place=3),
                note=JAVA,
            )
            for workers in THREADS
        ),
        *_strategies(),
    ]


def check(settings: Settings) -> None:
    """Refuses what has no meaning here.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.into != "files":
        raise ConfigError("the job read writes nothing", hint="leave out --into")
    if settings.durable:
        raise ConfigError("the job read writes nothing that could be durable", hint="leave out --durable")


@dataclass(frozen=True)
class Reading:
    """All read the same files, from the page cache, in fresh processes; nothing is written."""

    count: int
    size: int
    place: Path
    proof: int

    checked: str = "every byte proven once, counted in each trial"
    proves: bool = True

    @property
    def scale(self) -> Scale:
        """Times are for the files of this contest: the study gives none."""
        return Scale(self.count, f"{self.count:,} files", AUTHOR, figures=False)

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Asks for a proof in the round that does not count."""
        yield Task(directory=self.place, count=self.count, scratch=scratch, prove=number == 0 and one.proves)

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:  # noqa: ARG002
        """Compares what it says it has read: objects, bytes and, where asked for, the proof of names and contents."""
        said = measured.said
        for what, wanted in (("objects", self.count), ("bytes", self.count * self.size)):
            if said.get(what) != wanted:
                return f"it read {said.get(what)!r} {what} of {wanted}"
        if task.prove and said.get("proof") != self.proof:
            return "its names and contents are not those of the files"
        return None


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[Reading]:
    """Makes the files, in eight directories, and reads them once: they are then in the page cache."""
    size = settings.size or SIZE
    data = place / "data"
    proof = 0
    for folder in range(FOLDERS):
        (data / str(folder)).mkdir(parents=True)
    for number in range(settings.count):
        name = f"{number % FOLDERS}/object-{number:09d}"
        content = verify.synthetic(name, size)
        proof += verify.proof(name, content)
        path = os.path.join(data, name)  # noqa: PTH118  # fifty thousand times: Path costs as much as the file
        with open(path, "xb", buffering=0) as file:  # noqa: PTH123
            file.write(content)
    for number in range(settings.count):
        with open(os.path.join(data, f"{number % FOLDERS}/object-{number:09d}"), "rb", buffering=0) as file:  # noqa: PTH118, PTH123
            file.read()
    yield Reading(settings.count, size, data, proof)
