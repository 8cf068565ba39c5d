"""Sweeps of the lab: which points, which programs, what the curves say; and the sizes of the studies."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
import shoal_bench as bench
from shoal_bench import Settings, curve, families, full, jobs, room, sweep
from shoal_bench.contestants import Contestant, Task, Told
from shoal_bench.curve import Point
from shoal_bench.results import Trial
from shoal_bench.room import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Command

UNZIP = importlib.import_module("shoal_bench.jobs.unzip")


def settings(job: str, **extra: object) -> Settings:
    one = jobs.named(job)
    return Settings(**({"job": job, "count": one.COUNT, "size": one.SIZE} | extra))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("1..64", "1 2 4 8 16 32 64"),
        ("1..48", "1 2 4 8 16 32 48"),
        ("3..20", "1 3 6 12 20"),
        ("8, 2", "1 2 8"),
        ("2x10", "1x1 2x10"),
        ("4,2x10", "1 4 1x1 2x10"),
        ("1..2x1..4", "1x1 1x2 1x4 2x1 2x2 2x4"),
    ],
)
def test_points_are_read_and_one_worker_is_among_them(text: str, labels: str) -> None:
    assert " ".join(map(str, curve.points(text))) == labels


@pytest.mark.parametrize(
    "text", ["", "0", "1..", "..4", "4..2", "2x", "x2", "two", "1;2", "1..2000", "-1", "1.5", "1x2x3"]
)
def test_points_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(package.ConfigError, match="--workers"):
        curve.points(text)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(package.ConfigError, match="the most is 64"):
        curve.points(",".join(map(str, range(1, 70))))


def test_sizes_are_read_with_their_units() -> None:
    assert sweep.sizes("10KB,1MB, 3.6MB,64KiB,512") == (10_000, 1_000_000, 3_600_000, 65_536, 512)


@pytest.mark.parametrize("text", ["", "10KB,", "0", "-1KB", "big", "1XB", "1 2", "1e6", "10KB,10KB", "10KB,10000"])
def test_sizes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(package.ConfigError, match="--sizes"):
        sweep.sizes(text)


FAMILIES = {
    "copy": {"shoal", "threads", "processes", "event-loop", "combo", "limit"},
    "save": {"shoal-generate", "shoal-save-numpy", "threads", "processes", "batches", "event-loop", "pipeline"},
    "read": {"shoal", "java", "threads", "chunks", "processes", "processes-returning", "limit"},
    "unzip": {"shoal", "limit", "isal", "queue-threads", "threads", "processes", "ruby-queue"},
}


@pytest.mark.parametrize("job", FAMILIES)
def test_every_program_that_takes_workers_is_in_a_sweep_once(job: str) -> None:
    keys = [family.key for family in families.chosen(settings(job), curve.points("1..4"))]
    assert set(keys) >= FAMILIES[job]
    assert len(set(keys)) == len(keys)
    assert not {"sequential", "synchronous", "session", "serial", "unzip", "curl", "cat"} & set(keys)


def words(one: Contestant, place: Path) -> list[str]:
    task = Task(directory=place, count=5, scratch=place, url="http://localhost", names=("a",), archives=place)
    return one.command(task)


@pytest.mark.parametrize("job", jobs.JOBS)
def test_a_contestant_says_that_it_takes_workers_if_its_program_does(job: str, tmp_path: Path) -> None:
    for one in jobs.named(job).contestants():
        programs = [Path(word) for word in words(one, tmp_path)[1:3] if word.endswith(".py")]
        for text in map(Path.read_text, programs):
            takes = re.search(r'"--workers", type=int(?!, choices=\(1,\))', text) is not None
            inner = next((option for option in ("--threads", "--requests") if f'"{option}"' in text), "")
            assert one.told == (Told(inner=inner) if takes else None), one.key


@pytest.mark.parametrize("job", FAMILIES)
def test_the_command_of_a_point_has_its_number_and_no_other(job: str, tmp_path: Path) -> None:
    for family in families.chosen(settings(job), curve.points("1..4")):
        four, seven = (words(family.at(Point(number)), tmp_path) for number in (4, 7))
        different = [(one, other) for one, other in zip(four, seven, strict=True) if one != other]
        assert different == [("4", "7")], family.key
        assert four.count("--workers") <= 1


def test_a_grid_takes_those_that_know_threads_in_each_worker(tmp_path: Path) -> None:
    saving = {family.key: family for family in families.chosen(settings("save"), curve.points("2x10"))}
    assert set(saving) == {"processes-threads", "pipeline"}
    assert words(saving["pipeline"].at(Point(2, 7)), tmp_path)[-4:] == ["--workers", "2", "--threads", "7"]
    (combo,) = families.chosen(settings("copy"), curve.points("2x10"))
    assert words(combo.at(Point(3, 50)), tmp_path)[-4:] == ["--workers", "3", "--requests", "50"]
    with pytest.raises(package.ConfigError, match="takes no such number"):
        families.chosen(settings("save", only=("threads-10",)), curve.points("2x10"))


def test_only_names_a_program_with_its_number_or_without() -> None:
    points = curve.points("1..4")
    for keys in (("threads", "java"), ("threads-8", "java-64"), ("threads", "threads-2", "java-2")):
        assert {one.key for one in families.chosen(settings("read", only=keys), points)} == {"threads", "java"}
    assert "threads" not in {one.key for one in families.chosen(settings("read", skip=("threads-8",)), points)}
    with pytest.raises(package.ConfigError, match="'sequential' takes no such number"):
        families.chosen(settings("read", only=("sequential",)), points)
    with pytest.raises(package.ConfigError, match="'treads' is not known"):
        families.chosen(settings("read", only=("treads",)), points)


def test_a_sweep_of_the_command_line_has_curves_in_table_and_json(shoal: Command, tmp_path: Path) -> None:
    done = shoal.run(
        *("bench", "read", "--workers", "1..4", "--sizes", "1KB,64KiB", "--only", "threads,shoal", "--count", "40"),
        *("--trials", "2", "--dir", tmp_path / "there", "--json", tmp_path / "sweep.json"),
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "there").iterdir()) == []
    lines = done.stdout.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("task list, N threads"))
    assert lines[head + 1].split() == ["1", "2", "4"], "workers across"
    assert [lines[head + 2].split()[0], lines[head + 4].split()[0]] == ["1", "65.5"], "sizes down"
    for row in (lines[head + 2], lines[head + 4]):
        assert row.count("*") == 1, "the best is marked"
    assert lines[head + 3].split()[0] == "1.00x"
    assert max(len(line) for line in lines) <= 120
    assert "fastest at 1 kB:" in done.stdout

    found = json.loads((tmp_path / "sweep.json").read_text())
    assert (found["schema"], found["job"]) == (1, "read")
    assert found["sweep"] == {"workers": ["1", "2", "4"], "sizes": [1000, 65536]}
    assert {(curve["family"], curve["size"]) for curve in found["curves"]} == {
        (family, size) for family in ("threads", "shoal") for size in (1000, 65536)
    }
    for one in found["curves"]:
        assert [point["workers"] for point in one["points"]] == [1, 2, 4]
        assert one["points"][0]["ratio"] == 1
        best = max(one["points"], key=lambda point: point["rate"])
        assert one["best"] == best["point"]
        for point in one["points"]:
            assert len(point["rates"]) == 2
            assert min(point["rates"]) <= point["rate"] <= max(point["rates"])
    assert [(one["settings"]["size"], one["settings"]["count"]) for one in found["results"]] == [
        (1000, 40),
        (65536, 40),
    ]
    rows = {row["key"]: row for row in found["results"][0]["rows"]}
    assert rows["threads@4"]["trials"][0]["workers"] == 4, "it says itself how many it had"
    assert rows["shoal@2"]["trials"][0]["workers"] == 2


@pytest.mark.skipif(not (shutil.which("java") and shutil.which("javac")), reason="needs a JDK: java and javac")
def test_a_java_program_is_swept_too(tmp_path: Path) -> None:
    found = sweep.run(
        settings("read", count=30, trials=1, only=("java",), directory=tmp_path),
        curve.points("1..2"),
        (1000,),
        lambda _: None,
        counted=True,
    )
    assert found.failed == []
    (one,) = found.curves
    assert [spot.row.workers for spot in one.spots] == [1, 2]


@pytest.mark.skipif(not shutil.which("ruby"), reason="needs ruby")
def test_ruby_is_swept_too(tmp_path: Path) -> None:
    found = sweep.run(
        settings("unzip", count=40, case="tiny", trials=1, only=("ruby-queue", "shoal"), directory=tmp_path),
        curve.points("2"),
        (),
        lambda _: None,
    )
    assert found.failed == []
    assert {one.key: [spot.row.workers for spot in one.spots] for one in found.curves} == {
        "ruby-queue": [1, 2],
        "shoal": [1, 2],
    }


def test_a_point_that_fails_is_said_and_costs_no_other(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "requests.py").write_text(
        "import sys\nif sys.argv[-1] == '2': raise ImportError('broken')\nfrom importlib import import_module\n"
        "sys.path.remove(__import__('os').path.dirname(__file__)); del sys.modules['requests']\n"
        "sys.modules['requests'] = import_module('requests')\n"
    )
    pytest.importorskip("requests")
    done = shoal.run(
        *("bench", "copy", "--workers", "1,2,3", "--only", "threads", "--count", "60", "--trials", "1"),
        PYTHONPATH=shoal.first(tmp_path),
    )
    assert done.returncode == 1, done.stderr
    assert "failed: N threads @ 2: it ended with code 1: ImportError: broken" in " ".join(done.stdout.split())
    (rates,) = [line for line in done.stdout.splitlines() if line.startswith("  100 B")]
    assert rates.split()[3] == "failed"
    assert rates.count("*") == 1


def test_what_would_fill_the_disk_is_refused_before_it_begins(shoal: Command) -> None:
    done = shoal.run("bench", "read", "--sizes", "1TB", "--count", "1000")
    assert done.returncode == 2
    assert "it would write 1,000,000.0 GB in 1,000 files" in done.stderr


def test_a_sweep_that_writes_has_as_many_objects_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [one for one in jobs.named("save").contestants() if one.key in ("shoal-generate", "sequential")]
    one = settings("save", count=2_000, trials=3)  # 2,000 files of 250 kB, 1.1 times, 4 rounds: 2.2 GB

    def fitting(free: float, files: float, *, counted: bool) -> int:
        monkeypatch.setattr(room, "free", lambda _: room.Room(free, files))
        return room.fitting(one, some, counted=counted)

    assert fitting(5e9, 1e6, counted=True) == fitting(5e9, 1e6, counted=False) == 2000
    assert fitting(1.1e9, 1e6, counted=False) == pytest.approx(1000, abs=1)
    assert fitting(5e9, 4400, counted=False) == pytest.approx(1000, abs=1)
    for free, files, counted in ((1e9, 1e6, True), (5e9, 4400, True), (1e6, 1e6, False)):
        with pytest.raises(package.ConfigError, match="the disk has no room"):
            fitting(free, files, counted=counted)
    monkeypatch.setattr(room, "USUAL", 1.1e9)
    assert fitting(5e9, 1e6, counted=False) == pytest.approx(1000, abs=1)
    assert fitting(5e9, 1e6, counted=True) == 2000


def test_large_objects_are_fewer_unless_a_count_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "BYTES", 100_000)
    asked: Iterator[bool] = iter((False, True))
    for counted in asked:
        one = settings("read", count=30, trials=1, only=("limit",), directory=tmp_path)
        found = sweep.run(one, (), (1000, 10_000), lambda _: None, counted=counted)
        assert [results.settings["count"] for results in found.contests] == ([30, 30] if counted else [30, 10])
        assert "its own" in found.table()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("save", "--sizes", "1KB"), "has no size"),
        (("unzip", "--sizes", "1KB"), "the files of this machine decide the size"),
        (("read", "--size", "1KB", "--sizes", "1KB,2KB"), "leave out --size"),
        (("read", "--full", "--count", "5"), "--full says how many"),
        (("read", "--workers", "many"), "--workers is not a list of numbers: 'many'"),
        (("read", "--sizes", "10 miles"), "--sizes is not a size"),
    ],
)
def test_what_makes_no_sense_is_a_clear_error(shoal: Command, arguments: tuple[str, ...], message: str) -> None:
    done = shoal.run("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_full_gives_each_a_second_s_worth_and_no_more_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = settings("copy", count=full.study("copy").count)
    room = Room(size=10**9, files=5000)
    with importlib.import_module("shoal_bench.jobs.copy").arena(one, tmp_path) as arena:
        (slow,) = [each for each in jobs.named("copy").contestants() if each.key == "threads-10"]
        pilot = full.pilot(slow, "copy", arena, room)
        assert round(pilot.share * one.count) == 180, "a tenth of what is thought to be a second's worth"

        def after(objects: int, seconds: float) -> int:
            trial = Trial(0, objects, seconds, 1.0, 1)
            return round(full.fitted(pilot, trial, "copy", arena, room).share * one.count)

        assert after(180, 0.2) == 900
        assert after(180, 0.001) == 5000, "no more than there is room for"
    with pytest.raises(package.RunError, match="the disk is almost full"):
        Room(size=1000, files=10**6).enough(100)


def test_full_runs_the_study_s_sizes_on_a_disk_that_has_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full, "budget", lambda place, runs: Room(size=40 * 250_000, files=10**6))
    one = settings("save", count=300, full=True, trials=1, only=("limit", "sequential"), directory=tmp_path)
    results = importlib.import_module("shoal_bench.contest").run(one, lambda _: None)
    assert results.failed == []
    for row in results.rows:
        assert 1 <= row.trials[0].objects <= 41
    assert "about a second's worth" in results.table()


def test_full_gives_slow_unpackers_a_part_of_the_archives(tmp_path: Path) -> None:
    one = settings("unzip", count=2500, full=True, into="null", directory=tmp_path)
    (serial,) = [each for each in UNZIP.contestants() if each.key == "serial"]
    with UNZIP.arena(one, tmp_path) as arena:
        half = full._with(serial, arena.count / 2, arena, Room(10**12, 10**6))
        (tmp_path / "scratch").mkdir()
        with arena.task(half, 0, tmp_path / "scratch") as task:
            assert len(list(task.archives.iterdir())) == 1
            assert task.count == 1250
            measured = importlib.import_module("shoal_bench.measure").run(half.command(task), None)
        assert arena.fault(half, task, measured) is None
        assert "entries of" not in str(arena.fault(half, task, measured))
        wrong = measured.__class__(**{**vars(measured), "said": measured.said | {"objects": 1249}})
        assert arena.fault(half, task, wrong) == "it unpacked 1249 objects of 1250"


# What the studies compare, by the words of the rows: see the table of each article.
STUDIES = {
    "save": {
        "sequential": "sequential",
        "100 threads": "threads-100",
        "a process pool": "processes",
        "a batch for each process": "batches",
        "processes with 10 threads each": "processes-threads",
        "asyncio with a semaphore of 50": "event-loop",
        "the pipeline it leaves open": "pipeline",
    },
    "copy": {
        "synchronous": "synchronous",
        "10 threads": "threads-10",
        "100 threads": "threads-100",
        "a process pool": "processes",
        "asyncio": "event-loop",
        "combo": "combo",
    },
    "unzip": {
        "Python, serial": "serial",
        "Python, queue and 3 threads": "queue-threads-3",
        "Ruby, serial": "ruby-serial",
        "Ruby, queue and 3 threads": "ruby-queue",
    },
}


@pytest.mark.parametrize("job", STUDIES)
def test_every_strategy_of_a_study_has_a_row(shoal: Command, job: str) -> None:
    done = shoal.run("bench", job, "--list")
    keys = {line.split()[0] for line in done.stdout.splitlines()}
    lacking = {words for words, key in STUDIES[job].items() if key not in keys}
    assert not lacking
    published = {one.key for one in jobs.named(job).contestants() if one.published is not None}
    assert published >= set(STUDIES[job].values()) - {"pipeline"}


def test_the_curves_of_the_study_of_reading_are_one_command(shoal: Command) -> None:
    done = shoal.run("bench", "read", "--workers", "1..64", "--sizes", "10KB,1MB,3.6MB", "--trials", "20", "--list")
    families = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"java", "threads", "shoal"} <= families
    assert [str(point) for point in curve.points("1..64")] == ["1", "2", "4", "8", "16", "32", "64"]


def test_the_example_of_curves_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder().find(bench.curves, globs={"shoal_bench": bench})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
