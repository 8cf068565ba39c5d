"""The flags of the commands. Names and defaults are those of `shoal.copy`, `shoal.list_get` and so on; a test compares.

Not here: what a value may be (`shoal._options`, which the API shares).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from shoal import _api, _generate, _options, _read, _unzip
from shoal._errors import ConfigError

if TYPE_CHECKING:
    from shoal._options import Archives, Files, ListGet

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = {
    name: parameter.default
    for function in (_generate.generate, _api.copy, _api.list_get, _api.files, _api.archives, _read.read)
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.default is not inspect.Parameter.empty
}


def _number_or_word(_ctx: click.Context, _param: click.Parameter, value: str) -> int | str:
    return int(value) if value.isdecimal() else value


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
            # The text is not shown: it may be a secret in the wrong place.
            raise click.BadParameter('a header is written "Name: value"')
        pairs.append((name.strip(), text.strip()))
    try:
        return _options.header_pairs(pairs)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


Flag = Callable[[F], F]


def _option(name: str, help_text: str, **extra: Any) -> tuple[str, Flag[Any]]:
    """One flag for one parameter of the API, with its default; and the parameter's name."""
    flag = "--" + name.replace("_", "-")
    if extra.pop("negatable", False):
        flag += "/--no-" + name.replace("_", "-")
    default = _DEFAULTS[name]
    if default is False:
        return name, click.option(flag, name, is_flag=True, help=help_text)
    if not extra.get("multiple"):
        extra.setdefault("default", default)
        extra.setdefault("show_default", default is not None)
    return name, click.option(flag, name, help=help_text, **extra)


# The flag of each way to resume; without one it is "auto".
RESUME_FLAGS = {
    "update": "--update",
    "failed": "--retry-failed",
    "relist": "--relist",
    "restart": "--restart",
}


def _resumes(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Sets `resume` to the word of the one flag that was given."""
    word = next(word for word, flag in RESUME_FLAGS.items() if flag in param.opts)
    ctx.params.setdefault("resume", "auto")
    if not given:
        return
    before = ctx.params["resume"]
    if before != "auto":
        raise click.UsageError(f"{RESUME_FLAGS[before]} and {RESUME_FLAGS[word]} exclude each other")
    ctx.params["resume"] = word


def _resume_flags(**help_texts: str) -> Flag[Any]:
    """One flag for each way to resume; one at most is given."""

    def decorate(function: F) -> F:
        for word, help_text in reversed(help_texts.items()):
            flag = click.option(RESUME_FLAGS[word], is_flag=True, callback=_resumes, expose_value=False, help=help_text)
            function = flag(function)
        return function

    return decorate


_RESUME = _resume_flags(
    update="List everything, compare, and copy what is new or differs.",
    failed="Try the failures in the journal again, and nothing else.",
    relist="List from the start instead of from the journal's place; skip what is done.",
    restart="Copy everything anew; nothing that is there is believed.",
)

_FLAGS = dict(
    [
        _option(
            "workers",
            'Objects worked on at once; "auto" finds the number from measured throughput.',
            metavar="N|auto",
            callback=_number_or_word,
        ),
        _option("memory", "Most bytes held in memory at once.", metavar="SIZE"),
        _option(
            "durability",
            "When an object counts as done: none = in the page cache, batch = after one barrier for many, "
            "file = after a sync of each.",
            type=click.Choice(get_args(_options.Durability)),
        ),
        _option(
            "overwrite",
            "What happens to a file that shoal did not write: never = it stays and the object is a failure.",
            type=click.Choice(get_args(_options.Overwrite)),
        ),
        _option(
            "layout",
            "Where objects lie in a directory: names = under their own names, partition = under the number of their "
            "partition (DST/00/0012/34/NAME, at most 100 each), which is faster.",
            type=click.Choice(get_args(_options.Layout)),
        ),
        _option(
            "keep_times",
            "Give files the time at which the source says they were last changed; by default for files and archives.",
            is_flag=True,
            negatable=True,
        ),
        _option(
            "journal",
            "Keep the journal here instead of in DST/.shoal; how null: can have one.",
            type=click.Path(path_type=Path),
        ),
        _option("max_retries", "How often one object is tried again.", type=int, metavar="N"),
        _option(
            "retry_timeout",
            "How long one object is tried again, and how long a host may stay away.",
            type=float,
            metavar="SECONDS",
        ),
        _option("timeout", "Without a byte for so long, a request has failed.", type=float, metavar="SECONDS"),
        _option("connect_timeout", "How long a connection may take to be made.", type=float, metavar="SECONDS"),
        _option("include", "Only names that match one of these globs.", multiple=True, metavar="GLOB"),
        _option(
            "exclude", "No name that matches one of these; looked at after --include.", multiple=True, metavar="GLOB"
        ),
        _option("limit_rate", "Most bytes a second, such as 10MB.", metavar="SIZE"),
        _option("max_failures", "Stop when more objects than this have failed.", type=int, metavar="N"),
        _option(
            "on_error",
            "record = note a failed object and go on, stop = end at the first.",
            type=click.Choice(["record", "stop"]),
        ),
        _option("ignore_vanished", "Skip objects that were listed but are gone."),
        ("resume", _RESUME),
        _option(
            "order",
            "given = in the order of the listing; by default as they are ready.",
            type=click.Choice(get_args(_options.Order)),
        ),
    ]
)

_FILES_FLAGS = dict(
    [_option("follow_links", "Read what symbolic links point to; by default they are skipped and counted.")]
)

_LIST_GET_FLAGS = dict(
    [
        _option("list_path", "Path that answers with a page of names.", metavar="PATH"),
        _option("get_path", "Path that answers with an object.", metavar="PATH"),
        _option(
            "names_field",
            "Field of a page that holds the names; of a list of objects the way to them, such as 'data[].id'.",
            metavar="FIELD",
        ),
        _option("name", "What an object is called at the destination, such as '{name}.json'.", metavar="PATTERN"),
        _option(
            "next_field",
            "Field that holds the marker of the next page; of several, the first that is there; none = no next page.",
            metavar="FIELD,...",
            default=",".join(_DEFAULTS["next_field"]),
            callback=_fields,
        ),
        _option("marker_param", "Query parameter in which the marker is sent.", metavar="NAME"),
        (
            "headers",
            click.option(
                "--header",
                "headers",
                multiple=True,
                metavar="'NAME: VALUE'|@FILE",
                callback=_headers,
                help="Send this header; @FILE reads them from a file, one a line, out of sight of other users.",
            ),
        ),
        _option("expect_type", "An object of another content type is a failure; * accepts any.", metavar="GLOB"),
        _option("encode_slash", "Send / inside a name as %2F."),
        _option(
            "ca_file",
            "Certificates (PEM) that are trusted besides those of this machine.",
            type=click.Path(path_type=Path),
            metavar="PEM",
        ),
        _option("insecure", "Trust any certificate: whoever is in between can read and change everything."),
        _option(
            "allow_host",
            "Follow redirects to this other host too, without the headers given here.",
            multiple=True,
            metavar="HOST[:PORT]",
        ),
        _option(
            "pipeline",
            "Requests sent ahead on one connection: auto = where every answer echoes its request's id (shoal serve "
            "does), N = so many even without ids, once different objects came the same both ways, off = one at a time.",
            metavar="auto|off|N",
            callback=_number_or_word,
        ),
    ]
)

_ARCHIVE_FLAGS = dict(
    [
        _option("into_subdirectories", "Put what NAME.zip holds below NAME/; by default all archives share one place."),
        _option(
            "encoding",
            'Of names in archives that do not say it themselves: "auto", or one such as shift_jis or windows-1251.',
            metavar="NAME",
        ),
        _option(
            "backslashes",
            "What a backslash in an archive's name is: refuse = a failure, separator = the same as /.",
            type=click.Choice(get_args(_options.Backslashes)),
        ),
        _option("max_size", "Refuse an archive that unpacks to more bytes.", metavar="SIZE"),
        _option(
            "max_ratio",
            "Refuse one that unpacks to more than so many times its own size; looked at only beyond 64 MiB.",
            type=int,
            metavar="N",
        ),
        _option("max_entries", "Refuse one that has more entries.", type=int, metavar="N"),
        _option("max_depth", "Refuse entries that lie in more directories, one in another.", type=int, metavar="N"),
        _option("allow_overlap", "Read archives whose entries share bytes, as bombs' do."),
    ]
)

_OUTPUT_FLAGS = [
    click.option("--json", "as_json", is_flag=True, help="Print the report as one line of JSON on standard output."),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
    click.option("-v", "--verbose", is_flag=True, help="Say also how it was done, and more of the failures."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of what is said on standard error; json = one object a line.",
    ),
    click.option(
        "--progress",
        type=click.Choice(["auto", "plain", "none"]),
        default="auto",
        show_default=True,
        help="auto = drawn on a terminal, else only when the run waits; plain = a line every 10 s.",
    ),
]


def _apply(flags: Sequence[Flag[F]]) -> Flag[F]:
    def decorate(function: F) -> F:
        for flag in reversed(flags):
            function = flag(function)
        return function

    return decorate


def options_of(function: Callable[..., Any]) -> Flag[Any]:
    """Returns the flags of an API function's options, in the order of all; `progress` has flags of its own."""
    return _apply([flag for name, flag in _FLAGS.items() if name in inspect.signature(function).parameters])


# `shoal generate` shares the flags, but says in its own words what is called and what is named.
_GENERATE_OWN = dict(
    [
        _option(
            "name",
            "The name of a number's file: a template, as str.format of Python has it.",
            metavar="TEMPLATE",
            default=inspect.signature(_generate.generate).parameters["name"].default,
        ),
        _option(
            "workers", 'How many processes; "auto" is one for each core.', metavar="N|auto", callback=_number_or_word
        ),
        _option("memory", "Most bytes of finished data that wait to be written.", metavar="SIZE"),
        (
            "resume",
            _resume_flags(
                failed="Try the failures in the journal again, and nothing else.", restart="Make everything anew."
            ),
        ),
        (
            "header",
            click.option(
                "--header/--no-header", default=True, help="Whether a table's .csv begins with its columns' names."
            ),
        ),
        (
            "final_newline",
            click.option(
                "--final-newline/--no-final-newline",
                default=True,
                help="Whether a .csv or .jsonl ends in a line end.",
            ),
        ),
    ]
)
generate_options = _apply(
    [
        flag
        for name, flag in (_FLAGS | _GENERATE_OWN).items()
        if name in inspect.signature(_generate.generate).parameters
    ]
)

unzip_options = _apply(
    [flag for name, flag in (_ARCHIVE_FLAGS | _FLAGS).items() if name in inspect.signature(_unzip.unzip).parameters]
)

source_options = _apply([*_FILES_FLAGS.values(), *_LIST_GET_FLAGS.values(), *_ARCHIVE_FLAGS.values()])
output_options = _apply(_OUTPUT_FLAGS)


def source_of(text: str, options: dict[str, Any]) -> ListGet | Files | Archives:
    """Takes the options of sources out of `options`, and returns the source that they and the text stand for."""
    files = {name: options.pop(name) for name in _FILES_FLAGS}
    service = {name: options.pop(name) for name in _LIST_GET_FLAGS}
    archives = {name: options.pop(name) for name in _ARCHIVE_FLAGS}
    if text.startswith(_api.SERVICES):
        return _api.list_get(text, **service)
    if text.startswith(_api.FORMATS):
        return _api.archives(text, **archives)
    return _api.files(text, **files)
