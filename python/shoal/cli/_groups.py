"""Commands with options in groups, and hints for flags of other programs.

Here: the classes of commands and options. Not here: the flags (`_options.py`).
"""

from __future__ import annotations

import re
from typing import Any

import click

from shoal.cli import _display

SOURCE = "Source"
DESTINATION = "Destination"
ERRORS = "Errors and resuming"
SPEED = "Speed"
OUTPUT = "Output"
SERVICES = "Services"
URLS = "Lists of URLs"
ARCHIVES = "Archives"
GROUPS = (SOURCE, DESTINATION, ERRORS, SPEED, OUTPUT, SERVICES, URLS, ARCHIVES)
FIRST_COLUMN = 30  # characters: the longest flag with its value

# Flags of other programs, or of this one in the past, and what to type here.
_WORKERS = "use --workers"
_DIRECTORIES = "directories are always copied with their contents"
_ARCHIVE = "permissions and modification times are kept without a flag; links and owners are not"
_COMPARE = "--update compares size and time; `shoal verify` compares checksums"
_RESUME = "run the same command again to resume; --update lists the source again"
_FORCE = "use --overwrite always"
ELSEWHERE = {
    **dict.fromkeys(("--threads", "--jobs", "--parallel", "--transfers", "-P", "-t"), _WORKERS),
    **dict.fromkeys(("--recursive", "-r", "-R"), _DIRECTORIES),
    **dict.fromkeys(("--archive", "-a"), _ARCHIVE),
    **dict.fromkeys(("--checksum", "-c"), _COMPARE),
    **dict.fromkeys(("--resume", "--continue"), _RESUME),
    **dict.fromkeys(("--force", "-f"), _FORCE),
    "--again": "use --update to list the source again, or --restart to start over",
    "--delete": "shoal deletes nothing at the destination; rsync can",
    "--bwlimit": "use --limit-rate",
    "--layout": "to pack objects into few files, of about --shard-size bytes, use the destination parquet:DIR",
    "-u": "use --update",
    "-o": "pass the destination as the last argument",
}


class Option(click.Option):
    """An option that knows its group."""

    def __init__(self, *given: Any, group: str, **more: Any) -> None:
        """Takes the group, and click's own arguments."""
        super().__init__(*given, **more)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Returns flag and help; `--x / --no-x` is shortened, and a default is not in parentheses."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        return re.sub(r"--([a-z-]+) / --no-\1", r"--[no-]\1", record[0]), re.sub(
            r"default: \((.*)\)\]", r"default: \1]", record[1]
        )


class Command(click.Command):
    """A command that shows its options in groups, some of them only with `--help-all`."""

    def __init__(self, *given: Any, later: tuple[str, ...] = (), **more: Any) -> None:
        """Takes the groups that only `--help-all` shows, and click's own arguments."""
        super().__init__(*given, **more)
        self._later = later
        if later:
            what = f"Show every option: also {' and '.join(later).lower()}."
            self.params.append(
                Option(
                    ["--help-all"],
                    group=OUTPUT,
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=self._help_all,
                    help=what,
                )
            )

    def _help_all(self, ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            self._later = ()
            _display.out(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, a section for each group, with all flags in one column."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(param, "group", OUTPUT), []).append(record)
        for group in dict.fromkeys([*GROUPS, *groups]):  # those that are not known here last
            if group in groups and group not in self._later:
                with formatter.section(group):
                    formatter.write_dl([(flag.ljust(FIRST_COLUMN), text) for flag, text in groups[group]])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; for a flag of another program, says what to type instead."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {flag for param in self.params for flag in param.opts}
            meant = ELSEWHERE.get(error.option_name)
            if meant is not None and known.issuperset(re.findall(r"--[a-z-]+", meant)):
                raise Usage(f"no such option: {error.option_name}", hint=meant, ctx=ctx) from None
            raise


class Usage(click.UsageError):
    """A wrong command line, with what to do."""

    def __init__(self, message: str, *, hint: str, ctx: click.Context | None = None) -> None:
        """Takes the message and the hint."""
        super().__init__(message, ctx)
        self.hint = hint
