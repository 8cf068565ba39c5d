"""Values that libraries write wrongly, or panic over: `shoal.save` keeps them, or says which column it cannot keep."""

from __future__ import annotations

import datetime as dt
import io
import json
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from saving import refused, saved

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")


@pytest.mark.parametrize(
    "value",
    ["a", 1, 1.5, True, b"x", Decimal("1.5"), dt.datetime(2026, 1, 2)],  # noqa: DTZ001  # a column without a zone
    ids=lambda value: type(value).__name__,
)
def test_a_null_entry_of_a_dictionary_is_null_in_json_lines(tmp_path: Path, value: Any) -> None:
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, None]), pyarrow.array([value, None]))
    text = saved(tmp_path, "a.jsonl", pyarrow.table({"x": column})).read_text()
    assert [json.loads(line)["x"] is None for line in text.splitlines()] == [False, True, True]


def test_binary_of_no_width_is_refused_in_parquet(tmp_path: Path) -> None:
    table = pyarrow.table({"n": [1, 2], "x": pyarrow.array([b"", None], pyarrow.binary(0))})
    assert '"x"' in refused(tmp_path, "a.parquet", table)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_time_of_a_zone_whose_offset_has_seconds_keeps_its_value_or_is_refused(tmp_path: Path, ending: str) -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    early, later = dt.datetime(1850, 1, 1, tzinfo=zone), dt.datetime(1900, 1, 1, tzinfo=zone)  # 53 min 28 s; 1 h
    for unit in ("s", "ns"):
        kind = pyarrow.timestamp(unit, "Europe/Berlin")
        why = refused(tmp_path, f"{unit}.{ending}", pyarrow.table({"x": pyarrow.array([None, later, early], kind)}))
        assert '"x"' in why
        assert "convert it to UTC" in why
        table = pyarrow.table({"x": pyarrow.array([later], kind)})
        text = saved(tmp_path / unit, f"a.{ending}", table).read_text()
        cell = text.split()[1] if ending == "csv" else json.loads(text)["x"]
        assert dt.datetime.fromisoformat(cell) == later


def test_an_array_of_python_objects_is_refused_whatever_the_ending(tmp_path: Path) -> None:
    objects = numpy.array(["text", None], object)
    holding = numpy.zeros(2, [("n", "i4"), ("o", "O")])
    for array in (objects, holding, memoryview(objects), objects.view(numpy.recarray), objects[:1].reshape(())):
        for name in ("a.bin", "a", "a.npy", "a.csv"):
            refused(tmp_path, name, array)
    assert "an array of object holds addresses of objects" in refused(tmp_path, "a.bin", objects)


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


@pytest.mark.parametrize("ending", ["npy", "csv", "bin"])
def test_an_array_interface_that_raises_is_a_failure_of_its_object(tmp_path: Path, ending: str) -> None:
    assert "no array today" in refused(tmp_path, f"a.{ending}", Raising())


def test_a_stream_that_raises_where_it_is_looked_up_is_a_failure_of_its_object(tmp_path: Path) -> None:
    assert "no stream today" in refused(tmp_path, "a.csv", RaisingTable())


class Broken:
    """A table whose producer has two lines to say."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ValueError("no stream\ntoday \x1b[31m")


def test_the_reason_of_a_producer_is_one_line_that_can_be_shown(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.csv", Broken()).isprintable()


def test_floats_in_runs_are_written_as_python_writes_them(tmp_path: Path) -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1, 2], pyarrow.int32()), pyarrow.array([1e16, 1e-5]))
    assert saved(tmp_path, "a.csv", pyarrow.table({"x": runs})).read_text() == "x\n1e+16\n1e-05\n"


def test_any_text_can_be_in_runs(tmp_path: Path) -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2], pyarrow.int32()), pyarrow.array(["<invalid>"]))
    assert saved(tmp_path, "a.csv", pyarrow.table({"x": runs})).read_text() == "x\n<invalid>\n<invalid>\n"


def unnamed() -> list[Any]:
    """Endings, and columns whose refusal names their type at most."""
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
    ]


@pytest.mark.parametrize(("ending", "column"), unnamed(), ids=lambda value: str(getattr(value, "type", value))[:20])
def test_a_refusal_names_the_column_in_every_format(tmp_path: Path, ending: str, column: Any) -> None:
    table = pyarrow.table([pyarrow.nulls(len(column), pyarrow.int8()), column], names=["row", "odd one"])
    assert '"odd one"' in refused(tmp_path, f"a.{ending}", table)


def test_a_column_of_intervals_is_refused_in_parquet_with_and_without_rows(tmp_path: Path) -> None:
    empty = pyarrow.array([], pyarrow.month_day_nano_interval())
    assert "interval" in refused(tmp_path, "a.parquet", pyarrow.table({"x": empty})).lower()


def test_npy_is_byte_for_byte_that_of_numpy_where_the_header_needs_no_filling(tmp_path: Path) -> None:
    array = numpy.ones((1,) * 36, ">i2")
    file = io.BytesIO()
    numpy.save(file, array)
    assert saved(tmp_path, "a.npy", array).read_bytes() == file.getvalue()


@pytest.mark.parametrize("ending", ["png", "JPG", "txt", "tsv", "pkl", "csv.gz", "npy.zst", "h5"])
def test_an_array_is_not_saved_as_a_file_of_a_form_that_its_bytes_do_not_have(tmp_path: Path, ending: str) -> None:
    for array in (numpy.zeros((4, 4, 3), "u1"), numpy.arange(3.0), numpy.float64(1)):
        assert "save the bytes of such a file, or name it .npy or .csv" in refused(tmp_path, f"a.{ending}", array)
    encoded = numpy.frombuffer(b"as an encoder of images gives it", "u1")
    assert saved(tmp_path, f"b.{ending}", encoded).read_bytes() == encoded.tobytes()
    assert saved(tmp_path / "two", f"b.{ending}", encoded.copy()).read_bytes() == encoded.tobytes()


class Mismatched:
    """Rows that do not fit the type that it gives with them."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        two = pyarrow.schema([("a", pyarrow.int64()), ("b", pyarrow.int64())])
        return two.__arrow_c_schema__(), pyarrow.table({"a": [1]}).to_batches()[0].__arrow_c_array__()[1]


def test_rows_that_do_not_fit_their_type_are_a_failure_of_their_object(tmp_path: Path) -> None:
    for ending in ("csv", "parquet", "bin"):
        assert "does not match its description" in refused(tmp_path, f"a.{ending}", Mismatched())


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_a_column_whose_name_would_be_cut_is_refused(tmp_path: Path, ending: str) -> None:
    # Polars itself ends the interpreter when it exports such a name.
    table = pyarrow.table({"a\0b": [1], "a\0c": [2]})
    for given in (table, table.to_batches()[0], table.to_reader(), polars.DataFrame({"n": [1], "a\0b": [2]})):
        assert '"a\\0b" has a NUL' in refused(tmp_path, f"a.{ending}", given)


def test_a_mask_is_refused_however_the_array_is_given(tmp_path: Path) -> None:
    class Masked:
        def __array__(self, dtype: object = None, copy: object = None) -> Any:
            return numpy.ma.array([1, 2], mask=[True, False])

    for ending in ("csv", "npy", "npz"):
        assert "mask" in refused(tmp_path, f"a.{ending}", Masked())


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_an_extension_type_is_not_saved_as_its_storage_in_text(tmp_path: Path, ending: str) -> None:
    truth = pyarrow.ExtensionArray.from_storage(pyarrow.bool8(), pyarrow.array([1, 0, 2], pyarrow.int8()))
    for rows in (0, 3):
        why = refused(tmp_path, f"a.{ending}", pyarrow.table({"n": [1, 2, 3], "truth": truth}).slice(0, rows))
        assert 'column "truth" has the extension type arrow.bool8' in why
    identity = pyarrow.array([bytes(range(16))], pyarrow.binary(16))
    table = pyarrow.table({"id": pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), identity)})
    assert bytes(range(16)).hex() in saved(tmp_path, f"b.{ending}", table).read_text()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_text_that_is_not_utf_8_is_a_failure_of_its_object(tmp_path: Path, ending: str) -> None:
    for kind, offsets in ((pyarrow.string(), "i4"), (pyarrow.large_string(), "i8")):
        places = pyarrow.py_buffer(numpy.array([0, 2], offsets))
        column = pyarrow.Array.from_buffers(kind, 1, [None, places, pyarrow.py_buffer(b"\xff\xfe")])
        assert "UTF" in refused(tmp_path, f"a.{ending}", pyarrow.table({"x": column}))


def test_rows_without_columns_are_kept_or_refused(tmp_path: Path) -> None:
    rows = polars.DataFrame(height=3)
    for ending in ("csv", "parquet"):
        assert "3 rows has no columns" in refused(tmp_path, f"a.{ending}", rows)
    assert pyarrow.ipc.open_file(saved(tmp_path / "two", "a.arrow", rows)).read_all().num_rows == 3
    assert saved(tmp_path / "three", "a.jsonl", rows).read_text() == "{}\n{}\n{}\n"
    assert saved(tmp_path / "four", "a.csv", polars.DataFrame()).read_bytes() == b""
