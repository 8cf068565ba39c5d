"""Every row of the five studies is in the lab, by name, and each is measured, verified and ends well."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import shoal_bench
from shoal_bench import contest, curves, jobs, scans
from shoal_bench.curves import Point
from shoal_bench.settings import Settings

# Written out: a row that is gone from the lab must be missed here.
ROWS = {
    # "Save thousands of files" (SuperFastPython): six, the one that dies of too many open files, and what is left open.
    "save": {
        "sequential": "sequential",
        "threads-100": "100 threads",
        "processes": "process pool, a file each",
        "batches": "process pool, a batch each",
        "processes-threads": "processes x 10 threads",
        "event-loop": "asyncio, aiofiles, 50 at once",
        "event-loop-unbounded": "asyncio, aiofiles, no bound",
        "threads-10": "10 threads",
        "pipeline": "processes make, threads save",
    },
    # "Downloading a Billion Files in Python": five, and 100 threads.
    "copy": {
        "synchronous": "requests, a new connection each",
        "threads-10": "10 threads",
        "threads-100": "100 threads",
        "processes": "process pool, a page each",
        "event-loop": "asyncio + uvloop + aiohttp",
        "combo": "combo: processes x event loop",
    },
    # "I/O performance in Python": thirteen that were measured, and two, in three forms, that are only named.
    "records": {
        "cat": "cat",
        "naive": "open + read(16)",
        "buffer-32k": "open + 32 KiB buffer",
        "io-open": "io.open + read(16)",
        "os-read-16": "os.read(16)",
        "os-read-1m": "os.read 1 MiB, not split",
        "os-read-1m-slices": "os.read 1 MiB + slices",
        "whole-slices": "whole file + slices",
        "readinto-16": "readinto 16 B",
        "readinto-16-unbuffered": "readinto 16 B unbuffered",
        "readinto-8k": "readinto 8 KiB, not split",
        "readinto-1m": "readinto 1 MiB, not split",
        "readinto-32k": "readinto 32 KiB, not split",
        "memory-map": "mmap + slices",
        "struct-unpack": "struct.unpack each",
        "struct-iter-unpack": "struct.iter_unpack, 1 MiB",
    },
    # KZKY's memo: two in Python, two in Ruby.
    "unzip": {
        "serial": "Python, serial",
        "queue-threads-3": "Python, queue + 3 threads",
        "ruby-serial": "Ruby, serial",
        "ruby-queue": "Ruby, queue + 3 threads",
    },
    # "Multi Threaded File IO": a sweep (below) in Java; three of its points are rows, in both languages.
    "read": {
        "threads-2": "task list, 2 threads",
        "threads-8": "task list, 8 threads",
        "threads-64": "task list, 64 threads",
        "java-2": "Java, 2 threads",
        "java-8": "Java, 8 threads",
        "java-64": "Java, 64 threads",
    },
}
# Every row of the lab, in the order of turns: a row that is gone, or has another name, breaks results that people keep.
KEYS = {
    "copy": """
        shoal shoal-off shoal-1 shoal-batch limit curl aria2c wget2 rclone obstore wrk synchronous session threads-10
        threads-100 processes event-loop combo
        shoal-urls shoal-urls-off shoal-urls-batch curl-urls aria2c-urls wget2-urls
        shoal-tree shoal-tree-1 shoal-tree-batch cp rsync tar
    """,
    "save": """
        shoal-generate shoal-save-numpy shoal-save-arrow shoal-generate-batch shoal-save-numpy-batch
        shoal-save-arrow-batch limit sequential threads-10 threads-100 processes batches processes-threads
        event-loop event-loop-unbounded pipeline
    """,
    "read": """
        shoal shoal-batches shoal-given limit java-2 java-8 java-64 sequential threads-2 threads-8 threads-64 chunks
        processes processes-returning
    """,
    "unzip": """
        shoal shoal-batch shoal-1 shoal-read shoal-giant limit limit-disk unzip xargs-unzip 7z bsdtar ripunzip isal
        serial queue-threads-3 threads-2 threads-4 threads-8 processes-2 processes-4 ruby-serial ruby-queue
    """,
    "records": """
        shoal shoal-raw shoal-columns shoal-sum shoal-filter shoal-group shoal-convert limit cat numpy-memmap
        numpy-memmap-arrow numpy-fromfile numpy-fromfile-arrow polars naive buffer-32k io-open os-read-16 os-read-1m
        os-read-1m-slices whole-slices readinto-16 readinto-16-unbuffered readinto-8k readinto-1m readinto-32k
        bound-read memory-map struct-unpack struct-iter-unpack
    """,
}
FEW = {
    "save": Settings(job="save", count=4, size=None, trials=1),
    "copy": Settings(job="copy", count=120, size=100, trials=1),  # more than 100 threads take at once
    "records": Settings(job="records", count=3000, size=None, trials=1),
    "unzip": Settings(job="unzip", count=30, size=None, trials=1, case="tiny"),
}


@pytest.mark.parametrize("job", jobs.JOBS)
def test_every_row_of_a_study_is_in_the_lab_by_name(job: str) -> None:
    found = {one.key: one.title for one in jobs.named(job).contestants()}
    assert ROWS[job].items() <= found.items()


@pytest.mark.parametrize("job", jobs.JOBS)
def test_the_rows_of_a_job_keep_their_keys(job: str) -> None:
    assert [one.key for one in jobs.named(job).contestants()] == KEYS[job].split()


@pytest.mark.parametrize("job", FEW)
def test_every_row_of_a_study_is_measured_and_verified(job: str, tmp_path: Path) -> None:
    everyone = [one for one in jobs.named(job).contestants() if one.key in ROWS[job]]
    missing = [f"{one.title}: {one.missing()}" for one in everyone if one.missing()]
    # Slow ones would get one object or two of so few.
    whole = [replace(one, share=1.0) for one in everyone]
    results = contest.run(replace(FEW[job], directory=tmp_path), lambda _: None, whole)
    assert {row.key: row.failed for row in results.rows if row.failed} == {}
    ran = {row.key: row.trials[0].objects for row in results.rows if row.trials}
    assert ran == {one.key: results.settings["count"] for one in everyone if not one.missing()}
    if missing:
        pytest.skip("; ".join(missing))


def test_the_sweep_of_the_study_of_reading_has_all_its_points_in_python_and_java(tmp_path: Path) -> None:
    given = curves.points("1..64")
    assert [point.workers for point in given] == [1, 2, 4, 8, 16, 32, 64]
    settings = Settings(job="read", count=200, size=1000, trials=1, directory=tmp_path)
    found = {family.key: family for family in scans.families_of(settings, given)}
    for key, title in (("threads", "task list, N threads"), ("java", "Java, N threads")):
        assert [found[key].at(point).title for point in given] == [f"{title} @ {point.workers}" for point in given]


def test_points_of_that_sweep_are_measured_and_verified(tmp_path: Path) -> None:
    able = ["threads"]
    (java,) = [one for one in jobs.named("read").contestants() if one.key == "java-64"]
    if not java.missing():
        able.append("java")
    found = shoal_bench.scan("read", workers="1,64", sizes=[1000], count=200, trials=1, only=able, directory=tmp_path)
    assert sorted(line.key for line in found.curves) == sorted(able)
    for line in found.curves:
        assert {spot.point for spot in line.spots} == {Point(1), Point(64)}
        for spot in line.spots:
            assert spot.row.failed is None
            assert [(trial.objects, trial.workers) for trial in spot.row.trials] == [
                (200, spot.point and spot.point.workers)
            ]
    if java.missing():
        pytest.skip(f"Java: {java.missing()}")


def imported(path: Path) -> set[str]:
    """The modules that a module imports, wherever in it, but for types."""
    tree = ast.parse(path.read_text())
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    apart = {id(one) for node in typing for one in ast.walk(node)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in apart:
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in apart:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_no_module_of_the_lab_imports_itself_in_a_circle_or_what_shoal_keeps_private() -> None:
    package = Path(shoal_bench.__file__).parent
    graph = {}
    for path in package.rglob("*.py"):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        # What is imported of the package itself are its modules; the package only gathers their names.
        graph[name] = imported(path) - {name, "shoal_bench"}
        private = re.search(r"(?m)^\s*(from|import) shoal\.|^\s*from shoal import _|\bshoal\._(?!_)", path.read_text())
        assert private is None, path
    while free := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in free:
            del graph[name]
    assert graph == {}, "these import each other"
