"""Conditions mean what Python's mean, and sums are those of `math.fsum`: whole numbers are exact, beside floats too."""

from __future__ import annotations

import decimal
import fractions
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest

import shoal as package

FORMAT = "<qQIdf"
NAMES = ["a", "b", "c", "x", "y"]
WHOLE = [0, 1, -1, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**60 + 1, 2**63 - 1, -(2**63), -(2**53) - 1, 10**17]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.5, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e300, 0.1, 1e17]
FLOATS += [math.nan, math.inf, -math.inf]


def rows_of(chance: random.Random, count: int) -> list[tuple[int, int, int, float, float]]:
    def row() -> tuple[int, int, int, float, float]:
        single = struct.unpack("<f", struct.pack("<f", chance.choice(FLOATS[:10])))[0]
        whole = chance.choice([*WHOLE, chance.randrange(-(2**63), 2**63)])
        return (
            whole,
            chance.choice([abs(whole), chance.randrange(2**64)]),
            chance.randrange(2**32),
            chance.choice([*FLOATS, float(whole), whole * 0.5]),
            single,
        )

    return [row() for _ in range(count)]


class Condition:
    """Makes random conditions, as text that shoal and Python read alike."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def whole(self, depth: int) -> str:
        kind = self.chance.randrange(6 if depth else 2)
        if kind == 0:
            return self.chance.choice("abc")
        if kind == 1:
            return str(self.chance.choice([*WHOLE, self.chance.randrange(100)])).replace("-", "- ")
        if kind == 5:
            return f"(-{self.whole(0)})"
        factor = "2" if kind == 4 else self.whole(depth - 1)
        return f"({self.whole(depth - 1)} {'+-*'[kind - 2]} {factor})"

    def double(self, depth: int) -> str:
        kind = self.chance.randrange(6 if depth else 2)
        if kind == 0:
            return self.chance.choice("xy")
        if kind == 1:
            return repr(abs(self.chance.choice(FLOATS[:13])))
        if kind == 5:
            return f"(-{self.double(0)})"
        sides = [
            self.double(depth - 1),
            self.whole(depth - 1) if self.chance.random() < 0.7 else self.double(depth - 1),
        ]
        self.chance.shuffle(sides)
        return f"({sides[0]} {'+-*'[kind - 2]} {sides[1]})"

    def __call__(self) -> str:
        sides = [self.double(2), self.whole(2) if self.chance.random() < 0.7 else self.double(2)]
        self.chance.shuffle(sides)
        if self.chance.randrange(8) == 0:
            items = [repr(abs(self.chance.choice([*WHOLE, *FLOATS[:13]]))) for _ in range(3)]
            return f"{sides[0]} {self.chance.choice(['in', 'not in'])} ({', '.join(items)})"
        comparison = self.chance.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"{sides[0]} {comparison} {sides[1]}"


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_random_conditions_of_whole_numbers_and_floats_hold_as_in_python(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = rows_of(chance, 500)
    (tmp_path / "r").write_bytes(b"".join(struct.pack(FORMAT, *row) for row in rows))
    records = package.Records(tmp_path / "r", FORMAT, names=NAMES)
    condition = Condition(chance)
    tried = 0
    for _ in range(300):
        text = condition()
        try:
            found = records.aggregate("count", where=text)["count"]
        except package.ConfigError as error:
            if "128 bits" not in str(error):
                raise
            continue
        code = compile(text, "condition", "eval")
        wanted = sum(bool(eval(code, {}, dict(zip(NAMES, row, strict=True)))) for row in rows)
        assert found == wanted, f"seed {seed}: {text}"
        tried += 1
    assert tried > 200


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("(end - start) * 1e-9 > 0.5000005", 500),
        ("1e-9 * (end - start) <= 0.500000100", 100),
        ("(end - start) * 0.001 < 500000.5", 500),
    ],
)
def test_differences_of_large_stamps_are_exact_beside_floats(tmp_path: Path, condition: str, count: int) -> None:
    stamps = [(1_700_000_000_000_000_000 + i, 1_700_000_000_500_000_000 + 2 * i) for i in range(1000)]
    (tmp_path / "r").write_bytes(b"".join(struct.pack("<qq", *pair) for pair in stamps))
    records = package.Records(tmp_path / "r", "<qq", names=["start", "end"])
    exact = sum(eval(condition, {}, {"start": start, "end": end}) for start, end in stamps)
    assert records.aggregate("count", where=condition)["count"] == exact
    assert abs(exact - count) <= 1


NUMBERS = """
    010 1__0 1_ 0_1 00 0_0 0 7 0x_ff 0x__f 0xf_ 0XA_b 0x 0x1_0 0b1_0 0b2 0o_17 0O7 1_000 1_0.5 1_.5 1._5 1.5_0 1e1_0
    1_e1 1e_1 010.5 010e1 00.5 1e . 1. .5 0_ 1.e5 0__0 1e+_1 1e+1_0
"""


@pytest.mark.parametrize("text", NUMBERS.split())
def test_a_number_in_a_condition_is_the_one_that_python_reads_or_none(tmp_path: Path, text: str) -> None:
    try:
        wanted = float(eval(text))
    except SyntaxError:
        wanted = math.nan
    (tmp_path / "r").write_bytes(struct.pack("<d", wanted))
    records = package.Records(tmp_path / "r", "<d", names=["x"])
    if math.isnan(wanted):
        with pytest.raises(package.ConfigError, match="column 6"):
            records.aggregate("count", where=f"x == {text}")
    else:
        assert records.aggregate("count", where=f"x == {text}") == {"count": 1}


def test_a_number_that_no_float_equals_is_no_literal() -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    x = package.col("x")
    exact: list[Any] = [decimal.Decimal("0.5"), fractions.Fraction(1, 2), numpy.float32(0.5), numpy.array(0.5)]
    assert {str(x == value) for value in exact} == {"x == 0.5"}
    assert str(x == numpy.float32(0.1)) == f"x == {float(numpy.float32(0.1))!r}"
    third, large = fractions.Fraction(1, 3), fractions.Fraction(10**400)
    rounded: list[Any] = [decimal.Decimal("0.1"), decimal.Decimal(2**53 + 1), third, large, numpy.array([5]), 1j]
    rounded += [numpy.nextafter(numpy.longdouble(1), 2)]
    for value in rounded:
        with pytest.raises(package.ConfigError, match=r"is not exactly a float|finite|compared with numbers"):
            x == value  # noqa: B015


@pytest.mark.parametrize("values", ["ab", b"ab", bytearray(b"ab"), memoryview(b"ab"), ""])
def test_a_text_is_no_list_of_values(values: Any) -> None:
    with pytest.raises(package.ConfigError, match="takes a list of values"):
        package.col("x").is_in(values)
    assert str(package.col("x").is_in([values])).count('b"') == 1


@pytest.mark.parametrize(
    "values", [[1e16, 1.0, -1e16, 1.0] * 1000, [1e300, 3e-9, -1e300, 0.1, 1e16] * 7, [-0.0], [0.1] * 99_999]
)
@pytest.mark.parametrize("layout", ["<Bd", ">Bd3x"])
def test_sums_of_floats_are_those_of_fsum_with_and_without_groups(
    tmp_path: Path, layout: str, values: list[float]
) -> None:
    (tmp_path / "r").write_bytes(b"".join(struct.pack(layout, 7, value) for value in values))
    records = package.Records(tmp_path / "r", layout, names=["id", "x"])
    total = math.fsum(values)
    for where in (None, "id == 7"):
        found = records.aggregate("sum(x)", "mean(x)", where=where)
        assert found == {"sum(x)": total, "mean(x)": total / len(values)}
        assert list(records.aggregate("sum(x)", "mean(x)", by="id", where=where)) == [(7, *found.values())]
