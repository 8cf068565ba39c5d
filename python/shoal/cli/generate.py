"""`shoal generate MODULE:FUNCTION COUNT DST`. Not here: flags (`_options.py`), printing (`_display.py`)."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

import shoal
from shoal import _generate
from shoal.cli import _exit, _options
from shoal.cli._display import Display
from shoal.cli._groups import DESTINATION, Command, Usage

EXAMPLES = """\b
Examples:
  shoal generate make:table 2000 tables/ --name '{:05d}.csv'
                                       save table(0), table(1), ... of make.py, one file each
  shoal generate make:table 2000 tables/ --name '{:05d}.csv'
                                       run it again to resume
  shoal generate make:table 2000 tables/ --name '{:05d}.csv' --restart
                                       start over, after a change of make.py
"""


@click.command(
    "generate",
    cls=Command,
    short_help="Save the results of a function, one file per id; resumes.",
    epilog=EXAMPLES,
)
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("count", metavar="COUNT", type=click.IntRange(min=0))
@click.argument("destination", metavar="DST", type=click.Path())
@_options.flag(
    DESTINATION,
    ["--name"],
    required=True,
    default=None,  # its absence is told later than a wrong function
    metavar="TEMPLATE",
    help="Template for the names of the files.",
)
@_options.options_of(_generate.generate, resume=("failed", "restart"), workers="Number of processes.")
@_options.output_options
def command(
    function: str,
    count: int,
    destination: str,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Call FUNCTION with 0, 1, ... up to COUNT - 1 and save each result as a file in DST.

    MODULE is found as by `python -m`: in this directory, or installed. FUNCTION takes a whole number and returns text,
    bytes, anything with a buffer, or a table or array, which is written in the format of the name's suffix (.csv,
    .parquet, .arrow, .jsonl, .npy). There is one process per core, and each process writes its own files.

    Run the same command again to resume: the journal in DST/.shoal records what is done. If FUNCTION raises, the other
    numbers continue; the failure is recorded with the traceback, which `shoal status DST` shows, and the exit code
    is 1.

    SIZE is a number of bytes, or text such as 10M, 64MiB or 1.5GB.
    """
    # As `python -m` does; the worker processes get the same path.
    sys.path.insert(0, "")
    found = _function(function)
    if options["name"] is None:
        raise click.UsageError("missing option '--name'")
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            display.begins(function, destination, "saving")
            options = _options.given(options)
            options |= _options.cluster_of(options)
            report = _generate.generate(found, range(count), destination, **options, progress=display.progress)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None))
            return signals.code or _exit.INTERRUPTED
        display.finished(report, destination)
    return _exit.code_of_report(report)


def _function(text: str) -> Any:
    module, colon, name = text.partition(":")
    if module.endswith(".py") and colon and name:
        meant = module.removesuffix(".py").strip("./").replace("/", ".")
        raise Usage(f"{module!r} is the name of a file, not of a module", hint=f"use {meant}:{name}")
    if not colon or not module or not name:
        raise click.UsageError(f"not MODULE:FUNCTION: {text!r}; use make:table for table() in make.py")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  # importing it may raise anything
        raise click.UsageError(f"cannot import {module!r}: {type(error).__name__}: {error}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"there is no {name!r} in {module!r} ({getattr(found, '__file__', None)})")
        found = getattr(found, part)
    return found
