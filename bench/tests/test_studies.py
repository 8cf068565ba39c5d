"""Every row of the five studies is in the lab, by name, and each is measured, verified and ends well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import shoal_bench
from shoal_bench import contest, curve, families, jobs
from shoal_bench.curve import Point
from shoal_bench.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

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
    given = curve.points("1..64")
    assert [point.workers for point in given] == [1, 2, 4, 8, 16, 32, 64]
    settings = Settings(job="read", count=200, size=1000, trials=1, directory=tmp_path)
    found = {family.key: family for family in families.chosen(settings, given)}
    for key, title in (("threads", "task list, N threads"), ("java", "Java, N threads")):
        assert [found[key].at(point).title for point in given] == [f"{title} @ {point.workers}" for point in given]


def test_points_of_that_sweep_are_measured_and_verified(tmp_path: Path) -> None:
    able = ["threads"]
    (java,) = [one for one in jobs.named("read").contestants() if one.key == "java-64"]
    if not java.missing():
        able.append("java")
    found = shoal_bench.curves("read", workers="1,64", sizes=[1000], count=200, trials=1, only=able, directory=tmp_path)
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
