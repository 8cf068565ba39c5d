"""`Records.write` and `shoal records --to`: table files are what others read them as, and whole or not there."""

from __future__ import annotations

import os
import random
import re
import struct
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Interpreter

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")

NAMES = ("ts", "id", "len")


@pytest.fixture
def records(tmp_path: Path) -> package.Records:
    chance = random.Random(9)
    rows = [(n * 1000, chance.randrange(1000), chance.randrange(1 << 32)) for n in range(200_000)]
    (tmp_path / "f").write_bytes(b"".join(struct.pack("<QII", *row) for row in rows))
    return package.Records(tmp_path / "f", "<QII", names=NAMES)


def read(path: Path, ending: str) -> Any:
    if ending == "npy":
        return pyarrow.table({name: numpy.load(path)[name] for name in numpy.load(path).dtype.names})
    if ending == "arrow":
        return pyarrow.ipc.open_file(path).read_all()
    readers = {"parquet": polars.read_parquet, "csv": polars.read_csv, "jsonl": polars.read_ndjson}
    return readers[ending](path).to_arrow()


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "jsonl", "npy"])
def test_every_format_holds_what_was_chosen_in_its_order(records: package.Records, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    assert records.write(path) == 200_000
    assert read(path, ending).to_pydict() == records.arrow().to_pydict()
    where, columns = "id < 10", ["len", "ts"]
    wanted = records.scan(where, columns=columns, limit=500).arrow()
    other = tmp_path / "without-an-ending"
    assert records.write(other, format=ending, where=where, columns=columns, limit=500, workers=1) == 500  # type: ignore[arg-type]
    assert read(other, ending).to_pydict() == wanted.to_pydict()


def test_compression_is_as_asked(records: package.Records, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    for compression, said in ((None, "SNAPPY"), ("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("none", "UNCOMPRESSED")):
        records.write(tmp_path / "out.parquet", compression=compression)  # type: ignore[arg-type]
        assert parquet.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == said


def test_no_records_are_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for ending in ("parquet", "csv", "arrow", "npy"):
        assert package.Records(tmp_path / "f", "<QII").write(tmp_path / f"out.{ending}") == 0
    assert (tmp_path / "out.csv").read_text() == "f0,f1,f2\n"
    assert len(numpy.load(tmp_path / "out.npy")) == 0


def test_progress_hears_of_records_and_bytes_and_may_end_it(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(16 * 50_000_000)
    records = package.Records(tmp_path / "f", "<QII")
    heard: list[tuple[int, int]] = []

    def progress(rows: int, size: int) -> None:
        heard.append((rows, size))
        if len(heard) == 3:
            raise LookupError("enough")

    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(LookupError, match="enough"):
        records.write(tmp_path / "out.csv", progress=progress)
    assert heard == sorted(heard)
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "out.csv"]


@pytest.mark.parametrize(
    ("path", "arguments", "text"),
    [
        ("out.txt", {}, "does not end in"),
        ("out.csv", {"format": "xml"}, "xml"),
        ("out.csv", {"compression": "zstd"}, "compression does not apply"),
        ("out.parquet", {"compression": "lz4"}, "lz4"),
        ("none/out.csv", {}, "directory"),
        (".", {"format": "csv"}, "write"),
        ("out.csv", {"where": "len >"}, "column"),
        ("out.csv", {"columns": ["nothing"]}, "nothing"),
    ],
)
def test_what_cannot_be_written_is_told_and_nothing_is_left(
    records: package.Records, tmp_path: Path, path: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(package.ConfigError, match=text):
        records.write(tmp_path / path, **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_file_cut_short_meanwhile_leaves_nothing(records: package.Records, tmp_path: Path) -> None:
    os.truncate(tmp_path / "f", 16 * 1000)
    with pytest.raises(package.IntegrityError, match="truncated"):
        records.write(tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.timing
def test_ctrl_c_while_writing_leaves_nothing(interpreter: Interpreter, tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(64 << 30)
    script = """
        import shoal, sys
        records = shoal.Records(sys.argv[1], "<QII")
        print("going", flush=True)
        records.write("out.parquet")
    """
    interpreter.interrupt(script, tmp_path / "f", within=4)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_kill_while_writing_leaves_the_file_that_was_there_and_nothing_that_is_not_hidden(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(64 << 30)
    (tmp_path / "out.csv").write_text("before")
    script = """
        import shoal, sys
        said = []
        def progress(records, size):
            if size and not said:
                said.append(print("going", flush=True))
        shoal.Records(sys.argv[1], "<QII").write("out.csv", progress=progress)
    """
    process = interpreter.start(script, tmp_path / "f")
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    process.kill()
    process.communicate()
    assert (tmp_path / "out.csv").read_text() == "before"
    # Nothing sweeps what a kill leaves where there are no unnamed files.
    for left in {path.name for path in tmp_path.iterdir()} - {"f", "out.csv"}:
        assert re.fullmatch(r"\.out\.csv\.[0-9a-f]{16}\.shoal", left)
    assert package.Records(tmp_path / "f", "<QII")[:3].write(tmp_path / "out.csv") == 3
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


def test_the_command_writes_all_unless_head_says_how_many(shoal: Command, records: package.Records) -> None:
    arguments = ("records", "f", "--format", "<QII", "--names", "ts,id,len")
    done = shoal.run(*arguments, "--where", "id == 7", "--to", "out.csv")
    count = records.aggregate("count", where="id == 7")["count"]
    lines = (shoal.directory / "out.csv").read_text().splitlines()
    assert (done.returncode, len(lines), lines[0]) == (0, count + 1 if count else 0, "ts,id,len")
    assert done.stderr.startswith(f"wrote {count} records, ")
    done = shoal.run(*arguments, "--to", "out.npy", "--head", "3", "--columns", "len", "--json")
    assert shoal.last_json(done)["records"] == 3
    assert numpy.load(shoal.directory / "out.npy").dtype.names == ("len",)
    assert shoal.run(*arguments, "--to", "out.txt").returncode == 2
    assert shoal.run(*arguments, "--to", "out.csv", "--count").returncode == 2


def test_zeros_at_the_end_of_bytes_are_in_every_file_and_numpy_hides_them(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\0\0b\0\0")
    records = package.Records(tmp_path / "f", "2s", names=["tag"])
    wanted = [b"a\0", b"\0b", b"\0\0"]
    for ending in ("npy", "parquet", "arrow"):
        records.write(tmp_path / f"out.{ending}")
    array = numpy.load(tmp_path / "out.npy")["tag"]
    assert array.tolist() == [b"a", b"\0b", b""]
    assert [bytes(one) for one in array.view("V2")] == wanted
    for ending in ("parquet", "arrow"):
        assert read(tmp_path / f"out.{ending}", ending)["tag"].to_pylist() == wanted
