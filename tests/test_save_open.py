"""What `shoal.save` gets wrong today: each test states a promise that does not hold yet. A fix removes its mark.

Not here: what is right, which is the rest of `test_save_*.py`.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import shoal as package

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")


def saved(tmp_path: Path, name: str, data: object, **options: Any) -> Path:
    report = package.save([(name, data)], tmp_path / "out", durability="none", **options)
    assert report.ok, report.failures
    return tmp_path / "out" / name


def refused(tmp_path: Path, name: str, data: object) -> str:
    """Saves it between two others, and returns why it alone is a failure."""
    report = package.save([("first", b""), (name, data), ("last", b"")], tmp_path / "out", durability="none")
    assert (report.written, report.failed) == (2, 1)
    assert not (tmp_path / "out" / name).exists()
    return report.failures[0].reason


def wrong(why: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=why)


@wrong("a null entry of a dictionary is written as 0, false, an empty text or nothing at all")
@pytest.mark.parametrize(
    "value",
    ["a", 1, 1.5, True, b"x", Decimal("1.5"), dt.datetime(2026, 1, 2)],  # noqa: DTZ001  # a column without a zone
    ids=lambda value: type(value).__name__,
)
def test_a_null_entry_of_a_dictionary_is_null_in_json_lines(tmp_path: Path, value: Any) -> None:
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, None]), pyarrow.array([value, None]))
    text = saved(tmp_path, "a.jsonl", pyarrow.table({"x": column})).read_text()
    assert [json.loads(line)["x"] is None for line in text.splitlines()] == [False, True, True]


@wrong("the parquet crate panics, which ends the run")
def test_binary_of_no_width_is_saved_or_refused_in_parquet(tmp_path: Path) -> None:
    table = pyarrow.table({"x": pyarrow.array([b"", None], pyarrow.binary(0))})
    report = package.save([("a", b"a"), ("t.parquet", table)], tmp_path / "out", durability="none")
    assert report.written >= 1


@wrong("the offset is cut to minutes, the clock is not: the text is another point in time")
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_time_of_a_zone_whose_offset_has_seconds_keeps_its_value(tmp_path: Path, ending: str) -> None:
    when = dt.datetime(1850, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))  # 53 minutes and 28 seconds ahead
    table = pyarrow.table({"x": pyarrow.array([when], pyarrow.timestamp("s", "Europe/Berlin"))})
    text = saved(tmp_path, f"a.{ending}", table).read_text()
    cell = text.split()[1] if ending == "csv" else json.loads(text)["x"]
    assert dt.datetime.fromisoformat(cell) == when


@wrong("both are written, of which readers keep one; two columns of one name are refused")
def test_a_map_that_has_a_key_twice_is_refused_in_json_lines(tmp_path: Path) -> None:
    twice = pyarrow.array([[("a", 1), ("a", 2)]], pyarrow.map_(pyarrow.string(), pyarrow.int8()))
    assert '"x"' in refused(tmp_path, "a.jsonl", pyarrow.table({"x": twice}))


@wrong("the addresses of the objects are written as if they were data")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_a_column_of_python_objects_is_refused_by_name(tmp_path: Path, ending: str) -> None:
    frame = polars.DataFrame({"things": polars.Series([object(), object()], dtype=polars.Object)})
    assert '"things"' in refused(tmp_path, f"a.{ending}", frame)


@wrong("the addresses of the objects are written as if they were data")
def test_an_array_of_python_objects_is_refused_whatever_the_ending(tmp_path: Path) -> None:
    assert "|O" in refused(tmp_path, "a.bin", numpy.array(["text", None], object))


@wrong("NumPy exports no buffer of these, and the TypeError ends the run")
@pytest.mark.parametrize("dtype", ["<M8[s]", ">M8[ns]", "<m8[D]", ">g"])
def test_an_array_of_times_with_another_ending_is_its_bytes(tmp_path: Path, dtype: str) -> None:
    array = numpy.arange(3).astype(dtype)
    assert saved(tmp_path, "a.bin", array).read_bytes() == array.tobytes()


class Raising:
    """Says of its memory only that it cannot."""

    @property
    def __array_interface__(self) -> object:
        raise ValueError("no array today")


class RaisingTable:
    """The same of rows."""

    @property
    def __arrow_c_stream__(self) -> object:
        raise ValueError("no stream today")


@wrong("the exception ends the run; raised in the call it is a failure of that object")
@pytest.mark.parametrize("ending", ["npy", "csv", "bin"])
def test_an_array_interface_that_raises_is_a_failure_of_its_object(tmp_path: Path, ending: str) -> None:
    assert "no array today" in refused(tmp_path, f"a.{ending}", Raising())


@wrong("the exception is swallowed, and a TypeError ends the run")
def test_a_stream_that_raises_where_it_is_looked_up_is_a_failure_of_its_object(tmp_path: Path) -> None:
    assert "no stream today" in refused(tmp_path, "a.csv", RaisingTable())


class Broken:
    """A table whose producer has two lines to say."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ValueError("no stream\ntoday \x1b[31m")


@wrong("what the producer says is not escaped, as what Arrow says is")
def test_the_reason_of_a_producer_is_one_line_that_can_be_shown(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.csv", Broken()).isprintable()


@wrong("a stream of structs with a null row is taken as a table, and what is below the null is written")
def test_a_null_row_is_refused_however_it_is_exported(tmp_path: Path) -> None:
    rows = pyarrow.StructArray.from_arrays([pyarrow.array([1, 2])], ["a"], mask=pyarrow.array([False, True]))
    assert "null" in refused(tmp_path, "a.csv", pyarrow.chunked_array([rows]))


@wrong("the reason is Arrow's, of the C interface: it names no column and says not what to do")
@pytest.mark.parametrize("dtype", [polars.Null, polars.Int128, polars.UInt128], ids=str)
def test_a_column_of_polars_that_cannot_be_taken_is_refused_by_name(tmp_path: Path, dtype: Any) -> None:
    why = refused(tmp_path, "a.parquet", polars.DataFrame({"n": [1], "odd one": polars.Series([None], dtype=dtype)}))
    assert '"odd one"' in why
    assert "cast" in why


@wrong("PyArrow reads no int8 dictionary of more than 128 values, and its own file has the same defect")
def test_dictionaries_whose_chunks_have_many_values_together_are_read_from_parquet(tmp_path: Path) -> None:
    kind = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    chunks = [pyarrow.array([f"{at}-{n}" for n in range(100)]).cast(kind) for at in range(2)]
    table = pyarrow.table({"x": pyarrow.chunked_array(chunks)})
    assert parquet.read_table(saved(tmp_path, "a.parquet", table)).to_pydict() == table.to_pydict()


@wrong("Parquet's own type of UUIDs is not used")
def test_a_uuid_is_one_for_every_reader_of_parquet(tmp_path: Path) -> None:
    storage = pyarrow.array([b"0123456789abcdef"], pyarrow.binary(16))
    table = pyarrow.table({"x": pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), storage)})
    path = saved(tmp_path, "a.parquet", table)
    assert duckdb.execute("select typeof(x) from read_parquet(?)", [str(path)]).fetchall() == [("UUID",)]


@wrong("the last line is empty, and without its end it is not there")
def test_a_last_row_that_is_null_is_a_row_without_a_final_newline(tmp_path: Path) -> None:
    two = saved(tmp_path / "two", "a.csv", pyarrow.table({"x": [1, None]}), final_newline=False)
    one = saved(tmp_path / "one", "a.csv", pyarrow.table({"x": [1]}))
    assert two.read_text() != one.read_text()


@wrong("they are written in Arrow's form: 1e16")
def test_floats_in_runs_are_written_as_python_writes_them(tmp_path: Path) -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1, 2], pyarrow.int32()), pyarrow.array([1e16, 1e-5]))
    assert saved(tmp_path, "a.csv", pyarrow.table({"x": runs})).read_text() == "x\n1e+16\n1e-05\n"


@wrong("a text is taken for a duration that is too long")
def test_any_text_can_be_in_runs(tmp_path: Path) -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2], pyarrow.int32()), pyarrow.array(["<invalid>"]))
    assert saved(tmp_path, "a.csv", pyarrow.table({"x": runs})).read_text() == "x\n<invalid>\n<invalid>\n"


def unnamed() -> list[Any]:
    """Endings, and columns whose refusal names their type at most."""
    many = [pyarrow.array([f"{at}-{n}" for n in range(100)]) for at in range(2)]
    small = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    interval = pyarrow.month_day_nano_interval()
    return [
        ("jsonl", pyarrow.array([2**31 - 1], pyarrow.date32())),
        ("jsonl", pyarrow.array([2**62], pyarrow.duration("s"))),
        ("jsonl", pyarrow.array([[(1, 1)]], pyarrow.map_(pyarrow.int8(), pyarrow.int8()))),
        ("jsonl", pyarrow.UnionArray.from_sparse(pyarrow.array([0], pyarrow.int8()), [pyarrow.array([1])])),
        ("jsonl", pyarrow.array([0], pyarrow.timestamp("s", "Mars/Base"))),
        ("parquet", pyarrow.array([(1, 2, 3)], interval)),
        ("parquet", pyarrow.array([Decimal(1500)], pyarrow.decimal128(10, -2))),
        ("parquet", pyarrow.array([{}], pyarrow.struct([]))),
        ("arrow", pyarrow.chunked_array([texts.cast(small) for texts in many])),
    ]


@wrong("the reason names the type at most, and of many columns may have it")
@pytest.mark.parametrize(("ending", "column"), unnamed(), ids=lambda value: str(getattr(value, "type", value))[:20])
def test_a_refusal_names_the_column_in_every_format(tmp_path: Path, ending: str, column: Any) -> None:
    table = pyarrow.table([pyarrow.nulls(len(column), pyarrow.int8()), column], names=["row", "odd one"])
    assert '"odd one"' in refused(tmp_path, f"a.{ending}", table)


@wrong("without a row it is written, as binary of 12 bytes")
def test_a_column_of_intervals_is_refused_in_parquet_with_and_without_rows(tmp_path: Path) -> None:
    empty = pyarrow.array([], pyarrow.month_day_nano_interval())
    assert "interval" in refused(tmp_path, "a.parquet", pyarrow.table({"x": empty})).lower()


@wrong("where the header is a multiple of 64 bytes long as it is, NumPy adds another 64")
def test_npy_is_byte_for_byte_that_of_numpy_where_the_header_needs_no_filling(tmp_path: Path) -> None:
    array = numpy.ones((1,) * 36, ">i2")
    file = io.BytesIO()
    numpy.save(file, array)
    assert saved(tmp_path, "a.npy", array).read_bytes() == file.getvalue()
