"""The contestants of `shoal bench records`: a large flat file of 16-byte records, and what a program wants of it.

The study: "I/O performance in Python" (rabexc.org), whose program goes through an index of 93,368,320 such records, in
Python 2 and 3, as fast as it can. What it leaves open are the other cases: a sum, a filter, groups, another format.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal import ConfigError, RunError
from shoal_bench import cold, flat, parquet
from shoal_bench.arena import Scale
from shoal_bench.contestants import BARE_LOOPS, Contestant, Task, Told, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal_bench.flat import Flat
    from shoal_bench.measure import Measured
    from shoal_bench.settings import Settings

COUNT = 10_000_000
SIZE = None  # a record has 16 bytes
FULL = 93_368_320  # the study's
CASES = ("touch", "sum", "filter", "group", "convert")
TOUCH = ("", "touch")
BENCH = Path(__file__).parent.parent
CORES = len(os.sched_getaffinity(0))
SHARE = 0.2  # of the records: what a loop that takes up to half a microsecond for each gets
AUTHOR = (
    "Py 2, Py 3: the author's seconds for as many records, in both Pythons, on another machine; one figure where the "
    "article gives one."
)
# What the rows show besides their title: name of the strategy, its title, and whether it gets a share only.
TITLES = {
    "naive": ("open + read(16)", True),
    "buffer_32k": ("open + 32 KiB buffer", True),
    "io_open": ("io.open + read(16)", True),
    "os_read_16": ("os.read(16)", True),
    "os_read_1m": ("os.read 1 MiB, not split", False),
    "os_read_1m_slices": ("os.read 1 MiB + slices", True),
    "whole_slices": ("whole file + slices", True),
    "readinto_16": ("readinto 16 B", True),
    "readinto_16_unbuffered": ("readinto 16 B unbuffered", True),
    "readinto_8k": ("readinto 8 KiB, not split", False),
    "readinto_1m": ("readinto 1 MiB, not split", False),
    "readinto_32k": ("readinto 32 KiB, not split", False),
    "bound_read": ("a bound read(16)", False),
    "memory_map": ("mmap + slices", True),
    "struct_unpack": ("struct.unpack each", True),
    "struct_iter_unpack": ("struct.iter_unpack, 1 MiB", False),
}
# What is compared must do the same work: so are the files of both written, and so each is looked at.
COMPRESSION = "snappy"
DICTIONARY = True
ROWS = 1 << 20  # of a row group
# Some programs hold all records, their columns, and what becomes of them.
MEMORY_TIMES = 3
CASE = {"filter": ("--above", str(flat.ABOVE)), "group": ("--ids", str(flat.BLOCK))}  # what a program must be told
PART = "a file of their own with the first fifth of the records: rates are compared"
LOADED = "reading the file and making columns of it is not in its time: what it works on is in memory already"
CAT = "in pieces of its own, into nowhere; that it has read everything, its exit code alone says"
LIMIT = "adds up the lengths and hands over nothing else, whatever the case"


def _command(path: Path, *options: str) -> Callable[[Task], list[str]]:
    """Makes the command of a program for which the job has one case."""
    return lambda task: [sys.executable, str(path), str(task.file), *options, *(["--verify"] if task.prove else [])]


def _cased(path: Path, *options: str) -> Callable[[Task], list[str]]:
    """Makes the command of a program that knows several cases: which, and what it must be told for it."""

    def command(task: Task) -> list[str]:
        told: tuple[str, ...] = CASE.get(task.case, ())
        if task.directory is not None:
            told = ("--into", str(task.directory / "records.parquet"), "--compression", COMPRESSION)
        return [sys.executable, str(path), str(task.file), task.case, *told, *options]

    return command


def _ours() -> list[Contestant]:
    path = BENCH / "ours" / "records.py"

    def one(key: str, title: str, case: str, *packages: str) -> Contestant:
        return Contestant(key, title, "shoal", _cased(path), cases=(case,), packages=packages)

    def loop(key: str, title: str, how: str, *packages: str) -> Contestant:
        return Contestant(key, title, "shoal", _command(path, how), cases=TOUCH, packages=packages)

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
    path = BENCH / "peers" / "numpy_records.py"

    def numpy(how: str, title: str) -> list[Contestant]:
        plain = Contestant(
            f"numpy-{how}",
            f"NumPy {how}{title}",
            "peer",
            _cased(path, "--how", how),
            cases=("sum", "group"),
            packages=("numpy",),
        )
        arrow = Contestant(
            f"numpy-{how}-arrow",
            f"NumPy {how}, PyArrow",
            "peer",
            _cased(path, "--how", how, *(["--dictionary"] if DICTIONARY else []), "--rows", str(ROWS)),
            cases=("filter", "convert"),
            packages=("numpy", "pyarrow"),
        )
        return [plain, arrow]

    return [
        Contestant(
            "cat",
            "cat",
            "peer",
            lambda task: ["sh", "-c", 'cat "$1" >/dev/null', "sh", str(task.file)],
            workers=1,
            published=0.53 / FULL,
            python2=0.53 / FULL,
            programs=("cat",),
            cases=("", "touch", "sum", "filter", "group"),
            proves=False,
            note=CAT,
        ),
        *numpy("memmap", ""),
        *numpy("fromfile", ""),
        Contestant(
            "polars",
            "Polars, in memory",
            "peer",
            _command(BENCH / "peers" / "polars_records.py", *CASE["group"]),
            cases=("group",),
            packages=("polars", "numpy"),
            note=LOADED,
        ),
    ]


def _strategies() -> list[Contestant]:
    found = []
    for name in importlib.import_module("shoal_bench.strategies.records").ORDER:
        path = BENCH / "strategies" / "records" / f"{name}.py"
        title, part = TITLES[name]
        about = script(path)
        by_python = {version: seconds / FULL for version, seconds in about.published.items()}
        found.append(
            Contestant(
                name.replace("_", "-"),
                title,
                "strategy",
                _command(path),
                share=SHARE if part else 1.0,
                published=by_python.get(3),
                python2=by_python.get(2),
                packages=about.requires,
                cases=TOUCH,
                # It refuses a file that is larger than half of the memory.
                may_fail=name == "whole_slices",
                note=PART if part else "",
            )
        )
    return found


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""
    limit = Contestant(
        "limit",
        f"bare loop, {CORES} threads",
        "limit",
        lambda task: [BARE_LOOPS, "records", str(task.file)],
        proves=False,
        note=LIMIT,
        told=Told(),
    )
    return [*_ours(), limit, *_peers(), *_strategies()]


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


@dataclass(frozen=True)
class Reading:
    """All work on the same records, in fresh processes; those that get a share, on a file that ends there.

    Attributes:
        settings: What to run.
        place: Where Parquet files go.
        whole: The file.
        part: The first fifth of it, in a file of its own.
        wanted: What the case must find in the whole, by the name under which the programs say it.
    """

    settings: Settings
    place: Path
    whole: Flat
    part: Flat
    wanted: dict[str, Any]

    @property
    def count(self) -> int:
        """Records."""
        return self.whole.count

    @property
    def size(self) -> float:
        """Bytes of a record."""
        return flat.RECORD

    @property
    def proves(self) -> bool:
        """The loops prove that they have seen every record, in a round that does not count."""
        return self.settings.case in TOUCH

    @property
    def checked(self) -> str:
        """What is compared."""
        return {
            "sum": "every sum compared",
            "filter": "every record that was chosen compared",
            "group": "every group's sum compared",
            "convert": "every value, the encodings, compression and row groups compared",
        }.get(self.settings.case, "every record proven once, counted in each trial")

    @property
    def scale(self) -> Scale:
        """Times are for the study's number of records, rates in millions."""
        about = f"time: for {FULL:,} records, as the study has them."
        about = f"{about} {AUTHOR}" if self.proves else about
        return Scale(FULL, "time", about, figures=self.proves, unit="M/s", unit_objects=1_000_000)

    def _file(self, one: Contestant) -> Flat:
        """Returns what a contestant works on."""
        return self.whole if one.share == 1.0 else self.part

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Takes the file out of the page cache or brings it there; makes a directory where a file is written."""
        file = self._file(one)
        directory = None
        if self.settings.case == "convert":
            if shutil.disk_usage(self.place).free < 2 * file.size:
                raise RunError("the disk is almost full", hint="take fewer with --count, or name another with --dir")
            directory = self.place / f"{number}-{one.key}"
            directory.mkdir()
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
    yield Reading(settings, place, whole, part, _wanted(settings.case, whole))
