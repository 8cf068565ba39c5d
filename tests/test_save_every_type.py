"""Every Arrow type in every format: other readers find the same values, or the item is a failure that says why.

There is no third outcome. Not here: arrays of NumPy (`test_save_every_dtype.py`), producers (`test_save_producers.py`).
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from arrow_kinds import KINDS, SHAPES, Kind, shaped
from arrow_values import cells, check_cell, check_json, rows_of_json, values
from saving import all_saved
from trees import tree_of_raw_names

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

FORMATS = ("csv", "parquet", "arrow", "jsonl")
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))]
NESTED = {"struct", "list", "deep", "struct-chunks"}

# What DuckDB does not read as what it is: Parquet has no durations (they are numbers), DuckDB no decimals of more than
# 38 digits (they are floats), and its points in time end sooner; those with a zone have no nanoseconds. It gives UUIDs
# as text.
NOT_IN_DUCKDB = re.compile("uuid|duration.*|decimal256.*|null|.*-any|timestamp-ns-(?!None).*")


def checked(differences: list[str], name: str, check: Callable[[], None]) -> None:
    """Notes a difference under a name, so that a run shows all of them."""
    try:
        check()
    except Exception as error:  # noqa: BLE001  # a reader that fails is a difference too
        differences.append(f"{name}: {type(error).__name__} {str(error)[:500]}")


def check_file(path: Path, table: Any) -> None:
    """Compares a file with the table that it was made from, read by others."""
    check = {"csv": check_csv, "jsonl": check_jsonl, "arrow": check_arrow, "parquet": check_parquet}
    check[path.suffix[1:]](path, table)


def check_csv(path: Path, table: Any) -> None:
    text = path.read_bytes().decode()
    rows = cells(text)
    if len(table.column_names) > 1:
        read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        assert read == [[cell or "" for cell in row] for row in rows]
    assert rows.pop(0) == table.column_names
    assert len(rows) == len(table)
    for at, column in enumerate(table.columns):
        for scalar, row in zip(column, rows, strict=True):
            check_cell(scalar, row[at])


def check_jsonl(path: Path, table: Any) -> None:
    rows = rows_of_json(path.read_bytes().decode())
    assert len(rows) == len(table)
    assert all(list(row) == table.column_names for row in rows)
    for name in table.column_names:
        for scalar, row in zip(table.column(name), rows, strict=True):
            check_json(scalar, row[name])


def check_arrow(path: Path, table: Any) -> None:
    with pyarrow.ipc.open_file(path) as file:
        read = file.read_all()
    read.validate()
    assert read.schema.equals(table.schema)
    assert [values(column) for column in read.columns] == [values(column) for column in table.columns]


def check_parquet(path: Path, table: Any) -> None:
    with parquet.ParquetFile(path) as file:
        read = file.read()
    assert read.column_names == table.column_names
    for ours, theirs in zip(read.columns, table.columns, strict=True):
        assert values(ours) == values(theirs)
    wanted = of_pyarrow(table.schema)
    assert wanted is None or read.schema.types == wanted.types


def of_pyarrow(schema: Any) -> Any:
    """The columns that PyArrow finds in a Parquet file of its own; none if it cannot write one."""
    file = io.BytesIO()
    try:
        parquet.write_table(schema.empty_table(), file)
    except NotImplementedError:
        return None
    return parquet.read_schema(file)


def loose(value: Any) -> Any:
    """A value without what DuckDB has no word for: the names of zones."""
    if isinstance(value, list | tuple):
        if value[:1] == ("instant",):
            return ("instant", value[1], value[2] is not None)
        return type(value)(map(loose, value))
    return value


def in_duckdb(kind: Kind) -> bool:
    return NOT_IN_DUCKDB.fullmatch(kind.name) is None


def check_duckdb(path: Path, table: Any) -> None:
    """Compares a Parquet file as DuckDB reads it."""
    columns = duckdb.execute("select * from read_parquet(?)", [str(path)]).to_arrow_table().columns
    for read, wanted in zip(columns, table.columns, strict=True):
        assert loose(values(read)) == loose(values(wanted))


def of_format(kind: Kind, shape: str, ending: str, rows: int) -> str:
    """What must become of a file: `saved`, `refused` or `either`."""
    if ending == "csv" and shape in NESTED:
        return "refused"
    if ending in kind.refused:
        return "refused" if rows else "either"
    # A list may be a map, whose keys are text, and of those that are not JSON has none.
    return "either" if ending in kind.may else "saved"


def judge(path: Path, table: Any, why: str | None, wanted: str) -> None:
    """Compares an outcome: a file with what it must hold, or the words of a failure."""
    if why is None:
        assert wanted != "refused", f"{path} is no failure"
        check_file(path, table)
    else:
        assert wanted != "saved", (str(path), why)
        assert '"odd one"' in why, why


GROUP = 16  # kinds to a run, whose beginning and end take longer than its files


@pytest.mark.parametrize("first", range(0, len(KINDS), GROUP), ids=lambda first: KINDS[first].name)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_of_every_type_is_saved_as_it_is_or_refused_by_name(tmp_path: Path, first: int, seed: int) -> None:
    chance = random.Random(f"{first} {seed}")
    tables: dict[str, Any] = {}
    kinds = {kind.name: kind for kind in KINDS[first : first + GROUP]}
    for kind in kinds.values():
        for shape in chance.sample(SHAPES, 3):
            column = shaped(kind, shape, chance)
            table = pyarrow.table({"row": pyarrow.array(range(len(column)), pyarrow.int32()), "odd one": column})
            tables |= {f"{kind.name}/{shape}.{ending}": table for ending in FORMATS}
    refused = all_saved(tmp_path / "out", tables)
    differences: list[str] = []
    for name, table in tables.items():
        path = tmp_path / "out" / name
        kind, shape, ending = kinds[path.parent.name], path.stem, path.suffix[1:]
        wanted = of_format(kind, shape, ending, len(table))
        checked(differences, name, partial(judge, path, table, refused.get(name), wanted))
        if ending == "parquet" and name not in refused and in_duckdb(kind):
            checked(differences, f"{name} by DuckDB", partial(check_duckdb, path, table))
    assert not differences, "\n".join(differences)


NAMES = [
    "",
    " ",
    "x",
    "a,b",
    'say "x"',
    "two\nlines",
    "\r",
    "ünï 🎏",
    "\u202e",
    "tab\t",
    "'",
    "x" * 200,
    "null",
    "1",
    "é",
]
PARTS = ("plain", "sliced", "chunks", "empty", "no-chunks")


def cut(columns: list[Any], chance: random.Random) -> Any:
    """Columns of one length, in the chunks that they have."""
    rows = min(map(len, columns))
    names = chance.sample(NAMES, len(columns))
    return pyarrow.table([column.slice(len(column) - rows) for column in columns], names=names)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 200))])
def test_tables_of_many_types_with_odd_names_are_saved_as_they_are(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    tables: dict[str, Any] = {}
    for ending in FORMATS:
        usual = [kind for kind in KINDS if ending not in kind.refused | kind.may]
        for number in range(4):
            kinds = chance.choices(usual, k=chance.randint(1, 8))
            shapes = chance.choices(PARTS if ending == "csv" else SHAPES, k=len(kinds))
            if chance.random() < 0.7:  # else one without rows makes all so
                shapes = [chance.choice(("plain", "chunks")) for _ in kinds]
            columns = [shaped(kind, shape, chance) for kind, shape in zip(kinds, shapes, strict=True)]
            tables[f"{number}.{ending}"] = cut(columns, chance)
    assert all_saved(tmp_path / "out", tables) == {}
    for name, table in tables.items():
        check_file(tmp_path / "out" / name, table)


def test_a_refusal_names_a_column_whatever_its_name_is(tmp_path: Path) -> None:
    tables = {f"{at}.csv": pyarrow.table([[1], [[1]]], names=["other", name]) for at, name in enumerate(NAMES)}
    refused = all_saved(tmp_path / "out", tables)
    for at, name in enumerate(NAMES):
        words = refused[f"{at}.csv"]
        assert words.isprintable()
        assert 'column "' + re.split(r'["\n\r\t\u202e]', name)[0][:100] in words
        assert '"other"' not in words


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_columns_of_one_name_are_all_saved(tmp_path: Path, ending: str) -> None:
    table = pyarrow.table([[1, 2], ["a", None], [0.5, 1.5]], names=["x", "x", "x"])
    assert all_saved(tmp_path / "out", {f"a.{ending}": table}) == {}
    check_file(tmp_path / f"out/a.{ending}", table)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_text_without_header_or_final_newline_is_the_same_but_for_these(tmp_path: Path, ending: str) -> None:
    chance = random.Random(ending)
    usual = [kind for kind in KINDS if ending not in kind.refused | kind.may]
    tables = {
        f"{kind.name}-{shape}.{ending}": pyarrow.table({"x": shaped(kind, shape, chance)})
        for kind in usual
        for shape in ("plain", "empty")
    }
    package.save(tables.items(), tmp_path / "usual", durability="none")
    package.save(tables.items(), tmp_path / "bare", durability="none", header=False, final_newline=False)
    bare = tree_of_raw_names(tmp_path / "bare")
    for name, text in tree_of_raw_names(tmp_path / "usual").items():
        rows = text.removeprefix(b"x\n" if ending == "csv" else b"")
        # The end of an empty line, which is a null, is the line itself.
        assert bare[name] == (rows if rows == b"\n" or rows.endswith(b"\n\n") else rows.removesuffix(b"\n"))


EXPORTS: dict[str, Callable[[Any], Any]] = {
    "reader": lambda table: table.to_reader(),
    "batch": lambda table: table.to_batches()[0],
    "stream": lambda table: Stream(table),
}


@pytest.mark.parametrize("export", EXPORTS)
def test_every_type_is_saved_alike_however_it_is_exported(tmp_path: Path, export: str) -> None:
    chance = random.Random(export)
    exported, tables = {}, {}
    for kind in chance.sample(KINDS, 60):
        table = pyarrow.table({"odd one": shaped(kind, "plain", chance)})
        for ending in {*FORMATS} - (kind.refused | kind.may):
            exported[f"{kind.name}.{ending}"] = EXPORTS[export](table)
            tables[f"{kind.name}.{ending}"] = table
    assert all_saved(tmp_path / "out", exported) == {}
    differences: list[str] = []
    for name, table in tables.items():
        checked(differences, name, partial(check_file, tmp_path / "out" / name, table))
    assert not differences, "\n".join(differences)


class Stream:
    """Has nothing but the method that exports."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
