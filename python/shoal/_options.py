"""How the functions pass options to the binding, which knows their defaults and checks their values.

Not here: the options themselves (the engine's `options!`), the command line's flags (`cli/_options.py`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._report import Progress

if TYPE_CHECKING:
    from datetime import datetime, timedelta  # `import shoal` must be fast

# scripts/signatures.py writes these lines.
Addressing = Literal["auto", "path", "virtual"]
Archived = Literal["fail", "skip"]
Backslashes = Literal["refuse", "separator"]
Checksum = Literal["xxh3", "sha256", "crc32"]
Decode = Literal["auto", "never", "always"]
Durability = Literal["none", "batch", "file"]
Links = Literal["copy", "follow", "skip", "inside"]
ListFormat = Literal["json", "jsonl", "lines"]
OnError = Literal["raise", "record", "stop"]
Order = Literal["any", "source"]
Overwrite = Literal["never", "always"]
PageForm = Literal["one", "marker", "url", "link", "header", "number", "offset"]
Pipeline = Literal["auto", "off"] | int
Resume = Literal["auto", "once", "failed", "relist", "update", "restart"]
Workers = Literal["auto"] | int
# End.
Size = int | str
Path = str | os.PathLike[str]
Texts = str | Sequence[str]
HeaderPairs = Mapping[str, str] | Sequence[tuple[str, str]]
Headers = HeaderPairs | Callable[[], "HeaderPairs | tuple[HeaderPairs, datetime | timedelta]"]
Part = tuple[int, int]
ProgressOption = bool | Callable[[Progress], object] | None


class Option(TypedDict):
    """An option, as the engine declares it."""

    name: str
    kind: str
    type: str
    words: tuple[str, ...]
    optional: bool
    default: Any
    help: str
    text: str
    metavar: str | None
    group: str
    flag: str
    short: str | None
    secret: bool
    environment: bool


@functools.cache
def tables() -> dict[str, list[Option]]:
    """Returns the options of a run (`"run"`), and of each function that describes a source or a destination."""
    return _shoal.options()


def names(*of: str) -> frozenset[str]:
    """Returns the names of the options in these tables."""
    return frozenset(option["name"] for table in of for option in tables()[table])


class Default(str):
    """A default that an environment variable may replace. Values of a caller are never of this type."""

    __slots__ = ()


WORKERS: Any = Default("auto")
MEMORY: Any = Default("256MiB")


def given(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Returns the arguments of a call, for the binding: without defaults that the environment may replace."""
    return {name: value for name, value in arguments.items() if not isinstance(value, Default)}


def path_text(path: object, expected: str, prefix: str = "") -> str:
    """Returns the text of a path, without a prefix that it may have.

    Raises:
        ConfigError: It is not a `str` or `os.PathLike[str]`, or is empty. It is not shown: it may have a password.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str) or not (text := text.removeprefix(prefix)):
        raise ConfigError(f"{expected}, got {'an empty text' if text == '' else type(path).__name__}")
    return text


Word = TypeVar("Word", bound=str)


def one_of(value: Word, choices: tuple[str, ...], option: str) -> Word:
    """Returns the value if it is one of the choices.

    Raises:
        ConfigError: It is not one of `choices`.
    """
    if value not in choices:
        raise ConfigError(f"`{option}` must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


# The functions that describe a source, those that describe a destination, and both.
SOURCES, DESTINATIONS = map(tuple, _shoal.functions())
DESCRIBED = SOURCES + DESTINATIONS
F = TypeVar("F", bound=Callable[..., object])
OF_CLUSTERS = ("parts", "allow_unlocked")  # options of shoal.cluster


def points_to_options(*described: str) -> Callable[[F], F]:
    """Makes the TypeError for an option of a source, such as `copy(url, out, list_path=…)`, name its place.

    Args:
        described: The functions that describe what the decorated function takes.
    """

    def decorate(function: F) -> F:
        code = getattr(function, "__wrapped__", function).__code__
        own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

        def place(name: str) -> str | None:
            found = [f"shoal.{which}(…, {name}=…)" for which in described if name in names(which)]
            if "cluster" in own and name in OF_CLUSTERS:
                found = [f"cluster=shoal.cluster(…, {name}=…)"]
            if name == "layout" and "parquet" in described:
                return 'to pack objects, use "parquet:DIR"'
            named = " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
            return f"it is an option of {named}" if found else None

        @functools.wraps(function)
        def call(*arguments: object, **options: object) -> object:
            for name in options.keys() - own:
                if where := place(name):
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}: {where}")
            return function(*arguments, **options)

        return cast("F", call)

    return decorate
