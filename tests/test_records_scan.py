"""Scans and aggregates of records: what they choose and compute is what NumPy does, and the text says what is wrong."""

from __future__ import annotations

import operator
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

DTYPE = numpy.dtype(
    [("ts", "<u8"), ("id", "<u4"), ("len", "<u4"), ("x", "<f8"), ("s", "<i4"), ("tag", "S2"), ("on", "?")]
)
COUNT = 400_000
col = package.col


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> package.Records:
    chance = numpy.random.default_rng(6)
    array = numpy.zeros(COUNT, DTYPE)
    array["ts"] = numpy.arange(COUNT) * 1000
    array["id"] = chance.integers(0, 1000, COUNT)
    array["len"] = chance.integers(0, 1 << 32, COUNT)
    array["x"] = chance.normal(size=COUNT)
    array["s"] = chance.integers(-100, 100, COUNT)
    array["tag"] = chance.choice([b"ab", b"c", b"de"], COUNT)
    array["on"] = chance.integers(0, 2, COUNT)
    path = tmp_path_factory.mktemp("scan") / "f"
    path.write_bytes(array.tobytes())
    return package.Records(path, DTYPE)


def chosen(a: Any) -> list[tuple[Any, Any, Any]]:
    """Conditions as text, as objects and as NumPy has them."""
    return [
        ("len > 100000", col("len") > 100_000, a["len"] > 100_000),
        ("id == 7 and x < 0.5", (col("id") == 7) & (col("x") < 0.5), (a["id"] == 7) & (a["x"] < 0.5)),
        ("id in (7, 8, 999)", col("id").is_in([7, 8, 999]), numpy.isin(a["id"], [7, 8, 999])),
        ("not (s >= -3 or on)", ~((col("s") >= -3) | (col("on") == True)), ~((a["s"] >= -3) | a["on"])),  # noqa: E712
        ('tag == b"c" or tag == "de"', (col("tag") == b"c") | (col("tag") == "de"), a["tag"] != b"ab"),
        ("s * 2 + 5 > id - 900", col("s") * 2 + 5 > col("id") - 900, a["s"] * 2 + 5 > a["id"].astype("i8") - 900),
        ("-s > 50", -col("s") > 50, a["s"] < -50),
        ("s <= -99.5", col("s") <= -99.5, a["s"] == -100),
        ("10 - s < 0", 10 - col("s") < 0, a["s"] > 10),
        ("id != 5 and id != 6", (col("id") != 5) & (col("id") != 6), (a["id"] != 5) & (a["id"] != 6)),
        ("ts >= 399999000", col("ts") >= numpy.uint64(399_999_000), a["ts"] == 399_999_000),
        ("id in ()", col("id").is_in([]), numpy.zeros(COUNT, "?")),
    ]


def test_a_scan_chooses_what_numpy_chooses_from_text_and_from_objects(records: package.Records) -> None:
    array = records.numpy()
    for text, condition, mask in chosen(array):
        for where in (text, condition, str(condition)):
            table = records.scan(where).arrow()
            for name in DTYPE.names:
                if name == "tag":
                    assert [tag.rstrip(b"\0") for tag in table["tag"].to_pylist()] == array["tag"][mask].tolist()
                else:
                    assert (table[name].to_numpy() == array[name][mask]).all(), (text, name)
        count = int(mask.sum())
        assert records.aggregate("count", where=condition) == {"count": count}


def test_columns_limit_and_batches_are_as_asked(records: package.Records) -> None:
    array = records.numpy()
    wanted = array[array["id"] == 7]
    scan = records.scan("id == 7", columns=["len", "ts"], limit=100, batch_size=1000)
    assert scan.names == ("len", "ts")
    for _ in range(2):  # each iteration begins anew
        rows = [row for batch in scan for row in batch.rows()]
        assert rows == [(int(row["len"]), int(row["ts"])) for row in wanted[:100]]
    assert [len(batch) for batch in records[:2500].scan(batch_size=1000)] == [1000, 1000, 500]
    assert sum(len(batch) for batch in records.scan(limit=12345)) == 12345
    assert list(records.scan(limit=0)) == []
    assert [len(batch) for batch in records.scan("ts == 5")] == []
    (batch,) = records[:10].scan(columns=["x"])
    assert batch.rows(3, 2) == [(float(value),) for value in array["x"][3:5]]
    assert (batch.names, batch.num_rows) == (("x",), 10)
    assert pyarrow.record_batch(batch).num_rows == 10


def test_columns_for_loops_are_all_records_in_order(records: package.Records) -> None:
    array = records.numpy()
    chunks = []
    several: list[Any] = [1, 3, "auto"]
    for workers in several:
        chunks = list(records.columns(batch_size=30_000, workers=workers))
        assert len(chunks) == -(-COUNT // 30_000)
        for at, name in enumerate(DTYPE.names):
            whole = numpy.concatenate([chunk[at] for chunk in chunks])
            assert (whole == array[name]).all()
    with pytest.raises(ValueError, match="read-only"):
        chunks[0][0][0] = 1


def test_aggregates_are_those_of_numpy_whatever_the_number_of_workers(records: package.Records) -> None:
    array = records.numpy()
    mask = array["x"] > 0
    for workers in (None, 1, 3):
        found = records.aggregate(
            "count",
            "sum(len)",
            "min(s)",
            "max(ts)",
            package.col("x").mean(),
            on="sum(on)",
            where="x > 0",
            workers=workers,
        )
        mean = found.pop("mean(x)")
        assert mean == pytest.approx(array["x"][mask].mean(), rel=1e-12)
        assert found == {
            "count": int(mask.sum()),
            "sum(len)": int(array["len"][mask].sum(dtype="u8")),
            "min(s)": int(array["s"][mask].min()),
            "max(ts)": int(array["ts"][mask].max()),
            "on": int(array["on"][mask].sum()),
        }


def test_sums_are_exact_beyond_64_bits(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(struct.pack("<Qq", (1 << 64) - 1, -(1 << 63)) * 100)
    records = package.Records(tmp_path / "f", "<Qq")
    assert records.aggregate("sum(f0)", "sum(f1)") == {"sum(f0)": 100 * ((1 << 64) - 1), "sum(f1)": -100 * (1 << 63)}
    groups = records.aggregate("sum(f0)", "count", by="f1")
    assert list(groups) == [(-(1 << 63), 100 * ((1 << 64) - 1), 100)]
    assert groups.numpy()["sum(f0)"].tolist() == [100 * ((1 << 64) - 1)]
    assert [int(one) for one in groups.arrow()["sum(f0)"].to_pylist()] == [100 * ((1 << 64) - 1)]


@pytest.mark.parametrize("key", ["id", "s", "on", "ts"])
def test_groups_are_those_of_numpy_in_the_order_of_their_keys(records: package.Records, key: str) -> None:
    array = records.numpy()
    mask = array["len"] > 1000
    groups = records.aggregate("count", "sum(len)", biggest="max(s)", by=key, where=col("len") > 1000)
    keys, places = numpy.unique(array[key][mask], return_inverse=True)
    assert groups.names == (key, "count", "sum(len)", "biggest")
    assert len(groups) == len(keys)
    columns = groups.numpy()
    assert (columns[key] == keys).all()
    assert (columns["count"] == numpy.bincount(places)).all()
    sums = numpy.zeros(len(keys), "i8")
    numpy.add.at(sums, places, array["len"][mask].astype("i8"))
    assert (columns["sum(len)"] == sums).all()
    assert groups.arrow().to_pydict() == pyarrow.table(groups).to_pydict()
    assert groups.polars().columns == list(groups.names)
    if key != "ts":
        assert list(groups) == list(zip(*(columns[name].tolist() for name in groups.names), strict=True))


def test_the_same_aggregate_under_two_names_is_there_twice(records: package.Records) -> None:
    found = records.aggregate("count", n="count", m=package.count(), total=col("len").sum())
    assert found["count"] == found["n"] == found["m"] == COUNT
    assert list(found) == ["count", "n", "m", "total"]
    assert records.aggregate("count", n="count", by=col("on")).names == ("on", "count", "n")


WRONG: list[tuple[str, Any, str]] = [
    ("scan", {"where": "len >"}, "column 6"),
    ("scan", {"where": "size > 1"}, r"'?\"?size"),
    ("scan", {"where": "len = 1"}, "=="),
    ("scan", {"where": "__import__('os')"}, "column"),
    ("scan", {"where": ""}, "empty"),
    ("scan", {"where": 7}, "must be text or a condition"),
    ("scan", {"where": col("len")}, "must be text or a condition"),
    ("scan", {"where": "tag > 3"}, "column"),
    ("scan", {"columns": ["nothing"]}, "nothing"),
    ("scan", {"columns": ["id", "id"]}, "twice"),
    ("scan", {"columns": "id,len"}, "must be a list of names"),
    ("scan", {"limit": -1}, "limit"),
    ("scan", {"batch_size": 0}, "batch_size"),
    ("scan", {"workers": 0}, "workers"),
    ("scan", {"workers": "many"}, "workers"),
    ("columns", {"batch_size": 0}, "batch_size"),
    ("aggregate", {}, "nothing to compute"),
    ("aggregate", {"total": "median(len)"}, "not an aggregate"),
    ("aggregate", {"total": "sum"}, "needs a field"),
    ("aggregate", {"total": "sum(nothing)"}, "nothing"),
    ("aggregate", {"total": "sum(tag)"}, "not a number"),
    ("aggregate", {"total": "count(id)"}, "count takes no field"),
    ("aggregate", {"total": 7}, "got int"),
    ("aggregate", {"n": "count", "by": "x"}, "integer"),
    ("aggregate", {"n": "count", "by": "nothing"}, "nothing"),
    ("aggregate", {"n": "count", "by": 7}, "by"),
    ("aggregate", {"id": "count", "by": "id"}, "two columns"),
]


@pytest.mark.parametrize(("method", "arguments", "text"), WRONG, ids=[f"{one[:2]}"[:50] for one in WRONG])
def test_what_cannot_be_asked_is_told_at_once(
    records: package.Records, method: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(package.ConfigError, match=text):
        getattr(records, method)(**arguments)


def test_the_same_aggregate_twice_under_one_name_is_refused(records: package.Records) -> None:
    with pytest.raises(package.ConfigError, match="same name"):
        records.aggregate("count", "count")


def test_conditions_refuse_what_python_would_make_of_and_or_and_chains() -> None:
    for wrong in (lambda: (col("a") > 1) and (col("b") > 1), lambda: not col("a"), lambda: 1 < col("a") < 3):
        with pytest.raises(TypeError, match=r"shoal\.col|&"):
            wrong()
    with pytest.raises(TypeError):
        hash(col("a"))
    values: list[Any] = [float("nan"), float("inf"), None, object()]
    for value in values:
        with pytest.raises(package.ConfigError):
            operator.gt(col("a"), value)
    with pytest.raises(package.ConfigError, match="parentheses"):
        operator.and_(col("a") > 1, True)
    for name in ("", 7):
        with pytest.raises(package.ConfigError):
            col(name)  # type: ignore[arg-type]


def test_any_name_and_any_value_come_through_the_text(tmp_path: Path) -> None:
    names = ["and", "true", "two words", "tick`s", "größe", "1st", "sum(x)"]
    rows = [tuple(range(at, at + 7)) for at in range(10)]
    package.Records.append(tmp_path / "f", rows, "<7b")
    records = package.Records(tmp_path / "f", "<7b", names=names)
    for at, name in enumerate(names):
        (found,) = [row for batch in records.scan(col(name) == at + 3) for row in batch.rows()]
        assert found == rows[3]
        assert records.aggregate(col(name).max(), "count") == {f"max({name})": at + 9, "count": 10}
    package.Records.append(tmp_path / "s", [(bytes([byte]),) for byte in range(256)], "c")
    tags = package.Records(tmp_path / "s", "c", names=["tag"])
    for byte in range(256):
        assert tags.aggregate("count", where=col("tag") == bytes([byte])) == {"count": 1}
    assert tags.aggregate("count", where=col("tag").is_in([b"a", bytearray(b"b"), "c"])) == {"count": 3}


def test_long_conditions_stay_flat(records: package.Records) -> None:
    some = random.Random(1).sample(range(1000), 500)
    condition = col("id") == some[0]
    for value in some[1:]:
        condition |= col("id") == value
    wanted = records.aggregate("count", where=col("id").is_in(some))
    assert records.aggregate("count", where=condition) == wanted
    nothing = records.aggregate("count", where=condition & ~condition)
    assert nothing == {"count": 0}


def test_duckdb_reads_a_scan_more_than_once(records: package.Records) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    scan = records.scan("id < 10", columns=["id", "len"])
    assert scan is not None
    for _ in range(2):
        ((count, total),) = duckdb.sql("SELECT count(*), sum(len)::HUGEINT FROM scan").fetchall()
        assert {"count": count, "sum(len)": total} == records.aggregate("count", "sum(len)", where="id < 10")
