"""Runs the contestants of a job in turn and checks what each wrote. Not here: who they are (`jobs/`).

The traps it avoids, each of which has spoilt a published table: one contestant after the other instead of in turn
(the machine changes), a directory used twice or made after a deletion (ext4 skips freed inodes for minutes),
write-back of one run inside the next, a fast wrong answer.
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from shoal._errors import ConfigError, RunError
from shoal.bench import machine, measure, verify
from shoal.bench.contestants import Contestant, Task, version_of
from shoal.bench.results import Results, Row, Trial

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

START_LIMIT = 10.0  # seconds in which the service must answer


@dataclass(frozen=True)
class Settings:
    """What to run; see `shoal.bench.copy`."""

    job: str
    count: int
    size: int
    trials: int
    into: str
    durable: bool
    only: tuple[str, ...]
    skip: tuple[str, ...]
    directory: str | os.PathLike[str] | None
    keep: bool

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            ConfigError: With the option's name.
        """
        for option, value in (("count", self.count), ("size", self.size), ("trials", self.trials)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{option} is not a whole number above 0: {value!r}")
        if self.into not in ("files", "null"):
            raise ConfigError(f"into is neither 'files' nor 'null': {self.into!r}")
        if self.durable and self.into == "null":
            raise ConfigError("nothing that is thrown away can be durable", hint="leave out --durable or --into null")


def chosen(settings: Settings) -> list[Contestant]:
    """Returns the contestants that settings name, whether they can run here or not.

    Raises:
        ConfigError: A key is not known, or none is left.
    """
    everyone = importlib.import_module(f"shoal.bench.jobs.{settings.job}").contestants()
    keys = [contestant.key for contestant in everyone]
    for key in (*settings.only, *settings.skip):
        if key not in keys:
            raise ConfigError(f"there is no contestant {key!r}", hint=f"there are {', '.join(keys)}")
    found = [
        contestant
        for contestant in everyone
        if (not settings.only or contestant.key in settings.only)
        and contestant.key not in settings.skip
        and settings.into in contestant.into
        and contestant.durable != ("never" if settings.durable else "only")
    ]
    if not found:
        raise ConfigError("no contestant is left", hint="see --list")
    return found


def run(settings: Settings, progress: Callable[[str], object]) -> Results:
    """Runs a contest; see `shoal.bench.copy`."""
    settings.check()
    contestants = chosen(settings)
    rows = {one.key: Row(one.key, one.title, one.kind, one.layout, one.published, one.note) for one in contestants}
    for one in contestants:
        rows[one.key].missing = one.missing()
    able = [one for one in contestants if rows[one.key].missing is None]
    base = Path(settings.directory) if settings.directory else Path.cwd()
    base.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="shoal-bench-", dir=base))
    try:
        rounds = range(settings.trials + 1) if settings.trials > 1 else range(1, 2)
        for number in rounds:
            for one in able:
                named = f"round {number} of {settings.trials}" if number else "warming up"
                progress(f"{named}: {one.title}")
                trial = _trial(settings, one, place, number)
                if number:
                    rows[one.key].trials.append(trial)
        about = machine.describe(place)
    finally:
        if not settings.keep:
            shutil.rmtree(place, ignore_errors=True)
    about |= {program: version_of(program) for one in able for program in one.programs}
    wanted = {
        "count": settings.count,
        "size": settings.size,
        "trials": settings.trials,
        "into": settings.into,
        "durable": settings.durable,
    }
    ordered = sorted(rows.values(), key=lambda row: -row.rate)
    first = next((row.key for row in rows.values() if row.trials), contestants[0].key)
    return Results(settings.job, wanted, about, ordered, first)


def _trial(settings: Settings, one: Contestant, place: Path, number: int) -> Trial:
    times = one.null_times if settings.into == "null" else 1
    count = max(1, min(round(settings.count * times * one.share), settings.count * times))
    with _service(count if one.kind == "shoal" else settings.count * times, settings.size) as url:
        names = _names(url, count if settings.into == "files" else 1)
        directory = place / f"{number}-{one.key}" if settings.into == "files" else None
        if directory:
            directory.mkdir()
        measure.sync_file_system(place)  # what others wrote must not be written back in this one's time
        with tempfile.TemporaryDirectory() as scratch:
            command = one.command(Task(url, directory, names, count, Path(scratch)))
            measured = measure.run(command, directory if settings.durable else None)
    if measured.code != 0:
        raise RunError(f"{one.title} ended with code {measured.code}: {measured.printed.strip()[-500:]}")
    objects = count
    if one.rate is not None:
        objects = round(one.rate(measured.printed) * measured.seconds)
    elif directory:
        wrong = verify.fault(directory, names, settings.size, partitioned=one.layout == "partition")
        if wrong:
            raise RunError(f"{one.title} did not copy rightly: {wrong}")
    elif measured.said.get("bytes", measured.said.get("written")) != count * settings.size:
        raise RunError(f"{one.title} did not see every byte: {json.dumps(measured.said)[:300]}")
    workers = measured.said.get("workers", one.workers)
    return Trial(number, objects, measured.seconds, measured.cpu, measured.rss, workers)


@contextmanager
def _service(count: int, size: int) -> Iterator[str]:
    """A service of made-up objects in a process of its own; the text is its URL."""
    command = [sys.executable, "-m", "shoal", "serve", "--synthetic", f"{count}:{size}", "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline().strip() if process.stdout else ""
            if not line.startswith("http://"):
                raise RunError(f"shoal serve did not start: {line!r}")
            yield line
        finally:
            process.terminate()


def _names(url: str, count: int) -> list[str]:
    """Returns the first names that a service lists."""
    names: list[str] = []
    marker = ""
    while len(names) < count:
        query = f"?next-marker={quote(marker, safe='')}" if marker else ""
        with urllib.request.urlopen(f"{url}/list{query}", timeout=START_LIMIT) as answer:  # noqa: S310  # our own service
            page = json.load(answer)
        names += page["FileNames"]
        marker = page.get("NextMarker", "")
        if not marker:
            break
    return names[:count]
