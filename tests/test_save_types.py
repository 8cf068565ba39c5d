"""Types survive: what a format cannot carry is converted without loss, or refused with its column's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from saving import refused, saved

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

DAY = 86_400_000


def columns() -> list[tuple[str, Any, Any, str]]:
    """Name, values, the type that PyArrow reads back, and DuckDB's."""
    seconds, times = pyarrow.timestamp("s"), pyarrow.time32("s")
    milliseconds = pyarrow.timestamp("ms")
    return [
        ("stamp", pyarrow.array([0, None, -(10**9)], seconds), milliseconds, "TIMESTAMP"),
        (
            "zoned",
            pyarrow.array([0, 1, None], pyarrow.timestamp("s", "UTC")),
            pyarrow.timestamp("ms", "UTC"),
            "TIMESTAMP WITH TIME ZONE",
        ),
        ("time", pyarrow.array([0, 86_399, None], times), pyarrow.time32("ms"), "TIME"),
        ("date", pyarrow.array([0, DAY * 20_000, None], pyarrow.date64()), pyarrow.date32(), "DATE"),
        ("list", pyarrow.array([[0, 1], None, []], pyarrow.list_(seconds)), pyarrow.list_(milliseconds), "TIMESTAMP[]"),
        (
            "struct",
            pyarrow.array([{"t": 5}, None, {"t": None}], pyarrow.struct([("t", times)])),
            pyarrow.struct([("t", pyarrow.time32("ms"))]),
            "STRUCT(t TIME)",
        ),
    ]


@pytest.mark.parametrize("column", columns(), ids=lambda column: column[0])
@pytest.mark.parametrize("part", ["whole", "slice", "chunks"])
def test_seconds_and_dates_in_milliseconds_keep_their_meaning_in_parquet(
    tmp_path: Path, column: tuple[str, Any, Any, str], part: str
) -> None:
    name, values, kind, of_duckdb = column
    table = pyarrow.table({name: values})
    table = {"whole": table, "slice": table.slice(1, 2), "chunks": pyarrow.concat_tables([table, table])}[part]
    path = saved(tmp_path, "t.parquet", table)
    read = parquet.read_table(path)
    assert read.schema.field(name).type.equals(kind)
    assert read.to_pydict() == table.to_pydict()
    assert duckdb.sql(f"select typeof({name}) from '{path}'").fetchall()[0] == (of_duckdb,)


def test_what_does_not_fit_into_parquet_is_a_failure_with_its_column(tmp_path: Path) -> None:
    huge = pyarrow.table({"when": pyarrow.array([2**62], pyarrow.timestamp("s"))})
    assert '"when"' in refused(tmp_path, "a.parquet", huge)
    hours = pyarrow.table({"day": pyarrow.array([DAY + 3_600_000], pyarrow.date64())})
    why = refused(tmp_path, "b.parquet", hours)
    assert '"day"' in why
    assert "time of day" in why


def test_records_of_seconds_are_written_to_parquet_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes((5).to_bytes(8, "little") * 3)
    package.Records(tmp_path / "r", pyarrow.schema([("x", pyarrow.timestamp("s"))])).write(tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet").schema.field("x").type == pyarrow.timestamp("ms")


@pytest.mark.parametrize(
    "values",
    [
        pyarrow.array([2**31 - 1], pyarrow.date32()),
        pyarrow.array([2**62], pyarrow.timestamp("s")),
        pyarrow.array([10**6], pyarrow.time32("s")),
        pyarrow.array([-(2**63)], pyarrow.duration("s")),
        pyarrow.array([[2**31 - 1]], pyarrow.list_(pyarrow.date32())),
        pyarrow.array([2**31 - 1], pyarrow.date32()).dictionary_encode(),
    ],
    ids=lambda values: str(values.type).replace("/", "-"),
)
def test_a_time_without_a_text_is_a_failure_and_no_value(tmp_path: Path, values: Any) -> None:
    table = pyarrow.table({"x": values})
    refused(tmp_path, "a.jsonl", table)
    if not pyarrow.types.is_nested(values.type):
        refused(tmp_path, "a.csv", table)


def test_dates_and_times_are_text_in_json_lines(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "d": pyarrow.array([1, None], pyarrow.date32()),
            "t": pyarrow.array([1, None], pyarrow.timestamp("ms")),
            "l": pyarrow.array([[1], []], pyarrow.list_(pyarrow.time32("s"))),
            "f": pyarrow.array([float("nan"), float("-inf")]),
        }
    )
    rows = [json.loads(line) for line in saved(tmp_path, "a.jsonl", table).read_text().splitlines()]
    assert rows == [
        {"d": "1970-01-02", "t": "1970-01-01T00:00:00.001", "l": ["00:00:01"], "f": None},
        {"d": None, "t": None, "l": [], "f": None},
    ]


def test_two_columns_of_one_name_are_refused_in_json_lines(tmp_path: Path) -> None:
    twins = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x"])
    assert '"x"' in refused(tmp_path, "a.jsonl", twins)
    inner = pyarrow.table({"s": pyarrow.StructArray.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["y", "y"])})
    assert '"y"' in refused(tmp_path, "b.jsonl", inner)


def test_a_uuid_is_one_to_other_readers_of_parquet(tmp_path: Path) -> None:
    table = pyarrow.table({"id": pyarrow.array([bytes(16), None, b"0123456789abcdef"], pyarrow.uuid())})
    path = saved(tmp_path, "a.parquet", table)
    assert parquet.read_table(path).equals(table)
    found = duckdb.sql(f"SELECT typeof(id), id::VARCHAR FROM '{path}'").fetchall()
    assert found == [("UUID", str(value) if value else None) for value in table["id"].to_pylist()]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl"])
def test_dictionaries_of_parts_that_have_more_values_together_than_their_keys_count_are_joined(
    tmp_path: Path, ending: str
) -> None:
    words = [f"word {number}" for number in range(300)]
    kind = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    parts = [pyarrow.array(words[at : at + 100]).dictionary_encode().cast(kind) for at in (0, 100, 200)]
    path = saved(tmp_path, f"a.{ending}", pyarrow.table({"word": pyarrow.chunked_array(parts), "n": range(300)}))
    if ending == "parquet":
        assert parquet.read_table(path)["word"].to_pylist() == words
    elif ending == "arrow":
        assert pyarrow.ipc.open_file(path).read_all()["word"].to_pylist() == words
    else:
        lines = path.read_text().splitlines()
        wanted = ["word,n"] * (ending == "csv")
        wanted += [f"{word},{n}" if ending == "csv" else f'{{"word":"{word}","n":{n}}}' for n, word in enumerate(words)]
        assert lines == wanted


def test_keys_that_suffice_keep_their_type(tmp_path: Path) -> None:
    kind = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    parts = [pyarrow.array(list(text)).dictionary_encode().cast(kind) for text in ("abc", "cde")]
    table = pyarrow.table({"letter": pyarrow.chunked_array(parts)})
    found = parquet.read_table(saved(tmp_path, "a.parquet", table))
    assert (found["letter"].type, found["letter"].to_pylist()) == (kind, list("abccde"))


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_a_column_that_polars_gives_in_a_form_of_its_own_is_refused_by_name(tmp_path: Path, ending: str) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    # Of objects it gives their addresses in memory.
    for name, kind, values in [
        ("thing", "Object", [object(), None]),
        ("none", "Null", [None, None]),
        ("wide", "Int128", [2**100, None]),
        ("wide", "UInt128", [2**100, None]),
    ]:
        frame = polars.DataFrame({"n": [1, 2], name: polars.Series(values, dtype=getattr(polars, kind))})
        assert f'column "{name}" has Polars\' type {kind}' in refused(tmp_path, f"{kind}.{ending}", frame)
    saved(tmp_path, f"a.{ending}", polars.DataFrame({"Object": ["Object"], "Null": ["Int128"]}))


@pytest.mark.parametrize("keys", [pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()], ids=str)
def test_a_map_with_a_key_twice_is_refused_in_json_lines(tmp_path: Path, keys: Any) -> None:
    kind = pyarrow.map_(keys, pyarrow.int64())
    for twice in ([[("a", 1), ("a", 2)]], [None, [("b", 1)], [("a", 1), ("b", 1), ("a", 1)]]):
        table = pyarrow.table({"m": pyarrow.array(twice, kind)})
        assert 'the key "a" twice' in refused(tmp_path, "a.jsonl", table)
        assert 'the key "a" twice' in refused(
            tmp_path, "a.jsonl", pyarrow.table({"l": pyarrow.array([twice], pyarrow.list_(kind))})
        )
    path = saved(tmp_path, "b.jsonl", pyarrow.table({"m": pyarrow.array([[("a", 1)], [("a", 2)], None], kind)}))
    assert [json.loads(line)["m"] for line in path.read_text().splitlines()] == [{"a": 1}, {"a": 2}, None]


@pytest.mark.parametrize("values", [[1, None], [None], [None, None], [1, None, 2]])
@pytest.mark.parametrize("header", [True, False])
def test_without_a_final_line_end_a_last_null_is_still_a_line(tmp_path: Path, values: list[Any], header: bool) -> None:
    table = pyarrow.table({"x": pyarrow.array(values, pyarrow.int64())})
    report = package.save([("a.csv", table)], tmp_path / "out", header=header, final_newline=False)
    assert report.ok
    lines = (tmp_path / "out/a.csv").read_text()
    expected = ["x"] * header + ["" if value is None else str(value) for value in values]
    assert lines.splitlines() == expected
    assert lines.endswith("\n") == (values[-1] is None)
