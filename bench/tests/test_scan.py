"""Scans of the lab: which points, which programs, what the curves say; and the sizes of the studies."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
import shoal_bench as bench
from shoal_bench import Settings, contest, curves, jobs, scans, sizing
from shoal_bench.contestants import Contestant, Task, Told
from shoal_bench.curves import Point
from shoal_bench.results import Trial
from shoal_bench.sizing import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Here

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
    assert " ".join(map(str, curves.points(text))) == labels


@pytest.mark.parametrize(
    "text", ["", "0", "1..", "..4", "4..2", "2x", "x2", "two", "1;2", "1..2000", "-1", "1.5", "1x2x3"]
)
def test_points_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(package.ConfigError, match="--workers"):
        curves.points(text)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(package.ConfigError, match="the most is 64"):
        curves.points(",".join(map(str, range(1, 70))))


def test_sizes_are_read_with_their_units() -> None:
    assert scans.sizes("10KB,1MB, 3.6MB,64KiB,512") == (10_000, 1_000_000, 3_600_000, 65_536, 512)


@pytest.mark.parametrize("text", ["", "10KB,", "0", "-1KB", "big", "1XB", "1 2", "1e6", "10KB,10KB", "10KB,10000"])
def test_sizes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(package.ConfigError, match="--sizes"):
        scans.sizes(text)


FAMILIES = {
    "copy": {"shoal", "threads", "processes", "event-loop", "combo", "limit"},
    "save": {"shoal-generate", "shoal-save-numpy", "threads", "processes", "batches", "event-loop", "pipeline"},
    "read": {"shoal", "java", "threads", "chunks", "processes", "processes-returning", "limit"},
    "unzip": {"shoal", "limit", "isal", "queue-threads", "threads", "processes", "ruby-queue"},
}


@pytest.mark.parametrize("job", FAMILIES)
def test_every_program_that_takes_workers_is_in_a_scan_once(job: str) -> None:
    keys = [family.key for family in scans.families_of(settings(job), curves.points("1..4"))]
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
            fixed = one.key in ("event-loop-unbounded", "session")  # a number of workers would make another row of it
            assert one.told == (Told(inner=inner) if takes and not fixed else None), one.key


@pytest.mark.parametrize("job", FAMILIES)
def test_the_command_of_a_point_has_its_number_and_no_other(job: str, tmp_path: Path) -> None:
    for family in scans.families_of(settings(job), curves.points("1..4")):
        four, seven = (words(family.at(Point(number)), tmp_path) for number in (4, 7))
        different = [(one, other) for one, other in zip(four, seven, strict=True) if one != other]
        assert different == [("4", "7")], family.key
        assert four.count("--workers") <= 1


def test_a_grid_takes_those_that_know_threads_in_each_worker(tmp_path: Path) -> None:
    saving = {family.key: family for family in scans.families_of(settings("save"), curves.points("2x10"))}
    assert set(saving) == {"processes-threads", "pipeline"}
    assert words(saving["pipeline"].at(Point(2, 7)), tmp_path)[-4:] == ["--workers", "2", "--threads", "7"]
    (combo,) = scans.families_of(settings("copy"), curves.points("2x10"))
    assert words(combo.at(Point(3, 50)), tmp_path)[-4:] == ["--workers", "3", "--requests", "50"]
    with pytest.raises(package.ConfigError, match="takes no such number"):
        scans.families_of(settings("save", only=("threads-10",)), curves.points("2x10"))


def test_only_names_a_program_with_its_number_or_without() -> None:
    points = curves.points("1..4")
    for keys in (("threads", "java"), ("threads-8", "java-64"), ("threads", "threads-2", "java-2")):
        assert {one.key for one in scans.families_of(settings("read", only=keys), points)} == {"threads", "java"}
    assert "threads" not in {one.key for one in scans.families_of(settings("read", skip=("threads-8",)), points)}
    with pytest.raises(package.ConfigError, match="'sequential' takes no such number"):
        scans.families_of(settings("read", only=("sequential",)), points)
    with pytest.raises(package.ConfigError, match="'treads' is not known"):
        scans.families_of(settings("read", only=("treads",)), points)


def test_a_scan_of_the_command_line_has_curves_in_table_and_json(lab: Here, tmp_path: Path) -> None:
    done = lab.run(
        *("bench", "read", "--workers", "1..2", "--sizes", "1KB,64KiB", "--only", "threads,shoal", "--count", "40"),
        *("--trials", "1", "--dir", tmp_path / "there", "--results", tmp_path / "sweep.json"),
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "there").iterdir()) == []
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.split() == ["auto", "1", "2"]], "workers across"
    assert [line for line in lines if line in ("1 kB", "65.5 kB")] == ["1 kB", "65.5 kB"], "a table for each size"
    rows = [line for line in lines if line.startswith("task list, N threads (threads)  ")]
    assert [row.count("*") for row in rows] == [1, 1], "the best is marked"
    assert all(row.count(" x)") == 2 and "(1.00 x)" in row for row in rows)
    assert max(len(line) for line in lines) <= 120
    assert "fastest at 1 kB:" in done.stdout

    found = json.loads((tmp_path / "sweep.json").read_text())
    assert (found["schema"], found["job"]) == (1, "read")
    assert found["sweep"] == {"workers": ["1", "2"], "sizes": [1000, 65536]}
    assert {(curve["family"], curve["size"]) for curve in found["curves"]} == {
        (family, size) for family in ("threads", "shoal") for size in (1000, 65536)
    }
    for one in found["curves"]:
        own = [None] if one["family"] == "shoal" else []
        assert [point["workers"] for point in one["points"]] == [*own, 1, 2]
        assert one["points"][len(own)]["ratio"] == 1
        best = max(one["points"], key=lambda point: point["rate"])
        assert one["best"] == best["point"]
        for point in one["points"]:
            assert len(point["rates"]) == 1
            assert min(point["rates"]) <= point["rate"] <= max(point["rates"])
    assert [(one["settings"]["size"], one["settings"]["count"]) for one in found["results"]] == [
        (1000, 40),
        (65536, 40),
    ]
    written = {row["key"]: row for row in found["results"][0]["rows"]}
    assert written["threads@2"]["trials"][0]["workers"] == 2, "it says itself how many it had"
    assert written["shoal@2"]["trials"][0]["workers"] == 2
    assert written["shoal@2"]["trials"][0]["path"] == written["threads@2"]["trials"][0]["path"] == []
    found_itself = written["shoal"]["trials"][0]
    assert found_itself["path"][0]["seconds"] == 0
    assert found_itself["path"][-1]["workers"] == found_itself["workers"], "it ends where the workers are"


@pytest.mark.skipif(not shutil.which("ruby"), reason="needs ruby")
def test_ruby_is_swept_too(tmp_path: Path) -> None:
    found = scans.run(
        settings("unzip", count=40, case="tiny", trials=1, only=("ruby-queue", "shoal"), directory=tmp_path),
        curves.points("2"),
        (),
        lambda _: None,
    )
    assert found.failed == []
    assert {one.key: [spot.row.workers for spot in one.spots] for one in found.curves} == {
        "ruby-queue": [1, 2],
        "shoal": [found.contests[0].row("shoal").workers, 1, 2],
    }


def test_a_point_that_fails_is_said_and_costs_no_other(lab: Here, tmp_path: Path) -> None:
    (tmp_path / "requests.py").write_text(
        "import sys\nif sys.argv[-1] == '2': raise ImportError('broken')\nfrom importlib import import_module\n"
        "sys.path.remove(__import__('os').path.dirname(__file__)); del sys.modules['requests']\n"
        "sys.modules['requests'] = import_module('requests')\n"
    )
    pytest.importorskip("requests")
    done = lab.run(
        *("bench", "copy", "--workers", "1,2,3", "--only", "threads", "--count", "60", "--trials", "1"),
        PYTHONPATH=lab.first(tmp_path),
    )
    assert done.returncode == 1, done.stderr
    assert "failed: N threads @ 2: it ended with code 1: ImportError: broken" in " ".join(done.stdout.split())
    (rates,) = [line for line in done.stdout.splitlines() if line.startswith("N threads (threads)  ")]
    assert rates.split()[6] == "failed"
    assert rates.count("*") == 1


def test_what_would_fill_the_disk_is_refused_before_it_begins(lab: Here) -> None:
    done = lab.run("bench", "read", "--sizes", "1TB", "--count", "1000")
    assert done.returncode == 2
    assert "it would write 1,000,000.0 GB in 1,000 files" in done.stderr


def test_a_sweep_that_writes_has_as_many_objects_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [one for one in jobs.named("save").contestants() if one.key in ("shoal-generate", "sequential")]
    one = settings("save", count=2_000, trials=3)  # 2,000 files of 250 kB, 1.1 times, 4 rounds: 2.2 GB

    def fitting(free: float, files: float, *, counted: bool) -> int:
        monkeypatch.setattr(sizing, "free", lambda _: Room(free, files))
        return sizing.fitting(one, some, counted=counted)

    assert fitting(5e9, 1e6, counted=True) == fitting(5e9, 1e6, counted=False) == 2000
    assert fitting(1.1e9, 1e6, counted=False) == pytest.approx(1000, abs=1)
    assert fitting(5e9, 4400, counted=False) == pytest.approx(1000, abs=1)
    for free, files, counted in ((1e9, 1e6, True), (5e9, 4400, True), (1e6, 1e6, False)):
        with pytest.raises(package.ConfigError, match="the disk has no room"):
            fitting(free, files, counted=counted)
    monkeypatch.setattr(sizing, "USUAL", 1.1e9)
    assert fitting(5e9, 1e6, counted=False) == pytest.approx(1000, abs=1)
    assert fitting(5e9, 1e6, counted=True) == 2000


def test_large_objects_are_fewer_unless_a_count_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "BYTES", 100_000)
    asked: Iterator[bool] = iter((False, True))
    for counted in asked:
        one = settings("read", count=30, trials=1, only=("limit",), directory=tmp_path)
        found = scans.run(one, (), (1000, 10_000), lambda _: None, counted=counted)
        assert [results.settings["count"] for results in found.contests] == ([30, 30] if counted else [30, 10])
        assert "its own" in bench.table(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("save", "--sizes", "1KB"), "has no size"),
        (("unzip", "--sizes", "1KB"), "the files of this machine decide the size"),
        (("read", "--size", "1KB", "--sizes", "1KB,2KB"), "leave out --size"),
        (("read", "--full", "--count", "5"), "--full sets the number"),
        (("read", "--workers", "many"), "--workers is not a list of numbers: 'many'"),
        (("read", "--sizes", "10 miles"), "--sizes is not a size"),
    ],
)
def test_what_makes_no_sense_is_a_clear_error(lab: Here, arguments: tuple[str, ...], message: str) -> None:
    done = lab.run("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_full_gives_each_a_second_s_worth_and_no_more_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = settings("copy", count=sizing.study("copy").count)
    room = Room(size=10**9, files=5000)
    with importlib.import_module("shoal_bench.jobs.copy").arena(one, tmp_path) as arena:
        (slow,) = [each for each in jobs.named("copy").contestants() if each.key == "threads-10"]
        pilot = sizing.pilot(slow, "copy", arena, room)
        assert round(pilot.share * one.count) == 180, "a tenth of what is thought to be a second's worth"

        def after(objects: int, seconds: float) -> int:
            trial = Trial(0, objects, seconds, 1.0, 1)
            return round(sizing.fitted(pilot, trial, "copy", arena, room).share * one.count)

        assert after(180, 0.2) == 900
        assert after(180, 0.001) == 5000, "no more than there is room for"
    with pytest.raises(package.RunError, match="the disk is almost full"):
        Room(size=1000, files=10**6).enough(100)


def test_full_runs_the_study_s_sizes_on_a_disk_that_has_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "budget", lambda place, runs: Room(size=40 * 250_000, files=10**6))
    one = settings("save", count=300, full=True, trials=1, only=("limit", "sequential"), directory=tmp_path)
    results = contest.run(one, lambda _: None)
    assert results.failed == []
    for row in results.rows:
        assert 1 <= row.trials[0].objects <= 41
    assert "about a second's worth" in bench.table(results)


def test_full_gives_slow_unpackers_a_part_of_the_archives(tmp_path: Path) -> None:
    one = settings("unzip", count=2500, full=True, into="null", directory=tmp_path)
    (serial,) = [each for each in UNZIP.contestants() if each.key == "serial"]
    with UNZIP.arena(one, tmp_path) as arena:
        half = sizing._with(serial, arena.count / 2, arena, Room(10**12, 10**6))
        (tmp_path / "scratch").mkdir()
        with arena.task(half, 0, tmp_path / "scratch") as task:
            assert len(list(task.archives.iterdir())) == 1
            assert task.count == 1250
            measured = importlib.import_module("shoal_bench.measure").run(half.command(task), None)
        assert arena.fault(half, task, measured) is None
        assert "entries of" not in str(arena.fault(half, task, measured))
        wrong = measured.__class__(**{**vars(measured), "said": measured.said | {"objects": 1249}})
        assert arena.fault(half, task, wrong) == "it unpacked 1249 objects of 1250"


def test_the_curves_of_the_study_of_reading_are_one_command(lab: Here) -> None:
    done = lab.run("bench", "read", "--workers", "1..64", "--sizes", "10KB,1MB,3.6MB", "--trials", "20", "--list")
    families = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"java", "threads", "shoal"} <= families
    assert [str(point) for point in curves.points("1..64")] == ["1", "2", "4", "8", "16", "32", "64"]
