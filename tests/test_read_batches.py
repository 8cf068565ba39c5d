"""`shoal.read(…).batches()`: objects as Arrow record batches, for whoever takes those."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

import shoal as package

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def objects(tmp_path: Path) -> dict[str, bytes]:
    chance = random.Random(6)
    found = {f"d/{number:04}": chance.randbytes(number) for number in range(1000)}
    found |= {f"large-{number}": chance.randbytes(700_000) for number in range(5)}
    (tmp_path / "tree/d").mkdir(parents=True)
    for name, data in found.items():
        (tmp_path / "tree" / name).write_bytes(data)
    return found


def check(table: object, objects: dict[str, bytes]) -> None:
    columns = table.to_pydict()  # type: ignore[attr-defined]
    assert list(columns) == ["name", "size", "data"]
    assert dict(zip(columns["name"], columns["data"], strict=True)) == objects
    assert columns["size"] == [len(data) for data in columns["data"]]


def test_batches_hold_every_object_in_columns(tmp_path: Path, objects: dict[str, bytes]) -> None:
    reader = package.read(tmp_path / "tree")
    batches = [pyarrow.record_batch(batch) for batch in reader.batches()]
    assert str(batches[0].schema).splitlines() == [
        "name: string not null",
        "size: int64 not null",
        "data: large_binary not null",
    ]
    for batch in batches:
        batch.validate(full=True)
    check(pyarrow.Table.from_batches(batches), objects)
    assert reader.report is not None
    assert reader.report.written == len(objects)


def test_rows_and_bytes_bound_a_batch(tmp_path: Path, objects: dict[str, bytes]) -> None:
    for rows, size in ((7, "4MiB"), (10_000, 20_000)):
        batches = list(package.read(tmp_path / "tree").batches(rows=rows, bytes=size))
        assert sum(len(batch) for batch in batches) == len(objects)
        assert all(len(batch) <= rows for batch in batches)
        limit = 20_000 if size == 20_000 else 4 << 20
        assert all(batch.nbytes <= limit or batch.num_rows == 1 for batch in batches)
        assert sum(batch.nbytes for batch in batches) == sum(map(len, objects.values()))
    for wrong in ({"rows": 0}, {"bytes": 0}, {"bytes": "much"}):
        with pytest.raises(package.ConfigError):
            package.read(tmp_path / "tree").batches(**wrong)


def test_batches_are_a_stream_for_pyarrow_polars_duckdb_and_pandas(tmp_path: Path, objects: dict[str, bytes]) -> None:
    check(pyarrow.table(package.read(tmp_path / "tree").batches()), objects)
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(package.read(tmp_path / "tree").batches())
    assert dict(zip(frame["name"], frame["data"], strict=True)) == objects
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    batches = package.read(tmp_path / "tree").batches()
    total = duckdb.sql("SELECT count(*), sum(size), max(octet_length(data)) FROM batches").fetchone()
    assert batches is not None
    assert total == (len(objects), sum(map(len, objects.values())), 700_000)


def test_the_order_given_is_kept_in_batches(tmp_path: Path, objects: dict[str, bytes]) -> None:
    names = sorted(objects)
    paths = [tmp_path / "tree" / name for name in names]
    table = pyarrow.table(package.read(paths, order="given").batches())
    assert table["name"].to_pylist() == names


def test_a_batch_that_is_kept_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789" * 1000)
    kept = []
    for at, batch in enumerate(package.read([tmp_path / "f"] * 20_000).batches(bytes="1MiB")):
        if at % 10 == 0:
            kept.append(pyarrow.record_batch(batch))
    for batch in kept:
        assert set(batch["data"].to_pylist()) == {b"0123456789" * 1000}


def test_a_name_that_is_not_utf8_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "fine").write_bytes(b"x")
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"x")
    reader = package.read(tmp_path)
    assert pyarrow.table(reader.batches())["name"].to_pylist() == ["fine"]
    list(reader)  # the end
    assert reader.report is not None
    assert "UTF-8" in reader.report.failures[0].reason


def test_an_error_that_ends_the_run_comes_through_the_stream() -> None:
    reader = package.read("http://127.0.0.1:9", retry_timeout=0.2)
    with pytest.raises(Exception, match=r"127\.0\.0\.1:9"):
        pyarrow.table(reader.batches())


def test_objects_come_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    reader = package.read(tmp_path)
    next(reader)
    with pytest.raises(package.ConfigError, match="objects come once"):
        reader.batches()


def test_a_batch_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (batch,) = package.read(tmp_path).batches()
    assert (repr(batch), len(batch)) == ("Batch(num_rows=1, nbytes=5)", 1)
    assert pyarrow.schema(batch) == pyarrow.schema(package.read(tmp_path).batches())
