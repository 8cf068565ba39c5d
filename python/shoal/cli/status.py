"""`shoal status DST`. Not here: printing (`_status.py`)."""

from __future__ import annotations

import re
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import shoal
from shoal import _shoal
from shoal._progress import count_text
from shoal._sources import source_form
from shoal.cli import _display, _exit, _status
from shoal.cli._groups import Hinting, Usage
from shoal.cli._summary import FailureLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal._report import Failure, Status
    from shoal._source_types import Urls

EXAMPLES = """\b
Examples:
  shoal status out/                      counts, rate, the first failures
  shoal status out/ --failures all       every failure with its reason
  shoal status out/ --skipped all        skipped links, pipes, devices and duplicates
  shoal status out/ --csv > failed.csv   every failure, for a spreadsheet
  shoal status out/ --csv --urls list.csv
                                         the same, with the URL of each
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
    "--urls",
    metavar="LIST",
    type=click.Path(),
    help="With --csv, add a column with the URLs: read again from LIST, the list of URLs that was copied.",
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
    urls: str | None,
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
    if urls and (not as_csv or failures is not None):
        hint = f"shoal status {shlex.quote(path)} --csv --urls {shlex.quote(urls)}"
        raise Usage("--urls needs --csv, and prints all failures", hint=hint)
    with _exit.Signals(lambda: None) as signals:
        try:
            status = shoal.status(
                path, failures=failures or 0, skipped=skipped, allow_different_listings=allow_different_listings
            )
            if as_csv:
                _show_csv(status, failures, urls)
            else:
                _show(status, failures, skipped, as_json=as_json)
        except shoal.ShoalError as error:
            _display.command_failed(error, as_json=as_json)
            return _exit.code_of(error)
        except KeyboardInterrupt:
            _display.interrupted(as_json=as_json)
            return signals.code or _exit.INTERRUPTED
    return _exit.SOME_FAILED if exit_code and not _status.is_ok(status) else _exit.DONE


def _show(status: Status, failures: int | None, skipped: int | None, *, as_json: bool) -> None:
    path = Path(status.path)
    if status.parts and not as_json:
        _status.parts_as_text(status)
    # There may be millions of failures: they are printed as they are read, and never held in memory.
    for index, run in enumerate(status.runs):
        if not as_json:
            if status.parts:
                _status.failures_of_run(run)
            else:
                _status.run_status(status, run)
            _status.skipped_as_text(run, counted_only=skipped is None)
        elif skipped is None:
            _status.skipped_as_json(run)
        if failures is None:
            lines = FailureLines()
            text = partial(_lines_out, lines)
            _shoal.each_failure(path, index, False, _status.failures_as_json if as_json else text)
    if as_json:
        _status.status_as_json(status, with_names=skipped is not None)
    elif not status.runs and not status.parts:
        _status.no_runs(status)


def _lines_out(lines: FailureLines, failures: Sequence[Failure]) -> None:
    _status.lines_out(lines.of(failures))


def _show_csv(status: Status, failures: int | None, urls: str | None) -> None:
    path = Path(status.path)
    sources = [_same_list(run.source, urls) if urls else None for run in status.runs]
    if urls and not any(sources):
        raise shoal.ConfigError(f"{path}: no run here has copied a list of URLs", hint="leave out `urls`")
    table = _status.Table(has_urls=urls is not None)
    for index, (run, source) in enumerate(zip(status.runs, sources, strict=True)):
        table.failures(run.failures, source=run.source)
        table.skipped(run)
        for state in ("failed", "deferred") if failures is None else ():
            printer = partial(table.failures, source=run.source, state=state)
            _shoal.each_failure(path, index, state == "deferred", printer, source_form(source) if source else None)
    if table.changed:
        _display.talk(
            f"note: {count_text(table.changed)} without a URL: {urls} has another record in that place now, or is not "
            "the list that was copied"
        )


def _same_list(identity: str, path: str) -> Urls | None:
    """Returns a list as it was read for a run, of which the journal records the fields; None for another source."""
    field = r"(?<!\\) (url_field|name_field|name)=((?:[^\\ ]|\\.)*)"  # a space in a value has a backslash
    found = re.fullmatch(rf"urls:.*?((?:{field})*)", identity, re.DOTALL)
    if found is None:
        return None
    given: dict[str, list[str]] = {"url_field": ["url"], "name_field": [], "name": ["{name}"]}
    for option, value in re.findall(field, found[1]):
        given[option] = [*(given[option] if option == "name_field" else []), _decoded(value)]
    (url_field,), (name,), names = given["url_field"], given["name"], given["name_field"]
    is_option = names and f"{{{names[0]}}}" not in name  # else they are the columns in `name`
    return shoal.urls(path, url_field=url_field, name=name, name_field=names[0] if is_option else None)


def _decoded(value: str) -> str:
    """Returns an option as it was before its characters were escaped."""
    controls = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:u\{([0-9a-f]+)\}|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else controls.get(found[2], found[2]),
        value,
    )
