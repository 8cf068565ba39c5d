"""Producers that fill their memory again, close a connection or fail midway: an item is as it was, or a failure.

A random sequence of them goes through one call, and every file is compared. Not here: single producers
(`test_save_owned.py`), types (`test_save_every_type.py`).
"""

from __future__ import annotations

import array
import contextlib
import io
import mmap
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import shoal as package
from trees import tree_of_raw_names

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 100)]


class Made(NamedTuple):
    """What a producer has made: the data, the ending of its name, and what the file must hold or the failure say."""

    data: object
    ending: str
    check: Callable[[bytes], None] | str
    after: Callable[[], object] = lambda: None


def is_bytes(wanted: bytes) -> Callable[[bytes], None]:
    def check(found: bytes) -> None:
        assert found == wanted

    return check


def is_table(ending: str, column: list[Any]) -> Callable[[bytes], None]:
    """The file of a table with one column, x, of these numbers or texts."""

    def check(found: bytes) -> None:
        if ending == "parquet":
            assert pyarrow.parquet.read_table(io.BytesIO(found))["x"].to_pylist() == column
        elif ending == "arrow":
            assert pyarrow.ipc.open_file(found).read_all()["x"].to_pylist() == column
        elif ending == "csv":
            assert found.decode() == "".join(f"{cell}\n" for cell in ["x", *column])
        else:
            texts = [f'"{cell}"' if type(cell) is str else cell for cell in column]
            assert found.decode().split() == [f'{{"x":{text}}}' for text in texts]

    return check


pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
TABLES = ("csv", "parquet", "arrow", "jsonl")


class Producers:
    """Each method makes an item of memory that the next one of the same kind fills again."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.buffer = bytearray(5000)
        self.numbers = numpy.zeros(600, "<i8")
        self.grid = numpy.zeros((30, 20), "<i8")
        self.map = mmap.mmap(-1, 4096)
        self.words = array.array("q", bytes(800))
        self.connection = duckdb.connect()
        self.stream = Again(self)

    def column(self) -> list[int]:
        """Fills the numbers that every table is made of, and says what they are."""
        start, step = self.chance.randrange(-1000, 1000), self.chance.choice([0, 1, -3])
        self.numbers[:] = start + step * numpy.arange(len(self.numbers))
        return [int(number) for number in self.numbers]

    def of_table(self, make: Callable[[], object], column: list[Any]) -> Made:
        ending = self.chance.choice(TABLES)
        return Made(make(), ending, is_table(ending, column))

    def bytearray(self) -> Made:
        self.buffer[:] = self.chance.randbytes(5000)
        return Made(self.buffer, "bin", is_bytes(bytes(self.buffer)))

    def view(self) -> Made:
        self.buffer[:] = self.chance.randbytes(5000)
        view = memoryview(self.buffer)[self.chance.randrange(100) :: self.chance.choice([1, 1, 7, -1])]
        return Made(view.toreadonly() if self.chance.random() < 0.5 else view, "bin", is_bytes(view.tobytes()))

    def mapped(self) -> Made:
        self.map[:] = self.chance.randbytes(4096)
        return Made(self.map, "bin", is_bytes(self.map[:]))

    def words_of_array(self) -> Made:
        for at in range(len(self.words)):
            self.words[at] = self.chance.randrange(2**60)
        return Made(self.words, "bin", is_bytes(self.words.tobytes()))

    def text(self) -> Made:
        text = f"ü {self.chance.random()}"
        return Made(text, "txt", is_bytes(text.encode()))

    def of_numpy(self) -> Made:
        self.grid[:] = self.chance.randrange(-(10**9), 10**9) + numpy.arange(600).reshape(30, 20)
        shown = self.chance.choice([self.grid, self.grid.T, self.grid[::-2], self.grid[:, 3], self.grid[2:3]])
        if self.chance.random() < 0.3:
            shown = shown[...]
            shown.flags.writeable = False
        if self.chance.random() < 0.5:
            file = io.BytesIO()
            numpy.save(file, numpy.array(shown, order="C"))
            return Made(shown, "npy", is_bytes(file.getvalue()))
        rows = shown.tolist() if shown.ndim == 2 else [[cell] for cell in shown.tolist()]
        return Made(shown, "csv", is_bytes("".join(",".join(map(str, row)) + "\n" for row in rows).encode()))

    def pyarrow_over_numpy(self) -> Made:
        column = self.column()
        return self.of_table(lambda: pyarrow.table({"x": pyarrow.array(self.numbers)}), column)

    def slice_over_numpy(self) -> Made:
        column = self.column()
        first, count = self.chance.randrange(600), self.chance.randrange(300)
        table = pyarrow.table({"x": self.numbers}).slice(first, count)
        return self.of_table(lambda: table, column[first : first + count])

    def dictionary_over_numpy(self) -> Made:
        column = self.column()
        indices = pyarrow.array([self.chance.randrange(600) for _ in range(50)], pyarrow.int16())
        values = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(self.numbers))
        return self.of_table(lambda: pyarrow.table({"x": values}), [column[at] for at in indices.to_pylist()])

    def text_over_bytes(self) -> Made:
        # Texts whose bytes are those of a buffer that is filled again, some of them in views.
        words = [str(self.chance.randrange(10**20)).zfill(20) for _ in range(40)]
        self.buffer[:800] = "".join(words).encode()
        ends = pyarrow.array(range(0, 801, 20), pyarrow.int32()).buffers()[1]
        texts = pyarrow.StringArray.from_buffers(40, ends, pyarrow.py_buffer(self.buffer))
        if self.chance.random() < 0.5:
            texts = texts.cast(pyarrow.string_view())
        return self.of_table(lambda: pyarrow.table({"x": texts}), words)

    def batches_over_numpy(self) -> Made:
        column = self.column()
        batch = pyarrow.record_batch({"x": pyarrow.array(self.numbers)})
        return self.of_table(lambda: pyarrow.RecordBatchReader.from_batches(batch.schema, [batch] * 3), column * 3)

    def reader_that_fills_again(self) -> Made:
        # Every batch of one stream lies in the same memory.
        starts = [self.chance.randrange(1000) for _ in range(self.chance.randrange(5))]

        def batches() -> Iterator[Any]:
            for start in starts:
                self.numbers[:] = start
                yield pyarrow.record_batch({"x": pyarrow.array(self.numbers)})

        schema = pyarrow.schema([("x", pyarrow.int64())])
        column = [start for start in starts for _ in range(600)]
        return self.of_table(lambda: pyarrow.RecordBatchReader.from_batches(schema, batches()), column)

    def polars_over_numpy(self) -> Made:
        column = self.column()
        return self.of_table(lambda: polars.from_numpy(self.numbers, schema=["x"]), column)

    def frame_over_numpy(self) -> Made:
        column = self.column()
        frame = polars.DataFrame({"x": self.numbers})
        first = self.chance.randrange(600)
        return self.of_table(lambda: frame.slice(first), column[first:])

    def relation(self) -> Made:
        start, count = self.chance.randrange(1000), self.chance.choice([0, 5, 3000])
        query = f"select {start} + range as x from range({count})"
        column = list(range(start, start + count))
        how = self.chance.choice([self.connection.sql, self.read])
        return self.of_table(lambda: how(query), column)

    def read(self, query: str) -> object:
        return self.connection.execute(query).to_arrow_reader(self.chance.choice([100, 100_000]))

    def closed_connection(self) -> Made:
        connection = duckdb.connect()
        start = self.chance.randrange(1000)
        made = self.of_table(lambda: connection.sql(f"select {start} as x from range(7)"), [start] * 7)
        return made._replace(after=connection.close)

    def relation_over_numpy(self) -> Made:
        # DuckDB reads the array while its result is read.
        column = self.column()
        self.connection.register("seen", pyarrow.table({"x": self.numbers}))
        return self.of_table(lambda: self.connection.sql("select x from seen"), column)

    def exported_again(self) -> Made:
        column = self.column()
        return self.of_table(lambda: self.stream, column)

    def fails_midway(self) -> Made:
        good = self.chance.randrange(4)

        def batches() -> Iterator[Any]:
            for _ in range(good):
                self.numbers[:] = good
                yield pyarrow.record_batch({"x": pyarrow.array(self.numbers)})
            raise ValueError(f"the source broke after {good}")

        schema = pyarrow.schema([("x", pyarrow.int64())])
        reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
        return Made(reader, self.chance.choice(TABLES), f"the source broke after {good}")

    def other_schema_midway(self) -> Made:
        def batches() -> Iterator[Any]:
            yield pyarrow.record_batch({"x": [1]})
            yield pyarrow.record_batch({"y": ["text"]})

        schema = pyarrow.schema([("x", pyarrow.int64())])
        return Made(
            pyarrow.RecordBatchReader.from_batches(schema, batches()), self.chance.choice(TABLES), "C Data interface"
        )

    def cannot_export(self) -> Made:
        return Made(Raising(ValueError("nothing to show")), self.chance.choice(TABLES), "nothing to show")

    def exports_no_capsule(self) -> Made:
        return Made(Raising(None), self.chance.choice(TABLES), "PyCapsule")

    def lies_of_an_array(self) -> Made:
        said: dict[str, Any] = {"version": 3, "shape": (3,), "typestr": "|u1", "data": b"abc"}
        lie: dict[str, Any] = self.chance.choice(
            [{"shape": ("a",)}, {"typestr": "|Z9"}, {"shape": (-3,)}, {"data": None, "typestr": 5}]
        )
        return Made(Saying(said | lie), self.chance.choice(["npy", "csv"]), "cannot be saved")

    def speaks_of_bytes(self) -> Made:
        data = self.chance.randbytes(50)
        said = {"version": 3, "shape": (5, 10), "typestr": "|u1", "data": data}
        file = io.BytesIO()
        numpy.save(file, numpy.frombuffer(data, "u1").reshape(5, 10))
        return Made(Saying(said), "npy", is_bytes(file.getvalue()))

    def masked(self) -> Made:
        return Made(numpy.ma.masked_array([1, 2], [False, True]), self.chance.choice(["npy", "csv", "bin"]), "mask")

    def __call__(self) -> Made:
        made: Made = getattr(self, self.chance.choice(PRODUCERS))()
        return made


PRODUCERS = [
    name for name in vars(Producers) if not name.startswith("__") and name not in ("column", "of_table", "read")
]


class Again:
    """A table that is made anew of the same memory each time that it is exported."""

    def __init__(self, producers: Producers) -> None:
        self.producers = producers

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pyarrow.table({"x": pyarrow.array(self.producers.numbers)}).__arrow_c_stream__(requested_schema)


class Raising:
    """Says that it can be exported, and cannot."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.error is not None:
            raise self.error
        return 7


class Saying:
    """Has only what it says of its memory."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.__array_interface__ = said


def check(directory: Path, checks: dict[str, Callable[[bytes], None] | str], reasons: dict[str, str]) -> None:
    """Compares what a run has left with what each item must have become."""
    found = tree_of_raw_names(directory)
    wrong = []
    for name, wanted in checks.items():
        data = found.pop(name.encode(), None)
        if isinstance(wanted, str):
            if data is not None or wanted not in reasons.get(name, ""):
                wrong.append(f"{name}: {wanted!r} is not why it failed: {reasons.get(name)}")
            continue
        try:
            assert data is not None, reasons.get(name, "neither a file nor a failure")
            wanted(data)
        except AssertionError as error:
            wrong.append(f"{name}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert not found


@pytest.mark.parametrize("seed", [0, 1, 2, *SLOW])
def test_a_mixture_of_producers_is_saved_item_by_item_as_it_was(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    producers = Producers(chance)
    checks: dict[str, Callable[[bytes], None] | str] = {}

    def items() -> Iterator[tuple[str, object]]:
        for number in range(chance.randint(50, 200)):
            producer = chance.choice(PRODUCERS)
            made: Made = getattr(producers, producer)()
            name = f"{number:03}-{producer}.{made.ending}"
            checks[name] = made.check
            yield name, made.data
            made.after()
            with contextlib.suppress(TypeError, ValueError):
                producers.numbers[:] = -1  # once it was handed over
                producers.buffer[:] = bytes(5000)

    options: dict[str, Any] = {"memory": chance.choice(["1MiB", "64MiB"]), "workers": chance.choice(["auto", 1, 3])}
    report = package.save(items(), tmp_path / "out", durability="none", **options, on_error="record")
    (run,) = package.status(tmp_path / "out", failures=None).runs
    assert report.listed == report.written + report.failed == len(checks)
    check(tmp_path / "out", checks, {failure.name: failure.reason for failure in run.failures})


KEPT: dict[str, Producers] = {}


def made_for(number: int, producers: Producers | None = None) -> Made:
    """The item of a number: the same wherever it is made; in `generate`, of memory that its process fills again."""
    producers = producers or KEPT.setdefault("here", Producers(random.Random(0)))
    producers.chance.seed(number)
    return producers()


def produced(number: int) -> object:
    """What `generate` is given to call."""
    return made_for(number).data


@pytest.mark.parametrize("seed", [0, *SLOW[:20]])
def test_a_mixture_of_producers_is_generated_item_by_item_as_it_was(tmp_path: Path, seed: int) -> None:
    chance, producers = random.Random(seed), Producers(random.Random(0))
    # A name has one ending for all: each run takes the ids whose items have it.
    ending = chance.choice(["csv", "parquet", "bin", "npy", "jsonl", "arrow"])
    checks: dict[str, Callable[[bytes], None] | str] = {}
    ids: list[int] = []
    for number in range(seed * 10_000, seed * 10_000 + 300):
        made = made_for(number, producers)
        if made.ending == ending and len(ids) < 60:
            ids.append(number)
            checks[f"{number}.{ending}"] = made.check
    report = package.generate(
        produced,
        ids,
        tmp_path / "out",
        name=f"{{}}.{ending}",
        workers=chance.choice([1, 2]),
        durability="none",
        on_error="record",
    )
    (run,) = package.status(tmp_path / "out", failures=None).runs
    assert report.written + report.failed == len(checks)
    check(tmp_path / "out", checks, {failure.name: failure.reason for failure in run.failures})


def test_a_pipe_of_frames_that_all_fail_leaves_no_file_and_every_reason(tmp_path: Path) -> None:
    def items() -> Iterator[tuple[str, object]]:
        for number in range(200):
            yield f"{number}.parquet", Raising(ValueError(f"reason {number}"))

    report = package.save(items(), tmp_path / "out", durability="none", on_error="record")
    (run,) = package.status(tmp_path / "out", failures=None).runs
    assert (report.written, report.failed, tree_of_raw_names(tmp_path / "out")) == (0, 200, {})
    for failure in run.failures:
        assert failure.reason.endswith(f"reason {failure.name.removesuffix('.parquet')}")
