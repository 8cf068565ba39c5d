"""Conditions and aggregates as Python objects: `shoal.col("len") > 100`, `shoal.col("len").sum()`, `shoal.count()`.

They are ways to write text: `str()` of each is the text that `where=` and `aggregate` also take, and only that goes to
the engine, which reads and checks it. Not here: the grammar (the crate `shoal-records`, `expression/`).
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Iterable
from typing import NoReturn

from shoal._errors import ConfigError

WORDS = {"and", "or", "not", "in", "true", "True", "false", "False"}
FUNCTIONS = ("count", "sum", "min", "max", "mean")

# Whatever has __index__, or __float__ without being rounded by it, works too: NumPy's numbers, Decimal("0.5").
Literal = int | float | bytes | bytearray | memoryview | str


class Aggregate:
    """One thing to compute of records; `shoal.count()` and `shoal.col("len").sum()` make them.

    Attributes:
        function: `"count"`, `"sum"`, `"min"`, `"max"` or `"mean"`.
        field: The field it is of; None for a count.
    """

    __slots__ = ("field", "function")

    def __init__(self, function: str, field: str | None = None) -> None:
        """Takes the function and the field."""
        self.function = function
        self.field = field

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<aggregate {self}>"

    def __str__(self) -> str:
        """Returns the text that means the same, such as `sum(len)`."""
        return self.function if self.field is None else f"{self.function}({self.field})"


class Condition:
    """What holds for a record or not; comparing `shoal.col(…)` makes one. `&`, `|` and `~` join them."""

    __slots__ = ("_joined", "_parts")

    def __init__(self, parts: tuple[str, ...], joined: str = "and") -> None:
        """Takes conditions in text that are joined by a word."""
        self._parts = parts
        self._joined = joined

    def __str__(self) -> str:
        """Returns the text that means the same."""
        return f" {self._joined} ".join(self._parts)

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<condition {self}>"

    def _join(self, word: str, other: Condition) -> Condition:
        if not isinstance(other, Condition):
            raise ConfigError(
                f"a condition is joined with another one, not with {type(other).__name__}",
                hint="put each of them in parentheses: & and | bind closer than comparisons",
            )
        # Chains stay flat: the engine reads a hundred levels, and thousands of parts.
        parts: list[str] = []
        for one in (self, other):
            if len(one._parts) == 1 or one._joined == word:
                parts += one._parts
            else:
                parts.append(f"({one})")
        return Condition(tuple(parts), word)

    def __and__(self, other: Condition) -> Condition:
        """Holds where both hold."""
        return self._join("and", other)

    def __or__(self, other: Condition) -> Condition:
        """Holds where one of them holds."""
        return self._join("or", other)

    def __invert__(self) -> Condition:
        """Holds where this does not."""
        return Condition((f"not ({self})",))

    def __bool__(self) -> NoReturn:
        """Refuses: `and`, `or`, `not` and `a < b < c` would ask for a truth value that is not there yet."""
        raise TypeError("a condition is true or false of a record, not by itself: join conditions with &, | and ~")


class Operand:
    """A value of each record: a field, or what is computed of fields by `+ - *`; comparing gives a condition."""

    __slots__ = ("_text",)
    __hash__ = None  # type: ignore[assignment]  # == compares records, so that it cannot find a key

    def __init__(self, text: str) -> None:
        """Takes the text of it."""
        self._text = text

    def __str__(self) -> str:
        """Returns the text that means the same."""
        return self._text

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<value {self._text}>"

    def __bool__(self) -> NoReturn:
        """Refuses, as `Condition` does."""
        raise TypeError("a field has a value in each record, not by itself: compare it, as in shoal.col('len') > 0")

    def _compare(self, sign: str, other: Operand | Literal) -> Condition:
        return Condition((f"{self._text} {sign} {_side(other)}",))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        """Holds where both are equal."""
        return self._compare("==", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        """Holds where they differ."""
        return self._compare("!=", other)  # type: ignore[arg-type]

    def __lt__(self, other: Operand | Literal) -> Condition:
        """Holds where this is less."""
        return self._compare("<", other)

    def __le__(self, other: Operand | Literal) -> Condition:
        """Holds where this is not greater."""
        return self._compare("<=", other)

    def __gt__(self, other: Operand | Literal) -> Condition:
        """Holds where this is greater."""
        return self._compare(">", other)

    def __ge__(self, other: Operand | Literal) -> Condition:
        """Holds where this is not less."""
        return self._compare(">=", other)

    def is_in(self, values: Iterable[Literal]) -> Condition:
        """Holds where this is one of some values; of none of them if there are none.

        Args:
            values: Whole numbers, floats or bytes.

        Returns:
            The condition.

        Raises:
            ConfigError: The values are one text, or one of them cannot be compared.

        Example:
            >>> str(shoal.col("id").is_in([7, 8]))
            'id in (7, 8)'
        """
        if isinstance(values, (str, bytes, bytearray, memoryview)):
            raise ConfigError(f"is_in takes several values, not {type(values).__name__}", hint="write is_in([value])")
        return Condition((f"{self._text} in ({', '.join(map(literal, values))})",))

    def _compute(self, sign: str, left: Operand | Literal, right: Operand | Literal) -> Operand:
        return Operand(f"({_side(left)} {sign} {_side(right)})")

    def __add__(self, other: Operand | int | float) -> Operand:
        """The sum."""
        return self._compute("+", self, other)

    def __radd__(self, other: int | float) -> Operand:
        """The sum."""
        return self._compute("+", other, self)

    def __sub__(self, other: Operand | int | float) -> Operand:
        """The difference."""
        return self._compute("-", self, other)

    def __rsub__(self, other: int | float) -> Operand:
        """The difference."""
        return self._compute("-", other, self)

    def __mul__(self, other: Operand | int | float) -> Operand:
        """The product."""
        return self._compute("*", self, other)

    def __rmul__(self, other: int | float) -> Operand:
        """The product."""
        return self._compute("*", other, self)

    def __neg__(self) -> Operand:
        """The same below zero."""
        return Operand(f"(-{self._text})")


class Column(Operand):
    """A field; `shoal.col` makes one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """Takes its name."""
        super().__init__(quoted(name))
        self.name = name

    def sum(self) -> Aggregate:
        """Its sum: exact for whole numbers, a float for floats."""
        return Aggregate("sum", self.name)

    def min(self) -> Aggregate:
        """Its least value."""
        return Aggregate("min", self.name)

    def max(self) -> Aggregate:
        """Its greatest value."""
        return Aggregate("max", self.name)

    def mean(self) -> Aggregate:
        """Its sum over the number of records."""
        return Aggregate("mean", self.name)


def col(name: str) -> Column:
    """A field of records, for conditions and aggregates.

    Compare it with numbers, bytes or other fields (`== != < <= > >=`, `.is_in([…])`, after `+`, `-` and `*` if need
    be), and join conditions with `&`, `|` and `~`, each in parentheses. `.sum()`, `.min()`, `.max()` and `.mean()` are
    aggregates. `str()` of any of them is the text that means the same, which may be given instead.

    Args:
        name: The field's name. Whether there is such a field is looked at when it is used.

    Returns:
        The field.

    Raises:
        ConfigError: The name is no text, or empty.

    Example:
        >>> condition = (shoal.col("len") > 100) & (shoal.col("id") == 7)
        >>> str(condition)
        'len > 100 and id == 7'
        >>> str(shoal.col("len").sum())
        'sum(len)'
    """
    if not name or not isinstance(name, str):
        raise ConfigError(f"a field's name is text: {name!r}")
    return Column(name)


def count() -> Aggregate:
    """The number of records, as an aggregate.

    Returns:
        What the text `"count"` means.

    Example:
        >>> str(shoal.count())
        'count'
    """
    return Aggregate("count")


def quoted(name: str) -> str:
    """Returns a field's name as conditions have it: in backticks where it is not a plain word."""
    if re.fullmatch(r"[^\W\d]\w*", name) and name not in WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def literal(value: Literal) -> str:
    """Returns a value as conditions have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in bytes(value)) + '"'
    if isinstance(value, str):
        return literal(value.encode())
    # Not hasattr: an array has __index__, whatever it holds.
    with contextlib.suppress(TypeError):
        return str(operator.index(value))  # type: ignore[arg-type]
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"a record is compared with numbers, bytes and fields, not {type(value).__name__}") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"a record is compared with numbers that are finite: {value!r}")
    if number != value:
        raise ConfigError(
            f"no float is {value!r}, and conditions round nothing", hint="round it first: float(…), int(…)"
        )
    text = repr(number)
    return text if "e" in text or "." in text else f"{text}.0"


def _side(value: Operand | Literal) -> str:
    return str(value) if isinstance(value, Operand) else literal(value)


def aggregate_of(asked: object) -> Aggregate:
    """Returns the aggregate that an object or a text such as `"sum(len)"` means.

    Raises:
        ConfigError: It is neither, or the text is none.
    """
    if isinstance(asked, Aggregate):
        return asked
    if not isinstance(asked, str):
        raise ConfigError(
            f"an aggregate is text or an object such as shoal.col('len').sum(), not {type(asked).__name__}"
        )
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", asked, re.DOTALL)
    if found is None or found[1] not in FUNCTIONS:
        raise ConfigError(
            f"no aggregate: {asked!r}",
            hint='there are "count", "sum(FIELD)", "min(FIELD)", "max(FIELD)", "mean(FIELD)"',
        )
    field = (found[2] or "").strip()
    if len(field) > 1 and field[0] == field[-1] == "`":
        field = field[1:-1].replace("``", "`")
    if found[1] == "count":
        if field not in ("", "*"):
            raise ConfigError(f"a count is of records, not of a field: {asked!r}", hint='write "count"')
        return Aggregate("count")
    if not field:
        raise ConfigError(f"an aggregate of no field: {asked!r}", hint=f'write "{found[1]}(FIELD)"')
    return Aggregate(found[1], field)
