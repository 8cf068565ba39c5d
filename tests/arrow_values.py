"""What a saved table must hold: values that can be compared across libraries, and readers of text that know the rules.

Nothing here asks shoal, or Arrow how it prints: dates, numbers and quotes are read by rules of their own. Not here: the
arrays (`arrow_kinds.py`).
"""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
types = pyarrow.types

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9  # nanoseconds
DATE = r"(?P<date>\d{4}|-\d{4,}|\+\d{5,})-(?P<month>\d\d)-(?P<day>\d\d)"
TIME = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?P<fraction>\.\d{3}|\.\d{6}|\.\d{9})?"
INSTANT = re.compile(rf"{DATE}T{TIME}(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII)
DURATION = re.compile(r"(?P<sign>-?)P(?:0D|T(?P<s>\d+)(?P<fraction>\.\d+)?S)", re.ASCII)
PARTS = {"mons": (1, 0, 0), "days": (0, 1, 0), "hours": (0, 0, 3600), "mins": (0, 0, 60), "secs": (0, 0, 1)}


class Number(str):
    """A number of a JSON file, as it is written."""

    __slots__ = ()


def stored(scalar: Any) -> Any:
    """The value itself, from below dictionaries, runs and extensions; none if it is null."""
    while scalar is not None and scalar.is_valid:
        kind = scalar.type
        if not (
            isinstance(kind, pyarrow.BaseExtensionType) or types.is_dictionary(kind) or types.is_run_end_encoded(kind)
        ):
            return scalar
        scalar = scalar.value
    return None


def plain(scalar: Any) -> Any:
    """A value that equals another only if both mean the same; a point in time is nanoseconds, whatever its unit."""
    scalar = stored(scalar)
    if scalar is None:
        return None
    kind = scalar.type
    if types.is_union(kind):
        return ("union", scalar.type_code, plain(scalar.value))
    if types.is_map(kind):
        return [(plain(entry[0]), plain(entry[1])) for entry in scalar.values]
    if types.is_struct(kind):
        return tuple(plain(scalar[at]) for at in range(kind.num_fields))
    if types.is_nested(kind):
        return [plain(item) for item in scalar.values]
    if types.is_timestamp(kind):
        return ("instant", scalar.value * NANOSECONDS[kind.unit], kind.tz)
    if types.is_date(kind):
        return ("date", scalar.value if types.is_date32(kind) else Fraction(scalar.value, 86_400_000))
    if types.is_time(kind) or types.is_duration(kind):
        return (str(kind).partition("[")[0].rstrip("0123456789"), scalar.value * NANOSECONDS[kind.unit])
    if types.is_floating(kind):
        return ("float", bits(float(scalar.as_py())))
    value = scalar.as_py()
    return value.tobytes() if isinstance(value, memoryview) else (type(value).__name__, value)


def bits(value: float) -> Any:
    """Tells -0.0 from 0.0, and no NaN from another."""
    return "nan" if value != value else struct.pack("<d", value)


def values(column: Any) -> list[Any]:
    """The values of a column, to be compared."""
    return [plain(scalar) for chunk in column.chunks for scalar in chunk]


def cells(text: str) -> list[list[str | None]]:
    """The rows of a CSV file by RFC 4180; a cell without anything, quotes neither, is none."""
    rows: list[list[str | None]] = []
    row: list[str | None] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while text[end] != '"' or text[end + 1 : end + 2] == '"':
                end += 2 if text[end] == '"' else 1
            row.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
        else:
            found = re.compile(r"[^,\n]*").match(text, at)
            assert found is not None
            assert not set(found.group()) & {'"', "\r"}, f"a cell without quotes holds {found.group()!r}"
            row.append(found.group() or None)
            at = found.end()
        if text[at] == "\n":
            rows.append(row)
            row = []
        else:
            assert text[at] == ",", f"{text[at]!r} follows a cell"
            if text[at + 1 : at + 2] == "\n":  # the last cell of the row is empty
                rows.append([*row, None])
                row = []
                at += 1
        at += 1
    assert not row, "the last row has no end"
    return rows


def rows_of_json(text: str) -> list[dict[str, Any]]:
    """The rows of a JSON lines file: numbers as they are written, and no key twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        assert len(found) == len(pairs), f"a key is there twice: {pairs}"
        return found

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    decoder = json.JSONDecoder(
        object_pairs_hook=members, parse_float=Number, parse_int=Number, parse_constant=refused, strict=True
    )
    lines = text.split("\n")
    assert lines.pop() == "", "the last line has no end"
    return [decoder.decode(line) for line in lines]


def fraction(text: str | None) -> int:
    """The nanoseconds of what follows a second."""
    return int((text or ".0")[1:].ljust(9, "0"))


def instant(text: str) -> tuple[int, int | None]:
    """Nanoseconds since 1970, and the seconds that the zone is ahead, of a date with a time."""
    found = INSTANT.fullmatch(text)
    assert found is not None, f"{text!r} is no date with a time"
    days = int(numpy.datetime64(f"{found['date'].lstrip('+')}-{found['month']}-{found['day']}", "D").astype("i8"))
    clock = int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"])
    ahead = None
    if found["zone"]:
        hours, _, minutes = found["zone"].replace("Z", "+00:00")[1:].partition(":")
        ahead = (int(hours) * 3600 + int(minutes) * 60) * (-1 if found["zone"][0] == "-" else 1)
    return days * DAY + (clock - (ahead or 0)) * 10**9 + fraction(found["fraction"]), ahead


def check_text(scalar: Any, text: str) -> None:
    """Compares a value that is text in CSV and JSON lines alike."""
    kind = scalar.type
    if types.is_timestamp(kind):
        at, ahead = instant(text)
        assert at == scalar.value * NANOSECONDS[kind.unit], text
        assert (ahead is None) == (not kind.tz), text
        if kind.tz and "/" in kind.tz and 0 < at < 2 * 10**18:
            zone = zoneinfo.ZoneInfo(kind.tz)
            offset = dt.datetime.fromtimestamp(at // 10**9, zone).utcoffset()
            assert offset == dt.timedelta(seconds=ahead or 0), text
    elif types.is_date32(kind):
        assert instant(text + "T00:00:00") == (scalar.value * DAY, None), text
    elif types.is_date64(kind):
        assert instant(text) == (scalar.value * 10**6, None), text
    elif types.is_time(kind):
        assert instant("1970-01-01T" + text) == (scalar.value * NANOSECONDS[kind.unit], None), text
    elif types.is_duration(kind):
        found = DURATION.fullmatch(text)
        assert found is not None, f"{text!r} is no duration"
        length = int(found["s"] or 0) * 10**9 + fraction(found["fraction"])
        assert (-length if found["sign"] else length) == scalar.value * NANOSECONDS[kind.unit], text
    elif types.is_interval(kind):
        words = text.split()
        named = [(Fraction(count), PARTS[name]) for count, name in zip(words[::2], words[1::2], strict=True)]
        months, days, seconds = (sum(count * part[at] for count, part in named) for at in range(3))
        assert (months, days, seconds * 10**9) == tuple(scalar.as_py()), text
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        assert text == scalar.as_py()
    else:
        assert text == bytes(scalar.as_py()).hex()


def check_number(scalar: Any, text: str, exact: bool) -> None:
    """Compares a number; `exact`: a float is written as Python's `repr` does."""
    kind = scalar.type
    value = scalar.as_py()
    if types.is_floating(kind):
        read = float(text) if types.is_float64(kind) else float(numpy.float32(text))
        assert bits(read) == bits(float(value)), (text, value)
        shortest = value if types.is_float64(kind) else float(str(numpy.float32(value)))
        wanted = "NaN" if value != value else repr(shortest)
        assert not exact or text == wanted, (text, wanted)
    elif types.is_decimal(kind):
        assert "e" not in text.lower(), text
        assert Decimal(text) == value, (text, value)
        assert len(text.partition(".")[2]) == max(kind.scale, 0), text
    else:
        assert text == str(value)


def is_number(kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def check_cell(scalar: Any, cell: str | None) -> None:
    """Compares a value with a cell of CSV."""
    scalar = stored(scalar)
    if scalar is None:
        assert cell is None
        return
    assert cell is not None
    if types.is_boolean(scalar.type):
        assert cell == ("true" if scalar.as_py() else "false")
    elif is_number(scalar.type):
        check_number(scalar, cell, exact=True)
    else:
        check_text(scalar, cell)


def check_json(scalar: Any, read: Any) -> None:
    """Compares a value with what a JSON reader has made of it."""
    scalar = stored(scalar)
    kind: Any = None if scalar is None else scalar.type
    if scalar is None or (types.is_floating(kind) and scalar.as_py() * 0 != 0):
        assert read is None  # nulls, and what JSON has no word for
    elif types.is_boolean(kind):
        assert read is scalar.as_py()
    elif types.is_map(kind):
        assert list(read) == [entry[0].as_py() for entry in scalar.values]
        for entry, item in zip(scalar.values, read.values(), strict=True):
            check_json(entry[1], item)
    elif types.is_struct(kind):
        assert list(read) == [kind.field(at).name for at in range(kind.num_fields)]
        for at, item in enumerate(read.values()):
            check_json(scalar[at], item)
    elif types.is_nested(kind):
        assert len(read) == len(scalar.values)
        for each, item in zip(scalar.values, read, strict=True):
            check_json(each, item)
    elif is_number(kind):
        assert type(read) is Number
        check_number(scalar, read, exact=False)
    else:
        assert type(read) is str
        check_text(scalar, read)
