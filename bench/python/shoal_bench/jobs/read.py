"""The contestants of `shoal bench read`: every file below a directory, its content handed to the program.

The study: "Multi Threaded File IO" (2019, in Java); it publishes curves over the number of threads, no table.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import verify
from shoal_bench.contestants import BARE_LOOPS, BENCH, LIMITS, WORKERS, Arena, Contestant, Kind, Task, Told, python
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

COUNT = 50_000
SIZE = 10_000
FOLDERS = 8
THREADS = (2, 8, 64)  # of the study's curve: few, some, and the most it has
JAVA = "its threads keep the contents to themselves; the start of the JVM and its compiler, {start}, is not in its time"
BARE = "hands over nothing; the walk is not in its time"
KEPT = "the contents stay in its processes: nothing is handed to the caller"
AUTHOR = (
    "The study gives no table. It found: for small files more threads help, up to those of the hardware; for large "
    "files two at most."
)


def _script(kind: Kind, key: str, title: str, path: str, *options: str, **about: Any) -> Contestant:
    def command(task: Task) -> list[str]:
        return python(path, task.directory, *options, *task.verify)

    return Contestant(key, title, kind, command, **({"told": WORKERS} | about))


def _java(threads: int) -> Contestant:
    def command(task: Task) -> list[str]:
        return ["java", str(BENCH / "peers" / "ReadFiles.java"), str(task.directory), str(threads), *task.verify]

    title, programs = f"Java, {threads} threads", ("java", "javac")
    return Contestant(f"java-{threads}", title, "peer", command, programs=programs, told=Told(place=3), note=JAVA)


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""

    def ours(key: str, title: str, *options: str, **about: Any) -> Contestant:
        return _script("shoal", key, title, "ours/read.py", *options, **about)

    def strategy(key: str, title: str, script: str, *options: str, **about: Any) -> Contestant:
        return _script("strategy", key, title, f"strategies/read/{script}.py", *options, **about)

    def limit(task: Task) -> list[str]:
        return [BARE_LOOPS, "read", str(task.directory)]

    bare: dict[str, Any] = {"programs": (LIMITS,), "told": WORKERS, "proves": False, "note": BARE}
    return [
        ours("shoal", "shoal.read"),
        ours("shoal-batches", "shoal.read, batches", "--batches", packages=("pyarrow",)),
        ours("shoal-given", "shoal.read, order given", "--order", "source"),
        Contestant("limit", "bare loop: open, read, close", "limit", limit, **bare),
        *(_java(threads) for threads in THREADS),
        strategy("sequential", "sequential", "sequential", told=None),
        *(strategy(f"threads-{n}", f"task list, {n} threads", "threads", "--workers", str(n)) for n in THREADS),
        strategy("chunks", "thread pool, chunks of 50", "chunks"),
        strategy("processes", "process pool, sizes only", "processes", note=KEPT),
        strategy("processes-returning", "process pool, all sent back", "processes_returning"),
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


@dataclass(frozen=True, kw_only=True)
class Reading(Arena):
    """All read the same files, from the page cache, in fresh processes; nothing is written."""

    proof: int

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
    scale = Scale(settings.count, f"{settings.count:,} files", AUTHOR, figures=False)  # the study gives no times
    checked = "every byte proven once, counted in each trial"
    yield Reading(place=data, count=settings.count, size=size, scale=scale, checked=checked, proves=True, proof=proof)
