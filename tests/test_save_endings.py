"""The ending of a name says what its file holds: what fits is written so, what does not is a failure that says why."""

from __future__ import annotations

import array
import dataclasses
import datetime as dt
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from saving import refused, saved_bytes

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": 1, "name": "Zoë"}, {"id": 2, "tags": ["a", None]}]
TABLE = pyarrow.table({"x": [1, 2]})
GRID = numpy.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": [True, None, "x\ny", 1.5, -0.0], "c": {"d": {}}, "ü": 2**70},
        ROWS,
        [],
        {},
        (1, (2, [3])),
        [0.1, 1e300, 5e-324, numpy.float64(0.1), "\u2028", "\0"],
    ],
    ids=str,
)
def test_a_dict_or_a_list_is_written_as_json(tmp_path: Path, value: Any) -> None:
    file = saved_bytes(tmp_path, "a.json", value)
    assert json.loads(file) == json.loads(json.dumps(value))
    assert saved_bytes(tmp_path, "a.JSON", value) == file
    assert b"\\u00" not in file or "\0" in value


def test_a_list_of_dicts_is_written_as_json_lines_as_a_table_is(tmp_path: Path) -> None:
    for ending in ("jsonl", "ndjson"):
        assert [json.loads(line) for line in saved_bytes(tmp_path, f"a.{ending}", ROWS).splitlines()] == ROWS
    assert saved_bytes(tmp_path, "a.jsonl", [{"x": 1}, {"x": 2}]) == saved_bytes(tmp_path, "b.jsonl", TABLE)
    assert saved_bytes(tmp_path, "a.jsonl", ROWS, final_newline=False).endswith(b"}")
    assert saved_bytes(tmp_path, "a.jsonl", []) == b""


def test_nan_and_infinity_are_null_in_json_of_values_and_of_tables(tmp_path: Path) -> None:
    floats = [1.5, float("nan"), float("inf"), float("-inf")]
    of_values = saved_bytes(tmp_path, "a.jsonl", [{"x": value} for value in floats])
    of_table = saved_bytes(tmp_path, "b.jsonl", pyarrow.table({"x": floats}))
    assert [json.loads(line).get("x") for line in of_table.splitlines()] == [1.5, None, None, None]
    assert [json.loads(line)["x"] for line in of_values.splitlines()] == [1.5, None, None, None]
    assert json.loads(saved_bytes(tmp_path, "a.json", {"x": {"y": [float("nan")]}})) == {"x": {"y": [None]}}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1: "a", "1": "b"}, "the key 1 is a int"),
        ({"a": [{None: 1}]}, "the key None"),
        ({"for": dt.timedelta(1)}, "timedelta"),
        ({"raw": b"bytes"}, "bytes"),
        ({"set": {1}}, "set"),
        ({"at": numpy.datetime64(1, "ns")}, "datetime64"),
        ({"z": numpy.complex64(1)}, "complex64"),
        ({"grid": GRID}, "ndarray"),
        (["half \ud800"], "surrogate"),
        ({"table": TABLE}, "Table"),
    ],
    ids=str,
)
def test_what_json_cannot_say_is_a_failure(tmp_path: Path, value: Any, says: str) -> None:
    assert says in refused(tmp_path, "a.json", value)
    assert says in refused(tmp_path, "a.jsonl", [{"x": value}])


@dataclasses.dataclass
class Point:
    """A row of a program."""

    x: float
    more: Any = None


def test_scalars_of_numpy_dates_and_dataclasses_are_written_as_json(tmp_path: Path) -> None:
    when = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
    scalars = [
        numpy.int64(2**62),
        numpy.uint8(1),
        numpy.float32(1.5),
        numpy.float16("nan"),
        numpy.bool_(True),
        numpy.longdouble(2.5),
    ]
    value = Point(1.5, {"at": [when, when.date(), when.time()], "n": scalars, "in": Point(numpy.float64(2))})
    expected = {
        "x": 1.5,
        "more": {
            "at": ["2026-01-01T12:30:00+00:00", "2026-01-01", "12:30:00"],
            "n": [2**62, 1, 1.5, None, True, 2.5],
            "in": {"x": 2.0, "more": None},
        },
    }
    assert json.loads(saved_bytes(tmp_path, "a.json", value)) == expected
    assert json.loads(saved_bytes(tmp_path, "a.jsonl", [value, {}]).splitlines()[0]) == expected


def test_a_time_that_is_missing_is_null_as_a_number_is(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    value = {"at": [pandas.NaT, pandas.Timestamp("2026-01-01")]}
    assert json.loads(saved_bytes(tmp_path, "a.json", value)) == {"at": [None, "2026-01-01T00:00:00"]}


def test_a_list_that_holds_itself_is_a_failure(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "recursion" in refused(tmp_path, "a.json", endless)


def test_an_array_or_a_dict_of_arrays_is_written_as_npz(tmp_path: Path) -> None:
    with numpy.load(io.BytesIO(saved_bytes(tmp_path, "a.npz", GRID.T))) as file:
        assert file.files == ["arr_0"]
        assert file["arr_0"].tolist() == GRID.T.tolist()
    arrays = {"x": GRID, "y.npy": numpy.arange(3, dtype=">i2"), "file": numpy.float32(1.5), "": numpy.array(["a", "ü"])}
    written = saved_bytes(tmp_path, "a.npz", arrays)
    with numpy.load(io.BytesIO(written)) as file:
        for name, array_ in arrays.items():
            found = file[f"{name}.npy"] if name == "" else file[name]
            assert (found.dtype, found.tolist()) == (array_.dtype, array_.tolist())
    assert saved_bytes(tmp_path, "a.npz", arrays) == written
    grid = GRID.copy()
    report = package.save(
        ((f"{n}.npz", grid.__imul__(0).__iadd__(n)) for n in range(20)), tmp_path / "many", durability="none"
    )
    assert report.ok
    for n in range(20):
        with numpy.load(tmp_path / f"many/{n}.npz") as file:
            assert set(file["arr_0"].flat) == {n}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"x": numpy.array([...], dtype=object)}, "Object"),
        ({"x": numpy.ma.array([1, 2], mask=[0, 1])}, "'x' is a masked array"),
        (numpy.ma.array([1, 2], mask=[0, 1]), "masked array"),
        ({1: GRID}, "the name 1"),
        ({"x": [1, 2]}, "'x' is a list, not an array"),
        ({"x": polars.Series([1, None])}, "'x' is a Series, not an array"),
        ({"a\0b": GRID}, "NUL"),
        (TABLE, "a .npz file takes an array or a dict of arrays, or bytes and text, not a Table"),
        (polars.DataFrame({"x": [1]}), "not a DataFrame"),
    ],
    ids=repr,
)
def test_what_npz_cannot_hold_is_a_failure(tmp_path: Path, value: Any, says: str) -> None:
    assert says in refused(tmp_path, "a.npz", value)


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet", "arrow", "npy", "npz"])
def test_bytes_and_text_are_as_they_are_under_every_ending(tmp_path: Path, ending: str) -> None:
    for data in (b"bytes", "text", bytearray(b"bytes"), memoryview(b"bytes"), memoryview(b"b-y-t-e-s-")[::2]):
        assert saved_bytes(tmp_path, f"a.{ending}", data) == (b"text" if data == "text" else b"bytes")


@pytest.mark.parametrize(
    ("ending", "takes", "not_taken"),
    [
        ("json", "a dict, a list or a dataclass", [GRID, TABLE, None, 5, {1, 2}, array.array("d", [1.0])]),
        ("jsonl", "a table or a list of dicts", [{"a": 1}, None, memoryview(GRID)]),
        ("csv", "a table or an array of up to two dimensions", [{"a": 1}, [1, 2], None, array.array("i", [1])]),
        ("parquet", "a table", [ROWS, None, memoryview(GRID)]),
        ("arrow", "a table", [ROWS, {"a": 1}]),
        ("npy", "an array", [[1.0], {"a": GRID}, memoryview(GRID)]),
        ("npz", "an array or a dict of arrays", [[GRID], None, memoryview(GRID)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_ending_does_not_take_is_a_failure_that_says_what_it_takes(
    tmp_path: Path, ending: str, takes: str, not_taken: list[Any]
) -> None:
    for data in not_taken:
        reason = refused(tmp_path, f"a.{ending}", data)
        assert reason.startswith(f"a .{ending} file takes {takes}, or bytes and text, not ")


def test_a_row_that_is_no_dict_is_named(tmp_path: Path) -> None:
    assert "row 1 (counted from 0) is a list, not a dict" in refused(tmp_path, "a.jsonl", [{}, [1]])


def test_what_gives_itself_as_an_array_is_one(tmp_path: Path) -> None:
    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> Any:
            return GRID

    assert numpy.load(io.BytesIO(saved_bytes(tmp_path, "a.npy", Tensor()))).tolist() == GRID.tolist()
    assert saved_bytes(tmp_path, "a.csv", Tensor()) == b"0.0,1.0,2.0\n3.0,4.0,5.0\n"
    with numpy.load(io.BytesIO(saved_bytes(tmp_path, "a.npz", Tensor()))) as file:
        assert file["arr_0"].tolist() == GRID.tolist()


def test_a_column_alone_is_no_table_and_the_reason_says_what_to_do(tmp_path: Path) -> None:
    for column in (polars.Series([1, 2]), pyarrow.array([1, 2]), pyarrow.chunked_array([[1], [2]])):
        for ending in ("csv", "parquet", "npy"):
            assert "make them a column" in refused(tmp_path, f"a.{ending}", column)


def test_a_null_row_of_a_table_is_refused_however_it_is_given(tmp_path: Path) -> None:
    rows = pyarrow.StructArray.from_arrays([pyarrow.array([1, 2])], ["x"], mask=pyarrow.array([False, True]))
    for given in (rows, pyarrow.chunked_array([rows]), polars.Series(rows)):
        for ending in ("csv", "parquet", "jsonl", "arrow"):
            assert "a row of a table cannot be null" in refused(tmp_path, f"a.{ending}", given)


def _make(number: int) -> object:
    return [{"n": number}, {"n": [number]}, numpy.full(3, number)][number % 3]


def test_generate_writes_by_the_ending_too(tmp_path: Path) -> None:
    report = package.generate(_make, range(0, 30, 3), tmp_path / "json", name="{}.json", workers=1, on_error="record")
    assert report.ok, report.failures
    assert json.loads((tmp_path / "json/27.json").read_bytes()) == [{"n": 27}][0]
    report = package.generate(_make, range(2, 30, 3), tmp_path / "npz", name="{}.npz", workers=1, on_error="record")
    assert report.ok, report.failures
    with numpy.load(tmp_path / "npz/29.npz") as file:
        assert file["arr_0"].tolist() == [29] * 3
    report = package.generate(_make, range(3), tmp_path / "csv", name="{}.csv", workers=1, on_error="record")
    assert (report.written, report.failed) == (1, 2)
    assert "takes a table or an array" in report.failures[0].reason
