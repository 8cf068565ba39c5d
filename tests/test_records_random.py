"""Random records: what is appended comes out of every view as `struct` has it, and aggregates are exact.

The seed is the parameter of each test; the large runs are marked `slow`. Random bytes are in `test_records.py`, random
conditions in `test_records_exact.py`.
"""

from __future__ import annotations

import math
import random
import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

FLOATS = {"e": (11, 5), "f": (24, 127), "d": (53, 900)}  # bits of the fraction, largest exponent that is tried
SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 400))]


def value_of(chance: random.Random, kind: str, size: int) -> Any:
    """A value that its field holds exactly, at an edge more often than not."""
    if kind == "s":
        return bytes(chance.choice([0, 0, 32, 97, 255]) for _ in range(size))
    if kind == "c":
        return bytes([chance.choice([0, 97, 255])])
    if kind == "?":
        return chance.random() < 0.5
    if kind in FLOATS:
        bits, most = FLOATS[kind]
        number = math.ldexp(chance.randrange(-(2**bits) + 1, 2**bits), chance.randrange(-most, most) - bits)
        special = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]
        held = struct.unpack(f"<{kind}", struct.pack(f"<{kind}", number))[0]
        return chance.choice(special) if chance.random() < 0.2 else held
    least, most = (-(1 << size * 8 - 1), (1 << size * 8 - 1) - 1) if kind.islower() else (0, (1 << size * 8) - 1)
    return chance.choice([least, most, 0, 1, max(least, -1), most // 2 + 1, chance.randint(least, most)])


def format_of(chance: random.Random, letters: str) -> tuple[str, list[tuple[str, int]]]:
    """A format, padding included, and the kind and size of each field."""
    order = chance.choice("@=<>")
    parts, fields = [], []
    for letter in chance.choices(letters, k=chance.randint(1, 7)):
        if chance.random() < 0.3:
            parts.append(f"{chance.randint(1, 5)}x")
        size = chance.randint(1, 9) if letter == "s" else struct.calcsize(order + letter)
        count = 1 if letter == "s" else chance.randint(1, 2)
        parts.append(f"{size}s" if letter == "s" else f"{count}{letter}")
        fields += [(letter, size)] * count
    return order + "".join([*parts, chance.choice(["", "3x", "0q" if order == "@" else "x"])]), fields


def text_of(rows: Any) -> str:
    """Rows as text, in which NaN equals NaN, and 0.0 differs from -0.0 and 0."""
    return repr([tuple(row) for row in rows])


@pytest.mark.parametrize("seed", SEEDS)
def test_appended_rows_arrays_and_tables_are_what_struct_packs(tmp_path: Path, seed: int) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    chance = random.Random(seed)
    for case in range(20):
        text, fields = format_of(chance, "cbB?hHiIlLqQefds")
        rows = [tuple(value_of(chance, *field) for field in fields) for _ in range(chance.choice([1, 2, 9, 300]))]
        packed = b"".join(struct.pack(text, *row) for row in rows)
        path, wanted = tmp_path / f"{case}", text_of(rows)
        assert package.Records.append(path, iter(rows), text).records == len(rows)
        assert path.read_bytes() == packed, (seed, text)

        records = package.Records(path, text)
        assert text_of(records) == text_of(records[at] for at in range(len(rows))) == wanted, (seed, text)
        batches = [batch.rows() for batch in records.scan(batch_size=7)]
        assert text_of(row for batch in batches for row in batch) == wanted, (seed, text)
        columns = [numpy.concatenate(column) for column in zip(*records.columns(batch_size=7), strict=True)]
        array, table = records.numpy(), records.arrow()
        for at, ((kind, size), name) in enumerate(zip(fields, records.names, strict=True)):
            values = text_of([row[at] for row in rows] for _ in range(1))
            if kind in "cs":  # NumPy does not show zeros at the end
                for one in (columns[at], array[name]):
                    assert text_of([[bytes(value) for value in one.view(f"V{size}")]]) == values, (seed, text)
            else:
                assert text_of([columns[at].tolist()]) == text_of([array[name].tolist()]) == values, (seed, text)
            assert text_of([table[name].to_pylist()]) == values, (seed, text)

        # The rest is NumPy's and Arrow's: a NaN's bits may differ from those of struct.
        again = tmp_path / "again"
        for rows_again in (array, table, pyarrow.table(records.scan(batch_size=7)), packed, records):
            again.unlink(missing_ok=True)
            package.Records.append(again, rows_again, text)
            assert text_of(package.Records(again, text)) == wanted, (seed, text)


def exact(values: list[Any]) -> tuple[Any, Any, Any, Any]:
    """Sum, least, greatest and mean by Python's own exact numbers."""
    total: Any
    if all(isinstance(value, int) for value in values):
        total = sum(values)
    else:
        odd = [value for value in values if not math.isfinite(value)]
        total = sum(odd) if odd else math.fsum(values)
    numbers = [value for value in values if value == value] or values
    if not values:
        return total, None, None, None
    return total, min(numbers), max(numbers), total / len(values)


def close(found: Any, wanted: Any, values: list[Any]) -> bool:
    """Equal; of floats but for one rounding, and what compensation loses where sums cancel."""
    if not isinstance(wanted, float):
        return type(found) is type(wanted) and found == wanted
    if not math.isfinite(wanted):
        return repr(found) == repr(wanted)
    lost = len(values) * 2.0**-104 * math.fsum(abs(value) for value in values if math.isfinite(value))
    return isinstance(found, float) and abs(found - wanted) <= abs(wanted) * 2.0**-51 + lost


@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_are_those_of_exact_numbers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for case in range(3):
        kinds = "bB?hHiIlLqQefd"
        text, fields = format_of(chance, kinds)
        key = chance.choice("bBhHiIqQ?")
        text, fields = f"{text[0]}{key}{text[1:]}", [(key, struct.calcsize("<" + key)), *fields]
        count = chance.choice([0, 1, 15, 17, 300, 3000, 9000])
        pool = [[value_of(chance, *field) for _ in range(chance.choice([1, 3, 50]))] for field in fields]
        rows = [tuple(map(chance.choice, pool)) for _ in range(count)]
        path = tmp_path / f"{case}"
        path.write_bytes(b"".join(struct.pack(text, *row) for row in rows))
        records = package.Records(path, text)
        for where, at, holds in conditions(chance, fields, pool):
            chosen = [row for row in rows if holds(row[at])]
            groups = defaultdict(list)
            for row in chosen:
                groups[int(row[0])].append(row)
            asked = ["count", *(f"{what}(f{n})" for n in range(len(fields)) for what in ("sum", "min", "max", "mean"))]
            shown = (seed, text, count, where)
            workers = chance.randint(1, 3)
            found = list(records.aggregate(*asked, where=where, workers=workers).values())
            check(found, chosen, fields, shown)
            by = list(records.aggregate(*asked, by="f0", where=where, workers=workers))
            assert [int(group[0]) for group in by] == sorted(groups), shown
            for group in by:
                check(list(group[1:]), groups[int(group[0])], fields, (*shown, group[0]))


def conditions(chance: random.Random, fields: list[Any], pool: list[list[Any]]) -> list[Any]:
    """None, and two about a field: as text, its place, and as Python has it."""
    asked: list[Any] = [(None, 0, lambda _: True)]
    for _ in range(2):
        at = chance.randrange(len(fields))
        mark = chance.choice(
            [value for value in pool[at] if not isinstance(value, float) or math.isfinite(value)] or [0]
        )
        sign = chance.choice(["==", "!=", "<", "<=", ">", ">="])
        holds = eval(f"lambda value: value {sign} ({mark!r})")
        asked.append((f"f{at} {sign} {mark!r}", at, holds))
    return asked


def check(found: list[Any], rows: list[Any], fields: list[Any], shown: object) -> None:
    assert found[0] == len(rows), shown
    for at, (kind, _) in enumerate(fields):
        values = [int(row[at]) if kind == "?" else row[at] for row in rows]
        wanted = list(exact(values))
        if kind in FLOATS and not values:
            wanted[0] = 0.0
        for one, other, what in zip(found[1 + 4 * at :], wanted, ["sum", "min", "max", "mean"], strict=False):
            assert close(one, other, values), (*shown, f"{what}(f{at})", one, other)  # type: ignore[misc]
