"""Conditions and aggregates as Python objects: `shoal.col("len") > 100`, `shoal.col("len").sum()`, `shoal.count()`.

They only build text: `str()` of each is the text that `where=` and `aggregate` also accept. The engine parses and
validates that text. Not here: the grammar (the crate `shoal-records`, `expression/`).
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

# Also accepted: any object with __index__, or with an exact __float__, such as NumPy's numbers and Decimal("0.5").
Literal = int | float | bytes | bytearray | memoryview | str


class Aggregate:
    """One aggregate to compute; `shoal.count()` and `shoal.col("len").sum()` return one.

    Attributes:
        function: `"count"`, `"sum"`, `"min"`, `"max"` or `"mean"`.
        field: The name of its field; None for a count.
    """

    __slots__ = ("field", "function")

    def __init__(self, function: str, field: str | None = None) -> None:
        """Stores the function and the field."""
        self.function = function
        self.field = field

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<aggregate {self}>"

    def __str__(self) -> str:
        """Returns the equivalent text, such as `sum(len)`."""
        return self.function if self.field is None else f"{self.function}({self.field})"


class Condition:
    """A condition on records; comparing `shoal.col(…)` returns one. Combine conditions with `&`, `|` and `~`."""

    __slots__ = ("_joined", "_parts")

    def __init__(self, parts: tuple[str, ...], joined: str = "and") -> None:
        """Takes conditions as text, joined by a word."""
        self._parts = parts
        self._joined = joined

    def __str__(self) -> str:
        """Returns the equivalent text."""
        return f" {self._joined} ".join(self._parts)

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<condition {self}>"

    def _join(self, word: str, other: Condition) -> Condition:
        if not isinstance(other, Condition):
            raise ConfigError(
                f"a condition can only be joined with a condition, got {type(other).__name__}",
                hint="put each comparison in parentheses: & and | bind tighter than comparisons",
            )
        # Chains stay flat: the engine accepts a hundred levels, and thousands of parts.
        parts: list[str] = []
        for one in (self, other):
            if len(one._parts) == 1 or one._joined == word:
                parts += one._parts
            else:
                parts.append(f"({one})")
        return Condition(tuple(parts), word)

    def __and__(self, other: Condition) -> Condition:
        """True where both are true."""
        return self._join("and", other)

    def __or__(self, other: Condition) -> Condition:
        """True where at least one is true."""
        return self._join("or", other)

    def __invert__(self) -> Condition:
        """True where this is false."""
        return Condition((f"not ({self})",))

    def __bool__(self) -> NoReturn:
        """Raises, because `and`, `or`, `not` and `a < b < c` need a truth value that does not exist yet."""
        raise TypeError("a condition has no truth value of its own: join conditions with &, | and ~")


class Operand:
    """A value of each record: a field, or fields combined by `+ - *`; comparing it returns a condition."""

    __slots__ = ("_text",)
    __hash__ = None  # type: ignore[assignment]  # == returns a condition, so this cannot be a key

    def __init__(self, text: str) -> None:
        """Stores the text."""
        self._text = text

    def __str__(self) -> str:
        """Returns the equivalent text."""
        return self._text

    def __repr__(self) -> str:
        """Shows the text."""
        return f"<value {self._text}>"

    def __bool__(self) -> NoReturn:
        """Raises, as `Condition` does."""
        raise TypeError("a field has no truth value of its own: compare it, as in shoal.col('len') > 0")

    def _compare(self, sign: str, other: Operand | Literal) -> Condition:
        return Condition((f"{self._text} {sign} {_side(other)}",))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        """True where both are equal."""
        return self._compare("==", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        """True where they differ."""
        return self._compare("!=", other)  # type: ignore[arg-type]

    def __lt__(self, other: Operand | Literal) -> Condition:
        """True where this is less."""
        return self._compare("<", other)

    def __le__(self, other: Operand | Literal) -> Condition:
        """True where this is less or equal."""
        return self._compare("<=", other)

    def __gt__(self, other: Operand | Literal) -> Condition:
        """True where this is greater."""
        return self._compare(">", other)

    def __ge__(self, other: Operand | Literal) -> Condition:
        """True where this is greater or equal."""
        return self._compare(">=", other)

    def is_in(self, values: Iterable[Literal]) -> Condition:
        """True where this equals one of the values; never true if there are no values.

        Args:
            values: Whole numbers, floats or bytes.

        Returns:
            The condition.

        Raises:
            ConfigError: The values are a single str or bytes, or one of them cannot be compared.

        Example:
            >>> str(shoal.col("id").is_in([7, 8]))
            'id in (7, 8)'
        """
        if isinstance(values, (str, bytes, bytearray, memoryview)):
            raise ConfigError(f"is_in takes a list of values, got {type(values).__name__}", hint="write is_in([value])")
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
        """The negative value."""
        return Operand(f"(-{self._text})")


class Column(Operand):
    """A field; `shoal.col` returns one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """Stores the name."""
        super().__init__(quoted(name))
        self.name = name

    def sum(self) -> Aggregate:
        """Returns its sum: exact for whole numbers, a float for floats."""
        return Aggregate("sum", self.name)

    def min(self) -> Aggregate:
        """Returns its minimum."""
        return Aggregate("min", self.name)

    def max(self) -> Aggregate:
        """Returns its maximum."""
        return Aggregate("max", self.name)

    def mean(self) -> Aggregate:
        """Returns its mean."""
        return Aggregate("mean", self.name)


def col(name: str) -> Column:
    """Returns a field of records, for conditions and aggregates.

    Compare it with numbers, bytes or other fields (`== != < <= > >=`, `.is_in([…])`), also after `+`, `-` and `*`. Join
    conditions with `&`, `|` and `~`, each in parentheses. `.sum()`, `.min()`, `.max()` and `.mean()` return aggregates.
    `str()` of any of them is the equivalent text, which you can pass instead.

    Args:
        name: The field's name. Whether the field exists is checked when it is used.

    Returns:
        The field.

    Raises:
        ConfigError: The name is not a str, or is empty.

    Example:
        >>> condition = (shoal.col("len") > 100) & (shoal.col("id") == 7)
        >>> str(condition)
        'len > 100 and id == 7'
        >>> str(shoal.col("len").sum())
        'sum(len)'
    """
    if not name or not isinstance(name, str):
        raise ConfigError(f"a field name must be a non-empty str, got {name!r}")
    return Column(name)


def count() -> Aggregate:
    """Returns the number of records, as an aggregate.

    Returns:
        The aggregate that the text `"count"` stands for.

    Example:
        >>> str(shoal.count())
        'count'
    """
    return Aggregate("count")


def quoted(name: str) -> str:
    """Returns a field's name for a condition, in backticks if it is not a plain word."""
    if re.fullmatch(r"[^\W\d]\w*", name) and name not in WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def literal(value: Literal) -> str:
    """Returns a value as a literal of a condition."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in bytes(value)) + '"'
    if isinstance(value, str):
        return literal(value.encode())
    # Not hasattr: every array has __index__.
    with contextlib.suppress(TypeError):
        return str(operator.index(value))  # type: ignore[arg-type]
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"a field can be compared with numbers, bytes and fields, got {type(value).__name__}"
        ) from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"a field can only be compared with finite numbers, got {value!r}")
    if number != value:
        raise ConfigError(
            f"{value!r} is not exactly a float, and conditions do not round", hint="round it first: float(…), int(…)"
        )
    text = repr(number)
    return text if "e" in text or "." in text else f"{text}.0"


def _side(value: Operand | Literal) -> str:
    return str(value) if isinstance(value, Operand) else literal(value)


def aggregate_of(asked: object) -> Aggregate:
    """Returns the aggregate for an object or a text such as `"sum(len)"`.

    Raises:
        ConfigError: It is neither, or the text is not an aggregate.
    """
    if isinstance(asked, Aggregate):
        return asked
    if not isinstance(asked, str):
        raise ConfigError(
            f"an aggregate must be text or an object such as shoal.col('len').sum(), got {type(asked).__name__}"
        )
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", asked, re.DOTALL)
    if found is None or found[1] not in FUNCTIONS:
        raise ConfigError(
            f"not an aggregate: {asked!r}",
            hint='use "count", "sum(FIELD)", "min(FIELD)", "max(FIELD)", "mean(FIELD)"',
        )
    field = (found[2] or "").strip()
    if len(field) > 1 and field[0] == field[-1] == "`":
        field = field[1:-1].replace("``", "`")
    if found[1] == "count":
        if field not in ("", "*"):
            raise ConfigError(f"count takes no field: {asked!r}", hint='write "count"')
        return Aggregate("count")
    if not field:
        raise ConfigError(f"the aggregate {asked!r} needs a field", hint=f'write "{found[1]}(FIELD)"')
    return Aggregate(found[1], field)
