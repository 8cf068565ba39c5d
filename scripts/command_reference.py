"""Writes docs/command-reference.md from the parser of the command line: every command and every option.

Usage: command_reference.py            writes the file
       command_reference.py --check    fails if the file is not what would be written
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from shoal.cli import COMMANDS, app
from shoal.cli._groups import GROUPS

PAGE = Path(__file__).parent.parent / "docs/command-reference.md"
HEAD = """\
# Every command and option

This page is what `shoal COMMAND --help-all` prints, as a page. [The command line](commands.md) explains what commands
have in common: output, JSON, exit codes, environment variables. A script writes this page: change the help instead, and
run `.venv/bin/python scripts/command_reference.py`.
"""


def spoken(words: str) -> str:
    """Returns the values of an option, such as `never|always`, without the bars that would end a table's cell."""
    *first, last = (f"`{word}`" for word in words.split("|"))
    return f"{', '.join(first)} or {last}" if first else last


def escaped(text: str) -> str:
    """Returns a text without characters that mean something in Markdown, except in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*<|]|(?<!\w)_)", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def flags(option: click.Option, record: str) -> str:
    """Returns the first cell of an option: its flags, and its value if it takes one."""
    names, _, value = record.partition(" ") if ", " not in record else record.rpartition(" ")
    if option.is_flag or option.count:
        names, value = record, ""
    return f"`{names}` {spoken(value)}".rstrip() if value else f"`{names}`"


def options(ctx: click.Context) -> Iterator[str]:
    """Yields a table for each group of options, in the order of the help."""
    groups: dict[str, list[str]] = {}
    for param in ctx.command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if isinstance(param, click.Option) and record is not None:
            row = f"| {flags(param, record[0])} | {escaped(' '.join(record[1].split()))} |"
            groups.setdefault(getattr(param, "group", "Options"), []).append(row)
    for group in dict.fromkeys([*GROUPS, *groups]):
        rows = groups.get(group, [])
        if any("`--help`" not in row for row in rows):
            yield "\n".join([f"| {group} | |", "|---|---|", *rows])


def paragraphs(text: str) -> Iterator[str]:
    """Yields a help text as Markdown; what click keeps as it is becomes code."""
    for block in re.split(r"\n\n+", inspect.cleandoc(text)):
        if block.startswith("\b"):
            title, *lines = block.removeprefix("\b\n").splitlines()
            if lines:
                yield title
            yield "\n".join("    " + line.removeprefix("  ") for line in lines or [title])
        else:
            yield textwrap.fill(escaped(" ".join(block.split())), 118, break_on_hyphens=False)


def section(name: str) -> Iterator[str]:
    """Yields what the page says of a command."""
    command = app.get_command(click.Context(app), name)
    assert command is not None  # noqa: S101  # COMMANDS has only those that there are
    ctx = click.Context(command, info_name=f"shoal {name}")
    yield f"## shoal {name}"
    yield "    " + " ".join([f"shoal {name}", *command.collect_usage_pieces(ctx)]).rstrip()
    yield from paragraphs(command.help or "")
    yield from options(ctx)
    yield from paragraphs(command.epilog or "")


def page() -> str:
    """Returns the whole page."""
    lab = "`shoal bench JOB` is part of the package `shoal-bench`: [the lab](../bench/README.md)."
    parts = [HEAD.rstrip()]
    for name in COMMANDS:
        parts += ["## shoal bench", lab] if name == "bench" else section(name)
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    if arguments != ["--check"]:
        PAGE.write_text(page())
        return 0
    if PAGE.is_file() and PAGE.read_text() == page():
        return 0
    print(f"docs/{PAGE.name} is not what the parser says: run .venv/bin/python scripts/command_reference.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
