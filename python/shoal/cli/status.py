"""`shoal status DST`. Not here: words (`_display.py`)."""

from __future__ import annotations

from pathlib import Path

import click

import shoal
from shoal import _shoal
from shoal.cli import _display, _exit

EXAMPLES = """\b
Examples:
  shoal status out/                    counts, rate, the first failures
  shoal status out/ --failures all     every failure with its reason
  shoal status out/ --skipped all      what was left out without being asked for
  shoal status out/ --json | jq .      for programs
"""


def _how_many(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'")
    return int(value)


@click.command("status", short_help="Say what is done, what failed and why.", epilog=EXAMPLES)
@click.argument("path", metavar="DST", type=click.Path(path_type=Path))
@click.option("--failures", default="5", show_default=True, metavar="N|all", callback=_how_many, help="Failures shown.")
@click.option(
    "--skipped",
    default="0",
    show_default=True,
    metavar="N|all",
    callback=_how_many,
    help="Names shown of what was left out without being asked for: links, pipes, duplicates.",
)
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON; with 'all' one for each failure or name, first.")
def command(path: Path, failures: int | None, skipped: int | None, as_json: bool) -> int:
    """Say what the journal of DST holds: what is done, what failed and why, how fast it went, who works on it.

    DST is the destination of a run, or the file given with --journal. Nothing is changed, and a run may be at work
    meanwhile. The exit code is 0 whatever the journal says.
    """
    try:
        status = shoal.status(path, failures=failures or 0, skipped=skipped)
        # All failures may be millions: they are printed as they are read, never held.
        for index, run in enumerate(status.runs):
            if not as_json:
                _display.run_status(status, run)
                _display.skipped_as_text(run, counted_only=skipped is None)
            elif skipped is None:
                _display.skipped_as_json(run)
            if failures is None:
                printer = _display.failures_as_json if as_json else _display.failures_as_text
                _shoal.each_failure(path, index, printer)
    except shoal.ShoalError as error:
        _display.command_failed(error, as_json=as_json)
        return _exit.code_of(error)
    if as_json:
        _display.status_as_json(status, with_names=skipped is not None)
    elif not status.runs:
        _display.out(f"{path}: a run was begun a moment ago, and nothing is committed yet")
    return _exit.DONE
