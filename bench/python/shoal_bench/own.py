"""Functions of the user's own as contestants of a job. Not here: the program that calls them (`caller.py`)."""

import json
import subprocess
import sys
from pathlib import Path

from shoal import ConfigError
from shoal_bench.caller import CONTRACTS
from shoal_bench.contestants import Command, Contestant, Task
from shoal_bench.measure import Measured
from shoal_bench.settings import Settings

# Called with -B: no bytecode is left beside the user's file, where one written twice in a second would run as it was.
CALLER = Path(__file__).with_name("caller.py")
PATIENCE = 60.0  # seconds in which a module must be imported
SAYS = {
    "copy": "def mine(base_url, names, directory): writes base_url/get/NAME to directory/NAME, for each of the names",
    "save": "def mine(make, ids, directory): writes make(id) to directory/data-0000.csv (:04d) for each of the ids",
    "read": "def mine(paths): yields (path, content), or returns (objects, bytes)",
    "unzip": "def mine(archives, directory): extracts each below directory; None: checks, returns (objects, bytes)",
}
UNPROVEN = "says itself how much it has read: nothing is proven"
NAMES = "given the names: no listing in its time"


def contestants(settings: Settings) -> list[Contestant]:
    """Returns a contestant for each function that settings name.

    Raises:
        ConfigError: One cannot be imported, does not take what the job gives, or the job does not accept functions.
    """
    found = [_contestant(spec, settings) for spec in settings.strategies]
    keys = [one.key for one in found]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"two strategies are called {key!r}", hint="rename a function or a file")
    return found


def _contestant(spec: str, settings: Settings) -> Contestant:
    job = settings.job
    if job not in CONTRACTS:
        raise ConfigError(f"the job {job} takes no strategy of one's own", hint=f"there are {', '.join(CONTRACTS)}")
    if settings.into == "null" and job != "unzip":
        raise ConfigError("a strategy of one's own writes files, so that they can be compared", hint="leave out --into")
    yields = _check(spec, job)
    where, _, name = spec.rpartition(":")
    stem = Path(where).stem if where.endswith(".py") else where.rpartition(".")[2]
    note = {"copy": NAMES, "read": "" if yields else UNPROVEN}.get(job, "")
    return Contestant(
        f"{stem}:{name}",
        f"yours: {name}",
        "strategy",
        _command(job, spec),
        into=("files", "null") if job == "unzip" else ("files",),
        # What it says of itself is compared where it is all there is; files are compared with what must be there.
        proves=yields if job == "read" else settings.into == "null",
        own=True,
        note=note,
    )


def _check(spec: str, job: str) -> bool:
    """Looks in a process of its own whether a function can be used; returns whether it is a generator."""
    command = _caller(job, spec, check=True)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the strategy {spec!r}: importing it takes longer than {PATIENCE:.0f} s") from None
    said = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode != 0 or not said.startswith('{"yields"'):
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = (lines or [f"its process ended with code {done.returncode}"])[-1].removeprefix("Error: ")
        raise ConfigError(f"the strategy {spec!r}: {why}", hint=f"for the job {job}: {SAYS[job]}")
    return said == '{"yields": true}'


def _caller(job: str, spec: str, **given: object) -> list[str]:
    """Returns the command line that calls a function."""
    told = json.dumps({"job": job, "spec": spec} | given)
    return [sys.executable, "-P", "-B", str(CALLER), told]


def _command(job: str, spec: str) -> Command:
    def command(task: Task) -> list[str]:
        names = task.scratch / "names"
        names.write_text("".join(f"{name}\n" for name in task.names))
        given: dict[str, object] = {"url": task.url, "names": str(names), "count": task.count, "verify": task.prove}
        given |= {"archives": str(task.archives), "directory": str(task.directory) if task.directory else None}
        return _caller(job, spec, **given)

    return command


def unfinished(measured: Measured) -> str | None:
    """Returns what is wrong if the function did not return: its process may have ended well all the same."""
    return None if "objects" in measured.said else "its process ended before the function returned"
