"""`shoal status DST`. Not here: printing (`_status.py`)."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import shoal
from shoal import _shoal
from shoal.cli import _display, _exit, _status
from shoal.cli._groups import Hinting
from shoal.cli._summary import FailureLines

if TYPE_CHECKING:
    from shoal._report import Status

EXAMPLES = """\b
Examples:
  shoal status out/                      counts, rate, the first failures
  shoal status out/ --failures all       all failures; --csv and --json name each
  shoal status out/ --skipped all        skipped links, pipes, devices and duplicates
  shoal status out/ --csv > failed.csv   every failure, for a spreadsheet
  shoal status out/ --json | jq .        for programs
  shoal status out/ --exit-code          for scripts: 1 unless all of it is done
"""


def _how_many(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdecimal() or int(value) > sys.maxsize:
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'")
    return int(value)


@click.command("status", cls=Hinting, short_help="Show what is done, what failed and why.", epilog=EXAMPLES)
@click.argument("path", metavar="DST", type=click.Path())
@click.option(
    "--failures", default="5", show_default=True, metavar="N|all", callback=_how_many, help="Number of failures shown."
)
@click.option(
    "--skipped",
    default="0",
    show_default=True,
    metavar="N|all",
    callback=_how_many,
    help="Number of names shown of skipped links, pipes and duplicates.",
)
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print failures as CSV: all of them and those that wait for a retry, or as many as --failures says.",
)
@click.option(
    "--allow-different-listings", is_flag=True, help="Accept parts that have listed different names as complete."
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 unless all runs are complete and no object failed.")
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON; the last is the report or the error.")
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    failures: int | None,
    skipped: int | None,
    as_csv: bool,
    allow_different_listings: bool,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Show what the journal of DST records: what is done, what failed and why, the rate, and the running process.

    DST is the destination of a run, also parquet:DIR, or the file given with --journal. Nothing is changed, and a run
    may be in progress. Of a job in parts, the counts are sums over all parts. It is complete only if all of them are,
    and all have listed the same names. The exit code is 0 if the journal could be read; --exit-code changes that.
    """
    if as_csv and as_json:
        raise click.UsageError("pass either --csv or --json")
    if as_csv and ctx.get_parameter_source("failures") is click.core.ParameterSource.DEFAULT:
        failures = None
    with _exit.Signals(lambda: None) as signals:
        try:
            status = shoal.status(
                path, failures=failures or 0, skipped=skipped, allow_different_listings=allow_different_listings
            )
            _show(status, failures, skipped, as_csv=as_csv, as_json=as_json)
        except shoal.ShoalError as error:
            _display.command_failed(error, as_json=as_json)
            return _exit.code_of(error)
        except KeyboardInterrupt:
            _display.interrupted(as_json=as_json)
            return signals.code or _exit.INTERRUPTED
    return _exit.SOME_FAILED if exit_code and not _status.is_ok(status) else _exit.DONE


def _show(status: Status, failures: int | None, skipped: int | None, *, as_csv: bool, as_json: bool) -> None:
    path = Path(status.path)
    if as_csv:
        _display.out_csv([_status.CSV_HEADER])
    elif status.parts and not as_json:
        _status.parts_as_text(status)
    # There may be millions of failures: they are printed as they are read, and never held in memory.
    for index, run in enumerate(status.runs):
        if as_csv:
            _status.failures_as_csv(run.failures, run.source)
            _status.skipped_as_csv(run)
        elif not as_json:
            if status.parts:
                _status.failures_of_run(run)
            else:
                _status.run_status(status, run)
            _status.skipped_as_text(run, counted_only=skipped is None)
        elif skipped is None:
            _status.skipped_as_json(run)
        if failures is None:
            lines = FailureLines()
            _shoal.each_failure(path, index, False, _printer(run.source, lines, as_csv=as_csv, as_json=as_json))
            _status.lines_out(lines.rest())
            if as_csv and run.deferred:
                waiting = partial(_status.failures_as_csv, source=run.source, state="deferred")
                _shoal.each_failure(path, index, True, waiting)
    if as_json:
        _status.status_as_json(status, with_names=skipped is not None)
    elif not status.runs and not status.parts and not as_csv:
        _status.no_runs(status)


def _printer(source: str, lines: FailureLines, *, as_csv: bool, as_json: bool) -> _status.Printer:
    if as_csv:
        return lambda failures: _status.failures_as_csv(failures, source)
    return _status.failures_as_json if as_json else lambda failures: _status.lines_out(lines.of(failures))
