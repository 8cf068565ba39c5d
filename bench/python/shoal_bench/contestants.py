"""What a contestant is: how it is called and started, and why it may not run. Not here: any one of them (`jobs/`)."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# The bare loops (bench/limits) are a program beside this interpreter, which the package installs.
BARE_LOOPS = str(Path(sysconfig.get_path("scripts")) / "shoal-limits")

Kind = Literal["shoal", "strategy", "peer", "limit"]
Layout = Literal["names", "partition"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run.

    Attributes:
        directory: Where the files go, or are; None: nowhere.
        count: How many objects.
        scratch: A directory for what has to be prepared before the time begins.
        url: The service, where the job has one.
        names: The names to fetch, in the order of the listing; for programs that cannot list.
        archives: What to unpack: a directory of archives, or one of them.
        size: Bytes of all that is to be written, or of the memory that a program may take.
        prove: The run does not count: it says with a proof what it has read.
        file: What to read, where it is one file.
        case: Which of the job's cases.
        fills: Each object becomes a file below the directory, so that it can be seen when the first and the last were.
    """

    directory: Path | None
    count: int
    scratch: Path
    url: str = ""
    names: tuple[str, ...] = ()
    archives: Path | None = None
    size: int = 0
    prove: bool = False
    file: Path | None = None
    case: str = ""
    fills: bool = False


@dataclass(frozen=True)
class Told:
    """How a program is told how many workers to have.

    Attributes:
        place: Where the number stands among the words of its command; None: after the option `--workers`.
        inner: The option for the threads or requests in each worker; empty: it knows none.
    """

    place: int | None = None
    inner: str = ""


@dataclass(frozen=True)
class Contestant:
    """One row of a table.

    Attributes:
        key: What `--only` names.
        title: What the table says.
        kind: Ours, a strategy of the studies, a program people use, or what the machine can do.
        command: Makes the command line of a run; what it prepares is not timed.
        workers: Objects worked on at once, where that is fixed.
        told: How it is told how many workers to have; None: it takes no number.
        layout: How it lays out its files.
        share: Part of the objects that is about a second's work.
        published: The study's seconds for each object; with Python 3, where it has both.
        python2: Those with Python 2.
        packages: Python packages that must be there.
        programs: Programs that must be there.
        into: Where it can write.
        cases: The cases of the job that it is for; none: all.
        rate: Reads requests a second out of what it printed, for programs that run for a time, not a number of objects.
        null_times: How many times the objects it gets when they are thrown away: it takes so much less time then.
        proves: It can say with a proof what it has read.
        may_fail: That it fails is what the study found, too.
        own: It is the user's own, given on the command line: it must say that its function has returned.
        note: What a reader must know of the row; `{start}` in it is the time that its process took beside its own.
    """

    key: str
    title: str
    kind: Kind
    command: Callable[[Task], list[str]]
    workers: int | None = None
    layout: Layout = "names"
    share: float = 1.0
    published: float | None = None
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    into: tuple[str, ...] = ("files",)
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
            if shutil.which(program) is None:
                return f"{program} is not installed"
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return f"the Python package {package} is not installed"
        return None


@dataclass(frozen=True)
class Script:
    """What a strategy says of itself.

    Attributes:
        published: The study's figures by the number of workers, or by the version of Python.
        requires: Python packages that it imports.
    """

    published: dict[int, float]
    requires: tuple[str, ...]


def script(path: Path) -> Script:
    """Reads the constants of a strategy without running it: what it imports may not be installed."""
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id in ("PUBLISHED", "REQUIRES"):
                found[target.id] = ast.literal_eval(node.value)
    published = {int(workers): float(seconds) for workers, seconds in dict(found["PUBLISHED"]).items()}
    return Script(published, tuple(str(name) for name in found["REQUIRES"]))


def version_of(program: str) -> str:
    """Returns the first line a program says of its version; empty if it is not there."""
    path = shutil.which(program)
    if path is None:
        return ""
    # Told of no settings, rclone makes no directory for them.
    flags = {"wrk": "-v", "java": "-version", "unzip": "-v", "rclone": "version --config="}
    command = [path, *flags.get(program, "--version").split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    return next((line.strip() for line in (done.stdout or done.stderr).splitlines() if line.strip()), "")
