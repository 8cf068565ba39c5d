"""`shoal unzip ARCHIVE... -d DIR`. Not here: flags (`_options.py`), printing (`_display.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import shoal
from shoal._list import listing_of
from shoal._options import names
from shoal.cli import _exit, _options
from shoal.cli._display import Display, command_failed, interrupted, out_json, out_rows, talk
from shoal.cli._fields import failure_fields
from shoal.cli._groups import DESTINATION, Command
from shoal.cli._summary import failure_text, local_time

EXAMPLES = """\b
Examples:
  shoal unzip photos.zip -d photos/                    one archive
  shoal unzip 'downloads/*.zip' -d out/                all of them as one job; run it again to resume
  shoal unzip *.tar.gz -d out/ --into-subdirectories   each into its own directory
  shoal unzip big.zip -d out/ --include '**/*.csv'      some of its entries
  shoal unzip --test downloads/*.zip                   check every entry, write nothing
  shoal unzip --list photos.zip                        size, time, archive and name of every entry
"""


@click.command("unzip", cls=Command, short_help="Unpack archives, many as one job; resumes.", epilog=EXAMPLES)
@click.argument("archives", metavar="ARCHIVE...", nargs=-1, required=True, type=click.Path())
@_options.flag(
    DESTINATION,
    ["-d", "--directory", "directory"],
    metavar="DIR",
    type=click.Path(),
    help="Unpack into this directory; it is created if missing.",
)
@_options.flag(DESTINATION, ["--test"], is_flag=True, help="Check every entry and write nothing.")
@_options.flag(DESTINATION, ["-l", "--list", "listed"], is_flag=True, help="List the entries and write nothing.")
@_options.options_of(shoal.unzip, "archives", "parquet", resume=("update", "failed", "relist", "restart"))
@_options.output_options
def command(
    archives: tuple[str, ...],
    directory: str | None,
    test: bool,
    listed: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Unpack zip and tar archives into DIR, all as one job.

    ARCHIVE is a file or a glob: zip or tar, plain or compressed by gzip, zstd, xz or bzip2. Nothing is written outside
    DIR, no links or devices are created, and every checksum is verified.

    Run the same command again to resume: the journal in DIR/.shoal records what is done. A bad entry or archive does
    not stop the others; it is recorded with its reason, and the exit code is 1. If two archives have the same name, the
    first one stays and the second is a failure.

    SIZE is a number of bytes, or text such as 10M, 64MiB or 1.5GB.
    """
    if (given := (directory is not None) + test + listed) != 1:
        which = "pass only one of them" if given else "pass one of them"
        raise click.UsageError(f"use -d DIR to unpack, --test to check, or --list to list: {which}")
    options = _options.given(options)
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    if listed:
        useless = _options.typed() - names("archives") - {"listed", "include", "exclude"}
        display.unused(sorted(useless), "listing", " ".join(archives))
        return _list(archives, options, as_json=as_json)
    with _exit.Signals(display.stopping) as signals:
        try:
            display.begins(" ".join(archives), directory, "unpacking")
            what = archives[0] if len(archives) == 1 else archives
            target, unused = _options.destination_of("null:" if directory is None else directory, options)
            display.unused(unused, "destination", directory or "null:")
            options |= _options.cluster_of(options)
            report = shoal.unzip(what, target, **options, progress=display.progress)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None), resumes=not test)
            return signals.code or _exit.INTERRUPTED
        display.finished(report, directory, _verdict(report) if test else None)
    return _exit.code_of_report(report)


def _list(archives: tuple[str, ...], options: dict[str, Any], *, as_json: bool) -> int:
    """Prints a line for every entry, and an error for each that cannot be listed."""
    own = {name: options.pop(name) for name in names("archives") if name in options}
    objects = failed = 0
    with _exit.Signals(lambda: None) as signals:
        try:
            what = archives[0] if len(archives) == 1 else archives
            for batch in listing_of(shoal.archives(what, **own), options, raises=False):
                for one in batch:
                    if isinstance(one, shoal.Failure):
                        failed += 1
                        talk(f"error: {failure_text(one)}")
                        if as_json:
                            out_json({"type": "failure", **failure_fields([one])[0]})
                        continue
                    objects += 1
                    if as_json:
                        out_json(_fields(one))
                    else:
                        out_rows([_row(one)])
        except shoal.ShoalError as error:
            command_failed(error, as_json=as_json)
            return _exit.code_of(error)
        except KeyboardInterrupt:
            interrupted(as_json=as_json)
            return signals.code or _exit.INTERRUPTED
    if as_json:
        out_json({"type": "report", "ok": not failed, "listed": objects + failed, "failed": failed})
    return _exit.SOME_FAILED if failed else _exit.DONE


def _fields(one: shoal.ListedObject) -> dict[str, Any]:
    time = one.last_modified and one.last_modified.isoformat()
    return {"type": "object", "name": one.name, "archive": one.archive, "size": one.size, "last_modified": time}


def _row(one: shoal.ListedObject) -> tuple[str, str, str, str]:
    time = local_time(one.last_modified) if one.last_modified else ""
    archive = (one.archive or "").removeprefix(f"{Path.cwd()}/")
    return f"{one.size:>12}", f"{time:19}", archive, one.name


def _verdict(report: shoal.Report) -> str:
    good = "1 entry is good" if report.written == 1 else f"{report.written:,} entries are good"
    return f"{good}, {report.failed:,} failed" if report.failed else good
