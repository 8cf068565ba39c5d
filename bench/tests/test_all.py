"""Every job of the lab in one run: one report, whatever fails."""

from __future__ import annotations

import doctest
import importlib
import inspect
import signal
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
import shoal_bench
from shoal_bench import contest as contests
from shoal_bench import everything, jobs, load, removal, sizing
from shoal_bench.cli import all as bench_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Here


def test_bench_all_runs_every_job_and_makes_one_report(shoal: Command, tmp_path: Path) -> None:
    done = shoal.run(
        *("bench", "all", "--only", "limit,sequential", "--scale", "0.001", "--trials", "1"),
        *("-o", "out.html", "--dir", tmp_path / "there"),
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    collection = load(tmp_path / "out.json")
    assert [one.job for one in collection.results] == list(jobs.JOBS)
    assert all(one.row("limit").trials for one in collection.results)
    page = (tmp_path / "out.html").read_text()
    assert page.count('class="chart"') == len(jobs.JOBS)
    assert list((tmp_path / "there").iterdir()) == [], "what was written is removed at the end"
    for at, name in enumerate(["read", "unzip", "save", "copy"], 1 + len(jobs.JOBS) - 4):
        assert f"{name}: job {at} of {len(jobs.JOBS)}" in done.stderr
    assert "out.html and out.json" in done.stderr


def test_what_was_written_is_removed_and_nothing_that_a_link_leads_to(tmp_path: Path) -> None:
    place, kept = tmp_path / "place", tmp_path / "kept"
    for directory in (place / "a" / "b", place / "c", kept):
        directory.mkdir(parents=True)
        for number in range(100):
            (directory / str(number)).write_text("x")
    (place / "link").symlink_to(kept)
    (place / "file").symlink_to(kept / "1")
    (place / "a" / "b" / "nowhere").symlink_to(tmp_path / "missing")
    removal.remove(place)
    assert not place.exists()
    assert len(list(kept.iterdir())) == 100
    removal.remove(place)  # what is gone already is no error


def test_a_job_that_fails_costs_no_other_and_gives_code_1(shoal: Command, tmp_path: Path) -> None:
    broken = "import shoal_bench.jobs.save as save\nsave.arena = None\n"
    (tmp_path / "sitecustomize.py").write_text(broken)
    done = shoal.run(
        *("bench", "all", "--of", "save,read", "--only", "limit", "--scale", "0.001", "--trials", "1"),
        PYTHONPATH=shoal.first(tmp_path),
    )
    assert done.returncode == 1
    assert "failed: save: 'NoneType' object is not callable" in done.stderr
    collection = load(tmp_path / "report.json")
    assert ([one.job for one in collection.results], list(collection.failed)) == (["read"], ["save"])
    assert "Jobs without results" in (tmp_path / "report.html").read_text()


def test_a_disk_without_room_costs_a_job_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "free", lambda _: sizing.Room(5e6, 1e6))
    found = shoal_bench.all(of=["save", "read"], only=["limit"], scale=0.01, trials=3, directory=tmp_path)
    assert [one.job for one in found.results] == ["read"]
    assert "the disk has no room for this: it would write" in found.failed["save"]
    with pytest.raises(package.ConfigError, match="the disk has no room"):
        shoal_bench.run("save", count=10, trials=3, only=["limit"], directory=tmp_path / "there")
    assert list(tmp_path.iterdir()) == [], "it was refused before it began"


def test_a_row_that_fails_gives_code_1_and_a_report(lab: Here, tmp_path: Path) -> None:
    (tmp_path / "aiofiles.py").write_text("raise ImportError('broken')")
    done = lab.run(
        *("bench", "all", "--only", "event-loop", "--of", "save", "--scale", "0.001", "--trials", "1"),
        PYTHONPATH=lab.first(tmp_path),
    )
    assert done.returncode == 1
    assert "ImportError: broken" in (tmp_path / "report.html").read_text()


def test_what_there_is_is_handed_over_after_each_job(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    options: dict[str, Any] = {"of": ["copy", "save"], "only": ["limit"], "scale": 0.001, "trials": 1}
    shoal_bench.all(**options, directory=tmp_path, finished=lambda some: seen.append([one.job for one in some.results]))
    assert seen == [["save"], ["copy", "save"]], "in the order of the list of jobs"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_who_stops_it_keeps_the_jobs_that_have_ended(
    shoal: Command, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    arguments = ("--of", "read,copy", "--only", "limit", "--scale", "0.001", "--trials", "10000")
    process = shoal.start("bench", "all", *arguments, "--minutes", "0.05", "--dir", tmp_path / "there")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("copy: job 2 of 2"):
            break
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert out.startswith("read\n\n")
    assert "50 files" in out.splitlines()[2], "the table of the job that has ended"
    assert "\ncopy\n" not in out
    assert [one.job for one in load(tmp_path / "report.json").results] == ["read"]
    assert (tmp_path / "report.html").read_text().count('class="chart"') == 1
    assert list((tmp_path / "there").iterdir()) == [], "what was written is removed"


def test_where_time_is_short_fewer_rounds_are_run(tmp_path: Path) -> None:
    said: list[str] = []
    options = {"of": ["save"], "only": ["limit"], "scale": 0.001, "trials": 50, "directory": tmp_path}
    found = shoal_bench.all(**options, minutes=1e-6, progress=said.append)  # type: ignore[arg-type]
    assert len(found.results[0].row("limit").trials) == 1
    assert found.results[0].settings["trials"] == 1, "the table says what was run"
    assert "save: no time for more than 1 of 50 rounds" in said
    assert list(tmp_path.iterdir()) == []


def test_a_job_finds_what_the_one_before_wrote_but_not_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    run = contests.run

    def look(*given: object, **options: object) -> shoal_bench.Results:
        sizes = [path.stat().st_size for path in tmp_path.rglob("*.csv")]
        seen.append((len(sizes), sum(sizes)))
        return run(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(contests, "run", look)
    shoal_bench.all(of=["save", "copy"], only=["limit"], scale=0.002, trials=1, directory=tmp_path)
    assert seen == [(0, 0), (2, 0)], "freed inodes make the next job slow, full blocks fill the disk"


def test_links_are_not_followed_when_files_are_cut(tmp_path: Path) -> None:
    mine, place = tmp_path / "mine", tmp_path / "place"
    place.mkdir()
    mine.write_bytes(bytes(everything.CUT))
    (place / "large").write_bytes(bytes(everything.CUT))
    (place / "small").write_bytes(b"small")
    (place / "link").symlink_to(mine)
    everything.cut(place)
    assert [(place / name).stat().st_size for name in ("large", "small", "link")] == [0, 5, everything.CUT]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": ["nothing"]}, "no job 'nothing'"),
        ({"only": ["nobody"]}, "unknown program 'nobody'"),
        ({"only": ["combo"], "of": ["save"]}, "unknown program 'combo'"),
        ({"scale": 0}, "scale"),
        ({"minutes": 0}, "minutes"),
        ({"trials": 0}, "trials"),
        ({"of": ["save"], "only": ["limit"], "skip": ["limit"]}, "no program is left"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match=message):
        shoal_bench.all(**options, directory=tmp_path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_the_defaults_of_the_function() -> None:
    defaults = {name: one.default for name, one in inspect.signature(shoal_bench.all).parameters.items()}
    options = {option.name: option.default for option in bench_all.command.params}
    assert bench_all.MINUTES == everything.MINUTES
    assert {name: options[name] for name in ("minutes", "trials", "scale")} == {
        name: defaults[name] for name in ("minutes", "trials", "scale")
    }


@pytest.mark.parametrize(
    "function", [getattr(shoal_bench, name) for name in ("all", "compare", "report", "run", "scan", "table")]
)
def test_the_example_of_a_function_runs(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder().find(function, function.__name__, globs={"shoal_bench": shoal_bench})
    assert example.examples
    assert doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE).run(example).failed == 0


def test_every_job_takes_part() -> None:
    module = importlib.import_module("shoal_bench.everything")
    assert sorted(module._ordered(())) == sorted(jobs.JOBS)
    assert module._ordered(())[-1] == "copy", "it makes the most files"
