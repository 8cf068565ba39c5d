"""When the first and the last object of a run were complete: what is looked at, where it is shown, where it is not."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import shoal_bench
from shoal_bench import jobs, load, verify
from shoal_bench.results import Scale

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Contest, Here

TICK = 0.01  # seconds: a kernel may stamp files with a clock that moves 4 ms at a time, or 10
PAUSE = 0.1  # seconds for which a busy machine may keep a program from saying that its time is over
HEAD = '<th scope="col">first'
SLOW = """
import time
from pathlib import Path

def mine(make, ids, directory):
    time.sleep(0.3)
    for number in ids:
        Path(directory, f"data-{number:04d}.csv").write_text(make(number))
    time.sleep(0.3)
"""


def test_a_wait_before_the_first_and_after_the_last_file_is_seen(lab: Here) -> None:
    (lab.directory / "mine.py").write_text(SLOW)
    done = lab.run(
        *("bench", "save", "--strategy", "mine.py:mine", "--only", "sequential", "--count", "5"),
        *("--trials", "2", "--results", "results.json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["key"]: row for row in json.loads((lab.directory / "results.json").read_text())["rows"]}
    for trial in rows["mine:mine"]["trials"]:
        assert trial["first"] >= 0.3 - PAUSE, "starting the interpreter is in neither"
        assert trial["first"] <= trial["last"] <= trial["seconds"] - 0.3 + PAUSE
    low, high = sorted(trial["first"] for trial in rows["mine:mine"]["trials"])
    assert low <= rows["mine:mine"]["first"] <= high, "the row has the median"
    for trial in rows["sequential"]["trials"]:
        assert 0 <= trial["first"] <= trial["last"] <= trial["seconds"] + TICK
    assert "first/last" in done.stdout
    assert "seconds until the first and the last object of a run were complete" in " ".join(done.stdout.split())


@pytest.mark.parametrize("key", ["serial", "unzip"])
def test_times_that_an_archive_gives_its_files_are_not_those(key: str, tmp_path: Path) -> None:
    if key == "unzip" and not shutil.which("unzip"):
        pytest.skip("needs unzip")
    results = shoal_bench.run("unzip", count=40, trials=1, only=[key], directory=tmp_path)
    (trial,) = results.row(key).trials
    assert trial.first is not None
    assert trial.last is not None
    assert 0 <= trial.first <= trial.last <= trial.seconds + TICK


def test_files_are_looked_at_below_every_directory_but_that_of_shoal(tmp_path: Path) -> None:
    assert verify.span(tmp_path) is None
    for place in ("", "a/b", ".shoal"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
    began = time.time()
    for name in ("one", "a/b/two", "three", ".shoal/journal"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))  # as programs that unpack do
        time.sleep(0.05)
    (tmp_path / "c").mkdir()
    found = verify.span(tmp_path)
    assert found is not None
    assert began - TICK <= found[0] < found[1] - 0.05
    assert found == ((tmp_path / "one").stat().st_ctime, (tmp_path / "three").stat().st_ctime)


def test_where_no_object_becomes_a_file_there_is_no_such_column(tmp_path: Path) -> None:
    read = shoal_bench.run("read", count=20, size=100, trials=1, only=["sequential"], directory=tmp_path)
    records = shoal_bench.run("records", count=1000, trials=1, only=["limit"], directory=tmp_path)
    nowhere = shoal_bench.run("copy", count=20, trials=1, into="null", only=["shoal-off"], directory=tmp_path)
    for results in (read, records, nowhere):
        (row,) = results.rows
        assert [(trial.first, trial.last) for trial in row.trials] == [(None, None)]
        assert (row.first, row.last) == (None, None)
        assert "first/last" not in shoal_bench.table(results)
        assert HEAD not in shoal_bench.report(results)


def test_the_page_shows_them_beside_the_time(contest: Contest) -> None:
    results = contest({"shoal": [10, 10, 10], "other": [20, 20, 20]})
    for at, trial in enumerate(results.row("shoal").trials):
        results.row("shoal").trials[at] = replace(trial, first=0.25 + at, last=42.5 + at)
    assert results.row("shoal").first == 1.25
    page = shoal_bench.report(results)
    assert page.count(HEAD) == 2, "of the medians, and of every trial"
    figures, _, trials = page.partition("Every trial")
    assert "<td>1.25/43.5</td>" in figures
    assert "<td>1.00 x</td><td></td>" in figures or "0.50 x</td><td></td>" in figures or "<td></td>" in figures
    assert "<td>0.2500</td><td>42.5000</td>" in trials
    assert "1.25/43.5" in shoal_bench.table(results)


def test_a_file_of_an_older_shoal_has_none_and_is_read(contest: Contest, tmp_path: Path) -> None:
    results = contest({"shoal": [10, 11]})
    found = results.parts()
    for row in found["rows"]:
        for one in (row, *row["trials"]):
            del one["first"], one["last"]
    (tmp_path / "old.json").write_text(json.dumps(found))
    assert load(tmp_path / "old.json").results == [results]
    row = results.row("shoal")
    row.trials[0] = replace(row.trials[0], first=0.5, last=1.5)
    (tmp_path / "new.json").write_text(results.to_json())
    assert load(tmp_path / "new.json").results == [results]


@pytest.mark.parametrize("job", ["copy", "save", "unzip", "read"])
def test_the_widest_table_has_120_columns_and_every_word_of_its_titles(job: str, contest: Contest) -> None:
    titles = [one.title for one in jobs.named(job).contestants()]
    results = contest({title: [33_333.0, 44_444.0] for title in ["shoal", *titles]}, job=job)
    if job == "copy":
        results.scale = Scale(1e9, "a billion", "The author's.")
    for row in results.rows:
        row.published = 0.00012345
        row.trials = [replace(trial, first=0.011, last=22.22, rss=999 << 20, workers=128) for trial in row.trials]
    lines = shoal_bench.table(results).partition("\n\n")[0].splitlines()
    assert max(map(len, lines)) <= 120
    assert "author's" in lines[0]
    words = set(" ".join(lines).split())
    assert not [title for title in titles if not words.issuperset(title.split())]
    assert all("#" in line for line in lines[1:] if "0.01/22.2" in line), "a bar in every row"
