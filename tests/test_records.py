"""`shoal.Records`: formats, views, slices, files; what comes out is what `struct` and NumPy say."""

from __future__ import annotations

import itertools
import math
import os
import pathlib
import pickle
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Sequence

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

FORMAT = "<QII"
NAMES = ("ts", "id", "len")
DTYPE = numpy.dtype([("ts", "<u8"), ("id", "<u4"), ("len", "<u4")])


def index(path: pathlib.Path, count: int, seed: int = 6) -> list[tuple[int, int, int]]:
    """Writes records of FORMAT."""
    chance = random.Random(seed)
    rows = [(n * 1000, chance.randrange(50), chance.randrange(1 << 32)) for n in range(count)]
    path.write_bytes(b"".join(struct.pack(FORMAT, *row) for row in rows))
    return rows


LETTERS = "cbB?hHiIlLqQefd"
ITEMS = st.one_of(
    st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from(LETTERS)),
    st.tuples(st.sampled_from([None, 1, 3, 16]), st.sampled_from("sx")),
)


@st.composite
def formats(draw: st.DrawFn) -> str:
    order = draw(st.sampled_from(["", "@", "=", "<", ">", "!"]))
    items = draw(st.lists(ITEMS, min_size=1, max_size=8))
    if order in ("", "@"):
        items += draw(st.lists(st.tuples(st.none(), st.sampled_from("nNP")), max_size=2))
    return order + "".join(f"{count or ''}{letter}" for count, letter in items)


def same(one: object, other: object) -> bool:
    """Equal, or both NaN; and of the same type."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and one == other


def all_same(one: Sequence[Sequence[object]], other: Sequence[Sequence[object]]) -> bool:
    return len(one) == len(other) and all(
        len(left) == len(right) and all(map(same, left, right)) for left, right in zip(one, other, strict=True)
    )


@settings(max_examples=150, deadline=None)
@given(formats(), st.integers(0, 40), st.randoms(use_true_random=False))
def test_any_format_reads_as_struct_does_in_every_view(
    tmp_path_factory: pytest.TempPathFactory, text: str, count: int, chance: random.Random
) -> None:
    size = struct.calcsize(text)
    data = chance.randbytes(size * count)
    path = tmp_path_factory.mktemp("any") / "f"
    path.write_bytes(data)
    wanted = list(struct.iter_unpack(text, data))

    records = package.Records(path, text)
    assert (len(records), records.record_size, records.format) == (count, size, text)
    assert all_same(list(records), wanted)
    assert list(records.raw()) == [data[at : at + size] for at in range(0, len(data), size)]
    assert all_same([records[at] for at in range(-count, count)], wanted + wanted)
    array = records.numpy()
    assert (array.tobytes(), array.dtype.itemsize) == (data, size)
    fields = len(records.names)
    rows = [row for batch in records.scan(batch_size=7) for row in batch.rows()]
    assert all_same(rows, wanted if fields else [()] * count)
    # NumPy does not show zeros at the end of bytes; comparing packed values does not show the payload of a NaN.
    columns = [
        [value for arrays in records.columns(batch_size=7) for value in arrays[at].tolist()] for at in range(fields)
    ]
    for at, column in enumerate(columns):
        expected = [row[at].rstrip(b"\0") if isinstance(row[at], bytes) else row[at] for row in wanted]
        assert all_same([column], [expected])


@settings(max_examples=60, deadline=None)
@given(formats(), st.integers(1, 20), st.randoms(use_true_random=False))
def test_what_is_appended_as_tuples_is_what_struct_packs(
    tmp_path_factory: pytest.TempPathFactory, text: str, count: int, chance: random.Random
) -> None:
    rows = list(struct.iter_unpack(text, chance.randbytes(struct.calcsize(text) * count)))
    path = tmp_path_factory.mktemp("append") / "f"
    assert package.Records.append(path, rows, text).records == count
    packed = b"".join(struct.pack(text, *row) for row in rows)
    assert all_same(list(package.Records(path, text)), list(struct.iter_unpack(text, packed)))


def test_numpy_and_arrow_have_the_same_values(tmp_path: pathlib.Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    rows = index(tmp_path / "f", 300_000)
    records = package.Records(tmp_path / "f", FORMAT, names=NAMES)

    array = records.numpy()
    assert array.dtype == DTYPE
    assert array.flags.writeable
    assert (array == numpy.fromfile(tmp_path / "f", DTYPE)).all()
    for table in (records.arrow(), pyarrow.table(records), pyarrow.table(records.scan(batch_size=1000))):
        assert table.column_names == list(NAMES)
        assert table.schema == pyarrow.schema(records)
        for name in NAMES:
            assert (table[name].to_numpy() == array[name]).all()
    frame = records.polars()
    assert frame.equals(polars.DataFrame(records))
    assert frame.rows()[:100] == rows[:100]


def test_a_slice_of_a_slice_is_the_records_that_a_list_would_give(tmp_path: pathlib.Path) -> None:
    rows = index(tmp_path / "f", 100)
    records = package.Records(tmp_path / "f", FORMAT)
    chance = random.Random(1)
    ends: list[int | None] = [None, *range(-120, 120)]
    for _ in range(300):
        first, second = (slice(chance.choice(ends), chance.choice(ends)) for _ in range(2))
        part, wanted = records[first][second], rows[first][second]
        assert len(part) == len(wanted)
        assert list(part) == wanted
        assert part.numpy().tolist() == wanted
        assert part.aggregate("count", "sum(f2)") == {"count": len(wanted), "sum(f2)": sum(row[2] for row in wanted)}
        if wanted:
            assert (part[0], part[-1]) == (wanted[0], wanted[-1])
    for wrong in (100, -101, 1 << 70):
        with pytest.raises(IndexError, match="there are 100"):
            records[wrong]
    with pytest.raises(ValueError, match=r"numpy\(\)\[::2\]"):
        records[::2]
    with pytest.raises(TypeError):
        records["ts"]  # type: ignore[call-overload]


def test_many_files_are_one_table_and_a_glob_is_sorted(tmp_path: pathlib.Path) -> None:
    rows = [index(tmp_path / f"day-{day}.bin", count, day) for day, count in enumerate((5, 0, 700, 1))]
    everything = list(itertools.chain.from_iterable(rows))
    paths = [tmp_path / f"day-{day}.bin" for day in range(4)]
    several: list[Any] = [paths, str(tmp_path / "day-*.bin"), [str(tmp_path / "day-[01].bin"), *paths[2:]]]
    for given_path in several:
        records = package.Records(given_path, FORMAT)
        assert records.paths == list(map(str, paths))
        assert list(records) == everything
        assert records[5:].numpy().tolist() == everything[5:]
        assert records[-1] == everything[-1]
    assert list(package.Records(paths[::-1], FORMAT)) == list(itertools.chain.from_iterable(rows[::-1]))
    with pytest.raises(package.NotFoundError, match="no file matches"):
        package.Records(str(tmp_path / "night-*.bin"), FORMAT)
    # A path object is never a glob.
    index(tmp_path / "[1].bin", 3)
    assert len(package.Records(tmp_path / "[1].bin", FORMAT)) == 3
    with pytest.raises(package.ConfigError):
        package.Records([], FORMAT)


def test_a_header_is_skipped_in_every_file(tmp_path: pathlib.Path) -> None:
    for at in range(2):
        (tmp_path / f"{at}").write_bytes(b"header!" + struct.pack("<HH", at, 7))
    assert list(package.Records([tmp_path / "0", tmp_path / "1"], "<HH", offset=7)) == [(0, 7), (1, 7)]
    with pytest.raises(package.ConfigError, match=r"11 bytes long.*record is 12"):
        package.Records(tmp_path / "0", "<HH", offset=12)
    assert len(package.Records(tmp_path / "0", "<HH", offset=11)) == 0


def test_no_record_and_one_record_work_in_every_view(tmp_path: pathlib.Path) -> None:
    for count in (0, 1):
        rows = index(tmp_path / "f", count)
        records = package.Records(tmp_path / "f", FORMAT, names=NAMES)
        assert list(records) == rows
        assert len(list(records.raw())) == len(list(records.columns())) == len(list(records.scan())) == count
        assert records.numpy().tolist() == rows
        assert records.arrow().num_rows == records.polars().height == count
        assert records.aggregate("count", "sum(len)", "min(len)", "mean(len)") == {
            "count": count,
            "sum(len)": rows[0][2] if count else 0,
            "min(len)": rows[0][2] if count else None,
            "mean(len)": float(rows[0][2]) if count else None,
        }
        groups = records.aggregate("count", by="id")
        assert (len(groups), list(groups)) == (count, [(row[1], 1) for row in rows])
        assert groups.arrow().num_rows == groups.polars().height == len(groups.numpy()["id"]) == count


@pytest.mark.parametrize("size", [1, 3, 65_536, 1_000_003])
def test_records_of_one_byte_and_of_a_million_work(tmp_path: pathlib.Path, size: int) -> None:
    data = random.Random(size).randbytes(size * max(5, 3_000_000 // size))
    (tmp_path / "f").write_bytes(data)
    records = package.Records(tmp_path / "f", f"{size}s")
    wanted = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(records.raw()) == wanted
    assert [record for (record,) in records] == wanted
    assert records.numpy().tobytes() == data
    assert sum(len(batch) for batch in records.scan()) == len(records)


def test_a_torn_end_is_an_error_that_names_the_file_or_is_dropped(tmp_path: pathlib.Path) -> None:
    rows = index(tmp_path / "torn.bin", 10)
    with (tmp_path / "torn.bin").open("ab") as file:
        file.write(b"half")
    with pytest.raises(package.IntegrityError, match=r"torn\.bin.*4 more bytes") as caught:
        package.Records(tmp_path / "torn.bin", FORMAT)
    assert (caught.value.kind, caught.value.name) == ("torn", str(tmp_path / "torn.bin"))
    assert 'tail="drop"' in str(caught.value)
    records = package.Records(tmp_path / "torn.bin", FORMAT, tail="drop")
    assert list(records) == rows
    assert len(records.numpy()) == len(list(records.raw())) == 10


def test_what_is_no_file_of_records_says_so_in_the_packages_own_classes(tmp_path: pathlib.Path) -> None:
    with pytest.raises(package.NotFoundError, match="missing"):
        package.Records(tmp_path / "missing", FORMAT)
    with pytest.raises(FileNotFoundError):
        package.Records(tmp_path / "missing", FORMAT)
    with pytest.raises(package.ConfigError, match="a directory"):
        package.Records(tmp_path, FORMAT)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(package.ConfigError, match="not a regular file"):
        package.Records(tmp_path / "pipe", FORMAT)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "<Z"}, "not a letter"),
    ({"format": ""}, "0 bytes"),
    ({"format": "<"}, "0 bytes"),
    ({"format": "<5p"}, "'p'"),
    ({"format": "<n"}, "native"),
    ({"format": "<I3"}, "ends with a count"),
    ({"format": "99999999s"}, "more than"),
    ({"format": 7}, "must be a struct string"),
    ({"format": "<II", "names": ["a"]}, "2 fields, but 1 names"),
    ({"format": "<II", "names": ["a", "a"]}, "two fields"),
    ({"format": "<II", "names": "a,b"}, r"pass names=\['a', 'b'\]"),
    ({"format": numpy.dtype([("a", "<u4")]), "names": ["b"]}, "its own names"),
    ({"format": numpy.dtype([("a", "<u4", (2,))])}, "one value"),
    ({"format": numpy.dtype([("a", [("b", "<u4")])])}, "one value"),
    ({"format": numpy.dtype([("a", "<M8[s]")])}, "int64"),
    ({"format": numpy.dtype([("a", "O")])}, "dtype"),
    ({"offset": -1}, "offset"),
    ({"offset": 1.5}, "offset"),
    ({"tail": "keep"}, "tail"),
    ({"path": 7}, "path"),
    ({"path": [7]}, "path"),
]


@pytest.mark.parametrize(("change", "text"), WRONG, ids=[f"{change}"[:40] for change, _ in WRONG])
def test_a_wrong_argument_is_a_value_error_that_says_what(
    tmp_path: pathlib.Path, change: dict[str, Any], text: str
) -> None:
    (tmp_path / "f").write_bytes(bytes(64))
    arguments: dict[str, Any] = {"path": tmp_path / "f", "format": "<II"} | change
    with pytest.raises(ValueError, match=text) as caught:
        package.Records(**arguments)
    assert isinstance(caught.value, package.ConfigError)


def test_a_dtype_with_gaps_and_both_byte_orders_reads_as_numpy_does(tmp_path: pathlib.Path) -> None:
    dtype = numpy.dtype(
        {"names": ["b", "a", "s"], "formats": [">u4", "<f8", "S3"], "offsets": [1, 8, 17], "itemsize": 23}
    )
    data = random.Random(3).randbytes(23 * 500)
    (tmp_path / "f").write_bytes(data)
    records = package.Records(tmp_path / "f", dtype)
    wanted = numpy.frombuffer(data, dtype)
    array = records.numpy()
    assert array.dtype is dtype
    assert array.tobytes() == data
    assert records.names == ("b", "a", "s")
    (columns,) = records.columns()
    for name, column in zip(records.names, columns, strict=True):
        assert column.tobytes() == wanted[name].astype(wanted[name].dtype.newbyteorder("=")).tobytes()
    plain = package.Records(tmp_path / "f", numpy.dtype("u1"))
    assert (plain.numpy() == numpy.frombuffer(data, "u1")).all()


def test_an_arrow_schema_is_a_format(tmp_path: pathlib.Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    schema = pyarrow.schema(
        [
            ("when", pyarrow.timestamp("us")),
            ("on", pyarrow.bool_()),
            ("x", pyarrow.float32()),
            ("key", pyarrow.binary(4)),
        ]
    )
    table = pyarrow.table(
        {"when": [1, 2, 3], "on": [True, False, True], "x": [0.5, -1, 2], "key": [b"aaaa", b"b\0\0\0", b"cccc"]},
        schema=pyarrow.schema([field.with_nullable(True) for field in schema]),
    )
    assert package.Records.append(tmp_path / "f", table, schema).records == 3
    records = package.Records(tmp_path / "f", schema)
    assert records.record_size == 8 + 1 + 4 + 4
    assert records.arrow().to_pydict() == table.to_pydict()
    assert list(records) == [(1, True, 0.5, b"aaaa"), (2, False, -1.0, b"b\0\0\0"), (3, True, 2.0, b"cccc")]
    with pytest.raises(package.ConfigError, match="fixed width"):
        package.Records(tmp_path / "f", pyarrow.schema([("text", pyarrow.string())]))


def test_rows_of_every_kind_are_appended(tmp_path: pathlib.Path) -> None:
    path, rows = tmp_path / "f", [(1, 2, 3), (4, 5, 6)]
    append = package.Records.append
    assert append(path, rows, FORMAT).records == 2
    assert append(path, (list(row) for row in rows), FORMAT).records == 2
    data = b"".join(struct.pack(FORMAT, *row) for row in rows)
    for kind in (data, bytearray(data), memoryview(data)):
        assert append(path, kind, FORMAT).records == 2
    array = numpy.array(rows, DTYPE)
    assert append(path, array, FORMAT, names=NAMES).records == 2
    assert append(path, array[::-1][::-1], DTYPE).records == 2
    small = array.astype([("len", ">u2"), ("id", "u1"), ("ts", "<u4")])
    small["len"], small["id"], small["ts"] = array["len"], array["id"], array["ts"]
    assert append(path, small, DTYPE).records == 2
    assert append(path, package.Records(path, FORMAT, names=NAMES)[:2], FORMAT, names=NAMES, durable=True).records == 2
    assert append(path, [], FORMAT).records == 0
    assert list(package.Records(path, FORMAT)) == rows * 9


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(1, 2)], "row 0 .*2 values for 3 fields"),
        ([(1, 2, 3), (1, -1, 3)], "row 1 .*f1"),
        ([(1, 1 << 32, 3)], "f1"),
        ([(1, "x", 3)], "f1"),
        ([7], "not a row"),
        (b"abc", "not a multiple"),
        ("text", "got str"),
        ({(1, 2, 3): 4}, "got dict"),
        (7, "got int"),
        (numpy.zeros(3, "u4"), "fields differ"),
        (numpy.zeros((2, 2), DTYPE), "one dimension"),
        (numpy.zeros(2, [("f0", "<i8"), ("f1", "<u4"), ("f2", "<u4")]), "cast it"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: pathlib.Path, rows: object, text: str
) -> None:
    index(tmp_path / "f", 5)
    before = (tmp_path / "f").read_bytes()
    with pytest.raises(package.ConfigError, match=text):
        package.Records.append(tmp_path / "f", rows, FORMAT)
    assert (tmp_path / "f").read_bytes() == before


def test_bytes_that_are_too_long_and_floats_too_large_are_refused(tmp_path: pathlib.Path) -> None:
    for layout, value in (("2s", b"abc"), ("<f", 1e300), ("<e", 70000.0), ("<d", "x"), ("2s", "ab")):
        with pytest.raises(package.ConfigError, match=r"row 0 .*f0"):
            package.Records.append(tmp_path / "f", [(value,)], layout)
    assert package.Records.append(tmp_path / "f", [(b"a",), (b"",)], "2s").records == 2
    assert (tmp_path / "f").read_bytes() == b"a\0\0\0"


def test_what_iterating_rows_raises_comes_out_and_nothing_is_written(tmp_path: pathlib.Path) -> None:
    def rows() -> Any:
        yield (1, 2, 3)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        package.Records.append(tmp_path / "f", rows(), FORMAT)
    assert not (tmp_path / "f").exists()


def test_follow_sees_appended_records_and_others_see_those_of_their_time(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f"
    rows = index(path, 3)
    follow = package.Records(path, FORMAT, follow=True)
    still = package.Records(path, FORMAT)
    part = follow[1:]
    for more in range(4, 9):
        rows.append((more, more, more))
        with path.open("ab") as file:
            file.write(struct.pack(FORMAT, *rows[-1])[: 7 if more == 8 else None])
    assert len(follow) == 7
    assert list(follow) == follow.numpy().tolist() == rows[:7]
    assert follow[-1] == rows[6]
    assert follow.aggregate("count") == {"count": 7}
    assert (len(still), len(part), len(still.refresh())) == (3, 2, 7)
    os.truncate(path, 16)
    for use in (lambda: len(follow), lambda: list(follow), still.refresh):
        with pytest.raises(package.IntegrityError, match="truncated"):
            use()


def test_a_copy_by_pickle_finds_the_same_records_or_says_that_they_are_gone(tmp_path: pathlib.Path) -> None:
    rows = index(tmp_path / "f", 100)
    for layout, names in ((FORMAT, NAMES), (DTYPE, None)):
        records = package.Records(tmp_path / "f", layout, names=names)
        package.Records.append(tmp_path / "f", [(0, 0, 0)], FORMAT)
        again = pickle.loads(pickle.dumps(records[10:20]))
        assert (list(again), again.names, again.format) == (rows[10:20], NAMES, records.format)
        os.truncate(tmp_path / "f", 16 * 100)
    data = pickle.dumps(package.Records(tmp_path / "f", FORMAT))
    os.truncate(tmp_path / "f", 16)
    with pytest.raises(package.ConfigError, match="had 100 records when this was pickled, and has 1 now"):
        pickle.loads(data)
    records = package.Records(tmp_path / "f", FORMAT)
    for iterator in (iter(records), records.raw(), iter(records.scan())):
        with pytest.raises(TypeError):
            pickle.dumps(iterator)


def test_records_say_what_they_are(tmp_path: pathlib.Path) -> None:
    index(tmp_path / "f", 2)
    records = package.Records(tmp_path / "f", FORMAT, names=NAMES)
    for part in ("f'", repr(FORMAT), "'len'", "len=2"):
        assert part in repr(records)
    assert "'ts'" in repr(records.scan())
    assert "len=" in repr(records.aggregate("count", by="id"))
