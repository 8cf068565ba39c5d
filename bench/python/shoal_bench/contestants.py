"""What a contestant is, and what a job gives its contest. Not here: any one of them (`jobs/`)."""

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from shoal import RunError
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

BENCH = Path(__file__).parent
# The bare loops (bench/limits) are a program beside this interpreter, which the package installs.
LIMITS = "shoal-limits"
BARE_LOOPS = str(Path(sysconfig.get_path("scripts")) / LIMITS)

Kind = Literal["shoal", "strategy", "peer", "limit"]
Into = Literal["files", "null"]
BOTH: tuple[Into, ...] = ("files", "null")


def python(path: str, *arguments: object) -> list[str]:
    """Returns the command line of one of the lab's own scripts, such as `"peers/obstore_copy.py"`."""
    return [sys.executable, str(BENCH / path), *map(str, arguments)]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run.

    Attributes:
        directory: Where the files go, or are; None: nowhere.
        count: How many objects.
        scratch: A directory for what has to be prepared before the time begins.
        url: The service, where the job has one.
        hosts: The services of a list of URLs, which take turns in it; none: there is no list.
        names: The names to fetch, in the order of the listing; for programs that cannot list.
        tree: What to copy, where it is a directory of this machine.
        archives: What to unpack: a directory of archives, or one of them.
        size: Bytes of all that is to be written, or of the memory that a program may take.
        prove: The run does not count: the program also prints a proof of what it has read.
        file: What to read, where it is one file.
        case: Which of the job's cases.
        fills: Each object becomes a file below the directory, so that the lab sees when the first and last were done.
    """

    directory: Path | None
    count: int
    scratch: Path
    url: str = ""
    hosts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    tree: Path | None = None
    archives: Path | None = None
    size: int = 0
    prove: bool = False
    file: Path | None = None
    case: str = ""
    fills: bool = False

    @property
    def where(self) -> str:
        """The destination as `shoal copy` takes it."""
        return str(self.directory) if self.directory else "null:"

    @property
    def into(self) -> list[str]:
        """The destination as the unpackers take it."""
        return ["--into", str(self.directory)] if self.directory else []

    @property
    def verify(self) -> list[str]:
        """The option with which a script prints its proof."""
        return ["--verify"] if self.prove else []


Command = Callable[[Task], list[str]]


@dataclass(frozen=True)
class Told:
    """How a program is told how many workers to have.

    Attributes:
        place: Where the number stands among the words of its command; None: after the option `--workers`.
        inner: The option for the threads or requests in each worker; empty: it knows none.
    """

    place: int | None = None
    inner: str = ""


WORKERS = Told()


@dataclass(frozen=True)
class Contestant:
    """One row of a table.

    Attributes:
        key: What `--only` names.
        title: What the table says.
        kind: shoal, a strategy of the studies, a program people use, or a limit of the machine.
        command: Makes the command line of a run; what it prepares is not timed.
        workers: Objects worked on at once, where that is fixed.
        share: Part of the objects that is about a second's work.
        published: The study's seconds for each object; with Python 3, where it has both.
        packages: Python packages that must be installed.
        programs: Programs that must be installed.
        into: Where it can write.
        cases: The cases of the job that it is for; none: all.
        durable: Whether it runs with a final sync inside its time, without one, or both.
        rate: Reads requests a second out of what it printed, for programs that run for a time, not a number of objects.
        null_times: How many times the objects it gets when they are thrown away: it takes so much less time then.
        proves: It can print a proof of what it has read.
        may_fail: The study's program failed, too.
        own: It is the user's own, given on the command line: it must say that its function has returned.
        note: What a reader must know of the row; `{start}` in it is the time that its process took beside its own.
        python2: The study's seconds with Python 2.
        told: How it is told how many workers to have; None: it takes no number.
    """

    key: str
    title: str
    kind: Kind
    command: Command
    workers: int | None = None
    share: float = 1.0
    published: float | None = None
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    into: tuple[Into, ...] = ("files",)
    cases: tuple[str, ...] = ()
    durable: Literal["both", "only", "never"] = "both"
    rate: Callable[[str], float] | None = None
    null_times: int = 10
    proves: bool = True
    may_fail: bool = False
    own: bool = False
    note: str = ""
    python2: float | None = None
    told: Told | None = None

    @property
    def family(self) -> str:
        """Its key without its number of workers."""
        return re.sub(r"-\d+$", "", self.key)

    @property
    def finds_workers(self) -> bool:
        """It finds the number of its workers itself, as only shoal does."""
        return self.kind == "shoal" and self.workers is None

    def command_at(self, task: Task, workers: int, threads: int | None = None) -> list[str]:
        """Returns the command line of a run with so many workers, and threads in each, instead of its own number."""
        if self.told is None:
            raise ValueError(f"{self.key!r} takes no number of workers")
        found = list(self.command(task))
        if self.told.place is not None:
            found[self.told.place] = str(workers)
            return found
        while "--workers" in found:
            at = found.index("--workers")
            del found[at : at + 2]
        found += ["--workers", str(workers)]
        return [*found, self.told.inner, str(threads)] if self.told.inner and threads is not None else found

    def missing(self) -> str | None:
        """Returns why it cannot run here; None: it can."""
        for program in self.programs:
            if shutil.which(BARE_LOOPS if program == LIMITS else program) is None:
                return f"{program} is not installed"
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return f"the Python package {package} is not installed"
        return None


def version_of(program: str) -> str:
    """Returns the first line a program says of its version; empty if it is not there, or is the lab's own."""
    path = shutil.which(program) if program != LIMITS else None
    if path is None:
        return ""
    # Told of no settings, rclone makes no directory for them.
    flags = {"wrk": "-v", "java": "-version", "unzip": "-v", "rclone": "version --config="}
    command = [path, *flags.get(program, "--version").split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    return next((line.strip() for line in (done.stdout or done.stderr).splitlines() if line.strip()), "")


@dataclass(frozen=True, kw_only=True)
class Arena(ABC):
    """What the contestants of one contest share, from its first run to its last.

    Attributes:
        place: Where runs write.
        count: Objects of the fastest contestants.
        size: Bytes of an object, the mean.
        scale: What the table says times for.
        checked: What the table says of how the results were checked.
        proves: Contents are checked in the round that does not count, so that there is one before every contest.
    """

    place: Path
    count: int
    size: float
    scale: Scale
    checked: str = "every byte compared"
    proves: bool = False

    @abstractmethod
    def task(self, one: Contestant, number: int, scratch: Path) -> AbstractContextManager[Task]:
        """Makes what one run in a round needs, which is there while it runs."""

    @abstractmethod
    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Returns what is wrong with what a run has done; None: nothing."""

    def fresh(self, one: Contestant, number: int, needed: float = 0) -> Path:
        """Makes the directory of a run in a round.

        Raises:
            RunError: The disk has less than twice the bytes that are needed.
        """
        if shutil.disk_usage(self.place).free < 2 * needed:
            raise RunError("the disk is almost full", hint="take fewer with --count, or name another with --dir")
        directory = self.place / f"{number}-{one.key}"
        directory.mkdir()
        return directory


class Job(Protocol):
    """What a module of `jobs/` has."""

    @property
    def COUNT(self) -> int:  # noqa: N802 (a constant of the module)
        """Objects by default."""

    @property
    def SIZE(self) -> int | None:  # noqa: N802
        """Bytes of each by default; None: the job makes objects of its own size."""

    def contestants(self) -> list[Contestant]:
        """Returns every contestant, in the order in which they take turns."""

    def check(self, settings: Settings) -> None:
        """Refuses settings that have no meaning for the job.

        Raises:
            ConfigError: With the option's name.
        """

    def arena(self, settings: Settings, place: Path) -> AbstractContextManager[Arena]:
        """Makes what all contestants share, in a directory of the contest."""
