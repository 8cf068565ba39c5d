"""What was handed over is saved as it was then, whatever becomes of the memory that it lay in."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal as package
from trees import tree_of_raw_names

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

COUNT = 50


@pytest.mark.parametrize("result", ["relation", "reader"])
def test_results_of_duckdb_follow_each_other_and_each_has_its_rows(tmp_path: Path, result: str) -> None:
    connection = duckdb.connect()

    def items() -> Iterator[tuple[str, object]]:
        for number in range(COUNT):
            query = f"select {number} as v from range(3)"
            relation = connection.sql(query)
            yield f"{number}.csv", relation if result == "relation" else connection.execute(query).to_arrow_reader()

    report = package.save(items(), tmp_path / "out")
    assert report.ok
    assert tree_of_raw_names(tmp_path / "out") == {
        b"%d.csv" % number: b"v\n" + b"%d\n" % number * 3 for number in range(COUNT)
    }


def test_numpy_scalars_are_saved_with_their_values(tmp_path: Path) -> None:
    def items() -> Iterator[tuple[str, object]]:
        for number in range(COUNT):
            yield f"{number}.csv", numpy.float64(number)
            yield f"{number}.npy", numpy.arange(number, number + 1).sum()

    assert package.save(items(), tmp_path / "out").ok
    for number in range(COUNT):
        assert (tmp_path / f"out/{number}.csv").read_text() == f"{number}.0\n"
        assert numpy.load(tmp_path / f"out/{number}.npy") == number


@pytest.mark.parametrize(
    "table",
    [
        lambda array: pyarrow.table({"x": array}),
        lambda array: polars.DataFrame({"x": array}),
        lambda array: polars.from_numpy(array, schema=["x"]),
        lambda array: pyarrow.RecordBatch.from_arrays([pyarrow.array(array)], names=["x"]),
    ],
    ids=["pyarrow", "polars", "from-numpy", "record-batch"],
)
def test_a_table_over_an_array_that_is_filled_again_is_saved_as_it_was(
    tmp_path: Path, table: Callable[[object], object]
) -> None:
    def items() -> Iterator[tuple[str, object]]:
        array = numpy.zeros(100_000)
        for number in range(20):
            array[:] = number
            yield f"{number}.csv", table(array)

    assert package.save(items(), tmp_path / "out").ok
    for number in range(20):
        assert set((tmp_path / f"out/{number}.csv").read_text().split()) == {"x", f"{number}.0"}


@pytest.mark.parametrize("ending", ["npy", "bin"])
def test_read_only_views_of_what_is_filled_again_are_saved_as_they_were(tmp_path: Path, ending: str) -> None:
    def items() -> Iterator[tuple[str, object]]:
        buffer, array = bytearray(100_000), numpy.zeros(100_000, "u1")
        view = array[:]
        view.flags.writeable = False
        for number in range(COUNT):
            buffer[:] = bytes([number]) * len(buffer)
            array[:] = number
            yield f"view-{number}.bin", memoryview(buffer).toreadonly()
            yield f"array-{number}.{ending}", view

    assert package.save(items(), tmp_path / "out").ok
    for number in range(COUNT):
        assert set((tmp_path / f"out/view-{number}.bin").read_bytes()) == {number}
        saved = tmp_path / f"out/array-{number}.{ending}"
        array = numpy.load(saved) if ending == "npy" else numpy.fromfile(saved, "u1")
        assert set(array.tolist()) == {number}


def test_a_mapped_file_that_is_cut_short_afterwards_is_saved_as_it_was(tmp_path: Path) -> None:
    mapped = tmp_path / "mapped"

    def items() -> Iterator[tuple[str, object]]:
        for number in range(10):
            mapped.write_bytes(bytes([number]) * 500_000)
            with mapped.open("rb") as file:
                yield str(number), mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            mapped.write_bytes(b"")

    assert package.save(items(), tmp_path / "out").ok
    assert tree_of_raw_names(tmp_path / "out") == {b"%d" % number: bytes([number]) * 500_000 for number in range(10)}


def test_masked_arrays_are_refused_whatever_the_ending(tmp_path: Path) -> None:
    masked = numpy.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    report = package.save(
        [(f"a.{ending}", masked) for ending in ("npy", "csv", "bin")], tmp_path / "out", on_error="record"
    )
    assert (report.written, report.failed) == (0, 3)
    assert {failure.kind for failure in report.failures} == {"encoding"}
    assert "mask" in report.failures[0].reason


def test_classes_made_from_an_array_are_saved_as_the_array_that_they_are(tmp_path: Path) -> None:
    matrix = numpy.array([[1, 2], [3, 4]]).view(type("Own", (numpy.ndarray,), {}))
    assert package.save([("a.npy", matrix), ("b.csv", matrix)], tmp_path / "out").ok
    assert (numpy.load(tmp_path / "out/a.npy") == [[1, 2], [3, 4]]).all()
    assert (tmp_path / "out/b.csv").read_text() == "1,2\n3,4\n"


class Odd:
    """Says that it is an array, and is none."""

    __array_interface__ = "nothing"


def test_what_only_says_that_it_is_an_array_is_a_failure_and_the_others_are_saved(tmp_path: Path) -> None:
    report = package.save([("a.npy", Odd()), ("b", b"b")], tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (1, 1)
    assert report.failures[0].kind == "encoding"


BUFFER = numpy.zeros(10_000)


def filled(number: int) -> object:
    """What `generate` is given to call."""
    BUFFER[:] = number
    return pyarrow.table({"x": BUFFER})


def queried(number: int) -> object:
    """The same: a result that ends with the next one of its connection."""
    return duckdb.sql(f"select {number} as v")


def test_what_generate_calls_may_fill_its_memory_again(tmp_path: Path) -> None:
    report = package.generate(filled, range(100), tmp_path / "out", name="{}.csv", workers=1)
    assert report.ok
    for number in range(100):
        assert set((tmp_path / f"out/{number}.csv").read_text().split()) == {"x", f"{number}.0"}
    assert package.generate(queried, range(100), tmp_path / "sql", name="{}.csv", workers=1).ok
    assert tree_of_raw_names(tmp_path / "sql") == {b"%d.csv" % number: b"v\n%d\n" % number for number in range(100)}
