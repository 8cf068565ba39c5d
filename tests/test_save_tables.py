"""`shoal.save` of tables and arrays: in the format that the name's ending says, as others read it."""

from __future__ import annotations

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

TABLE = {"id": [1, 2, 3], "text": ["a,b", None, 'say "x"'], "value": [0.5, -1.0, 1e300], "flag": [True, None, False]}
CSV = 'id,text,value,flag\n1,"a,b",0.5,true\n2,,-1.0,\n3,"say ""x""",1e+300,false\n'


def exporters() -> list[Any]:
    table = pyarrow.table(TABLE)
    return [table, table.to_batches()[0], table.to_reader(), polars.DataFrame(TABLE)]


@pytest.mark.parametrize("at", range(4), ids=["table", "batch", "reader", "polars"])
def test_a_table_of_any_library_is_written_in_every_format(tmp_path: Path, at: int) -> None:
    def read(kind: str, **options: Any) -> bytes:
        return saved_bytes(tmp_path, f"d/t.{kind}", exporters()[at], overwrite="always", **options)

    assert read("csv").decode() == CSV
    assert read("CSV", header=False, final_newline=False).decode() == CSV.partition("\n")[2][:-1]
    assert polars.read_parquet(io.BytesIO(read("parquet"))).to_dict(as_series=False) == TABLE
    for ending in ("arrow", "feather"):
        assert pyarrow.ipc.open_file(read(ending)).read_all().to_pydict() == TABLE
    for ending in ("jsonl", "ndjson"):
        rows = [json.loads(line) for line in read(ending).splitlines()]
        assert {name: [row.get(name) for row in rows] for name in TABLE} == TABLE
    assert not read("jsonl", final_newline=False).endswith(b"\n")


def test_a_relation_of_duckdb_is_a_table(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    relation = duckdb.sql("SELECT range AS n, 'x' || range AS s FROM range(3)")
    assert saved_bytes(tmp_path, "r.csv", relation) == b"n,s\n0,x0\n1,x1\n2,x2\n"


def test_an_array_is_written_as_npy_and_csv(tmp_path: Path) -> None:
    grid = numpy.arange(12, dtype="<i8").reshape(3, 4)
    for array in (grid, grid.T, grid[::-1, ::2], numpy.asfortranarray(grid), grid.astype(">f4"), grid[0], grid > 3):
        back = numpy.load(io.BytesIO(saved_bytes(tmp_path, "a.npy", array, overwrite="always")))
        assert back.dtype == array.dtype
        assert (back == array).all()
    assert saved_bytes(tmp_path, "a.csv", grid) == b"0,1,2,3\n4,5,6,7\n8,9,10,11\n"
    assert saved_bytes(tmp_path, "b.csv", grid[:, ::-2], final_newline=False) == b"3,1\n7,5\n11,9"
    assert saved_bytes(tmp_path, "c.csv", numpy.array([0.1, numpy.nan])) == b"0.1\nNaN\n"


def test_the_csv_of_an_array_is_that_of_python(tmp_path: Path) -> None:
    for k in (0, 7, 4999):
        array = k + numpy.arange(5000)[:, None] + numpy.arange(10)
        wanted = "\n".join(",".join(str(k + i + j) for j in range(10)) for i in range(5000))
        assert saved_bytes(tmp_path, f"{k}.csv", array, final_newline=False).decode() == wanted
        table = pyarrow.table({str(j): array[:, j] for j in range(10)})
        assert saved_bytes(tmp_path, f"t{k}.csv", table, header=False, final_newline=False).decode() == wanted


def test_an_array_with_another_ending_is_its_bytes(tmp_path: Path) -> None:
    array = numpy.arange(6, dtype="<u2").reshape(2, 3)
    assert saved_bytes(tmp_path, "a.bin", array.T) == array.T.tobytes()
    assert saved_bytes(tmp_path, "b", array) == array.tobytes()


def test_an_array_filled_again_after_it_was_handed_over_is_saved_as_it_was(tmp_path: Path) -> None:
    def items() -> Any:
        array = numpy.zeros(1000, dtype="<i4")
        for n in range(300):
            array[:] = n
            yield f"{n}.npy", array

    assert package.save(items(), tmp_path / "out", durability="none").written == 300
    for n in range(300):
        assert (numpy.load(tmp_path / f"out/{n}.npy") == n).all()


def test_bytes_and_text_are_saved_as_they_are_whatever_the_name_says(tmp_path: Path) -> None:
    assert saved_bytes(tmp_path, "a.csv", b"\x00raw") == b"\x00raw"
    assert saved_bytes(tmp_path, "b.parquet", "text") == b"text"
    assert saved_bytes(tmp_path, "c.npy", bytearray(b"buffer")) == b"buffer"


def test_what_a_format_cannot_hold_is_a_failure_that_says_what_to_do(tmp_path: Path) -> None:
    table = pyarrow.table({"nested": [[1], [2]]})
    assert "nested" in refused(tmp_path / "1", "t.csv", table)
    assert ".parquet" in refused(tmp_path / "2", "t.txt", table)
    assert "array" in refused(tmp_path / "3", "t.npy", table)
    assert "table" in refused(tmp_path / "4", "a.parquet", numpy.arange(3))
    assert "table" in refused(tmp_path / "5", "a.jsonl", numpy.arange(3))
    assert "dimensions" in refused(tmp_path / "6", "a.csv", numpy.zeros((2, 2, 2)))
    assert "O" in refused(tmp_path / "7", "a.npy", numpy.array([object()]))
    assert "not a table" in refused(tmp_path / "8", "a.csv", pyarrow.array([1, 2]))


def test_a_table_that_breaks_off_is_a_failure_and_the_others_are_saved(tmp_path: Path) -> None:
    def batches() -> Any:
        yield pyarrow.record_batch({"n": [1]})
        raise ValueError("the source is gone")

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"n": pyarrow.int64()}), batches())
    assert "the source is gone" in refused(tmp_path, "t.csv", reader)


def test_thousands_of_tables_are_saved(tmp_path: Path) -> None:
    frames = ((f"{n % 10}/{n:04}.parquet", polars.DataFrame({"n": range(n)})) for n in range(1000))
    report = package.save(frames, tmp_path / "out", durability="none", on_error="record")
    assert (report.written, report.failed) == (1000, 0)
    assert polars.read_parquet(tmp_path / "out/7/0997.parquet")["n"].to_list() == list(range(997))
