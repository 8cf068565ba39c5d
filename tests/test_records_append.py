"""`Records.append` keeps every value that it is given, or refuses it and says which field cannot hold it."""

from __future__ import annotations

import collections
import math
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "S3", "S8", "V3", "V8"]
OTHERS = ["f16", "c8", "c16", "U2", "M8[s]", "m8[s]", "O", ("u1", (2,)), [("b", "u1")]]


def edges(dtype: Any) -> Any:
    """The values of a type that are lost first."""
    if dtype.kind in "iu":
        info = numpy.iinfo(dtype)
        return numpy.array([info.min, 0, 1, 2**53 + 1 if info.bits == 64 else 77, info.max, info.max - 1], dtype)
    if dtype.kind == "f":
        info = numpy.finfo(dtype)
        return numpy.array([info.max, info.tiny, -0.0, info.smallest_subnormal, 1 + info.eps, numpy.inf], dtype)
    if dtype.kind in "SV":
        return numpy.array([b"abc", b"a\0b", b"", b"\0\0c"], f"S{dtype.itemsize}").view(dtype)
    return numpy.zeros(4, dtype) if dtype.kind != "b" else numpy.array([True, False])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("given", [*KINDS, *OTHERS], ids=str)
def test_an_array_is_appended_exactly_or_refused_by_the_name_of_its_field(
    tmp_path: Path, given: Any, order: str
) -> None:
    values = edges(numpy.dtype(given))
    array = numpy.zeros(len(values), [("number", "u1"), ("value", given)])
    array["value"] = values
    for at, kind in enumerate(KINDS):
        wanted = numpy.dtype(kind).newbyteorder(order)
        path, layout = tmp_path / f"{at}", numpy.dtype([("number", "u1"), ("value", wanted)])
        same_kind = given == kind or (given[0], kind[0]) in {("S", "S"), ("S", "V"), ("V", "V")}
        try:
            package.Records.append(path, array, layout)
        except package.ConfigError as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert "'value'" in refused
            assert "cast it" in refused
            assert given != kind
            assert not path.exists()
            continue
        stored = package.Records(path, layout).numpy()["value"]
        assert same_kind or (given[0] in "?iuf" and kind[0] in "iuf"), (given, kind)
        if kind[0] in "SV":
            assert [bytes(one)[: values.itemsize] for one in stored.view(f"V{wanted.itemsize}")] == [
                bytes(one) for one in values.view(f"V{values.itemsize}")
            ]
        else:
            assert [one.item() for one in stored] == [one.item() for one in values], (given, kind)


def test_narrower_types_are_appended(tmp_path: Path) -> None:
    for given, kind in (
        ("f4", "f8"),
        ("i4", "f8"),
        ("u2", "u8"),
        ("u1", "i2"),
        ("i2", "f4"),
        ("S3", "S8"),
        ("?", "u1"),
    ):
        array = numpy.zeros(2, [("value", given)])
        assert package.Records.append(tmp_path / "f", array, numpy.dtype([("value", kind)])).records == 2
        (tmp_path / "f").unlink()


def test_floats_are_rounded_once_to_halves_and_singles(tmp_path: Path) -> None:
    chance = random.Random(0)
    for letter, bits, low in (("e", 11, -25), ("f", 24, -150)):
        # Half-way between two of them, and as near to that as a double can be.
        middles = [math.ldexp(chance.randrange(2**bits) + 0.5, chance.randrange(low, 3)) for _ in range(1000)]
        values = [math.nextafter(one, side) for one in middles for side in (-math.inf, one, math.inf)]
        values += [-value for value in values]
        path = tmp_path / letter
        package.Records.append(path, [(value,) for value in values], f"<{letter}")
        assert path.read_bytes() == b"".join(struct.pack(f"<{letter}", value) for value in values)


def test_a_masked_array_is_refused(tmp_path: Path) -> None:
    array = numpy.ma.array(numpy.zeros(2, [("a", "u4")]), mask=[(True,), (False,)])
    with pytest.raises(package.ConfigError, match="filled"):
        package.Records.append(tmp_path / "f", array, array.dtype)


def test_a_field_of_one_character_takes_one_as_struct_does(tmp_path: Path) -> None:
    for text in ("<c", "<Bc", "@c"):
        row = (1, b"") if "B" in text else (b"",)
        with pytest.raises(package.ConfigError, match=r"row 0 .*length 1"):
            package.Records.append(tmp_path / "f", [row], text)
    assert package.Records.append(tmp_path / "f", [(b"",), (b"a",)], "<1s").records == 2
    assert (tmp_path / "f").read_bytes() == b"\0a"


class Sequence:
    def __init__(self, *values: int) -> None:
        self.values = values

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> int:
        return self.values[at]


UNORDERED: list[Any] = [
    {1, 2},
    frozenset({1, 2}),
    {1: 2, 3: 4},
    collections.OrderedDict({1: 2, 3: 4}),
    {1: 2, 3: 4}.keys(),
]
UNORDERED += [collections.UserDict({1: 2, 3: 4}), {1: 2, 3: 4}.values(), iter([1, 2]), "12", Sequence(1), 12]


@pytest.mark.parametrize("row", UNORDERED, ids=[type(row).__name__ for row in UNORDERED])
def test_values_without_an_order_are_no_row(tmp_path: Path, row: object) -> None:
    for layout in ("<II", "<??"):
        with pytest.raises(package.ConfigError, match=r"row 1 .*not a row of values: "):
            package.Records.append(tmp_path / "f", [(1, 2), row], layout)
    assert not (tmp_path / "f").exists()


def test_sequences_of_every_class_are_rows(tmp_path: Path) -> None:
    named = collections.namedtuple("named", "a b")
    rows: list[Any] = [(1, 2), [1, 2], named(1, 2), range(1, 3), collections.deque([1, 2]), Sequence(1, 2)]
    rows += [numpy.array([1, 2]), numpy.array([(1, 2)], "u4,u4")[0]]
    assert package.Records.append(tmp_path / "f", rows, "<II").records == len(rows)
    assert (tmp_path / "f").read_bytes() == struct.pack("<II", 1, 2) * len(rows)


def test_a_table_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    columns = [pyarrow.array([value], pyarrow.uint32()) for value in (1, 2, 3)]
    table = pyarrow.table(columns, names=["a", "b", "a"])
    with pytest.raises(package.ConfigError, match='two columns are called "a"'):
        package.Records.append(tmp_path / "f", table, "<II", names=["a", "b"])
    assert not (tmp_path / "f").exists()
