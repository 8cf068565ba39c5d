"""The contestants of `shoal bench copy`: shoal, the strategies of the study, programs people use, the machine's limits.

The study: "Downloading a Billion Files in Python" (PyCon 2019); its figures are for 16 cores and another machine. The
cases are not of the study: there, the programs that take lists of URLs get the same list, of one server or of 20 hosts;
or a directory is copied (`tree.py`).
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import tree, verify
from shoal_bench.contestants import (
    BARE_LOOPS,
    BOTH,
    LIMITS,
    WORKERS,
    Arena,
    Command,
    Contestant,
    Task,
    Told,
    python,
)
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.service import first_names, service
from shoal_bench.settings import Settings

COUNT = 60_000
SIZE = 100
SERVER = "shoal serve"  # the server that every row asks, on this machine
SCALE = Scale(
    1e9,
    "a billion",
    f"The author's: 16 cores, another machine, a network in between. Here all rows ask `{SERVER}` on this machine: a "
    "slower server limits the fast rows.",
)
HOSTS = {"urls": 1, "hosts": 20}  # the cases with a list of URLs, and of how many hosts it is
LISTS = tuple(HOSTS)
CASES = (*LISTS, tree.CASE)
GIVEN = "given the names: no listing in its time"
SYNCED = "each file is made durable on its own (fsync)"
BARE = "no checks, no journal, not resumable; the listing is not in its time"
NONE = ("--durability", "none")


def _shoal(key: str, what: str, *options: str, **about: Any) -> Contestant:
    def command(task: Task) -> list[str]:
        source = ["--urls", _names(task, "{name}\t{url}/get/{name}")] if task.hosts else [task.url]
        return [sys.executable, "-m", "shoal", "copy", *source, task.where, "--json", "--quiet", *options]

    durability = "none" if "none" in options else "batch"  # which is the default
    title = f"{what} from {SERVER}, durability {durability}"
    durable: Any = "never" if durability == "none" else "only"
    return Contestant(key, title, "shoal", command, durable=durable, told=WORKERS, **about)


def _ours() -> list[Contestant]:
    return [
        _shoal("shoal", "shoal copy", *NONE, into=BOTH, null_times=50),
        _shoal("shoal-off", "shoal copy --pipeline off", *NONE, "--pipeline", "off", into=BOTH),
        _shoal("shoal-1", "shoal copy --workers 1", *NONE, "--workers", "1", share=0.15, workers=1),
        _shoal("shoal-batch", "shoal copy"),
    ]


def _limit() -> Contestant:
    def command(task: Task) -> list[str]:
        return [BARE_LOOPS, "copy", task.url, task.where, "--limit", str(task.count)]

    about: dict[str, Any] = {"workers": len(os.sched_getaffinity(0)) * 64, "told": WORKERS, "programs": (LIMITS,)}
    about["note"] = BARE
    return Contestant("limit", "bare loop: pipelined GET + create", "limit", command, into=BOTH, null_times=50, **about)


# Key, title, script and its options, packages, share, the talk's seconds for an object. The share is about a second's
# work, from what each does on two cores (requests a second: 1,200 for a new connection each time, 1,500 with threads,
# 3,400 with processes, 7,000 with one event loop).
STRATEGIES = (
    ("synchronous", "requests, a new connection each", "synchronous", "requests", 0.02, 0.003),
    ("session", "requests, one session", "synchronous --session", "requests", 0.03, None),
    ("threads-10", "10 threads", "threads --workers 10", "requests", 0.03, 0.0036),
    ("threads-100", "100 threads", "threads --workers 100", "requests", 0.03, 0.0042),
    ("processes", "process pool, a page each", "processes", "requests", 0.05, 0.00032),
    ("event-loop", "asyncio + uvloop + aiohttp", "event_loop", "aiohttp uvloop", 0.15, 0.00056),
    ("combo", "combo: processes x event loop", "combo", "aiohttp requests uvloop", 1.0, 0.0000303),
)
TOLD = {"synchronous": None, "session": None, "combo": Told(inner="--requests")}  # the others as usual


def _strategies() -> list[Contestant]:
    def one(key: str, title: str, words: str, packages: str, share: float, published: float | None) -> Contestant:
        script, *options = words.split()

        def command(task: Task) -> list[str]:
            return python(f"strategies/copy/{script}.py", task.url, task.where, "--limit", task.count, *options)

        about: dict[str, Any] = {"packages": tuple(packages.split()), "told": TOLD.get(key, WORKERS)}
        return Contestant(key, title, "strategy", command, share=share, published=published, **about)

    return [one(*row) for row in STRATEGIES]


def _names(task: Task, line: str = "{name}") -> str:
    """Writes a file with a line for each name, the hosts of a list in turn, and returns its path."""
    path = task.scratch / "names"
    each = zip(task.names, cycle(task.hosts or (task.url,)), strict=False)
    path.write_text("".join(line.format(name=name, url=url, directory=task.directory) + "\n" for name, url in each))
    return str(path)


def _curl(task: Task) -> list[str]:
    config = _names(task, 'url = "{url}/get/{name}"\noutput = "{directory}/{name}"')
    return ["curl", "-s", "--parallel", "--parallel-max", "64", "-K", config]


def _aria2c(task: Task) -> list[str]:
    urls = _names(task, "{url}/get/{name}\n  out={name}")
    # Control files, which are only of use to large files, would cost two more fsyncs for each file.
    plain = ("-q", "--file-allocation=none", "--auto-save-interval=0")
    return ["aria2c", *plain, "-j16", "-x1", f"--dir={task.directory}", f"--input-file={urls}"]


def _wget2(task: Task) -> list[str]:
    plain = ("-q", "--no-config", "--no-hsts", "--no-robots", "--no-xattr")  # the files, and nothing else
    urls = _names(task, "{url}/get/{name}")
    return ["wget2", *plain, "--max-threads=64", f"--directory-prefix={task.directory}", f"--input-file={urls}"]


def _rclone(task: Task) -> list[str]:
    # An HTTP remote made up here; its directories are not listed: the names are given, the directory is empty.
    remote = [":http:", f"--http-url={task.url}/get", "--http-no-head", f"--files-from-raw={_names(task)}"]
    told = ["-q", "--config=", "--no-traverse", "--no-check-dest", "--transfers=64", "--checkers=64"]
    return ["rclone", "copy", *remote, str(task.directory), *told]


def _wrk_rate(printed: str) -> float:
    found = re.search(r"Requests/sec:\s*([0-9.]+)", printed)
    return float(found[1]) if found else 0.0


def _peers() -> list[Contestant]:
    """The programs people use; none of them can list."""

    def one(key: str, title: str, command: Command, share: float, **about: Any) -> Contestant:
        given: dict[str, Any] = {"workers": 64, "programs": (key,), "note": GIVEN} | about
        return Contestant(key, title, "peer", command, share=share, **given)

    def obstore(task: Task) -> list[str]:
        return python("peers/obstore_copy.py", task.url, _names(task), task.directory)

    return [
        one("curl", "curl --parallel", _curl, 1.0),
        # 70 to 1,100 files a second here: as many as the disk makes durable.
        one("aria2c", "aria2c -j16", _aria2c, 0.01, workers=16, note=f"{GIVEN}; {SYNCED}"),
        one("wget2", "wget2 --max-threads=64", _wget2, 0.1),
        one("rclone", "rclone copy --transfers=64", _rclone, 0.1),
        one("obstore", "obstore, asyncio", obstore, 0.03, programs=(), packages=("obstore",), told=WORKERS),
        Contestant(
            "wrk",
            "wrk -t1 -c64, one at a time",
            "limit",
            lambda task: ["wrk", "-t1", "-c64", "-d2s", f"{task.url}/get/{task.names[0]}"],
            workers=64,
            programs=("wrk",),
            into=("null",),
            rate=_wrk_rate,
            note="asks for one object again and again, keeps nothing",
        ),
    ]


def _lists() -> list[Contestant]:
    """The programs that take a list of URLs. Only aria2c gets a part of it: it would take minutes for all."""
    listed = "shoal copy --urls"
    peers = {one.key: one for one in _peers()}
    return [
        _shoal("shoal-urls", listed, *NONE, cases=LISTS),
        _shoal("shoal-urls-off", f"{listed} --pipeline off", *NONE, "--pipeline", "off", cases=LISTS),
        _shoal("shoal-urls-batch", listed, cases=LISTS),
        *(
            replace(peers[key], key=f"{key}-urls", share=share, note=note, cases=LISTS)
            for key, share, note in (("curl", 1.0, ""), ("aria2c", 0.04, SYNCED), ("wget2", 1.0, ""))
        ),
    ]


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    study = [*_ours(), _limit(), *_peers(), *_strategies()]
    return [*(replace(one, cases=("",)) for one in study), *_lists(), *tree.contestants()]


def check(settings: Settings) -> None:
    """Refuses what the cases cannot have.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.case not in ("", *CASES):
        raise ConfigError(f"there is no case {settings.case!r}", hint=f"there are {', '.join(CASES)}")
    if settings.case and settings.strategies:
        raise ConfigError(f"a strategy of your own does not take the case {settings.case}", hint="leave out --case")
    if settings.case and settings.full:
        raise ConfigError(f"the case {settings.case} is not of the study", hint="leave out --full")


@dataclass(frozen=True, kw_only=True)
class Copying(Arena):
    """Every run has a service, or those of a list, and an empty directory of its own, or writes nothing."""

    files: bool
    hosts: int

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Starts the services; makes a fresh directory."""
        files, each = self.files, int(self.size)
        everything = self.count * (1 if files else one.null_times)
        count = max(1, min(round(everything * one.share), everything))
        served = count if one.kind == "shoal" else everything
        with ExitStack() as running:
            urls = tuple(running.enter_context(service(served, each, at)).url for at in range(self.hosts or 1))
            yield Task(
                directory=self.fresh(one, number) if files else None,
                count=count,
                scratch=scratch,
                url=urls[0],
                hosts=urls if self.hosts else (),
                names=first_names(urls[0], count if files else 1),
                size=count * each if files else 0,
                fills=files,
            )

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Compares every file; into nowhere, the bytes that were counted."""
        if one.rate is not None:
            return None
        if task.directory:
            return verify.fault(task.directory, task.names, int(self.size))
        if measured.said.get("bytes", measured.said.get("written")) != task.count * self.size:
            return f"it did not see every byte: {json.dumps(measured.said)[:300]}"
        return None


def arena(settings: Settings, place: Path) -> AbstractContextManager[Arena]:
    """Makes a directory to copy, or has services."""
    return tree.arena(settings, place) if settings.case == tree.CASE else _services(settings, place)


@contextmanager
def _services(settings: Settings, place: Path) -> Iterator[Copying]:
    """Has nothing to prepare; into nowhere, what the contestants say they received is added up."""
    files, size = settings.into == "files", settings.size or SIZE
    checked = "every byte compared" if files else "bytes counted, not compared"
    hosts, scale = HOSTS.get(settings.case, 0), SCALE
    if hosts:
        of = f"{hosts} hosts, from 127.0.0.1 on" if hosts > 1 else "one server"
        scale = Scale(settings.count, "time", f"A list of URLs of {of}; each is a `{SERVER}`.", figures=False)
    about: dict[str, Any] = {"scale": scale, "checked": checked, "files": files, "hosts": hosts}
    yield Copying(place=place, count=settings.count, size=size, **about)
