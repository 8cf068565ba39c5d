"""`make billion`: it copies, continues after a stop, and its check finds each kind of damage. Small here."""

from __future__ import annotations

import csv
import itertools
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import billion

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("duckdb", reason="DuckDB is not installed")

SCRIPT = Path(billion.__file__)
ENOUGH = 100  # seconds, on two busy cores


def command(place: Path, objects: int, contents: str = "names") -> list[str]:
    return [sys.executable, str(SCRIPT), "--objects", str(objects), "--contents", contents, str(place)]


def run(place: Path, objects: int, contents: str = "names") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(place, objects, contents), capture_output=True, text=True, timeout=ENOUGH)


def rates(place: Path) -> list[dict[str, float]]:
    with (place / "rates.csv").open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def is_served(place: Path) -> bool:
    """Whether the service of an earlier invocation still listens."""
    port = json.loads((place / "settings.json").read_text())["port"]
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("contents", ["names", "random"])
def test_it_copies_and_checks_and_a_second_time_only_checks(tmp_path: Path, contents: str) -> None:
    place = tmp_path / "out"
    objects = 2_000_000  # some seconds, with a line of progress each
    done = run(place, objects, contents)

    assert (done.returncode, done.stderr) == (0, "")
    right = "every byte right" if contents == "names" else "every length right"
    assert f"2,000,000 rows, each name once, {right}" in done.stdout
    assert "bytes on disk" in done.stdout
    recorded = rates(place)
    assert recorded[-1]["committed"] == objects
    assert recorded[-1]["memory"] > 1_000_000
    assert recorded[-1]["disk"] > 500_000
    assert not is_served(place)

    again = run(place, objects, contents)

    assert (again.returncode, again.stderr) == (0, "")
    assert f"2,000,000 rows, each name once, {right}" in again.stdout
    assert rates(place) == recorded


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_it_continues_after_a_stop_and_leaves_no_process(tmp_path: Path, how: signal.Signals) -> None:
    place = tmp_path / "out"
    objects = 2_000_000
    process = subprocess.Popen(command(place, objects), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    late = time.monotonic() + ENOUGH
    while not (place / "rates.csv").exists() or not any(row["received"] for row in rates(place)):
        assert process.poll() is None
        assert time.monotonic() < late
        time.sleep(0.05)
    process.send_signal(how)
    process.communicate(timeout=ENOUGH)
    assert process.returncode in (130, 143, -signal.SIGKILL)
    while is_served(place):
        assert time.monotonic() < late
        time.sleep(0.05)
    before = rates(place)
    assert before[-1]["received"] < objects

    done = run(place, objects)

    assert (done.returncode, done.stderr) == (0, "")
    assert "2,000,000 rows, each name once, every byte right" in done.stdout
    after = rates(place)
    assert after[: len(before)] == before
    for one, next_one in itertools.pairwise(after):
        assert next_one["seconds"] >= one["seconds"]
        assert next_one["committed"] >= one["committed"]


def test_other_settings_for_the_same_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"objects": 5, "contents": "names", "port": 1}))
    for objects, contents in ((6, "names"), (5, "random")):
        done = run(tmp_path, objects, contents)
        assert done.returncode == 1
        assert "has OBJECTS=5 CONTENTS=names" in done.stderr


def test_a_disk_that_is_too_small_is_refused_before_the_copy(tmp_path: Path) -> None:
    done = run(tmp_path / "out", 10**15)
    assert done.returncode == 1
    assert "not enough space" in done.stderr
    assert "5 bytes each" in done.stdout
    assert not (tmp_path / "out" / "objects").exists()


BUCKET = 1000
COUNT = 11_500  # the last bucket is not full
Rows = list[tuple[str, bytes]]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What `shoal serve` serves, with smaller buckets to count."""
    monkeypatch.setattr(billion, "BUCKET", BUCKET)
    names = [f"object-{number:09}" for number in range(COUNT)]
    return [(name, (f"{name}\n" * 6)[:100].encode()) for name in names]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Rows], tuple[int, str]]:
    """Writes rows as the sink does, in several files, and checks them; returns how much differs, and what is said."""
    parquet = pytest.importorskip("pyarrow.parquet")

    def write_and_check(rows: Rows, contents: str = "names") -> tuple[int, str]:
        for number, first in enumerate(range(0, len(rows), 4_000)):
            part = rows[first : first + 4_000]
            table = pa.table(
                {
                    "name": pa.array([name for name, _ in part], pa.string()),
                    "size": pa.array([len(data) for _, data in part], pa.int64()),
                    "data": pa.array([data for _, data in part], pa.binary()),
                    "last_modified": pa.nulls(len(part), pa.timestamp("ns", "UTC")),
                    "e_tag": pa.nulls(len(part), pa.string()),
                }
            )
            parquet.write_table(table, tmp_path / f"objects-{number:06}.parquet", row_group_size=1_000)
        return billion.verify(tmp_path, COUNT, contents), capsys.readouterr().out

    return write_and_check


def test_right_rows_pass_the_check(rows: Rows, check: Callable[[Rows], tuple[int, str]]) -> None:
    assert check(rows)[0] == 0


def lost(rows: Rows) -> None:
    del rows[3_456]


def doubled(rows: Rows) -> None:
    rows.append(rows[3_456])


def replaced(rows: Rows) -> None:
    rows[3_456] = rows[3_457]


def changed(rows: Rows) -> None:
    name, data = rows[3_456]
    rows[3_456] = (name, data[:50] + b"?" + data[51:])


def shortened(rows: Rows) -> None:
    name, data = rows[3_456]
    rows[3_456] = (name, data[:99])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lost, "999 rows, 999 names, 0 wrong contents"),
        (doubled, "1,001 rows, 1,000 names, 0 wrong contents"),
        (replaced, "1,000 rows, 999 names, 0 wrong contents"),
        (changed, "1,000 rows, 1,000 names, 1 wrong contents"),
        (shortened, "1,000 rows, 1,000 names, 1 wrong contents"),
    ],
)
def test_damage_is_found_and_its_bucket_is_named(
    rows: Rows, check: Callable[[Rows], tuple[int, str]], damage: Callable[[Rows], None], said: str
) -> None:
    damage(rows)
    wrong, printed = check(rows)
    assert wrong == 1
    assert f"objects 3,000 to 3,999: {said}\n" in printed


def test_a_whole_file_that_is_missing_is_found(rows: Rows, check: Callable[[Rows], tuple[int, str]]) -> None:
    wrong, printed = check(rows[:8_000])
    assert wrong == 4
    assert "objects 11,000 to 11,499: 0 rows, 0 names, 0 wrong contents\n" in printed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("object-000011500", "1 rows with names that were not served"),
        ("another", "1 rows with names that were not served"),
        ("object-000003456x", "objects 3,000 to 3,999: 1,001 rows, 1,000 names, 1 wrong contents"),
    ],
)
def test_a_row_that_was_not_served_is_found(
    rows: Rows, check: Callable[[Rows], tuple[int, str]], name: str, said: str
) -> None:
    rows.append((name, bytes(100)))
    wrong, printed = check(rows)
    assert wrong == 1
    assert said in printed
