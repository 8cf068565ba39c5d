"""Encodes JSON and `.npz` files for `save` and `generate`, with Python's and NumPy's own libraries.

The binding (`ending.rs`) calls them on the thread that iterates. Not here: tables and single arrays (`shoal-encode`).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
import math
import zipfile
from typing import Any

from shoal import _shoal

NUMBERS = {"b": bool, "i": int, "u": int, "f": float}  # kinds of NumPy's types that JSON has


def json_file(value: object) -> bytes:
    """Returns a value as JSON in UTF-8: NaN and infinities as `null`, dates as ISO 8601, dataclasses as dicts.

    Raises:
        TypeError: It contains something that JSON cannot hold, such as bytes or a key that is not a str.
        ValueError: It contains itself, or text that cannot be encoded as UTF-8.
        RecursionError: It is nested too deeply.
    """
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def json_lines(rows: list[Any] | tuple[Any, ...], final_newline: bool) -> bytes:
    """Returns a list of dicts as JSON lines.

    Raises:
        TypeError: A row is neither a dict nor a dataclass. All errors of `json_file` apply too.
    """
    for at, row in enumerate(rows):
        if not isinstance(row, dict) and not _is_dataclass(row):
            raise TypeError(f"row {at} (counted from 0) is a {type(row).__name__}, not a dict")
    lines = b"\n".join(json_file(row) for row in rows)
    return lines + b"\n" if rows and final_newline else lines


def _is_dataclass(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        for key in value:
            # json would convert it to text, and 1 and "1" would be the same key.
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is a {type(key).__name__}, but JSON has only text: use str(key)")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if _is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat() if value == value else None  # of NaT, as of NaN
    number = NUMBERS.get(getattr(getattr(value, "dtype", None), "kind", ""))
    if number and getattr(value, "shape", None) == ():
        return _plain(number(value))  # a scalar of NumPy; its `item` may return itself
    return value


def npz_file(arrays: Any) -> bytes:
    """Returns an array, named `arr_0` as `numpy.savez` does, or a dict of arrays by name, as `.npz`, uncompressed.

    Raises:
        TypeError: A name is not a str, or a value is not an array.
        ValueError: An array has Python objects or a mask, or a name cannot be used in an archive.
    """
    import numpy as np

    named = arrays if isinstance(arrays, dict) else {"arr_0": arrays}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in named.items():
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r} of an array is a {type(name).__name__}, not text")
            if not _shoal.is_array(array):
                raise TypeError(f"{name!r} is a {type(array).__name__}, not an array")
            values = np.asanyarray(array)
            if isinstance(values, np.ma.MaskedArray):
                raise ValueError(f"{name!r} is a masked array: save array.filled(value), or array.data and array.mask")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)
        if archive.namelist() != [f"{name}.npy" for name in named]:
            raise ValueError("a name cannot be used in an archive: it has a NUL")
    return out.getvalue()
