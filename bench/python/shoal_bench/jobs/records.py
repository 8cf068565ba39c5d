"""The contestants of `shoal bench records`: a large flat file of 16-byte records, and what a program wants of it.

The study: "I/O performance in Python" (rabexc.org), whose program goes through an index of 93,368,320 such records, in
Python 2 and 3, as fast as it can. What it leaves open are the other cases: a sum, a filter, groups, another format.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import ConfigError, RunError
from shoal_bench import cold, flat, parquet
from shoal_bench.contestants import BARE_LOOPS, LIMITS, WORKERS, Arena, Contestant, Kind, Task, python
from shoal_bench.flat import Flat
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

COUNT = 10_000_000
SIZE = None  # a record has 16 bytes
FULL = 93_368_320  # the study's
CASES = ("touch", "sum", "filter", "group", "convert")
TOUCH = ("", "touch")
CORES = len(os.sched_getaffinity(0))
SHARE = 0.2  # of the records: what a loop that takes up to half a microsecond for each gets
AUTHOR = (
    "Py 2, Py 3: the author's seconds for as many records, in both Pythons, on another machine; one figure where the "
    "article gives one."
)
# What is compared must do the same work: so are the files of both written, and so each is looked at.
COMPRESSION = "snappy"
DICTIONARY = True
ROWS = 1 << 20  # of a row group
# Some programs hold all records, their columns, and what becomes of them.
MEMORY_TIMES = 3
CASE = {"filter": ("--above", str(flat.ABOVE)), "group": ("--ids", str(flat.BLOCK))}  # what a program must be told
CHECKED = {
    "sum": "every sum compared",
    "filter": "every record that was chosen compared",
    "group": "every group's sum compared",
    "convert": "every value, the encodings, compression and row groups compared",
}
PART = "a file of their own with the first fifth of the records: rates are compared"
LOADED = "reading the file and making columns of it is not in its time: what it works on is in memory already"
CAT = "in pieces of its own, into nowhere; that it has read everything, its exit code alone says"
LIMIT = "adds up the lengths and hands over nothing else, whatever the case"


def _loop(kind: Kind, key: str, title: str, path: str, *options: str, **about: Any) -> Contestant:
    """A program for which the job has one case."""

    def command(task: Task) -> list[str]:
        return python(path, task.file, *options, *task.verify)

    return Contestant(key, title, kind, command, **({"cases": TOUCH} | about))


def _cased(kind: Kind, key: str, title: str, path: str, *options: str, **about: Any) -> Contestant:
    """A program that knows several cases: which, and what it must be told for it."""

    def command(task: Task) -> list[str]:
        told: tuple[str, ...] = CASE.get(task.case, ())
        if task.directory is not None:
            told = ("--into", str(task.directory / "records.parquet"), "--compression", COMPRESSION)
        return python(path, task.file, task.case, *told, *options)

    return Contestant(key, title, kind, command, **about)


def _ours() -> list[Contestant]:
    def loop(key: str, title: str, how: str, *packages: str) -> Contestant:
        return _loop("shoal", key, title, "ours/records.py", how, packages=packages)

    def one(key: str, title: str, case: str, *packages: str) -> Contestant:
        return _cased("shoal", key, title, "ours/records.py", cases=(case,), packages=packages)

    return [
        loop("shoal", "shoal, for r in records", "tuples"),
        loop("shoal-raw", "shoal, records.raw()", "raw"),
        loop("shoal-columns", "shoal, records.columns()", "columns", "numpy"),
        one("shoal-sum", "shoal, aggregate", "sum"),
        one("shoal-filter", "shoal, scan", "filter", "pyarrow"),
        one("shoal-group", "shoal, aggregate by id", "group", "numpy"),
        one("shoal-convert", "shoal, write", "convert", "pyarrow"),
    ]


def _peers() -> list[Contestant]:
    def numpy(how: str) -> list[Contestant]:
        path, arrow = "peers/numpy_records.py", ("--rows", str(ROWS), *(["--dictionary"] if DICTIONARY else []))
        plain: dict[str, Any] = {"cases": ("sum", "group"), "packages": ("numpy",)}
        tables: dict[str, Any] = {"cases": ("filter", "convert"), "packages": ("numpy", "pyarrow")}
        return [
            _cased("peer", f"numpy-{how}", f"NumPy {how}", path, "--how", how, **plain),
            _cased("peer", f"numpy-{how}-arrow", f"NumPy {how}, PyArrow", path, "--how", how, *arrow, **tables),
        ]

    def cat(task: Task) -> list[str]:
        return ["sh", "-c", 'cat "$1" >/dev/null', "sh", str(task.file)]

    study: dict[str, Any] = {"published": 0.53 / FULL, "python2": 0.53 / FULL, "cases": ("", *CASES[:-1])}
    polars: dict[str, Any] = {"cases": ("group",), "packages": ("polars", "numpy"), "note": LOADED}
    return [
        Contestant("cat", "cat", "peer", cat, workers=1, programs=("cat",), proves=False, note=CAT, **study),
        *numpy("memmap"),
        *numpy("fromfile"),
        _loop("peer", "polars", "Polars, in memory", "peers/polars_records.py", *CASE["group"], **polars),
    ]


# Key, title, script and its options, the study's seconds with Python 2 and 3; * marks those that get a share only.
STRATEGIES = (
    ("naive", "open + read(16)", "read_16", 54.9, 32.1, "*"),
    ("buffer-32k", "open + 32 KiB buffer", "read_16 --buffer 32768", 48.0, None, "*"),
    ("io-open", "io.open + read(16)", "read_16", 42.7, 38.5, "*"),  # in Python 3 the same as `naive`
    ("os-read-16", "os.read(16)", "os_read --piece 16", 113.4, 126.9, "*"),
    ("os-read-1m", "os.read 1 MiB, not split", "os_read --piece 1048576", 1.4, None, ""),
    ("os-read-1m-slices", "os.read 1 MiB + slices", "os_read --piece 1048576 --slices", 38.9, None, "*"),
    ("whole-slices", "whole file + slices", "whole_slices", 73.0, 96.9, "*"),
    ("readinto-16", "readinto 16 B", "readinto --piece 16 --buffered", 100.5, None, "*"),
    ("readinto-16-unbuffered", "readinto 16 B unbuffered", "readinto --piece 16", 125.0, None, "*"),
    ("readinto-8k", "readinto 8 KiB, not split", "readinto --piece 8192", 1.26, None, ""),
    ("readinto-1m", "readinto 1 MiB, not split", "readinto --piece 1048576", 3.9, None, ""),
    ("readinto-32k", "readinto 32 KiB, not split", "readinto --piece 32768", None, 0.6, ""),
    ("bound-read", "a bound read(16)", "read_16 --bound", None, None, ""),
    ("memory-map", "mmap + slices", "whole_slices --map", None, None, "*"),
    ("struct-unpack", "struct.unpack each", "struct_unpack", None, None, "*"),
    ("struct-iter-unpack", "struct.iter_unpack, 1 MiB", "struct_unpack --piece 1048576", None, None, ""),
)


def _strategies() -> list[Contestant]:
    found = []
    for key, title, words, python2, python3, part in STRATEGIES:
        script, *options = words.split()
        about: dict[str, Any] = {"share": SHARE, "note": PART} if part else {}
        about |= {"python2": python2 and python2 / FULL, "published": python3 and python3 / FULL}
        # It refuses a file that is larger than half of the memory.
        about["may_fail"] = key == "whole-slices"
        found.append(_loop("strategy", key, title, f"strategies/records/{script}.py", *options, **about))
    return found


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""

    def bare(task: Task) -> list[str]:
        return [BARE_LOOPS, "records", str(task.file)]

    about: dict[str, Any] = {"programs": (LIMITS,), "told": WORKERS, "proves": False, "note": LIMIT}
    return [
        *_ours(),
        Contestant("limit", f"bare loop, {CORES} threads", "limit", bare, **about),
        *_peers(),
        *_strategies(),
    ]


def check(settings: Settings) -> None:
    """Refuses what has no meaning here.

    Raises:
        ConfigError: With the option's name.
    """
    if settings.case not in ("", *CASES):
        raise ConfigError(f"there is no case {settings.case!r}", hint=f"there are {', '.join(CASES)}")
    if settings.size is not None:
        raise ConfigError(f"a record has {flat.RECORD} bytes: the job records has no size", hint="leave out --size")
    if settings.into != "files":
        raise ConfigError("the job records writes nothing but --case convert, and that a file", hint="leave out --into")
    if settings.durable:
        raise ConfigError("the job records has no durable runs", hint="leave out --durable")


@dataclass(frozen=True, kw_only=True)
class Reading(Arena):
    """All work on the same records, in fresh processes; those that get a share, on a file that ends there.

    Attributes:
        settings: What to run.
        whole: The file.
        part: The first fifth of it, in a file of its own.
        wanted: What the case must find in the whole, by the name under which the programs say it.
    """

    settings: Settings
    whole: Flat
    part: Flat
    wanted: dict[str, Any]

    def _file(self, one: Contestant) -> Flat:
        """Returns what a contestant works on."""
        return self.whole if one.share == 1.0 else self.part

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Takes the file out of the page cache or brings it there; makes a directory where a file is written."""
        file = self._file(one)
        directory = self.fresh(one, number, file.size) if self.settings.case == "convert" else None
        if self.settings.cold:
            cold.drop([file.path])
        else:
            cold.bring(file.path)
        yield Task(
            directory=directory,
            count=file.count,
            scratch=scratch,
            size=MEMORY_TIMES * file.size,
            file=file.path,
            case=self.settings.case or CASES[0],
            prove=number == 0 and one.proves and self.proves,
        )
        if directory and not self.settings.keep:
            for path in directory.iterdir():
                os.truncate(path, 0)  # ten of them would fill the disk

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Compares what it says it has found, and the file that it wrote."""
        if one.key == "cat":
            return None
        file, said = self._file(one), measured.said
        wanted: dict[str, Any] = {"objects": file.count, "bytes": file.size}
        if one.kind == "limit":
            wanted["sum"] = file.total
        elif self.proves:
            wanted |= {"last": list(file.last)} if one.kind == "shoal" else {}
            wanted |= {"proof": file.proof} if task.prove else {}
        else:
            wanted |= self.wanted
        for what, value in wanted.items():
            if said.get(what) != value:
                return f"it has found {what} {said.get(what)!r} and not {value!r}"
        if task.directory and one.kind != "limit":
            return parquet.fault(task.directory / "records.parquet", file.count, COMPRESSION, DICTIONARY, ROWS)
        return None


def _wanted(case: str, whole: Flat) -> dict[str, Any]:
    """Returns what the programs must find, which is added up from the columns, without the file."""
    if case == "sum":
        return {"sum": whole.total}
    if case == "filter":
        chosen = list(flat.chosen(whole.count))
        return {"chosen": sum(len(columns.id) for columns in chosen), "proof": flat.proofs(chosen)}
    if case == "group":
        groups, proof = flat.groups(whole.count)
        return {"groups": groups, "proof": proof}
    return {}


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[Reading]:
    """Makes the files; they are then in the page cache, and on the disk."""
    if shutil.disk_usage(place).free < 4 * settings.count * flat.RECORD:
        raise RunError("the disk is almost full", hint="take fewer with --count, or name another with --dir")
    whole = flat.make(place / "records", settings.count)
    part = flat.make(place / "part", max(1, int(settings.count * SHARE)))
    with contextlib.suppress(RunError):  # where a file cannot leave the page cache, what was written stays
        # Pages that were written lie in small pieces, those that were read in large ones, which is what readers meet.
        cold.drop([whole.path, part.path])
    loops = settings.case in TOUCH  # these prove that they have seen every record, in a round that does not count
    said = f"time: for {FULL:,} records, as the study has them.{f' {AUTHOR}' if loops else ''}"
    yield Reading(
        place=place,
        count=whole.count,
        size=flat.RECORD,
        scale=Scale(FULL, "time", said, figures=loops, unit="M/s", unit_objects=1_000_000),
        checked=CHECKED.get(settings.case, "every record proven once, counted in each trial"),
        proves=loops,
        settings=settings,
        whole=whole,
        part=part,
        wanted=_wanted(settings.case, whole),
    )
