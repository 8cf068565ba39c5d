"""Validates the arguments of `Records` and converts them for the binding.

Not here: whether a format is valid and a field exists (the crate `shoal-records`).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from shoal import _shoal
from shoal._errors import ConfigError, NotFoundError
from shoal._expression import Aggregate, Condition, aggregate_of

if TYPE_CHECKING:
    import numpy as np

    from shoal._options import Path, Workers

Tail = Literal["error", "drop"]
AppendTail = Literal["error", "cut"]
Where = str | Condition | None


class Layout:
    """The format of a record: as given, for the engine, and for NumPy."""

    def __init__(self, given: object, names: Iterable[str] | None) -> None:
        """Takes a `struct` string, a NumPy dtype, or an object with an Arrow schema.

        Raises:
            ConfigError: It is something else, or describes a type that no record can have.
        """
        self.given = given
        self.names = None if names is None else tuple(field_names(names, "names"))
        self._dtype: np.dtype[Any] | None = None
        if given is None:
            raise ConfigError(
                "`format` is missing: a flat file does not describe its records",
                hint='pass a format of the struct module, such as shoal.Records("index.bin", "<QII")',
            )
        if isinstance(given, str):
            self.text = given
            self.engine = _shoal.RecordFormat.from_struct(given, None if self.names is None else list(self.names))
            return
        if self.names is not None:
            raise ConfigError(
                "`names` works only with a struct string: a dtype or schema has its own names", hint="leave out `names`"
            )
        if hasattr(given, "__arrow_c_schema__"):
            self.engine = _shoal.RecordFormat.from_arrow(given)
            self.text = ", ".join(f"{name}: {descr}" for name, descr, _ in self.engine.numpy)
        elif hasattr(given, "itemsize") and hasattr(given, "fields"):
            self._dtype = given  # type: ignore[assignment]
            self.engine = _shoal.RecordFormat.from_numpy(_numpy_fields(given), int(given.itemsize))
            self.text = str(given)
        else:
            raise ConfigError(
                f"`format` must be a struct string, a NumPy dtype or an Arrow schema, got {type(given).__name__}",
                hint='pass a format of the struct module, such as "<QII"',
            )

    def dtype(self) -> np.dtype[Any]:
        """Returns the NumPy dtype: the given one, or an equivalent."""
        if self._dtype is None:
            import numpy as np

            fields = self.engine.numpy
            self._dtype = np.dtype(
                {
                    "names": [name for name, _, _ in fields],
                    "formats": [descr for _, descr, _ in fields],
                    "offsets": [offset for _, _, offset in fields],
                    "itemsize": self.engine.record_size,
                }
            )
        return self._dtype

    def encode(self, rows: object) -> bytes:
        """Returns rows as the bytes of records.

        Raises:
            ConfigError: They are not rows, or do not fit the format.
        """
        if isinstance(rows, bytes):
            return rows
        if isinstance(rows, (str, Mapping)) or (
            not hasattr(type(rows), "__iter__") and not hasattr(rows, "__arrow_c_stream__")
        ):
            raise ConfigError(f"rows must be tuples, an array, bytes or an Arrow table, got {type(rows).__name__}")
        if hasattr(rows, "__array_interface__"):
            return self._array(rows)
        if isinstance(rows, (bytearray, memoryview)):
            return bytes(rows)
        if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
            return self.engine.encode_arrow(rows)
        return self.engine.encode_rows(rows)

    def _array(self, rows: Any) -> bytes:
        import numpy as np

        if isinstance(rows, np.ma.MaskedArray):
            raise ConfigError(
                "a record cannot hold the mask of an array", hint="fill the masked values: array.filled(value)"
            )
        array, wanted = np.asarray(rows), self.dtype()
        if array.ndim != 1:
            raise ConfigError(f"an array of records must have one dimension, got {array.ndim}")
        if array.dtype == wanted:
            return array.tobytes()
        if array.dtype.names is None or set(array.dtype.names) != set(wanted.names or ()):
            raise ConfigError(f"an array of {array.dtype} for records of {wanted}: the fields differ")
        # Field by field, so that padding is always zeros.
        records = np.zeros(len(array), wanted)
        for name in wanted.names or ():
            if not _keeps_values(array.dtype[name], wanted[name]):
                raise ConfigError(f"field {name!r} is {array.dtype[name]}, but {wanted[name]} in the file: cast it")
            records[name] = array[name]
        return records.tobytes()


def _keeps_values(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Returns True if one dtype can hold every value of the other exactly.

    NumPy's "safe" casts are not always exact: they turn numbers into text, and 64-bit integers into floats.
    """
    import numpy as np

    if given.kind == "S" and wanted.kind in "SV":
        return given.itemsize <= wanted.itemsize
    if given.kind == wanted.kind == "V":
        return given.fields is None and given.shape == () and given.itemsize <= wanted.itemsize
    if {given.kind, wanted.kind} - set("biuf"):
        return False
    if wanted.kind == "f" and given.kind in "iu" and given.itemsize == 8:
        return False
    return np.can_cast(given, wanted, "safe")


def _numpy_fields(dtype: Any) -> list[tuple[str, str, int]]:
    """Returns name, type and offset of each field of a dtype; an unstructured dtype is one field."""
    if dtype.fields is None:
        return [("f0", dtype.str, 0)]
    fields = []
    for name in dtype.names:
        of, offset = dtype.fields[name][:2]
        if of.subdtype is not None or of.fields is not None:
            raise ConfigError(
                f"field {name!r} of the dtype is {of}, but a field must be one value",
                hint="make each of its values a field",
            )
        fields.append((str(name), of.str, int(offset)))
    return fields


def paths_of(path: Path | Iterable[Path]) -> list[str]:
    """Returns the paths of the files, in order, with globs expanded.

    Raises:
        ConfigError: It is not a path.
        NotFoundError: Nothing matches.
    """
    import glob

    several = [path] if isinstance(path, (str, bytes, os.PathLike)) else path
    if not isinstance(several, Iterable):
        raise ConfigError(f"`path` must be a path or several paths, got {type(path).__name__}")
    paths: list[str] = []
    for one in several:
        if not isinstance(one, (str, os.PathLike)):
            raise ConfigError(f"a path must be a str or os.PathLike, got {type(one).__name__}")
        text = os.fspath(one)
        if not isinstance(one, str) or not any(sign in text for sign in "*?["):
            paths.append(os.fsdecode(text))
            continue
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # a Path would change the text
        if not found:
            raise NotFoundError(
                f"no file matches {text!r}",
                kind="config",
                name=text,
                hint="for a file with this exact name, pass pathlib.Path(…)",
            )
        paths += found
    if not paths:
        raise ConfigError("no files: pass at least one path")
    return paths


def tail_of(tail: str) -> Tail:
    """Validates `tail` for reading.

    Raises:
        ConfigError: It is not a valid value.
    """
    for word in get_args(Tail):
        if tail == word:
            return tail  # type: ignore[return-value]
    raise ConfigError(f"`tail` must be 'error' or 'drop', got {tail!r}")


def cuts_tail(tail: str) -> bool:
    """Validates `tail` for appending; returns True if an incomplete record is truncated.

    Raises:
        ConfigError: It is not a valid value.
    """
    if tail not in get_args(AppendTail):
        raise ConfigError(f"`tail` must be 'error' or 'cut', got {tail!r}")
    return tail == "cut"


def field_names(names: Iterable[str], option: str) -> list[str]:
    """Returns the names of fields as a list.

    Raises:
        ConfigError: They are a single str, or not all of them are str.
    """
    if isinstance(names, str):
        raise ConfigError(
            f"`{option}` must be a list of names, got {names!r}",
            hint=f"pass {option}={names.replace(',', ' ').split()!r}",
        )
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise ConfigError(f"a name in `{option}` must be a str, got {name!r}")
    return found


def whole_number(value: int, least: int, option: str) -> int:
    """Returns a whole number from `least` to 2⁶³.

    Raises:
        ConfigError: It is something else.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if isinstance(value, bool) or not least <= number < 1 << 63:
        raise ConfigError(f"`{option}` must be a whole number of at least {least}, got {value!r}")
    return number


def worker_count(workers: Workers | None) -> int | None:
    """Returns the number of threads, or None for one per core.

    Raises:
        ConfigError: It is neither a number nor "auto".
    """
    return None if workers is None or workers == "auto" else whole_number(workers, 1, "workers")


def where_of(where: Where) -> str | None:
    """Returns a condition as text.

    Raises:
        ConfigError: It is neither text nor a condition.
    """
    if where is None or isinstance(where, (str, Condition)):
        return None if where is None else str(where)
    raise ConfigError(
        f"`where` must be text or a condition, got {type(where).__name__}",
        hint='pass "len > 100" or shoal.col("len") > 100',
    )


def asked_of(
    aggregates: Iterable[str | Aggregate], named: Mapping[str, str | Aggregate]
) -> list[tuple[str, str | None, str]]:
    """Returns function, field and result name of each aggregate.

    Raises:
        ConfigError: One of them is not an aggregate, or two have the same name.
    """
    asked: dict[str, tuple[str, str | None, str]] = {}
    given = [(aggregate if isinstance(aggregate, str) else str(aggregate), aggregate) for aggregate in aggregates]
    for name, aggregate in [*given, *named.items()]:
        one = aggregate_of(aggregate)
        if name in asked:
            raise ConfigError(f"two aggregates have the same name: {name!r}")
        asked[name] = (one.function, one.field, name)
    return list(asked.values())
