"""The job records of the lab: what its file holds, what its programs find in it, what must be noticed."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
import shoal_bench
from conftest import PATIENCE
from shoal_bench import cold, flat, parquet, sizing
from shoal_bench.contestants import BENCH, Contestant, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Here
    from shoal_bench.flat import Flat

RECORDS = importlib.import_module("shoal_bench.jobs.records")
STRATEGIES = {one.key: one for one in RECORDS.contestants() if one.kind == "strategy"}
COUNT = 70_000  # more than a piece of 1 MiB has
PEERS = {
    "sum": ("numpy-memmap", "numpy-fromfile"),
    "filter": ("numpy-memmap-arrow", "numpy-fromfile-arrow"),
    "group": ("numpy-memmap", "numpy-fromfile", "polars"),
    "convert": ("numpy-memmap-arrow", "numpy-fromfile-arrow"),
}
OURS = {
    "touch": ("shoal", "shoal-raw", "shoal-columns"),
    "sum": ("shoal-sum",),
    "filter": ("shoal-filter",),
    "group": ("shoal-group",),
    "convert": ("shoal-convert",),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Flat:
    """A file of the lab's records."""
    return flat.make(tmp_path_factory.mktemp("flat") / "records", COUNT)


def start(script: str | Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def run(script: str | Path, *arguments: str | Path) -> dict[str, Any]:
    done = start(script, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    assert found.pop("seconds") > 0
    return found


def needs(key: str) -> None:
    """Skips a test where a contestant cannot run."""
    if missing := {one.key: one for one in RECORDS.contestants()}[key].missing():
        pytest.skip(missing)


def test_the_file_holds_what_is_added_up_without_it(tmp_path: Path) -> None:
    # A block and a few records of the next one: what is right there is so in a hundred blocks.
    count = flat.BLOCK + 1_000
    made = flat.make(tmp_path / "records", count)
    content = made.path.read_bytes()
    rows = list(struct.iter_unpack(flat.FORMAT, content))
    assert (len(rows), made.count, made.size) == (count, count, len(content))
    assert (made.proof, made.last) == (zlib.crc32(content), rows[-1])
    assert made.total == sum(length for _, _, length in rows)
    assert all(one[0] < other[0] for one, other in itertools.pairwise(rows)), "ts only grows"

    chosen = [row for row in rows if row[2] > flat.ABOVE]
    assert len(chosen) // 1000 == 10, "one in a hundred"
    assert [(ts, one, length) for columns in flat.chosen(count) for ts, one, length in unpacked(columns)] == chosen

    sums: dict[int, int] = {}
    for _, one, length in rows:
        sums[one] = sums.get(one, 0) + length
    dense = struct.pack(f"<{flat.BLOCK}Q", *(sums.get(one, 0) for one in range(flat.BLOCK)))
    assert flat.groups(count) == (len(sums), zlib.crc32(dense))
    assert len(sums) == flat.BLOCK, "a million ids"
    columns = [
        struct.pack(f"<{count}{code}", *column) for code, column in zip("QII", zip(*rows, strict=True), strict=True)
    ]
    assert flat.column_proofs(count) == [zlib.crc32(column) for column in columns]


def unpacked(columns: flat.Columns) -> list[tuple[int, int, int]]:
    """The records of a block, row by row."""
    ts = (one for (one,) in struct.iter_unpack("<Q", columns.ts))
    return list(zip(ts, columns.id, columns.len, strict=True))


def test_a_file_ends_where_it_should_and_is_the_same_each_time(tmp_path: Path) -> None:
    whole = flat.make(tmp_path / "whole", 1000).path.read_bytes()
    assert flat.make(tmp_path / "again", 1000).path.read_bytes() == whole
    assert flat.make(tmp_path / "part", 1).path.read_bytes() == whole[: flat.RECORD]
    with pytest.raises(FileExistsError):
        flat.make(tmp_path / "part", 1)


@pytest.mark.parametrize("key", STRATEGIES)
def test_every_strategy_sees_every_record(key: str, records: Flat, tmp_path: Path) -> None:
    def found(path: Path, *, prove: bool) -> dict[str, Any]:
        task = Task(directory=None, count=COUNT, scratch=tmp_path, file=path, prove=prove)
        return run(*STRATEGIES[key].command(task)[1:])

    plain = {"objects": COUNT, "bytes": records.size, "workers": 1}
    assert found(records.path, prove=False) == plain
    content = bytearray(records.path.read_bytes())
    content[-1] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    assert found(tmp_path / "damaged", prove=True) == plain | {"proof": zlib.crc32(content)}
    assert zlib.crc32(content) != records.proof


def test_both_pythons_have_the_figures_of_the_study() -> None:
    found = {
        one.key: tuple(
            None if figure is None else round(figure * RECORDS.FULL, 6) for figure in (one.python2, one.published)
        )
        for one in RECORDS.contestants()
        if one.published or one.python2
    }
    assert found == {
        "cat": (0.53, 0.53),
        "naive": (54.9, 32.1),
        "buffer-32k": (48.0, None),
        "io-open": (42.7, 38.5),
        "os-read-16": (113.4, 126.9),
        "os-read-1m": (1.4, None),
        "os-read-1m-slices": (38.9, None),
        "whole-slices": (73.0, 96.9),
        "readinto-16": (100.5, None),
        "readinto-16-unbuffered": (125.0, None),
        "readinto-8k": (1.26, None),
        "readinto-1m": (3.9, None),
        "readinto-32k": (None, 0.6),
    }


def test_a_file_larger_than_half_of_the_memory_is_not_read_at_once(tmp_path: Path) -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(memory // 2 + flat.RECORD)  # sparse: it takes no space
    done = start(BENCH / "strategies" / "records" / "whole_slices.py", tmp_path / "large")
    assert (done.returncode, done.stdout) == (1, "")
    assert "are more than half of this machine's memory" in done.stderr
    (one,) = [one for one in RECORDS.contestants() if one.key == "whole-slices"]
    assert one.may_fail


def test_bench_records_runs_all_in_turn_and_has_both_columns_of_the_author(lab: Here, tmp_path: Path) -> None:
    keys = ["limit", "cat", "naive", "whole-slices", "struct-iter-unpack"]
    done = lab.run(
        *("bench", "records", "--only", ",".join(keys), "--count", "7000", "--trials", "1"),
        *("--dir", tmp_path / "there", "--results", tmp_path / "results.json"),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "every record proven once" in " ".join(done.stdout.split())
    head, *lines = done.stdout.partition("\n\n")[0].splitlines()
    assert head.split()[-5:] == ["time", "Py", "2", "Py", "3"]
    (naive,) = [line for line in lines if line.startswith("open + read(16) ")]
    assert naive.split()[-4:] == ["54.9", "s", "32.1", "s"]
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    turns = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in turns] == ["warming up"] * len(keys) + ["round 1 of 1"] * len(keys)
    assert list((tmp_path / "there").iterdir()) == [], "what was written is removed at the end"
    results = json.loads((tmp_path / "results.json").read_text())
    rows = {row["key"]: row for row in results["rows"]}
    assert set(rows) == set(keys)
    assert rows["naive"]["trials"][0]["objects"] == 1400, "slow rows get a file of their own"
    assert rows["struct-iter-unpack"]["trials"][0]["objects"] == 7000
    assert round(rows["naive"]["python2"] * RECORDS.FULL, 3) == 54.9
    assert results["settings"]["size"] == flat.RECORD


@pytest.mark.parametrize(("case", "key"), [(case, key) for case, keys in PEERS.items() for key in keys])
def test_every_peer_finds_what_the_file_holds(case: str, key: str, tmp_path: Path) -> None:
    needs(key)
    results = shoal_bench.run("records", case=case, count=COUNT, trials=1, only=[key, "limit"], directory=tmp_path)
    assert [row.failed for row in results.rows] == [None, None]
    assert results.row(key).trials[0].objects == COUNT
    assert "author's" not in shoal_bench.table(results), "the case is not that of the study"
    assert "Py 2" not in shoal_bench.table(results)


@pytest.mark.parametrize(("case", "key"), [(case, key) for case, keys in OURS.items() for key in keys])
def test_shoal_finds_what_the_file_holds(case: str, key: str, tmp_path: Path) -> None:
    needs(key)
    # More than a chunk, a batch and a partition of each.
    results = shoal_bench.run("records", case=case, count=600_000, trials=1, only=[key], directory=tmp_path)
    assert results.row(key).failed is None
    assert results.row(key).trials[0].objects == 600_000


def lying(honest: Contestant, lie: str) -> Callable[[Task], list[str]]:
    """Makes the command of a contestant that does its work rightly and then says, or does, something else."""
    script = f"""
import json, pathlib, subprocess, sys
done = subprocess.run([PROGRAM, *sys.argv[1:]], check=True, capture_output=True)
found = json.loads(done.stdout)
{lie}
print(json.dumps(found))
"""

    def command(task: Task) -> list[str]:
        program, *arguments = honest.command(task)
        return [sys.executable, "-c", script.replace("PROGRAM", repr(program)), *arguments]

    return command


LIES = [
    ("touch", "naive", 'found["objects"] -= 1'),
    ("touch", "naive", 'found["bytes"] -= 1'),
    ("touch", "naive", 'found["proof"] = found.get("proof", 0) + 1'),
    ("touch", "naive", 'found.pop("proof", None)'),
    ("sum", "numpy-memmap", 'found["sum"] += 1'),
    ("sum", "numpy-memmap", 'found["objects"] += 1'),
    ("sum", "limit", 'found["sum"] -= 1'),
    ("filter", "numpy-memmap-arrow", 'found["chosen"] -= 1'),
    ("filter", "numpy-memmap-arrow", 'found["proof"][2] += 1'),
    ("group", "numpy-memmap", 'found["groups"] -= 1'),
    ("group", "numpy-memmap", 'found["proof"] += 1'),
    ("convert", "numpy-memmap-arrow", 'found["objects"] -= 1'),
    ("convert", "numpy-memmap-arrow", "pathlib.Path(sys.argv[5]).unlink()"),
    ("convert", "numpy-memmap-arrow", "pathlib.Path(sys.argv[5] + '~').touch()"),
]


@pytest.mark.parametrize(("case", "key", "lie"), LIES)
def test_a_wrong_result_is_caught(
    case: str, key: str, lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(key)
    (honest,) = [one for one in RECORDS.contestants() if one.key == key]
    liar = Contestant("liar", "liar", honest.kind, lying(honest, lie), share=honest.share, proves=honest.proves)
    monkeypatch.setattr(RECORDS, "contestants", lambda: [honest, liar])
    results = shoal_bench.run("records", case=case, count=2_000, trials=1, directory=tmp_path)
    assert results.failed == ["liar"]
    assert "it did not do the job" in (results.row("liar").failed or "")
    assert len(results.row(key).trials) == 1


def test_a_loop_of_shoals_that_ends_too_early_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import json; print(json.dumps({'objects': 20, 'bytes': 320, 'seconds': 0.1, 'last': [1, 2, 3]}))"
    early = Contestant("early", "early", "shoal", lambda _: [sys.executable, "-c", script], proves=False)
    monkeypatch.setattr(RECORDS, "contestants", lambda: [early])
    results = shoal_bench.run("records", count=20, trials=1, directory=tmp_path)
    assert "it has found last [1, 2, 3]" in (results.row("early").failed or "")


WRITERS: dict[str, tuple[dict[str, Any], str]] = {
    "the right one": ({}, "None"),
    "another compression": ({"compression": "zstd"}, "compression is ZSTD"),
    "a dictionary": ({"use_dictionary": not RECORDS.DICTIONARY}, "dictionary"),
    "other row groups": ({"row_group_size": 1_000}, "row groups"),
    "no index": ({"write_page_index": False}, "no index of its pages"),
    "a row too few": ({"rows": 1_999}, "row groups"),
    "another name": ({"names": ("ts", "id", "length")}, "its columns are"),
    "another order": ({"reverse": True}, "the wrong values"),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_parquet_file_is_compared_with_the_records_and_the_settings(what: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    given, expected = WRITERS[what]
    options: dict[str, Any] = {"compression": RECORDS.COMPRESSION, "use_dictionary": RECORDS.DICTIONARY}
    options |= {"write_page_index": True}
    options |= {"row_group_size": RECORDS.ROWS, "names": flat.NAMES, "rows": 2_000, "reverse": False} | given
    (block,) = flat.blocks(2_000)
    rows = unpacked(block)[: options.pop("rows")]
    if options.pop("reverse"):
        rows.reverse()
    types = (pa.uint64(), pa.uint32(), pa.uint32())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table(dict(zip(options.pop("names"), columns, strict=True))), path, **options)
    found = parquet.fault(path, 2_000, RECORDS.COMPRESSION, RECORDS.DICTIONARY, RECORDS.ROWS)
    assert expected in str(found)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("PLAIN", "None"), ("DELTA_BINARY_PACKED", "encodings are ('RLE', 'DELTA_BINARY_PACKED')")],
)
def test_other_encodings_are_noticed(encoding: str, expected: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (block,) = flat.blocks(2_000)
    types = (pa.uint64(), pa.uint32(), pa.uint32())
    columns = zip(zip(*unpacked(block), strict=True), types, strict=True)
    table = pa.table([pa.array(column, kind) for column, kind in columns], names=flat.NAMES)
    path = tmp_path / "records.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding=encoding, write_page_index=True)
    assert expected in str(parquet.fault(path, 2_000, "snappy", False, RECORDS.ROWS))


@pytest.mark.parametrize("keep", [False, True])
def test_what_was_written_takes_no_space_unless_it_is_kept(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("numpy-memmap-arrow")
    (honest,) = [one for one in RECORDS.contestants() if one.key == "numpy-memmap-arrow"]
    # The second looks at what the first has left.
    look = "left = [one.stat().st_size for one in pathlib.Path(sys.argv[5]).parent.parent.glob('*-first/*')]"
    look += f"\nassert len(left) == 1 and any(left) == {keep}, left"
    everyone = [Contestant(name, name, "peer", lying(honest, lie)) for name, lie in (("first", ""), ("second", look))]
    monkeypatch.setattr(RECORDS, "contestants", lambda: everyone)
    results = shoal_bench.run("records", case="convert", count=100, trials=1, directory=tmp_path, keep=keep)
    assert results.failed == []


def test_cold_records_are_not_in_the_page_cache(records: Flat, tmp_path: Path) -> None:
    cold.bring(records.path)
    found, pages = cold.resident(records.path)
    assert found == pages > 0
    try:
        cold.drop([records.path])
    except package.RunError:
        pytest.skip("the file system of the temporary directory is its own cache")
    assert cold.resident(records.path) == (0, pages)
    results = shoal_bench.run(
        "records", case="sum", count=5_000, trials=1, cold=True, only=["limit", "cat"], directory=tmp_path
    )
    assert results.failed == []
    assert "from a cold cache" in shoal_bench.table(results)


def test_each_case_has_its_own_contestants(lab: Here) -> None:
    for case, keys in OURS.items():
        done = lab.run("bench", "records", "--case", case, "--list")
        found = {line.split()[0] for line in done.stdout.splitlines()}
        assert {*keys, "limit", *PEERS.get(case, ())} <= found
        assert ("naive" in found) == (case == "touch")
    assert (
        lab.run("bench", "records", "--list").stdout == lab.run("bench", "records", "--case", "touch", "--list").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("records", "--case", "many"), "there is no case 'many'"),
        (("unzip", "--case", "touch"), "there is no case 'touch'"),
        (("records", "--size", "100"), "leave out --size"),
        (("records", "--into", "null"), "leave out --into"),
        (("records", "--durable"), "leave out --durable"),
        (("records", "--full", "--count", "5"), "leave out --count"),
    ],
)
def test_what_the_job_does_not_know_is_a_clear_error(lab: Here, arguments: tuple[str, ...], message: str) -> None:
    done = lab.run("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_full_is_the_number_of_the_study() -> None:
    assert sizing.study("records").count == 1_493_893_120 // flat.RECORD
