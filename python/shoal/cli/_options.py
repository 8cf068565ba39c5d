"""The flags of the commands, made from the engine's tables of options.

Here: what only a command line has. Not here: names, help and defaults of options (the engine's `options!`), and which
values are valid (the binding checks them).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

import shoal
from shoal import _options, _shoal
from shoal._options import DESTINATIONS, SOURCES
from shoal._options import Option as Row
from shoal._source_types import Described
from shoal.cli._flags import RESUME_FLAGS, long_flag
from shoal.cli._groups import ERRORS, OUTPUT, SOURCE, SPEED, Option, Usage

F = TypeVar("F", bound=Callable[..., Any])
Flag = Callable[[F], F]

# Defaults of the command line, which are others than those of Python.
DEFAULTS: dict[str, Any] = {"on_error": "record", "keep_going": False}


def _number_or_word(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    return click.INT(value, param, ctx) if value is not None and value.isdecimal() else value


def _fields(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return value if value is None else tuple(field.strip() for field in value.split(",") if field.strip())


def _headers(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    from shoal._credentials import header_lines  # imported here: most commands need none

    pairs = []
    for value in values:
        lines = [value]
        if value.startswith("@"):
            try:
                lines = Path(value[1:]).read_text().splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise click.BadParameter(f"cannot read headers from {value[1:]!r}: {error}") from None
        try:
            pairs += header_lines(lines)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return tuple(pairs)


def _part(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,10})/(\d{1,10})", value, re.ASCII)) or int(found[1]) >= int(found[2]):
        raise click.BadParameter(f"{value!r} is not a part such as 3/16; parts count from 0")
    return int(found[1]), int(found[2])


# What click is told of the values of each kind of option.
_KINDS: dict[str, dict[str, Any]] = {
    "count": {"type": int},
    "number": {"type": float},
    "seconds": {"type": float},
    "path": {"type": click.Path(path_type=Path)},
    "texts": {"multiple": True},
    "headers": {"multiple": True, "callback": _headers},
    "part": {"callback": _part},
    "word-or-count": {"callback": _number_or_word},
}


def _click_option(option: Row) -> dict[str, Any]:
    """Returns click's arguments for the flag of an option. Click does not know its default: it is only shown."""
    default = DEFAULTS.get(option["name"], option["default"])
    flag = f"--{option['flag']}"
    told: dict[str, Any] = {"help": option["help"], "metavar": option["metavar"], **_KINDS.get(option["kind"], {})}
    if option["kind"] in ("flag", "flag-or-path"):
        told["is_flag"] = True
        if option["optional"] or default:
            flag += f"/--no-{option['flag']}"
            told["default"] = default
        default = None
    elif option["kind"] == "word":
        words = [word for word in option["words"] if option["name"] != "on_error" or word != "raise"]
        told |= {"type": click.Choice(words), "metavar": option["metavar"] or "|".join(words)}
    elif (option["metavar"] or "").endswith(",..."):
        told = told | {"multiple": False, "callback": _fields}
        default = ",".join(default)
    elif option["kind"] == "size" and default is not None:
        default = f"{default >> 20}MiB"
    if default not in (None, (), ""):
        told["show_default"] = str(default)
    if option["environment"]:
        told |= {"envvar": f"SHOAL_{option['name'].upper()}", "show_envvar": True}
    short = [option["short"]] if option["short"] else []
    return {"param_decls": [*short, flag, option["name"]], "group": option["group"], **told}


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that the user gave. The binding has the defaults of the others, and reads the environment."""
    context = click.get_current_context()
    of_us = (ParameterSource.COMMANDLINE, None)  # None: set by another flag, as `resume` is
    typed = {name: value for name, value in options.items() if context.get_parameter_source(name) in of_us}
    # Records of all failures were asked for, so the run ends with its last object.
    ours = {} if "on_error" in typed else DEFAULTS
    return {name: value for name, value in ours.items() if name in options} | typed


def typed() -> set[str]:
    """Returns the names of the flags on the command line, except those for the output."""
    context = click.get_current_context()
    flags = {one.name or "" for one in context.command.params if isinstance(one, Option) and one.group != OUTPUT}
    return {name for name in flags if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _resumes(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Sets `resume` to the value of the flag that was given."""
    words = {flag: word for word, (flag, _) in RESUME_FLAGS.items()}
    ctx.params.setdefault("resume", "auto")
    if not given:
        return
    flag, before = param.opts[0], ctx.params["resume"]
    if before != "auto":
        raise click.UsageError(f"{RESUME_FLAGS[before][0]} and {flag} cannot be used together")
    ctx.params["resume"] = words[flag]


def resume_flags(*words: str) -> Flag[Any]:
    """Returns a flag for each way to resume; at most one can be given."""
    return _apply(
        [
            flag(ERRORS, [name], is_flag=True, callback=_resumes, expose_value=False, help=text)
            for name, text in map(RESUME_FLAGS.__getitem__, words)
        ]
    )


JSON: dict[str, Any] = {
    "param_decls": ["--json", "as_json"],
    "is_flag": True,
    "help": "Print lines of JSON; the last is the report or the error.",
}
_OUTPUT: list[dict[str, Any]] = [
    {"param_decls": ["-q", "--quiet"], "is_flag": True, "help": "Print only what went wrong."},
    {
        "param_decls": ["-v", "--verbose"],
        "is_flag": True,
        "help": "Print also workers, durability, notes, failures.",
    },
    JSON,
    {
        "param_decls": ["--progress"],
        "type": click.Choice(["auto", "plain", "none"]),
        "metavar": "auto|plain|none",
        "default": "auto",
        "show_default": True,
        "help": "Bar, lines or none.",
        "envvar": "SHOAL_PROGRESS",
        "show_envvar": True,
    },
    {
        "param_decls": ["--log-format"],
        "type": click.Choice(["plain", "text", "json"]),
        "metavar": "plain|text|json",
        "default": "plain",
        "help": "Format of messages.",
        "envvar": "SHOAL_LOG_FORMAT",
        "show_envvar": True,
    },
]


def flag(group: str, param_decls: Sequence[str], **more: Any) -> Flag[Any]:
    """Returns one flag of a group."""
    return click.option(*param_decls, cls=Option, group=group, **more)


def _apply(flags: Sequence[Flag[F]]) -> Flag[F]:
    def decorate(function: F) -> F:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorate


# Options of a function's own, of no source and no destination; and those that have no flag, or several of their own.
_OF_FUNCTIONS = ("encode", "run", "read", "tell")
HIDDEN = {"resume", "chunk_size", "checksum"}


def options_of(
    function: Callable[..., Any], *parts: str, resume: Sequence[str] = tuple(RESUME_FLAGS), **help_texts: str
) -> Flag[Any]:
    """Returns the flags for the options of a function, and of sources and destinations.

    Args:
        function: A function of the package.
        parts: Functions that describe the sources and destinations.
        resume: The ways to resume that it supports.
        help_texts: What is said here of an option, instead of what the engine says.
    """
    own = inspect.signature(function).parameters
    tables = _options.tables()
    found = {one["name"]: one for part in _OF_FUNCTIONS for one in tables[part] if one["name"] in own}
    found |= {one["name"]: one for part in parts for one in tables[part]}
    flags = [_flag(one, help_texts.get(one["name"])) for one in found.values() if one["name"] not in HIDDEN]
    where = [cluster_options] if "cluster" in own else []
    return _apply([*([resume_flags(*resume)] if "resume" in own else []), *flags, *where])


def some(*wanted: str) -> Flag[Any]:
    """Returns the flags for these options."""
    found = {one["name"]: one for table in _options.tables().values() for one in table if one["name"] in wanted}
    return _apply([_flag(found[name]) for name in wanted])


def _flag(option: Row, help_text: str | None = None) -> Flag[Any]:
    told = _click_option(option)
    return click.option(*told.pop("param_decls"), cls=Option, **told | ({"help": help_text} if help_text else {}))


# Where a job runs: only a command line has these as flags of their own.
cluster_options = _apply(
    [
        flag(SPEED, ["--cluster"], metavar="ray[://HOST:PORT]", help="Run all parts of the job on a Ray cluster."),
        flag(SPEED, ["--parts"], type=int, metavar="N", help="Number of parts on the cluster."),
        flag(SPEED, ["--allow-unlocked"], is_flag=True, help="Use a cluster whose nodes share no locks."),
    ]
)


def cluster_of(options: dict[str, Any]) -> dict[str, Any]:
    """Takes what describes a cluster out of the options, and returns the argument for it.

    Raises:
        UsageError: There are options of a cluster without one.
    """
    own = {name: options.pop(name) for name in ("cluster", "parts", "allow_unlocked") if name in options}
    address = own.pop("cluster", None)
    if address is None:
        if own:
            flag = long_flag(next(iter(own)))
            raise Usage(f"{flag} needs --cluster", hint="add --cluster ray; for one part of a job, use --part")
        return {}
    return {"cluster": shoal.cluster(address, **own)}


output_options = _apply([flag(OUTPUT, **one) for one in _OUTPUT])


urls_option = flag(
    SOURCE,
    ["--urls", "is_list"],
    is_flag=True,
    help="SRC is a list of URLs: a file, or - for standard input.",
)


def _taken(options: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Takes the options of these tables out of `options`."""
    return {name: options.pop(name) for name in _options.names(*parts) if name in options}


def source_of(text: str, options: dict[str, Any], is_list: bool = False) -> tuple[str | Described, list[str]]:
    """Takes the options of sources out of `options`.

    Args:
        text: The source.
        options: The options that were given.
        is_list: It is a list of URLs.

    Returns:
        The source that the text describes, and the options that mean nothing for it.
    """
    return _described("urls" if is_list else _shoal.source_function(text), text, options, SOURCES)


def destination_of(text: str, options: dict[str, Any]) -> tuple[str | Described, list[str]]:
    """Takes the options of destinations out of `options`.

    Returns:
        The destination that the text describes, and the options that mean nothing for it.
    """
    return _described(_shoal.destination_function(text), text, options, DESTINATIONS)


def _described(
    function: str, text: str, options: dict[str, Any], functions: Sequence[str]
) -> tuple[str | Described, list[str]]:
    own = _taken(options, function) if function else {}
    unused = sorted(_taken(options, *functions))
    if not function:
        return text, unused
    if describe := getattr(shoal, function, None):
        return describe(text, **own), unused
    return Described(what=text, options=_shoal.checked(function, own), function=function), unused
