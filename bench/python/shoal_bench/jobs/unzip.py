"""The contestants of `shoal bench unzip`: many archives, every entry checked, or extracted below one directory.

The study: a memo of KZKY (2013); its figures are for 182 archives of 2.32 GB from a cold cache, in Python and Ruby.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import cold, corpus, verify
from shoal_bench.contestants import (
    BARE_LOOPS,
    BENCH,
    BOTH,
    LIMITS,
    WORKERS,
    Arena,
    Command,
    Contestant,
    Kind,
    Task,
    Told,
    python,
)
from shoal_bench.corpus import Corpus
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

COUNT = 7_500
SIZE = None  # the files of this machine decide it
CORES = len(os.sched_getaffinity(0))
# Bytes from which on a file is cut to nothing when it has been compared: nine tenths of all bytes are in a tenth of the
# files, and where each freed block is discarded at once, a file takes a millisecond.
CUT = 32 << 10
LARGEST = 2_000_000_000  # bytes of an entry
STUDY = 2.32e9  # bytes of the study's archives
AUTHOR = "The author's: 182 archives of 2.32 GB from a cold cache, in 2013, on another machine, read only."
CODE = "that it has read everything, its exit code alone says"
BARE = "no check of names, headers and sizes, no journal; entries over 64 MiB are one zlib-rs stream each"
GIANT = "the largest archive alone: compare its time, which is shown as if it had unpacked all"


def _script(kind: Kind, key: str, title: str, path: str, *options: str, **about: Any) -> Contestant:
    """A Python program: where the archives are, where they go, and what else it is told."""

    def command(task: Task) -> list[str]:
        return python(path, task.archives, *task.into, *options)

    given: dict[str, Any] = {"into": BOTH, "told": WORKERS} | about
    return Contestant(key, title, kind, command, **given)


def _ours() -> list[Contestant]:
    def one(key: str, title: str, *options: str, **about: Any) -> Contestant:
        return _script("shoal", key, title, "ours/unzip.py", *options, **({"durable": "never"} | about))

    batch: dict[str, Any] = {"into": ("files",), "durable": "only"}
    handed: dict[str, Any] = {"into": ("null",), "note": "hands every entry to a Python loop"}
    return [
        one("shoal", "shoal unzip, durability none"),
        one("shoal-batch", "shoal unzip, durability batch", "--durability", "batch", **batch),
        one("shoal-1", "shoal unzip, 1 worker, durability none", "--workers", "1", workers=1),
        one("shoal-read", "shoal.read", "--read", **handed),
        one("shoal-giant", "shoal unzip, giant alone, durability none", cases=("skewed",), note=GIANT),
    ]


def _limits() -> list[Contestant]:
    def bare(task: Task) -> list[str]:
        return [BARE_LOOPS, "unzip", str(task.archives), *task.into]

    def disk(task: Task) -> list[str]:
        return python("limits/disk.py", task.directory, task.size)

    about: dict[str, Any] = {"into": BOTH, "told": WORKERS, "programs": (LIMITS,), "note": BARE}
    row: dict[str, Any] = {"workers": 1, "note": "nothing is unpacked: what the disk takes in a row"}
    return [
        Contestant("limit", f"bare loop: libdeflate, {CORES} threads", "limit", bare, **about),
        Contestant("limit-disk", "one file of as many bytes", "limit", disk, durable="only", **row),
    ]


def _each(check: str, extract: str) -> Command:
    """Makes a command that calls a program for one archive after the other: $archive, and $into where it goes."""

    def command(task: Task) -> list[str]:
        line = f'for archive in "$1"/*.zip; do {extract if task.directory else check} || exit 1; done'
        return ["sh", "-c", f'into="$2"; {line}', "sh", str(task.archives), str(task.directory or "")]

    return command


def _xargs(task: Task) -> list[str]:
    # Where two make one directory at once, the slower unzip fails. All directories stand after it, so again is enough.
    extract = 'unzip -oqq "$1" -d "$2" 2>/dev/null || unzip -oqq "$1" -d "$2"'
    what = f"sh -c '{extract}' sh @ \"$2\"" if task.directory else "unzip -tqq @"
    line = f'find "$1" -name "*.zip" -print0 | sort -z | xargs -0 -P {CORES} -I @ {what}'
    return ["sh", "-c", line, "sh", str(task.archives), str(task.directory or "")]


def _peers() -> list[Contestant]:
    def peer(key: str, title: str, command: Command, program: str, workers: int) -> Contestant:
        about: dict[str, Any] = {"into": BOTH, "proves": False, "note": CODE}
        return Contestant(key, title, "peer", command, workers=workers, programs=(program,), **about)

    # 7-Zip unpacks one entry at a time, whatever the number of cores: no format but its own is unpacked by several.
    seven = _each('7z t -bso0 -bsp0 "$archive"', '7z x -y -bso0 -bsp0 "-o$into" "$archive"')
    bsdtar = _each('bsdtar -xOf "$archive" >/dev/null', 'bsdtar -xf "$archive" -C "$into"')
    ripunzip = _each("false", 'ripunzip -q unzip-file -d "$into" "$archive"')
    return [
        peer("unzip", "unzip", _each('unzip -tqq "$archive"', 'unzip -oqq "$archive" -d "$into"'), "unzip", 1),
        peer("xargs-unzip", f"xargs -P{CORES} unzip", _xargs, "unzip", CORES),
        peer("7z", "7z", seven, "7z", 1),
        peer("bsdtar", "bsdtar", bsdtar, "bsdtar", 1),
        Contestant("ripunzip", "ripunzip", "peer", ripunzip, programs=("ripunzip",), proves=False),
        _script("peer", "isal", "python-isal, processes", "peers/isal_processes.py", packages=("isal",)),
    ]


def _strategies() -> list[Contestant]:
    def one(key: str, title: str, script: str, workers: int, seconds: float | None = None) -> Contestant:
        path, told = f"strategies/unzip/{script}.py", WORKERS if workers else None
        options = ["--workers", str(workers)] if workers else []
        return _script("strategy", key, title, path, *options, published=seconds, told=told)

    def ruby(key: str, title: str, threads: int, seconds: float) -> Contestant:
        def command(task: Task) -> list[str]:
            where = [str(task.directory)] if task.directory else []
            return ["ruby", str(BENCH / "peers" / "unzip.rb"), str(task.archives), str(threads), *where]

        told = Told(place=3)
        return Contestant(key, title, "strategy", command, published=seconds, programs=("ruby",), into=BOTH, told=told)

    return [
        one("serial", "Python, serial", "serial", 0, 57.6),
        one("queue-threads-3", "Python, queue + 3 threads", "queue_threads", 3, 60.7),
        *(one(f"threads-{n}", f"Python, thread pool of {n}", "threads", n) for n in (2, 4, 8)),
        *(one(f"processes-{n}", f"Python, process pool of {n}", "processes", n) for n in (2, 4)),
        ruby("ruby-serial", "Ruby, serial", 1, 46.1),
        ruby("ruby-queue", "Ruby, queue + 3 threads", 3, 54.5),
    ]


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    return [*_ours(), *_limits(), *_peers(), *_strategies()]


def check(settings: Settings) -> None:
    """Refuses what has no meaning here.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.case not in ("", *corpus.CASES):
        raise ConfigError(f"there is no case {settings.case!r}", hint=f"there are {', '.join(corpus.CASES)}")
    if settings.size is not None and settings.case not in ("one", "skewed"):
        raise ConfigError("the files of this machine decide the size", hint="--size is for --case one and skewed")
    if settings.size is not None and settings.size > LARGEST:
        raise ConfigError(f"the large entry has at most {LARGEST:,} bytes: the bare loop knows no zip64")


def _scale(made: Corpus, case: str) -> Scale:
    """The study's is a number of packed bytes; the other cases are not those of the study."""
    about = f"{len(made.archives)} archives of {made.packed / 1e6:,.0f} MB, unpacked {made.size / 1e6:,.0f} MB"
    if made.rounds > 1:
        about += f"; this machine has too few files, they were taken {made.rounds} times"
    if case in ("", "many"):
        return Scale(STUDY * len(made.entries) / made.packed, "2.32 GB", f"{about}. {AUTHOR}", study=1)
    return Scale(len(made.entries), "time", f"{about}.", figures=False)


@dataclass(frozen=True, kw_only=True)
class Unzipping(Arena):
    """All unpack the same archives, in fresh processes, into fresh directories or nowhere."""

    settings: Settings
    corpus: Corpus

    def _part(self, one: Contestant) -> tuple[Path, ...]:
        """Returns the archives that a contestant gets."""
        if one.key == "shoal-giant":
            return self.corpus.archives[-1:]
        return self.corpus.archives[: max(1, round(len(self.corpus.archives) * one.share))]

    def _archives(self, one: Contestant, scratch: Path) -> Path:
        """Returns where they are: a directory of links, where it has only a part."""
        some = self._part(one)
        if one.key == "shoal-giant":
            return some[0]
        if some == self.corpus.archives:
            return self.corpus.directory
        part = scratch / "archives"
        part.mkdir()
        for path in some:
            (part / path.name).symlink_to(path.resolve())
        return part

    def _entries(self, one: Contestant) -> dict[str, tuple[int, str]]:
        """Returns what is in them."""
        some, entries = self._part(one), self.corpus.entries
        if some == self.corpus.archives:
            return entries
        return {name: entries[name] for path in some for name in corpus.names(path)}

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Makes a fresh directory; takes the archives out of the page cache or brings them there."""
        directory = self.fresh(one, number, self.corpus.size) if self.settings.into == "files" else None
        if self.settings.cold:
            cold.drop(self.corpus.archives)
        else:
            for path in self.corpus.archives:
                cold.bring(path)
        entries = self._entries(one)
        # The giant's time is shown as if it had unpacked all.
        count = self.count if one.key == "shoal-giant" else len(entries)
        archives, size = self._archives(one, scratch), sum(size for size, _ in entries.values())
        yield Task(directory=directory, count=count, scratch=scratch, archives=archives, size=size, fills=True)
        if directory and not self.settings.keep:
            # Not deleted: freed inodes make a file system slow to give new ones. But their blocks would fill it.
            for name, (size, _) in entries.items():
                if size >= CUT and (directory / name).exists():
                    os.truncate(directory / name, 0)

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Compares every file; into nowhere, the entries and bytes that were counted."""
        entries = self._entries(one)
        wanted = {"objects": len(entries), "bytes": sum(size for size, _ in entries.values())}
        if one.key == "limit-disk":
            return None if measured.said.get("bytes") == wanted["bytes"] else "it did not write every byte"
        if one.proves:
            for what, number in wanted.items():
                if measured.said.get(what) != number:
                    return f"it unpacked {measured.said.get(what)!r} {what} of {number}"
        return verify.hashes(task.directory, entries) if task.directory else None


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[Unzipping]:
    """Makes the archives: beside the contest where it was given a directory, for the next one."""
    case = settings.case or corpus.CASES[0]
    key = f"{case}-{settings.count}-{settings.size or 'own'}-{corpus.VERSION}"
    kept = Path(settings.directory) / "shoal-bench-archives" if settings.directory else place / "archives"
    made = corpus.make(case, settings.count, settings.size, kept / key)
    # Into nowhere there is nothing to compare: what the contestants say they unpacked is added up.
    checked = "every byte compared" if settings.into == "files" else "entries and bytes counted"
    about: dict[str, Any] = {"scale": _scale(made, settings.case), "checked": checked}
    count = len(made.entries)
    yield Unzipping(place=place, count=count, size=made.size / count, settings=settings, corpus=made, **about)
