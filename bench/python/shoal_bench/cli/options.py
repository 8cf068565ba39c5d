"""Shared by the lab's commands: options, and signal handling. Not here: the options of a job (`job.py`)."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from shoal_bench.cli import printing

# Exit codes, as of each command of shoal.
INTERRUPTED, TERMINATED = 130, 143
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stoppable(command: Callable[..., int]) -> Callable[..., int]:
    """Lets Ctrl-C, SIGTERM and SIGHUP end a measurement, which then removes what it has written."""

    @functools.wraps(command)
    def stopped(*given: Any, **options: Any) -> int:
        code = INTERRUPTED

        def stop(number: int, _frame: object) -> None:
            nonlocal code
            code = INTERRUPTED if number == signal.SIGINT else TERMINATED
            for other in before:
                signal.signal(other, signal.SIG_DFL)  # a second one ends it at once
            raise KeyboardInterrupt

        # An ignored signal stays ignored: `nohup` and background jobs of a shell rely on it.
        before = {one: signal.getsignal(one) for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
        for one in before:
            signal.signal(one, stop)
        try:
            return command(*given, **options)
        except KeyboardInterrupt:
            if options.get("as_json"):
                printing.out_json({"type": "error", "kind": "interrupted", "message": "stopped", "hint": None})
            return code
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    return stopped


def keys(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    """Reads a list of keys."""
    return tuple(key.strip() for key in value.split(",") if key.strip())


# Options that `all` has, too.
only = click.option("--only", default="", metavar="KEY,...", callback=keys, help="Only these programs.")
skip = click.option("--skip", default="", metavar="KEY,...", callback=keys, help="All but these programs.")
directory = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write files here, in a new directory that is removed at the end; by default the current directory.",
)
plot = click.option("--plot", type=click.Path(path_type=Path), help="Draw the rates to this file: .png or .svg.")
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print lines of JSON; the last is the report or the error."
)
