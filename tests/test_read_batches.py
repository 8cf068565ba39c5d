"""`shoal.read(…).batches()`: objects as Arrow record batches, for whoever takes those."""

from __future__ import annotations

import concurrent.futures
import os
import random
from typing import TYPE_CHECKING, Any

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


def test_bytes_bound_a_batch(tmp_path: Path, objects: dict[str, bytes]) -> None:
    for size in (20_000, 4 << 20):
        batches = list(package.read(tmp_path / "tree").batches(chunk_size=size))
        assert sum(len(batch) for batch in batches) == len(objects)
        assert all(batch.nbytes <= size or batch.num_rows == 1 for batch in batches)
        assert sum(batch.nbytes for batch in batches) == sum(map(len, objects.values()))
    wrong: list[dict[str, Any]] = [{"batch_size": size} for size in (0, -1, 2**64, 1.5, "x")]
    wrong += [{"chunk_size": 0}, {"chunk_size": "much"}, {"batch_size": 5, "chunk_size": 5}]
    for options in wrong:
        with pytest.raises(package.ConfigError):
            package.read(tmp_path / "tree").batches(**options)


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000, 1004, 1005, 100_000, 10**12, 2**63])
@pytest.mark.parametrize("order", ["any", "source"])
def test_a_batch_size_is_exact_until_the_last(
    tmp_path: Path, objects: dict[str, bytes], batch_size: int, order: Any
) -> None:
    def read() -> Any:
        return package.read(
            [tmp_path / "tree" / name for name in sorted(objects)], order=order, on_error="record"
        ).batches(batch_size)

    wanted = [batch_size] * (len(objects) // batch_size) + [len(objects) % batch_size]
    batches = [pyarrow.record_batch(batch) for batch in read()]
    for batch in batches:
        batch.validate(full=True)
    assert [len(batch) for batch in batches] == [size for size in wanted if size]
    check(pyarrow.Table.from_batches(batches), objects)
    if order == "source":
        assert [name for batch in batches for name in batch["name"].to_pylist()] == sorted(objects)
    reader = pyarrow.RecordBatchReader.from_stream(read())
    assert [len(batch) for batch in reader] == [size for size in wanted if size]
    begun = read()
    first = pyarrow.table(next(begun))
    check(pyarrow.concat_tables([first, pyarrow.table(begun)]), objects)


def test_a_reader_is_a_stream_for_libraries_of_tables(tmp_path: Path, objects: dict[str, bytes]) -> None:
    tree = tmp_path / "tree"
    check(pyarrow.table(package.read(tree)), objects)
    polars = pytest.importorskip("polars")
    assert sorted(polars.DataFrame(package.read(tree))["name"]) == sorted(objects)
    duckdb = pytest.importorskip("duckdb")
    found = package.read(tree)
    assert duckdb.sql("SELECT sum(size) FROM found").fetchall() == [(sum(map(len, objects.values())),)]
    assert found.report is not None
    assert found.report.ok
    begun = package.read(tree)
    next(begun)
    with pytest.raises(package.ConfigError, match="being read already"):
        pyarrow.table(begun)


def test_a_second_pass_is_refused_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")

    def again() -> Any:
        return pytest.raises(package.ConfigError, match=r"already consumed.*\n.*call shoal\.read again")

    reader = package.read(tmp_path)
    assert len(list(reader)) == 1
    with again():
        list(reader)
    assert next(iter_of(reader), "nothing") == "nothing"

    for batch_size in (None, 10):
        batches = package.read(tmp_path).batches(batch_size)
        assert len(list(batches)) == 1
        with again():
            list(batches)
        with again():
            pyarrow.table(batches)

        reader = package.read(tmp_path)
        batches = reader.batches(batch_size)
        assert len(pyarrow.table(batches)) == 1
        assert reader.report is not None
        assert reader.report.ok
        with again():
            pyarrow.table(batches)
        with again():
            list(batches)
        with pytest.raises(package.ConfigError, match="was turned into batches"):
            list(reader)

    reader = package.read(tmp_path)
    assert len(pyarrow.table(reader)) == 1
    with again():
        pyarrow.table(reader)

    with package.read(tmp_path) as reader:
        pass
    with pytest.raises(package.ConfigError, match="closed"):
        list(reader)


def iter_of(reader: Any) -> Any:
    """A pass that is under way may be gone on with."""
    return type("Same", (), {"__iter__": lambda self: self, "__next__": lambda _: next(reader)})()


def test_a_pass_may_be_interrupted_and_gone_on_with(tmp_path: Path, objects: dict[str, bytes]) -> None:
    reader = package.read(tmp_path / "tree")
    found: list[str] = []
    while len(found) < len(objects):
        for obj in reader:
            found.append(obj.name)
            if len(found) % 300 == 0:
                break
    assert sorted(found) == sorted(objects)


@pytest.mark.parametrize("batch_size", [None, 10])
def test_a_reader_that_is_closed_early_is_not_complete(tmp_path: Path, batch_size: int | None) -> None:
    for number in range(100):
        (tmp_path / f"{number}").write_bytes(b"x")
    with package.read(tmp_path) as reader:
        source: Any = reader.batches(batch_size) if batch_size else reader
        next(source)
    report = reader.report
    assert report is not None
    assert (report.ok, report.complete) == (False, False)
    with package.read(tmp_path) as reader:
        assert sum(len(batch) for batch in reader.batches(3)) == 100
    assert reader.report is not None
    assert reader.report.ok
    with package.read(tmp_path) as reader:
        assert len(pyarrow.table(reader.batches(3))) == 100
    assert reader.report is not None
    assert reader.report.ok


def test_a_thread_that_comes_late_finds_nothing_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    reader = package.read(tmp_path)
    assert len(list(reader)) == 1
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(list, reader).result() == []


def test_one_batch_of_objects_or_records_is_a_frame_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    (tmp_path / "a").write_bytes(bytes(32))
    batch = next(iter(package.read(tmp_path / "a").batches()))
    assert polars.DataFrame(batch).rows() == [("a", 32, bytes(32))]
    records = next(iter(package.Records(tmp_path / "a", "<QII").scan()))
    assert polars.DataFrame(records).rows() == [(0, 0, 0)] * 2


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
    table = pyarrow.table(package.read(paths, order="source").batches())
    assert table["name"].to_pylist() == names


def test_a_batch_that_is_kept_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789" * 1000)
    kept = []
    for at, batch in enumerate(package.read([tmp_path / "f"] * 20_000).batches(chunk_size="1MiB")):
        if at % 10 == 0:
            kept.append(pyarrow.record_batch(batch))
    for batch in kept:
        assert set(batch["data"].to_pylist()) == {b"0123456789" * 1000}


def test_a_name_that_is_not_utf8_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "fine").write_bytes(b"x")
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"x")
    reader = package.read(tmp_path, on_error="record")
    assert pyarrow.table(reader.batches())["name"].to_pylist() == ["fine"]
    assert reader.report is not None
    assert "UTF-8" in reader.report.failures[0].reason


def test_an_error_that_ends_the_run_comes_through_the_stream() -> None:
    reader = package.read(package.list_get("http://127.0.0.1:9", retry_timeout=0.2))
    with pytest.raises(Exception, match=r"127\.0\.0\.1:9"):
        pyarrow.table(reader.batches())


def test_objects_come_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    reader = package.read(tmp_path)
    next(reader)
    with pytest.raises(package.ConfigError, match="objects come once"):
        reader.batches()
    reader = package.read(tmp_path)
    reader.batches()
    with pytest.raises(package.ConfigError, match="objects come once"):
        reader.batches()


def test_a_batch_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (batch,) = package.read(tmp_path).batches()
    assert (repr(batch), len(batch)) == ("Batch(num_rows=1, nbytes=5)", 1)
    assert pyarrow.schema(batch) == pyarrow.schema(package.read(tmp_path).batches())


def test_a_hasty_consumer_of_large_objects_in_batches_never_waits_for_ever(tmp_path: Path) -> None:
    # It takes half-filled chunks while lanes begin objects in them: each side once held the lock that the other wanted.
    (tmp_path / "large").write_bytes(bytes(100_000))
    (tmp_path / "small").write_bytes(b"x")
    paths = [tmp_path / "large", tmp_path / "small"] * 2000
    for size in ("150kB", "4MiB"):
        for _ in range(5):
            batches = package.read(paths, workers=8, memory="8MiB").batches(chunk_size=size)
            assert sum(len(batch) for batch in batches) == len(paths)
