"""Every type of Polars in every format: readers find the same values, or the item is a failure that names its column.

Not here: Arrow's types, and what is compared (`test_save_every_type.py`).
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from arrow_kinds import KINDS, SHAPES, data, double, instants, shaped, single, some, text, whole
from saving import all_saved
from test_save_every_type import FORMATS, check_duckdb, check_file, checked

polars = pytest.importorskip("polars", reason="polars is not installed")

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]
# Polars 1.44 panics where it takes in the first of these or shows the next, and ends the process where it exports small
# decimals as parts.
BREAKS_POLARS = re.compile(r"interval|union-.*|decimal256.*|timestamp-.*\d|.*-any|duration-(s|ms)|decimal(32|64).*")
LETTERS = ["a", "b,", 'c"', "", "ü"]


class Sort(NamedTuple):
    """A type of Polars: how to make a value, and whether a cell of CSV can hold it."""

    dtype: Any
    value: Callable[[random.Random], Any]
    flat: bool = True


def members(chance: random.Random) -> dict[str, Any]:
    return {"n": chance.choice([None, 1]), "c": chance.choice([None, *LETTERS])}


def sorts() -> dict[str, Sort]:
    made = {}
    for bits in (8, 16, 32, 64):
        made[f"Int{bits}"] = Sort(getattr(polars, f"Int{bits}"), whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        made[f"UInt{bits}"] = Sort(getattr(polars, f"UInt{bits}"), whole(0, 2**bits - 1))
    for unit, per in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "Asia/Kathmandu"):
            made[f"Datetime-{unit}-{str(zone).rpartition('/')[2]}"] = Sort(
                polars.Datetime(unit, zone), instants(0, 4_000_000_000, per)
            )
        made[f"Duration-{unit}"] = Sort(polars.Duration(unit), whole(-(10**15), 10**15))
    categories = polars.Struct({"n": polars.Int8, "c": polars.Categorical})
    return made | {
        "Float32": Sort(polars.Float32, single),
        "Float64": Sort(polars.Float64, double),
        "Boolean": Sort(polars.Boolean, lambda chance: chance.random() < 0.5),
        "String": Sort(polars.String, text),
        "Binary": Sort(polars.Binary, data),
        "Date": Sort(polars.Date, lambda chance: dt.date(1, 1, 1) + dt.timedelta(chance.randrange(3_652_059))),
        "Time": Sort(polars.Time, lambda chance: dt.time(chance.randrange(24), 59, 1, chance.randrange(10**6))),
        "Decimal": Sort(
            polars.Decimal(20, 4), lambda chance: Decimal(chance.randrange(-(10**20) + 1, 10**20)).scaleb(-4)
        ),
        "Categorical": Sort(polars.Categorical, lambda chance: chance.choice(LETTERS)),
        "Enum": Sort(polars.Enum([*LETTERS, "unused"]), lambda chance: chance.choice(LETTERS)),
        "List": Sort(polars.List(polars.Int16), lambda chance: [None, 1, -5][: chance.randrange(4)], flat=False),
        "List-of-Enum": Sort(
            polars.List(polars.Enum(LETTERS)), lambda chance: LETTERS[: chance.randrange(4)], flat=False
        ),
        "Array": Sort(polars.Array(polars.Float32, 2), lambda chance: [chance.choice([None, 1.5]), -0.0], flat=False),
        "Struct": Sort(polars.Struct({"n": polars.Int8, "c": polars.String}), members, flat=False),
        "Struct-of-Categorical": Sort(categories, members, flat=False),
    }


SORTS = sorts()


def series(name: str, chance: random.Random, count: int) -> Any:
    """A column: of one chunk or of several, whole or a slice of a longer one."""
    sort = SORTS[name]

    def part(count: int) -> Any:
        values = some(chance, count, lambda: sort.value(chance))
        if sort.dtype in (polars.Datetime, polars.Duration):
            return polars.Series("odd one", values, polars.Int64).cast(sort.dtype)
        return polars.Series("odd one", values, sort.dtype)

    if chance.random() < 0.5:
        return part(count)
    cut = chance.randint(0, count)
    return polars.concat([part(cut + 3).slice(3), part(count - cut)], rechunk=False)


def arrow(frame: Any) -> Any:
    """The frame as it exports itself, by the way that PyArrow takes."""
    return frame.to_arrow(compat_level=polars.CompatLevel.newest())


def check_frame(path: Path, frame: Any) -> None:
    """Compares a file with the frame that it was made from, read by others and by Polars."""
    check_file(path, arrow(frame))
    if path.suffix == ".arrow":
        read = polars.read_ipc(path, memory_map=False)
        assert read.schema == frame.schema
        assert repr(read.to_dicts()) == repr(frame.to_dicts())
    elif path.suffix == ".parquet":
        assert repr(polars.read_parquet(path).to_dicts()) == repr(frame.to_dicts())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_of_every_type_of_polars_is_saved_as_it_is_or_refused_by_name(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    frames: dict[str, Any] = {}
    for name in SORTS:
        for rows in (chance.randint(1, 20), 0):
            column = series(name, chance, rows)
            frame = polars.DataFrame({"row": polars.Series(range(rows), dtype=polars.Int32), "odd one": column})
            frames |= {f"{name}-{rows}.{ending}": frame for ending in FORMATS}
    refused = all_saved(tmp_path / "out", frames)
    differences: list[str] = []
    for file, frame in frames.items():
        path = tmp_path / "out" / file
        name = path.stem.rpartition("-")[0]
        if path.suffix == ".csv" and not SORTS[name].flat:
            assert '"odd one"' in refused[file]
            continue
        assert file not in refused, refused[file]
        checked(differences, file, partial(check_frame, path, frame))
        if path.suffix == ".parquet" and "Duration" not in file and "ns" not in file:
            checked(differences, f"{file} by DuckDB", partial(check_duckdb, path, arrow(frame)))
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_made_from_arrow_are_saved_as_they_are(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    frames: dict[str, Any] = {}
    kinds = [kind for kind in KINDS if not BREAKS_POLARS.fullmatch(kind.name)]
    for kind in chance.sample(kinds, 40):
        column = shaped(kind, chance.choice(SHAPES), chance)
        try:
            frame = polars.DataFrame({"odd one": polars.from_arrow(column)})
        except (polars.exceptions.PolarsError, polars.exceptions.PanicException, ValueError, TypeError):
            continue  # Polars does not have the type
        if has(frame.schema["odd one"], polars.Null, polars.Int128, polars.Object):
            continue  # test_save_types.py
        ends = {"parquet", "arrow", "jsonl"} - kind.refused - kind.may
        frames |= {f"{kind.name}.{ending}": frame for ending in ends}
    assert all_saved(tmp_path / "out", frames) == {}
    assert len(frames) > 30
    differences: list[str] = []
    for file, frame in frames.items():
        checked(differences, file, partial(check_frame, tmp_path / "out" / file, frame))
    assert not differences, "\n".join(differences)


def has(dtype: Any, *sought: Any) -> bool:
    """Whether a type is one of these, or has one as a part."""
    parts = [field.dtype for field in getattr(dtype, "fields", [])] + [getattr(dtype, "inner", None)]
    return dtype in sought or any(has(part, *sought) for part in parts if part is not None)
