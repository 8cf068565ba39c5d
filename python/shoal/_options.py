"""The types of the options of a run, and their validation and conversion for the binding.

Shared by the API and the command line. Defaults are the engine's (`_shoal.default_options()`); a test compares. Not
here: the command line's flags (`cli/_options.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, get_args

from shoal._errors import ConfigError
from shoal._report import Progress

Workers = Literal["auto"] | int
Pipeline = Literal["auto", "off"] | int
Size = int | str
Durability = Literal["none", "batch", "file"]
Overwrite = Literal["never", "always"]
OnError = Literal["raise", "record", "stop"]
Resume = Literal["auto", "failed", "relist", "update", "restart"]
Order = Literal["any", "source"]
Part = tuple[int, int]
Checksum = Literal["xxh3", "sha256", "crc32"]
Backslashes = Literal["refuse", "separator"]
Path = str | os.PathLike[str]
Patterns = str | Sequence[str]
ProgressOption = bool | Callable[[Progress], object] | None


class Options(TypedDict):
    """The binding's options for a run; sizes in bytes, times in seconds."""

    workers: Workers
    nice: bool
    memory: int
    durability: Durability
    overwrite: Overwrite
    keep_times: bool | None
    journal: Path | None
    max_retries: int
    retry_timeout: float
    timeout: float
    connect_timeout: float
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    limit_rate: int | None
    max_failures: int | None
    on_error: OnError
    ignore_vanished: bool
    resume: Resume
    allow_different_listings: bool
    dry_run: bool
    part: Part | None
    shard_size: int
    shard_age: float


class ReadOptions(TypedDict):
    """The binding's options for reading objects; sizes in bytes."""

    order: Order
    chunk_size: int | None
    checksum: Checksum | None


class EncodeOptions(TypedDict):
    """The binding's options for encoding tables and arrays."""

    header: bool
    final_newline: bool


# Suffixes of a size: K and KiB are binary, as in dd, curl and rsync; KB is decimal, as in SI.
UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgt", 1) for end in ("", "i", "ib")},
}


# The largest value of an option that is a count: no run has more of anything.
COUNT_MAX = (1 << 32) - 1


def parse_size(value: Size, option: str) -> int:
    """Returns a size in bytes.

    Args:
        value: A number of bytes, or text such as `"256MiB"`, `"10M"` (both binary), `"1.5 GB"` (decimal), `"65536"`.
        option: The option it was given for, for the message.

    Raises:
        ConfigError: It is not a size above 0.
    """
    size = -1
    if type(value) is int:
        size = value
    elif isinstance(value, str) and (found := re.fullmatch(r"\s*(\d+)(\.\d+)?\s*([a-zA-Z]*)\s*", value)):
        unit = UNITS.get(found[3].lower(), 0)
        size = int(found[1]) * unit + int(float(found[2] or 0) * unit)
    if not 0 < size < 1 << 63:
        raise ConfigError(
            f"`{option}` must be a size above 0, got {value!r}", hint='use a number of bytes, or "64M", "1.5GB"'
        )
    return size


class Default(str):
    """A default that an environment variable may replace. Values of a caller are never of this type."""

    __slots__ = ()


WORKERS: Any = Default("auto")
MEMORY: Any = Default("256MiB")
SHARD_SIZE = "128MiB"
SHARD_AGE = 300.0

T = TypeVar("T")
R = TypeVar("R")


def or_environment(value: T, option: str, check: Callable[[T, str], R]) -> R:
    """Returns `check(value)`, or `check` of the variable `SHOAL_OPTION` if the value is a default.

    Raises:
        ConfigError: The value is wrong; the message names the option or the variable.
    """
    variable = f"SHOAL_{option.upper()}"
    text = os.environ.get(variable) if isinstance(value, Default) else None
    if not text:
        return check(value, option)
    given: Any = int(text) if text.isdecimal() else text
    return check(given, variable)


def _at_least(value: int, least: int, option: str) -> int:
    if type(value) is not int or value < least:
        raise ConfigError(f"`{option}` must be a whole number of at least {least}, got {value!r}")
    if value > COUNT_MAX:
        # The value is not shown: a number may have more digits than Python can print.
        raise ConfigError(f"`{option}` is too large: the maximum is {COUNT_MAX}")
    return value


def _seconds(value: float, option: str) -> float:
    # 1e9 s is 30 years; beyond it clocks overflow. NaN compares as false.
    if type(value) not in (int, float) or not 0 < value < 1e9:
        raise ConfigError(f"`{option}` must be a time in seconds above 0, got {value!r}")
    return float(value)


Word = TypeVar("Word", bound=str)


def one_of(value: Word, choices: tuple[str, ...], option: str) -> Word:
    """Returns the value if it is one of the choices.

    Raises:
        ConfigError: It is not one of `choices`.
    """
    if value not in choices:
        raise ConfigError(f"`{option}` must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def patterns_of(value: Patterns, option: str) -> tuple[str, ...]:
    """Returns patterns as a tuple. The engine parses them.

    Raises:
        ConfigError: One of them is not a str, or is empty.
    """
    patterns = (value,) if isinstance(value, str) else tuple(value)
    for pattern in patterns:
        if type(pattern) is not str or not pattern:
            raise ConfigError(f"`{option}` must contain patterns, got {pattern!r}")
    return patterns


def hosts(value: str | Sequence[str]) -> tuple[str, ...]:
    """Returns hosts as a tuple. The engine validates them.

    Raises:
        ConfigError: One of them is not a str, or is empty.
    """
    given = (value,) if isinstance(value, str) else tuple(value)
    for host in given:
        if type(host) is not str or not host:
            raise ConfigError(f"`allow_host` must contain hosts, got {host!r}")
    return given


def check_url_list(*, url_field: str, name_field: str | None, name: str) -> None:
    """Validates what names the fields of a list of URLs. The engine checks the template.

    Raises:
        ConfigError: A value is not text.
    """
    for option, value in (("url_field", url_field), ("name_field", name_field), ("name", name)):
        if not (value is None and option == "name_field") and (type(value) is not str or not value):
            raise ConfigError(f"`{option}` must be text, got {value!r}")


def per_second(value: float | None, option: str) -> float | None:
    """Returns a number of requests per second.

    Raises:
        ConfigError: It is not from 0.001 to 1,000,000.
    """
    if value is not None and (type(value) not in (int, float) or not 0.001 <= value <= 1e6):
        raise ConfigError(f"`{option}` must be from 0.001 to 1,000,000 per second, got {value!r}")
    return None if value is None else float(value)


def at_least_one(value: int, option: str) -> int:
    """Returns a count of at least 1.

    Raises:
        ConfigError: It is not one.
    """
    return _at_least(value, 1, option)


WORKERS_MAX = 65_536  # each needs memory even while idle


def check_workers(value: Workers, option: str) -> Workers:
    """Returns a valid number of workers.

    Raises:
        ConfigError: It is not valid.
    """
    if value == "auto":
        return "auto"
    if _at_least(value, 1, option) > WORKERS_MAX:
        raise ConfigError(f"`{option}` must be at most {WORKERS_MAX:,}, got {value}")
    return value


def pipeline_depth(value: Pipeline) -> Pipeline:
    """Returns a valid pipelining option.

    Raises:
        ConfigError: It is neither a known word nor a number from 2 to 256.
    """
    if value in ("auto", "off"):
        return value
    if type(value) is not int or not 2 <= value <= 256:
        raise ConfigError(f"`pipeline` must be 'auto', 'off' or a number of requests from 2 to 256, got {value!r}")
    return value


def part_of(value: Part | None) -> Part | None:
    """Returns a valid part of a job.

    Raises:
        ConfigError: It is not a pair of its number and the number of parts.
    """
    if value is None:
        return None
    given: object = value  # typed callers pass nothing else; others get an error
    own = tuple(given) if isinstance(given, Sequence) else ()
    if len(own) != 2 or any(type(number) is not int for number in own) or not 0 <= own[0] < own[1] <= COUNT_MAX:
        raise ConfigError(f"`part` must be (index, count), with the index counted from 0, got {value!r}")
    return own[0], own[1]


def engine_options(
    *,
    workers: Workers,
    nice: bool,
    memory: Size,
    durability: Durability,
    overwrite: Overwrite,
    keep_times: bool | None,
    journal: Path | None,
    max_retries: int,
    retry_timeout: float,
    timeout: float,
    connect_timeout: float,
    include: Patterns,
    exclude: Patterns,
    limit_rate: Size | None,
    max_failures: int | None,
    on_error: OnError,
    ignore_vanished: bool,
    resume: Resume,
    allow_different_listings: bool,
    dry_run: bool,
    part: Part | None,
    shard_size: Size,
    shard_age: float,
) -> Options:
    """Validates the options of a run and returns them in the form that the binding takes.

    Raises:
        ConfigError: A value is not valid.
    """
    one_of(durability, get_args(Durability), "durability")
    one_of(overwrite, get_args(Overwrite), "overwrite")
    one_of(on_error, get_args(OnError), "on_error")
    one_of(resume, get_args(Resume), "resume")
    return Options(
        workers=or_environment(workers, "workers", check_workers),
        nice=bool(nice),
        memory=or_environment(memory, "memory", parse_size),
        durability=durability,
        overwrite=overwrite,
        keep_times=None if keep_times is None else bool(keep_times),
        journal=journal,
        max_retries=_at_least(max_retries, 0, "max_retries"),
        retry_timeout=_seconds(retry_timeout, "retry_timeout"),
        timeout=_seconds(timeout, "timeout"),
        connect_timeout=_seconds(connect_timeout, "connect_timeout"),
        include=patterns_of(include, "include"),
        exclude=patterns_of(exclude, "exclude"),
        limit_rate=None if limit_rate is None else parse_size(limit_rate, "limit_rate"),
        max_failures=None if max_failures is None else _at_least(max_failures, 0, "max_failures"),
        on_error=on_error,
        ignore_vanished=bool(ignore_vanished),
        resume=resume,
        allow_different_listings=bool(allow_different_listings),
        dry_run=bool(dry_run),
        part=part_of(part),
        shard_size=parse_size(shard_size, "shard_size"),
        shard_age=_seconds(shard_age, "shard_age"),
    )


def read_options(*, order: Order, chunk_size: Size | None, checksum: Checksum | None) -> ReadOptions:
    """Validates the options for reading and returns them in the form that the binding takes.

    Raises:
        ConfigError: A value is not valid.
    """
    one_of(order, get_args(Order), "order")
    if checksum is not None:
        one_of(checksum, get_args(Checksum), "checksum")
    size = None if chunk_size is None else parse_size(chunk_size, "chunk_size")
    return ReadOptions(order=order, chunk_size=size, checksum=checksum)


def header_pairs(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns headers as pairs, in the order given.

    Raises:
        ConfigError: HTTP does not allow a name or value. The value is not shown, because it may be a secret.
    """
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", name):
            raise ConfigError(f"not a valid header name: {name!r}")
        if re.search(r"[^\t\x20-\x7e]", value):
            raise ConfigError(f"the value of header {name!r} has a character that is not allowed")
    return pairs
