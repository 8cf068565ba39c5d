"""A group of commands that are loaded lazily: `shoal` and `shoal bench`.

Here: the list in `--help`, and the error for an unknown command. Not here: the commands.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click

from shoal.cli._groups import Usage


class Commands(click.Group):
    """A group that imports a command's module only when it is used, so that `--help` is fast."""

    def __init__(
        self, *given: Any, table: dict[str, str], package: str, elsewhere: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """Takes the commands with a line of help each, the package of their modules, and hints for other names."""
        super().__init__(*given, **more)
        self._table = table
        self._package = package
        self._elsewhere = elsewhere or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; `help COMMAND` is `COMMAND --help`, and nothing at all is `--help`."""
        # Not click's no_args_is_help: since 8.2 that is an error with the exit code 2.
        while args[:1] in ([], ["help"]):
            args = [*args[1:], "--help"]
        if args[0] == "version" and ctx.parent is None:
            args = ["--version", *args[1:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click calls it so
        """Returns the names in the order in which a newcomer needs them."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command."""
        if cmd_name not in self._table:
            return None
        command = importlib.import_module(f"{self._package}.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101  # each of our modules has one
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command, or suggests a similar one."""
        if args[0] not in self._table and not args[0].startswith("-"):
            near = next((f"did you mean {name!r}?" for name in get_close_matches(args[0], self._table, n=1)), None)
            hint = self._elsewhere.get(args[0]) or near or f"the commands are {', '.join(self._table)}"
            raise Usage(f"no such command {args[0]!r}", hint=hint, ctx=ctx)
        return super().resolve_command(ctx, args)
