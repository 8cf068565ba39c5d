"""Random arrays of every Arrow type that PyArrow can make, and the shapes that a column of such an array can have.

Not here: what a saved file must hold (`arrow_values.py`).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

Array = Any  # PyArrow has no types
Make = Callable[[random.Random, int], Array]

TEXTS = [
    "",
    "a",
    "a,b",
    'say "x"',
    "two\nlines",
    "\r",
    "\r\n",
    " ",
    "ünï 🎏",
    "null",
    "NaN",
    "-0.0",
    "x" * 300,
    "\x00",
    "é,",
]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-5, 1e16, 123456789.125, 5e-324, 1e300]
FLOATS += [float("nan"), float("inf"), float("-inf")]
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_799  # seconds: the years 1 to 9999


class Kind(NamedTuple):
    """A type: how to make an array of it, the formats that must refuse it, and those that may refuse an odd value."""

    name: str
    make: Make
    refused: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()


def some(chance: random.Random, count: int, value: Callable[[], Any]) -> list[Any]:
    """Values, some of them null; now and then all of them."""
    nulls = 1.0 if chance.random() < 0.05 else chance.choice([0, 0.2, 0.5])
    return [None if chance.random() < nulls else value() for _ in range(count)]


def of(kind: Any, value: Callable[[random.Random], Any]) -> Make:
    """Arrays of a type by a function that makes one value."""
    return lambda chance, count: pyarrow.array(some(chance, count, lambda: value(chance)), kind)


def whole(low: int, high: int) -> Callable[[random.Random], int]:
    """Whole numbers of all sizes, the limits among them."""

    def value(chance: random.Random) -> int:
        near = [low, high, low + 1, high - 1, 0, 1, 9, 10, 99, 100, 9999, 10_000, 99_999_999, 100_000_000, -1, -10]
        number = chance.choice(near) if chance.random() < 0.4 else chance.randint(-(1 << chance.randrange(64)), 1 << 63)
        return min(max(number, low), high)

    return value


def single(chance: random.Random) -> float:
    value = chance.choice(
        [*FLOATS[:8], *FLOATS[10:], chance.uniform(-1e6, 1e6), chance.random() * 10.0 ** chance.randrange(-40, 38)]
    )
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def double(chance: random.Random) -> float:
    bits = struct.unpack("<d", chance.randbytes(8))[0]
    return float(chance.choice([*FLOATS, bits, bits, chance.uniform(-1e6, 1e6), float(chance.randrange(10**17))]))


def half(chance: random.Random) -> float:
    return float(struct.unpack("<e", chance.randbytes(2))[0])


def text(chance: random.Random) -> str:
    return chance.choice([*TEXTS, str(chance.random()), "long enough to be outside of a view: " + str(chance.random())])


def data(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([0, 1, 5, 12, 13, 40]))


def bytes_of(size: int) -> Callable[[random.Random], bytes]:
    return lambda chance: chance.randbytes(size)


def decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def value(chance: random.Random) -> Decimal:
        digits = str(chance.choice([0, 1, 10**precision - 1, chance.randrange(10 ** chance.randint(1, precision))]))
        return Decimal((chance.randrange(2), tuple(map(int, digits)), -scale))

    return value


def instants(low: int, high: int, per: int) -> Callable[[random.Random], int]:
    """Points in time between two seconds, of which there are `per` units each: some with a fraction, some without."""

    def value(chance: random.Random) -> int:
        return chance.choice(
            [
                0,
                1,
                low * per,
                high * per + per - 1,
                chance.randint(low * per, high * per),
                chance.randint(low, high) * per,
            ]
        )

    return value


def temporal() -> list[Kind]:
    """Dates, times, timestamps, durations; those called `any` go beyond what ISO 8601 or another unit can say."""
    kinds = [
        Kind("date32", of(pyarrow.date32(), lambda chance: chance.randint(FIRST // DAY, LAST // DAY))),
        Kind("date64", of(pyarrow.date64(), lambda chance: chance.randint(FIRST // DAY, LAST // DAY) * DAY * 1000)),
    ]
    text_only, wide = frozenset({"csv", "jsonl"}), frozenset({"csv", "jsonl", "parquet"})
    kinds.append(Kind("date32-any", of(pyarrow.date32(), whole(-(2**31), 2**31 - 1)), may=text_only))
    kinds.append(Kind("date64-any", of(pyarrow.date64(), whole(-(2**63), 2**63 - 1)), may=wide))
    for unit, per in PER_SECOND.items():
        times = (pyarrow.time32 if per <= 1000 else pyarrow.time64)(unit)
        bits = 31 if per <= 1000 else 63
        kinds.append(Kind(f"time-{unit}", of(times, instants(0, DAY - 1, per))))
        kinds.append(Kind(f"time-{unit}-any", of(times, whole(-(2**bits), 2**bits - 1)), may=wide))
        for zone in (None, "UTC", "Europe/Berlin", "America/New_York", "+05:30", "-11:00"):
            # Before 1900 a zone's offset has seconds, and 64 bits of nanoseconds end in 2262.
            low, high = (FIRST, LAST) if zone is None and unit != "ns" else (-2_000_000_000, 9_000_000_000)
            name = f"timestamp-{unit}-{zone}".replace("/", "-")
            kinds.append(Kind(name, of(pyarrow.timestamp(unit, zone), instants(low, high, per))))
        any_value = whole(-(2**63), 2**63 - 1)
        kinds.append(Kind(f"timestamp-{unit}-any", of(pyarrow.timestamp(unit), any_value), may=wide))
        kinds.append(Kind(f"timestamp-{unit}-UTC-any", of(pyarrow.timestamp(unit, "UTC"), any_value), may=wide))
        kinds.append(Kind(f"duration-{unit}", of(pyarrow.duration(unit), whole(-(10**15), 10**15))))
        kinds.append(Kind(f"duration-{unit}-any", of(pyarrow.duration(unit), any_value), may=text_only))
    return kinds


def dictionary(keys: Any, values: Make, null: bool = False) -> Make:
    """Dictionaries with unused and repeated entries, others for every array; `null`: with null entries."""

    def make(chance: random.Random, count: int) -> Array:
        entries = values(chance, chance.randint(1, 6))
        if not null:
            entries = pyarrow.array([entry for entry in entries.to_pylist() if entry is not None], entries.type)
        places = some(chance, count, lambda: chance.randrange(len(entries)) if len(entries) else None)
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(places, keys), entries)

    return make


def runs(ends: Any, values: Make) -> Make:
    def make(chance: random.Random, count: int) -> Array:
        cuts = [*sorted(chance.sample(range(1, count), min(count - 1, 3))), count] if count else []
        return pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array(cuts, ends), values(chance, len(cuts)))

    return make


def union(dense: bool) -> Make:
    def make(chance: random.Random, count: int) -> Array:
        codes = pyarrow.array([chance.randrange(2) for _ in range(count)], pyarrow.int8())
        parts = [
            of(pyarrow.int64(), whole(-(2**63), 2**63 - 1))(chance, count),
            of(pyarrow.string(), text)(chance, count),
        ]
        if not dense:
            return pyarrow.UnionArray.from_sparse(codes, parts)
        places = pyarrow.array(range(count), pyarrow.int32())
        return pyarrow.UnionArray.from_dense(codes, places, parts)

    return make


def extension(kind: Any, values: Make) -> Make:
    return lambda chance, count: pyarrow.ExtensionArray.from_storage(kind, values(chance, count))


def nested(kind: Any, value: Callable[[random.Random], Any], refused: tuple[str, ...] = ()) -> Kind:
    return Kind(str(kind).split("<")[0] + f"-{kind.num_fields}", of(kind, value), frozenset({"csv", *refused}))


def interval(chance: random.Random) -> tuple[int, int, int]:
    return (
        chance.choice([0, 1, -14, 30]),
        chance.choice([0, -2, 400]),
        chance.choice([0, -1, 10**9, 3_723_000_000_001, -(10**15)]),
    )


def flat() -> list[Kind]:
    """Types without parts."""
    kinds = [
        Kind("null", lambda _, count: pyarrow.nulls(count)),
        Kind("bool", of(pyarrow.bool_(), lambda chance: chance.random() < 0.5)),
    ]
    for bits in (8, 16, 32, 64):
        signed, unsigned = getattr(pyarrow, f"int{bits}")(), getattr(pyarrow, f"uint{bits}")()
        kinds.append(Kind(f"int{bits}", of(signed, whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))))
        kinds.append(Kind(f"uint{bits}", of(unsigned, whole(0, 2**bits - 1))))
    kinds += [
        Kind("half", of(pyarrow.float16(), half)),
        Kind("float", of(pyarrow.float32(), single)),
        Kind("double", of(pyarrow.float64(), double)),
    ]
    for bits, precision in ((32, 9), (64, 18), (128, 38), (256, 76)):
        for scale in (0, 2, precision):
            make = of(getattr(pyarrow, f"decimal{bits}")(precision, scale), decimal(precision, scale))
            kinds.append(Kind(f"decimal{bits}-{scale}", make))
    kinds.append(Kind("decimal128-negative", of(pyarrow.decimal128(10, -2), decimal(8, -2)), frozenset({"parquet"})))
    for name, maker in (
        ("utf8", pyarrow.string),
        ("large_utf8", pyarrow.large_string),
        ("utf8_view", pyarrow.string_view),
    ):
        kinds.append(Kind(name, of(maker(), text)))
    for name, maker in (
        ("binary", pyarrow.binary),
        ("large_binary", pyarrow.large_binary),
        ("binary_view", pyarrow.binary_view),
    ):
        kinds.append(Kind(name, of(maker(), data)))
    for size in (1, 3, 16):
        kinds.append(Kind(f"fixed_size_binary-{size}", of(pyarrow.binary(size), bytes_of(size))))
    kinds.append(Kind("interval", of(pyarrow.month_day_nano_interval(), interval), frozenset({"parquet"})))
    return kinds


def compound() -> list[Kind]:
    """Types with parts."""
    number, words = pyarrow.int16(), pyarrow.string()
    numbers = of(number, whole(-99, 99))

    def items(chance: random.Random) -> list[Any]:
        return some(chance, chance.choice([0, 1, 3]), lambda: chance.randint(-99, 99))

    def members(chance: random.Random) -> dict[str, Any]:
        return {"a": chance.choice([None, 1, -1]), "b": chance.choice([None, text(chance)])}

    def pairs(chance: random.Random) -> list[tuple[str, int]]:
        return [(key, chance.randint(0, 9)) for key in chance.sample(["k", "l,", "", "ü"], chance.randrange(4))]

    members_of = pyarrow.struct([("a", number), ("b", words)])
    kinds = [
        nested(maker(number), items)
        for maker in (pyarrow.list_, pyarrow.large_list, pyarrow.list_view, pyarrow.large_list_view)
    ]
    kinds += [
        Kind(
            "fixed_size_list",
            of(pyarrow.list_(number, 2), lambda chance: [chance.choice([None, 1]), 2]),
            frozenset({"csv"}),
        ),
        Kind("struct", of(members_of, members), frozenset({"csv"})),
        Kind("struct-empty", of(pyarrow.struct([]), lambda _: {}), frozenset({"csv", "parquet"})),
        Kind("map", of(pyarrow.map_(words, number), pairs), frozenset({"csv"})),
        Kind(
            "map-of-numbers",
            of(pyarrow.map_(number, words), lambda chance: [(chance.randrange(9), "v")]),
            frozenset({"csv"}),
            may=frozenset({"jsonl"}),
        ),
        Kind("list-of-struct", of(pyarrow.list_(members_of), lambda chance: [members(chance)] * 2), frozenset({"csv"})),
    ]
    kinds += [
        Kind(f"union-{name}", union(name == "dense"), frozenset({"csv", "parquet", "jsonl"}))
        for name in ("dense", "sparse")
    ]
    values: dict[str, Make] = {
        "utf8": of(words, text),
        "large_utf8": of(pyarrow.large_string(), text),
        "utf8_view": of(pyarrow.string_view(), text),
        "binary": of(pyarrow.binary(), data),
        "int64": of(pyarrow.int64(), whole(-(2**63), 2**63 - 1)),
        "double": of(pyarrow.float64(), double),
        "date32": of(pyarrow.date32(), lambda chance: chance.randint(0, 20_000)),
        "decimal128": of(pyarrow.decimal128(20, 3), decimal(20, 3)),
        "timestamp": of(pyarrow.timestamp("us", "UTC"), lambda chance: chance.randint(0, 10**15)),
        "fixed": of(pyarrow.binary(4), lambda chance: chance.randbytes(4)),
        "bool": of(pyarrow.bool_(), lambda chance: chance.random() < 0.5),
    }
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        kinds.append(Kind(f"dictionary-{name}", dictionary(getattr(pyarrow, name)(), values["utf8"])))
    for name in ("int16", "int32", "int64"):
        kinds.append(Kind(f"runs-{name}", runs(getattr(pyarrow, name)(), values["utf8"])))
    for name, make in values.items():
        index = pyarrow.int32()
        kinds.append(Kind(f"dictionary-of-{name}", dictionary(index, make)))
        kinds.append(Kind(f"dictionary-of-{name}-and-null", dictionary(index, make, null=True)))
        kinds.append(Kind(f"runs-of-{name}", runs(index, make)))
    return kinds + extensions(numbers)


class Own(pyarrow.ExtensionType):  # type: ignore[misc,name-defined]  # PyArrow has no types
    """A type of an application."""

    def __init__(self) -> None:
        super().__init__(pyarrow.int16(), "shoal.tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"parameters"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Own:
        return cls()


pyarrow.register_extension_type(Own())


def extensions(numbers: Make) -> list[Kind]:
    text = frozenset({"csv", "jsonl"})
    small = of(pyarrow.int8(), lambda chance: chance.randrange(2))
    pair = of(pyarrow.list_(pyarrow.int16(), 2), lambda _: [1, 2])
    return [
        Kind("uuid", extension(pyarrow.uuid(), of(pyarrow.binary(16), lambda chance: chance.randbytes(16)))),
        Kind(
            "json",
            extension(pyarrow.json_(), of(pyarrow.string(), lambda chance: chance.choice(['{"a": 1}', "[]", "1"]))),
        ),
        Kind("bool8", extension(pyarrow.bool8(), small), text),
        Kind("opaque", extension(pyarrow.opaque(pyarrow.int16(), "t", "v"), numbers), text),
        Kind("tensor", extension(pyarrow.fixed_shape_tensor(pyarrow.int16(), [2]), pair), text),
        Kind("extension-own", extension(Own(), numbers), text),
    ]


KINDS = [*flat(), *temporal(), *compound()]


def in_struct(chance: random.Random, values: Array) -> Array:
    """The values as a field; some rows are null."""
    mask = pyarrow.array([chance.random() < 0.2 for _ in values], pyarrow.bool_())
    return pyarrow.StructArray.from_arrays([values], fields=[pyarrow.field("inner", values.type)], mask=mask)


def in_list(chance: random.Random, values: Array) -> Array:
    """The values as items of lists of some kind: empty ones, null ones, views in any order."""
    cuts = sorted(chance.randint(0, len(values)) for _ in range(5))
    sort = chance.randrange(5)
    if sort == 0 or not len(values):
        return pyarrow.ListArray.from_arrays(pyarrow.array([0, *cuts], pyarrow.int32()), values)
    if sort == 1:
        return pyarrow.LargeListArray.from_arrays(pyarrow.array([0, None, *cuts], pyarrow.int64()), values)
    if sort == 2:
        return pyarrow.FixedSizeListArray.from_arrays(values.slice(0, len(values) // 2 * 2), 2)
    if sort == 3:
        starts = [chance.randrange(len(values)) for _ in range(5)]
        sizes = [chance.randint(0, len(values) - start) for start in starts]
        return pyarrow.ListViewArray.from_arrays(
            pyarrow.array(starts, pyarrow.int32()), pyarrow.array(sizes, pyarrow.int32()), values
        )
    keys = pyarrow.array([str(at) for at in range(len(values))])
    return pyarrow.MapArray.from_arrays(pyarrow.array([0, *cuts], pyarrow.int32()), keys, values)


SHAPES = ("plain", "sliced", "struct", "list", "deep", "chunks", "struct-chunks", "empty", "no-chunks")


def shaped(kind: Kind, shape: str, chance: random.Random, count: int = 12) -> Any:
    """A chunked array of this kind in one of the SHAPES."""
    values = kind.make(chance, 0 if shape == "empty" else count)
    if shape == "chunks":
        return pyarrow.chunked_array([values, *(kind.make(chance, length) for length in (3, 0, 7))], values.type)
    if shape == "struct-chunks":
        return pyarrow.chunked_array([in_struct(chance, kind.make(chance, length)) for length in (4, 0, 6)])
    if shape == "no-chunks":
        return pyarrow.chunked_array([], values.type)
    if shape == "sliced":
        values = values.slice(chance.randrange(1, count), chance.randrange(count))
    if shape in ("struct", "deep"):
        values = in_struct(chance, values)
    if shape in ("list", "deep"):
        values = in_list(chance, values)
    if shape == "deep":
        values = values.slice(chance.randrange(len(values) + 1))
    return pyarrow.chunked_array([values])
