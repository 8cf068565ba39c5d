"""What the arguments of `Records` may be, and what they are for the binding.

Not here: whether a format makes sense, whether there is such a field (the crate `shoal-records` says so).
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
    """What a record is made of: as it was given, as the engine has it, and as NumPy has it."""

    def __init__(self, given: object, names: Iterable[str] | None) -> None:
        """Takes a string of `struct`, a NumPy dtype, or what has an Arrow schema.

        Raises:
            ConfigError: It is none of these, or describes what no record can be.
        """
        self.given = given
        self.names = None if names is None else tuple(field_names(names, "names"))
        self._dtype: np.dtype[Any] | None = None
        if given is None:
            raise ConfigError(
                "format is missing: a flat file does not say what a record is made of",
                hint='write it as the struct module does, such as shoal.Records("index.bin", "<QII")',
            )
        if isinstance(given, str):
            self.text = given
            self.engine = _shoal.RecordFormat.from_struct(given, None if self.names is None else list(self.names))
            return
        if self.names is not None:
            raise ConfigError(
                "names go with a struct string: a dtype and a schema have names of their own", hint="leave names out"
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
                f"`format` is neither a struct string nor a NumPy dtype nor an Arrow schema: {type(given).__name__}",
                hint='write it as the struct module does, such as "<QII"',
            )

    def dtype(self) -> np.dtype[Any]:
        """Returns the NumPy dtype: the one that was given, or one that means the same."""
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
            ConfigError: They are no rows, or do not fit.
        """
        if isinstance(rows, bytes):
            return rows
        if isinstance(rows, (str, Mapping)) or (
            not hasattr(type(rows), "__iter__") and not hasattr(rows, "__arrow_c_stream__")
        ):
            raise ConfigError(f"rows are tuples, an array, bytes or an Arrow table, not {type(rows).__name__}")
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
                "a record cannot hold the mask of an array", hint="fill what is masked: array.filled(value)"
            )
        array, wanted = np.asarray(rows), self.dtype()
        if array.ndim != 1:
            raise ConfigError(f"an array of records has one dimension, not {array.ndim}")
        if array.dtype == wanted:
            return array.tobytes()
        if array.dtype.names is None or set(array.dtype.names) != set(wanted.names or ()):
            raise ConfigError(f"an array of {array.dtype} for records of {wanted}: the fields differ")
        # Field by field: padding is zeros, whatever the array has there.
        records = np.zeros(len(array), wanted)
        for name in wanted.names or ():
            if not _keeps_values(array.dtype[name], wanted[name]):
                raise ConfigError(f"field {name!r} is {array.dtype[name]} and {wanted[name]} in the file: cast it")
            records[name] = array[name]
        return records.tobytes()


def _keeps_values(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether every value of one dtype is a value of the other: what NumPy calls a safe cast is not always exact.

    It makes text of numbers, and floats of whole numbers of 64 bits.
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
    """The fields of a dtype: name, type and offset of each; one that is no structure is its only field."""
    if dtype.fields is None:
        return [("f0", dtype.str, 0)]
    fields = []
    for name in dtype.names:
        of, offset = dtype.fields[name][:2]
        if of.subdtype is not None or of.fields is not None:
            raise ConfigError(
                f"field {name!r} of the dtype is {of}: a field is one value",
                hint="write each of its values as a field of its own",
            )
        fields.append((str(name), of.str, int(offset)))
    return fields


def paths_of(path: Path | Iterable[Path]) -> list[str]:
    """Returns the files that are meant, in order: text that is a glob stands for all that match.

    Raises:
        ConfigError: It is no path.
        NotFoundError: Nothing matches.
    """
    import glob

    several = [path] if isinstance(path, (str, bytes, os.PathLike)) else path
    if not isinstance(several, Iterable):
        raise ConfigError(f"path is neither a path nor several: {type(path).__name__}")
    paths: list[str] = []
    for one in several:
        if not isinstance(one, (str, os.PathLike)):
            raise ConfigError(f"a path is text or a path, not {type(one).__name__}")
        text = os.fspath(one)
        if not isinstance(one, str) or not any(sign in text for sign in "*?["):
            paths.append(os.fsdecode(text))
            continue
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # a Path would not keep the text as it is
        if not found:
            raise NotFoundError(
                f"no file matches {text!r}",
                kind="config",
                name=text,
                hint="a file with such a name is meant by pathlib.Path(…)",
            )
        paths += found
    if not paths:
        raise ConfigError("no file: a table needs at least one path")
    return paths


def tail_of(tail: str) -> Tail:
    """Checks the option of reading.

    Raises:
        ConfigError: It is none of its words.
    """
    for word in get_args(Tail):
        if tail == word:
            return tail  # type: ignore[return-value]
    raise ConfigError(f"`tail` is neither 'error' nor 'drop': {tail!r}")


def cuts_tail(tail: str) -> bool:
    """Checks the option of appending, and returns whether a torn tail is cut off.

    Raises:
        ConfigError: It is none of its words.
    """
    if tail not in get_args(AppendTail):
        raise ConfigError(f"`tail` is neither 'error' nor 'cut': {tail!r}")
    return tail == "cut"


def field_names(names: Iterable[str], option: str) -> list[str]:
    """Returns names of fields.

    Raises:
        ConfigError: They are one text, or not all of them are text.
    """
    if isinstance(names, str):
        raise ConfigError(
            f"`{option}` is one text: {names!r}", hint=f"write {option}={names.replace(',', ' ').split()!r}"
        )
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise ConfigError(f"a name in `{option}` is no text: {name!r}")
    return found


def whole_number(value: int, least: int, option: str) -> int:
    """Returns a whole number from `least` to 2⁶³.

    Raises:
        ConfigError: It is none.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if isinstance(value, bool) or not least <= number < 1 << 63:
        raise ConfigError(f"`{option}` is not a whole number of {least} or more: {value!r}")
    return number


def worker_count(workers: Workers | None) -> int | None:
    """Returns how many threads, or None for as many as there are cores.

    Raises:
        ConfigError: It is neither a number nor "auto".
    """
    return None if workers is None or workers == "auto" else whole_number(workers, 1, "workers")


def where_of(where: Where) -> str | None:
    """Returns a condition as text.

    Raises:
        ConfigError: It is none.
    """
    if where is None or isinstance(where, (str, Condition)):
        return None if where is None else str(where)
    raise ConfigError(
        f"`where` is neither text nor a condition: {type(where).__name__}",
        hint='write "len > 100" or shoal.col("len") > 100',
    )


def asked_of(
    aggregates: Iterable[str | Aggregate], named: Mapping[str, str | Aggregate]
) -> list[tuple[str, str | None, str]]:
    """Returns what is to be computed: function, field, and how it is called in the result.

    Raises:
        ConfigError: One of them is no aggregate, or two have the same name.
    """
    asked: dict[str, tuple[str, str | None, str]] = {}
    given = [(aggregate if isinstance(aggregate, str) else str(aggregate), aggregate) for aggregate in aggregates]
    for name, aggregate in [*given, *named.items()]:
        one = aggregate_of(aggregate)
        if name in asked:
            raise ConfigError(f"asked for twice: {name!r}")
        asked[name] = (one.function, one.field, name)
    return list(asked.values())
