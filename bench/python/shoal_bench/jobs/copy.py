"""The contestants of `shoal bench copy`: shoal, the strategies of the study, programs people use, the machine's limits.

The study: "Downloading a Billion Files in Python" (PyCon 2019); its figures are for 16 cores and another machine.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shoal_bench import verify
from shoal_bench.arena import Scale
from shoal_bench.contestants import BARE_LOOPS, Contestant, Layout, Task, Told, script
from shoal_bench.service import first_names, service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal_bench.measure import Measured
    from shoal_bench.settings import Settings

COUNT = 60_000
SIZE = 100
SCALE = Scale(1e9, "a billion", "The author's: 16 cores, another machine, a network in between.")
BENCH = Path(__file__).parent.parent
# Part of the objects that is about a second's work, from what each does on two cores (requests a second: 1,200 for a
# new connection each time, 1,500 with threads, 3,400 with processes, 7,000 with one event loop).
SHARES = {"synchronous": 0.02, "session": 0.03, "threads": 0.03, "processes": 0.05, "event_loop": 0.15, "combo": 1.0}
GIVEN = "given the names: no listing in its time"
TITLES = {
    "synchronous": "requests, a new connection each",
    "session": "requests, one session",
    "threads": "{} threads",
    "processes": "process pool, a page each",
    "event_loop": "asyncio + uvloop + aiohttp",
    "combo": "combo: processes x event loop",
}
# Those that take a number of workers.
TOLD = {"threads": Told(), "processes": Told(), "event_loop": Told(), "combo": Told(inner="--requests")}


def _shoal(key: str, title: str, *options: str, layout: Layout = "names") -> Contestant:
    def command(task: Task) -> list[str]:
        where = str(task.directory) if task.directory else "null:"
        first = [sys.executable, "-m", "shoal", "copy", task.url, where, "--json", "--quiet"]
        return [*first, *(["--layout", layout] if task.directory else []), *options]

    return Contestant(key, title, "shoal", command, layout=layout, told=Told())


def _script(path: Path, layout: Layout, workers: int | None) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        given = ["--workers", str(workers)] if workers else []
        where = str(task.directory) if task.directory else "null:"
        return [sys.executable, str(path), task.url, where, "--limit", str(task.count), "--layout", layout, *given]

    return command


def _limit(layout: Layout) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        where = str(task.directory) if task.directory else "null:"
        return [BARE_LOOPS, "copy", task.url, where, "--limit", str(task.count), "--layout", layout]

    return command


def _strategies() -> list[Contestant]:
    found = []
    for name in importlib.import_module("shoal_bench.strategies.copy").ORDER:
        path = BENCH / "strategies" / "copy" / f"{name}.py"
        says = script(path)
        counts = [10, 100] if name == "threads" else [0]
        for workers in counts:
            key = f"{name}-{workers}" if workers else name.replace("_", "-")
            seconds = says.published.get(workers) or next(iter(says.published.values()), None)
            found.append(
                Contestant(
                    key,
                    TITLES[name].format(workers),
                    "strategy",
                    _script(path, "names", workers or None),
                    share=SHARES[name],
                    published=seconds,
                    packages=says.requires,
                    told=TOLD.get(name),
                )
            )
    return found


def _curl(task: Task) -> list[str]:
    lines = (f'url = "{task.url}/get/{name}"\noutput = "{task.directory}/{name}"\n' for name in task.names)
    config = task.scratch / "curl.conf"
    config.write_text("".join(lines))
    return ["curl", "-s", "--parallel", "--parallel-max", "64", "-K", str(config)]


def _aria2c(task: Task) -> list[str]:
    urls = task.scratch / "aria2c.txt"
    urls.write_text("".join(f"{task.url}/get/{name}\n  out={name}\n" for name in task.names))
    return ["aria2c", "-q", "-j16", "-x1", "--file-allocation=none", f"--dir={task.directory}", f"--input-file={urls}"]


def _names(task: Task, before: str = "") -> Path:
    """Writes a file with a name in each line."""
    path = task.scratch / "names"
    path.write_text("".join(f"{before}{name}\n" for name in task.names))
    return path


def _wget2(task: Task) -> list[str]:
    urls = _names(task, f"{task.url}/get/")
    plain = ("-q", "--no-config", "--no-hsts", "--no-robots", "--no-xattr")  # the files, and nothing else
    return ["wget2", *plain, "--max-threads=64", f"--directory-prefix={task.directory}", f"--input-file={urls}"]


def _rclone(task: Task) -> list[str]:
    # An HTTP remote made up here, whose directories are not listed: the names are given, the directory is empty.
    remote = [":http:", f"--http-url={task.url}/get", "--http-no-head", f"--files-from-raw={_names(task)}"]
    told = ["-q", "--config=", "--no-traverse", "--no-check-dest", "--transfers=64", "--checkers=64"]
    return ["rclone", "copy", *remote, str(task.directory), *told]


def _obstore(task: Task) -> list[str]:
    script = BENCH / "peers" / "obstore_copy.py"
    return [sys.executable, str(script), task.url, str(_names(task)), str(task.directory)]


def _wrk(task: Task) -> list[str]:
    return ["wrk", "-t1", "-c64", "-d2s", f"{task.url}/get/{task.names[0]}"]


def _wrk_rate(printed: str) -> float:
    found = re.search(r"Requests/sec:\s*([0-9.]+)", printed)
    return float(found[1]) if found else 0.0


def _peers() -> list[Contestant]:
    """The programs people use; none of them can list."""

    def peer(key: str, title: str, command: Callable[[Task], list[str]], share: float, workers: int = 64) -> Contestant:
        return Contestant(key, title, "peer", command, workers=workers, share=share, programs=(key,), note=GIVEN)

    synced = f"{GIVEN}; each file is made durable on its own (fsync)"
    return [
        peer("curl", "curl --parallel", _curl, 1.0),
        # 70 to 1,100 files a second here: as many as the disk makes durable.
        replace(peer("aria2c", "aria2c -j16", _aria2c, 0.01, workers=16), note=synced),
        peer("wget2", "wget2 --max-threads=64", _wget2, 0.1),
        peer("rclone", "rclone copy --transfers=64", _rclone, 0.1),
        Contestant(
            "obstore",
            "obstore, asyncio",
            "peer",
            _obstore,
            share=0.03,
            packages=("obstore",),
            workers=64,
            note=GIVEN,
            told=Told(),
        ),
    ]


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    none = ("--durability", "none")
    cores = len(os.sched_getaffinity(0))
    both: tuple[str, ...] = ("files", "null")
    ours = [
        replace(_shoal("shoal", "shoal copy", *none), into=both, null_times=50),
        _shoal("shoal-partition", "shoal copy --layout partition", *none, layout="partition"),
        replace(_shoal("shoal-off", "shoal copy --pipeline off", *none, "--pipeline", "off"), into=both),
        replace(_shoal("shoal-1", "shoal copy --workers 1", *none, "--workers", "1"), share=0.15, workers=1),
    ]
    durable = [
        _shoal("shoal-batch", "shoal copy"),
        _shoal("shoal-batch-partition", "shoal copy --layout partition", layout="partition"),
    ]
    return [
        *(replace(one, durable="never") for one in ours),
        *(replace(one, durable="only") for one in durable),
        Contestant(
            "limit",
            "bare loop: pipelined GET + create",
            "limit",
            _limit("names"),
            workers=cores * 64,
            told=Told(),
            into=both,
            null_times=50,
            note="no checks, no journal, not resumable; the listing is not in its time",
        ),
        Contestant(
            "limit-partition",
            "the same, a directory per 100",
            "limit",
            _limit("partition"),
            workers=cores * 64,
            told=Told(),
            layout="partition",
            note="no checks, no journal, not resumable; the listing is not in its time",
        ),
        *_peers(),
        Contestant(
            "wrk",
            "wrk -t1 -c64, one at a time",
            "limit",
            _wrk,
            workers=64,
            programs=("wrk",),
            into=("null",),
            rate=_wrk_rate,
            note="asks for one object again and again, keeps nothing",
        ),
        *_strategies(),
    ]


def check(settings: Settings) -> None:
    """Knows all settings."""


@dataclass(frozen=True)
class Copying:
    """Every run has a service and an empty directory of its own; every byte is compared after it."""

    settings: Settings
    size: int
    place: Path
    proves: bool = False
    scale: Scale = SCALE

    @property
    def count(self) -> int:
        """Objects of the fastest into files."""
        return self.settings.count

    @property
    def checked(self) -> str:
        """Into nowhere there is nothing to compare: what the contestants say they received is added up."""
        return "every byte compared" if self.settings.into == "files" else "bytes counted, not compared"

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Starts a service; makes a fresh directory."""
        files = self.settings.into == "files"
        everything = self.settings.count * (1 if files else one.null_times)
        count = max(1, min(round(everything * one.share), everything))
        with service(count if one.kind == "shoal" else everything, self.size) as url:
            names = first_names(url, count if files else 1)
            directory = self.place / f"{number}-{one.key}" if files else None
            if directory:
                directory.mkdir()
            size = count * self.size if directory else 0
            yield Task(directory=directory, count=count, scratch=scratch, url=url, names=names, size=size, fills=files)

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Compares every file; into nowhere, the bytes that were counted."""
        if one.rate is not None:
            return None
        if task.directory:
            return verify.fault(task.directory, task.names, self.size, partitioned=one.layout == "partition")
        if measured.said.get("bytes", measured.said.get("written")) != task.count * self.size:
            return f"it did not see every byte: {json.dumps(measured.said)[:300]}"
        return None


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[Copying]:
    """Has nothing to prepare."""
    yield Copying(settings, settings.size or SIZE, place)
