"""`shoal unzip ARCHIVE... -d DIR`. Not here: flags (`_options.py`), words (`_display.py`)."""

from __future__ import annotations

from typing import Any

import click

import shoal
from shoal.cli import _exit, _options
from shoal.cli._display import Display
from shoal.cli._groups import DESTINATION, Command

EXAMPLES = """\b
Examples:
  shoal unzip photos.zip -d photos/                    one archive
  shoal unzip 'downloads/*.zip' -d out/                all of them as one job; again: resumes
  shoal unzip *.tar.gz -d out/ --into-subdirectories   each in a directory of its own
  shoal unzip big.zip -d out/ --include '**/*.csv'      some of its entries
  shoal unzip --test downloads/*.zip                   check every entry, write nothing
"""


@click.command("unzip", cls=Command, short_help="Unpack archives, many as one job; resumes.", epilog=EXAMPLES)
@click.argument("archives", metavar="ARCHIVE...", nargs=-1, required=True, type=click.Path())
@_options.flag(
    DESTINATION,
    ["-d", "--directory", "directory"],
    metavar="DIR",
    type=click.Path(),
    help="Unpack into this directory; it is made if it is not there.",
)
@_options.flag(DESTINATION, ["--test"], is_flag=True, help="Check every entry and write nothing.")
@_options.options_of(shoal.unzip)
@_options.output_options
def command(
    archives: tuple[str, ...],
    directory: str | None,
    test: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Unpack zip and tar archives into DIR, all as one job.

    ARCHIVE is a file or a glob: zip or tar, plain or compressed by gzip, zstd, xz or bzip2. Nothing is written outside
    DIR, no links or devices are made, and every checksum is verified.

    Run the same command again to resume: the journal in DIR/.shoal knows what is done. A bad entry or archive does not
    stop the others; it is recorded with its reason, and the exit code is 1. So is a name that two archives have: the
    first one stays.

    SIZE is a number of bytes, or text such as 10M, 64MiB or 1.5GB.
    """
    if (directory is not None) == test:
        which = "not both" if test else "one of the two is needed"
        raise click.UsageError(f"say where to with -d DIR, or --test to check and write nothing: {which}")
    target = "null:" if directory is None else directory
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            display.begins(" ".join(archives), directory, "unpacking")
            what = archives[0] if len(archives) == 1 else archives
            report = shoal.unzip(what, target, **options, progress=display.progress)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None), resumes=not test)
            return signals.code or _exit.INTERRUPTED
        display.finished(report, directory, _verdict(report) if test else None)
    return _exit.code_of_report(report)


def _verdict(report: shoal.Report) -> str:
    good = "1 entry is good" if report.written == 1 else f"{report.written:,} entries are good"
    return f"{good}, {report.failed:,} failed" if report.failed else good
