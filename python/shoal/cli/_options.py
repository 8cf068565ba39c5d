"""The flags of the commands, with the names and defaults of `shoal.copy`, `shoal.list_get` and so on; a test compares.

Not here: validation of values (`shoal._options`, shared with the API).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from click.core import ParameterSource

from shoal import _api, _generate, _options, _read, _sources
from shoal._errors import ConfigError
from shoal.cli._groups import ARCHIVES, DESTINATION, ERRORS, OUTPUT, SERVICES, SOURCE, SPEED, URLS, Option

if TYPE_CHECKING:
    from shoal._source_types import Archives, Files, ListGet, Urls

F = TypeVar("F", bound=Callable[..., Any])

SOURCES = (_sources.files, _sources.list_get, _sources.archives, _sources.urls)
_DEFAULTS = {
    name: parameter.default
    for function in (_generate.generate, _api.copy, *SOURCES, _read.read)
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.default is not inspect.Parameter.empty
}


def _size(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if ctx.get_parameter_source(param.name or "") is ParameterSource.ENVIRONMENT:
        _options.parse_size(value, str(param.envvar))  # so that the error names the variable
    return value


def _number_or_word(ctx: click.Context, param: click.Parameter, value: str) -> Any:
    given: Any = int(value) if value.isdecimal() else value
    if ctx.get_parameter_source(param.name or "") is ParameterSource.ENVIRONMENT:
        _options.check_workers(given, str(param.envvar))
    return given


def _fields(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in value.split(",") if field.strip())


def _headers(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    lines: list[str] = []
    for value in values:
        if value.startswith("@"):
            try:
                lines += [line for line in Path(value[1:]).read_text().splitlines() if line.strip()]
            except (OSError, UnicodeDecodeError) as error:
                raise click.BadParameter(f"cannot read headers from {value[1:]!r}: {error}") from None
        else:
            lines.append(value)
    pairs = []
    for line in lines:
        name, colon, text = line.partition(":")
        if not colon:
            # The text is not shown: it may be a secret.
            raise click.BadParameter('write a header as "Name: value"')
        pairs.append((name.strip(), text.strip()))
    try:
        return _options.header_pairs(pairs)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


Flag = Callable[[F], F]


def _option(name: str, help_text: str, *, short: str = "", **extra: Any) -> tuple[str, dict[str, Any]]:
    """Returns the name of an API parameter and the arguments of its click option, with its default."""
    flag = "--" + name.replace("_", "-")
    if extra.pop("negatable", False):
        flag += "/--no-" + name.replace("_", "-")
    flags = [short, flag, name] if short else [flag, name]
    given: dict[str, Any] = {"param_decls": flags, "help": help_text, **extra}
    choices = extra.get("type")
    if isinstance(choices, click.Choice):
        given["metavar"] = "|".join(map(str, choices.choices))
    default = _DEFAULTS[name]
    if default is False:
        return name, given | {"is_flag": True}
    if not extra.get("multiple"):
        given.setdefault("default", default)
        given.setdefault("show_default", default is not None)
    return name, given


def _variable(name: str) -> dict[str, Any]:
    """Returns click's arguments for an option that an environment variable also sets."""
    return {"envvar": f"SHOAL_{name.upper()}", "show_envvar": True}


# The flag of each way to resume; without one it is "auto".
RESUME_FLAGS = {
    "update": ("--update", "Copy what is new or has changed at the source."),
    "failed": ("--retry-failed", "Retry only what failed."),
    "relist": ("--relist", "List from the start; skip what is done."),
    "restart": ("--restart", "Start over: do everything again and compare all bytes."),
}


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


def _part(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,10})/(\d{1,10})", value, re.ASCII)) or int(found[1]) >= int(found[2]):
        raise click.BadParameter(f"{value!r} is not a part such as 3/16; parts count from 0")
    return int(found[1]), int(found[2])


_WORKERS: dict[str, Any] = {"metavar": "N|auto", "callback": _number_or_word, "short": "-j", **_variable("workers")}

# Group -> parameter -> arguments of the click option.
_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    SOURCE: dict(
        [
            _option(
                "include",
                "Only names that match: '*.json', '/top/*', 'dir/'; repeatable.",
                multiple=True,
                metavar="GLOB",
            ),
            _option(
                "exclude",
                "Skip names and directories that match; repeatable.",
                multiple=True,
                metavar="GLOB",
            ),
            _option("follow_links", "Follow symbolic links; by default they are skipped."),
            _option("part", "Only this part of N, counted from 0, such as 3/16.", metavar="I/N", callback=_part),
            _option("order", "Order of the objects; source = as listed.", type=click.Choice(get_args(_options.Order))),
        ]
    ),
    DESTINATION: dict(
        [
            _option(
                "overwrite",
                "Replace files that shoal did not write.",
                type=click.Choice(get_args(_options.Overwrite)),
            ),
            _option(
                "keep_times",
                "Keep modification times; default for files and archives.",
                is_flag=True,
                negatable=True,
            ),
            _option("shard_size", "Bytes of a file of parquet:DIR.", metavar="SIZE"),
            _option("shard_age", "Finish such a file after this long.", type=float, metavar="SECONDS"),
            _option(
                "durability",
                "Sync to disk: never, per batch, or per file.",
                type=click.Choice(get_args(_options.Durability)),
            ),
            _option("journal", "Keep the journal here, not in DST/.shoal.", type=click.Path(path_type=Path)),
            _option("dry_run", "Print what would be done, and do nothing.", short="-n"),
        ]
    ),
    ERRORS: dict(
        [
            _option(
                "on_error",
                "Record a failure and continue, or stop at it.",
                type=click.Choice(["record", "stop"]),
                default="record",
            ),
            _option("max_failures", "Stop when more objects than this have failed.", type=int, metavar="N"),
            _option("ignore_vanished", "Skip objects that were listed but are gone."),
            _option("allow_different_listings", "Accept parts that have listed other names."),
            _option("max_retries", "Number of retries of one object.", type=int, metavar="N"),
            _option("retry_timeout", "Retry one object, or a host, for this long.", type=float, metavar="SECONDS"),
        ]
    ),
    SPEED: dict(
        [
            _option("workers", "Objects in progress.", **_WORKERS),
            _option("nice", "Half the cores, low priorities: leave the rest to others."),
            _option("memory", "Memory limit for data.", metavar="SIZE", callback=_size, **_variable("memory")),
            _option("limit_rate", "Bytes per second, at most, such as 10MB.", metavar="SIZE"),
            _option("cluster", "Run all parts of the job on a Ray cluster.", metavar="ray[://HOST:PORT]"),
            _option("parts", "Number of parts on the cluster.", type=int, metavar="N"),
            _option("allow_unlocked", "Use a cluster whose nodes share no locks."),
        ]
    ),
    SERVICES: dict(
        [
            _option("list_path", "Path of the listing.", metavar="PATH"),
            _option("get_path", "Path of an object.", metavar="PATH"),
            _option("names_field", "Field with the names, or 'data[].id'.", metavar="FIELD"),
            _option("name", "Name at the destination, as '{name}.json'.", metavar="PATTERN"),
            _option(
                "next_field",
                "Field with the next marker.",
                metavar="FIELD,...",
                default=",".join(_DEFAULTS["next_field"]),
                callback=_fields,
            ),
            _option("marker_param", "Query parameter for the marker.", metavar="NAME"),
            (
                "headers",
                {
                    "param_decls": ["--header", "headers"],
                    "multiple": True,
                    "metavar": "'NAME: VALUE'|@FILE",
                    "callback": _headers,
                    "help": "Send this header; @FILE reads them from a file, for secrets.",
                },
            ),
            _option("expect_type", "Fail objects of other content types; * accepts any.", metavar="GLOB"),
            _option("require_length", "Fail objects whose answer does not say its length."),
            _option("encode_slash", "Send / inside a name as %2F."),
            _option("ca_file", "Trust these certificates too.", type=click.Path(path_type=Path), metavar="PEM"),
            _option("insecure", "Accept any certificate: others can read and change data."),
            _option(
                "allow_host",
                "Follow redirects to this host, without the headers.",
                multiple=True,
                metavar="HOST[:PORT]",
            ),
            _option(
                "pipeline",
                "Pipelined requests on a connection.",
                metavar="auto|off|N",
                callback=_number_or_word,
            ),
            _option("timeout", "Fail a request after this long without data.", type=float, metavar="SECONDS"),
            _option("connect_timeout", "Fail a connection after this long.", type=float, metavar="SECONDS"),
        ]
    ),
    URLS: dict(
        [
            _option("per_host", "Connections to one host, at most.", type=int, metavar="N"),
            _option("limit_requests", "Requests per second to one host, at most.", type=float, metavar="N"),
            _option("url_field", "Column or field with the URL.", metavar="FIELD"),
            _option("name_field", "Column or field with the name.", metavar="FIELD"),
        ]
    ),
    ARCHIVES: dict(
        [
            _option("into_subdirectories", "Unpack NAME.zip into NAME/, instead of all into DST."),
            _option("encoding", "Encoding of names not marked as UTF-8.", metavar="NAME"),
            _option(
                "backslashes",
                "Reject \\ in a name, or read it as /.",
                type=click.Choice(get_args(_options.Backslashes)),
            ),
            _option("max_size", "Reject archives that unpack to more bytes.", metavar="SIZE"),
            _option("max_ratio", "Reject archives that grow more than this.", type=int, metavar="N"),
            _option("max_entries", "Reject archives with more entries.", type=int, metavar="N"),
            _option("max_depth", "Reject entries with more parts in their names.", type=int, metavar="N"),
            _option("allow_overlap", "Accept entries that share bytes, as in zip bombs."),
        ]
    ),
}
_NAMES = {name: group for group, flags in _GROUPS.items() for name in flags}

JSON: dict[str, Any] = {
    "param_decls": ["--json", "as_json"],
    "is_flag": True,
    "help": "Print lines of JSON; the last is the report or the error.",
}
_OUTPUT: list[dict[str, Any]] = [
    {"param_decls": ["-q", "--quiet"], "is_flag": True, "help": "Print only errors."},
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
        **_variable("progress"),
    },
    {
        "param_decls": ["--log-format"],
        "type": click.Choice(["plain", "text", "json"]),
        "metavar": "plain|text|json",
        "default": "plain",
        "help": "Format of messages.",
        **_variable("log_format"),
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


def _flags(
    names: Iterable[str], own: Mapping[str, dict[str, Any]] | None = None, words: Sequence[str] = ()
) -> Flag[Any]:
    """Returns the flags of these parameters, in the order of the groups.

    Args:
        names: The parameters.
        own: Options that replace the shared ones for this command.
        words: The ways to resume that the command supports; by default all.
    """
    wanted = set(names)
    flags = [resume_flags(*(words or RESUME_FLAGS))] if "resume" in wanted else []
    flags += [
        flag(group, **((own or {}).get(name) or given))
        for group, some in _GROUPS.items()
        for name, given in some.items()
        if name in wanted
    ]
    return _apply(flags)


def options_of(function: Callable[..., Any], *sources: Callable[..., Any]) -> Flag[Any]:
    """Returns the flags for the options of an API function and its sources; `progress` has its own flags."""
    return _flags(name for one in (function, *sources) for name in inspect.signature(one).parameters)


def some(*names: str) -> Flag[Any]:
    """Returns these flags."""
    return _flags(names)


# `shoal generate` shares the flags, but describes some of them differently.
_GENERATE = inspect.signature(_generate.generate).parameters
_GENERATE_OWN = dict(
    [
        _option("name", "Template for the names of the files.", metavar="TEMPLATE"),
        _option("workers", "Number of processes.", **_WORKERS),
        _option("memory", "Memory limit for data.", metavar="SIZE", callback=_size, **_variable("memory")),
    ]
)
_GENERATE_OWN["name"] |= {"default": None, "show_default": False, "required": True}
_TABLES: dict[str, str] = {
    "header": "Begin a table's .csv with the column names.",
    "final_newline": "End a .csv or .jsonl file with a newline.",
}


def generate_options(function: F) -> F:
    """Adds the flags of `shoal generate`."""
    tables = [
        flag(
            DESTINATION,
            [f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"],
            default=True,
            help=text,
        )
        for name, text in _TABLES.items()
    ]
    naming = flag(DESTINATION, **_GENERATE_OWN["name"])
    shared = [name for name in _GENERATE if name not in ("name", *_TABLES)]
    decorate: Flag[F] = _apply([naming, *tables, _flags(shared, _GENERATE_OWN, ("failed", "restart"))])
    return decorate(function)


output_options = _apply([flag(OUTPUT, **one) for one in _OUTPUT])


urls_option = flag(
    SOURCE,
    ["--urls", "is_list"],
    is_flag=True,
    help="SRC is a list of URLs: a file, or - for standard input.",
)


def source_of(text: str, options: dict[str, Any], is_list: bool = False) -> ListGet | Files | Archives | Urls | str:
    """Removes the options of sources from `options`, and returns the source that the text describes.

    Args:
        text: The source.
        options: The options of a command.
        is_list: It is a list of URLs.
    """
    files, service, archives, urls = (
        {name: options[name] for name in inspect.signature(one).parameters if name in _NAMES} for one in SOURCES
    )
    for name in files | service | archives | urls:
        del options[name]
    if is_list:
        return _sources.urls(text, **urls)
    if text.startswith(_sources.SERVICES):
        return _sources.list_get(text, **service)
    if text.startswith(_sources.ARCHIVE_FORMATS):
        return _sources.archives(text, **archives)
    if text.startswith(_sources.FORMATS):
        return text
    return _sources.files(text, **files)
