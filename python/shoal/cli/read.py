"""`shoal read SRC`. Not here: flags (`_options.py`), words (`_display.py`)."""

from __future__ import annotations

from typing import Any, get_args

import click

import shoal
from shoal import _options as options_of_python
from shoal import _read
from shoal.cli import _display, _exit, _options
from shoal.cli._display import Display

EXAMPLES = """\b
Examples:
  shoal read photos/                                   read everything: how much is it, how fast does it come?
  shoal read 'photos/**/*.jpg' --workers 8             only these, eight at a time
  shoal read photos/ --checksum sha256 > SHA256SUMS    a manifest, which sha256sum -c checks
  shoal read http://files.local:8080 --checksum xxh3   the same of a list/get service
  shoal read 'zip:downloads/*.zip' --checksum sha256   the same of what archives hold
"""


@click.command("read", short_help="Read everything; count it, and on request its checksums.", epilog=EXAMPLES)
@click.argument("source", metavar="SRC")
@click.option(
    "--checksum",
    type=click.Choice(get_args(options_of_python.Checksum)),
    help="Print a line for each object: its checksum, two spaces, its name.",
)
@_options.options_of(_read.read)
@_options.source_options
@_options.output_options
def command(
    source: str,
    checksum: options_of_python.Checksum | None,
    order: options_of_python.Order | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Read every object of SRC and throw it away: what is there, and how fast can it be read?

    SRC is a directory, a file, a glob (in quotes, so that shoal sees it), the URL of a list/get service, or with `zip:`
    or `tar:` in front of a file or glob what those archives hold. Nothing is written. An object that cannot be read
    does not stop the others: it is named with its reason, and the exit code is 1.

    With --checksum each object's checksum is printed, as they are ready or with --order given in the order of the
    listing. Names with bytes that a terminal might act on are printed with escapes, after a backslash in front of the
    line.

    SIZE is a number of bytes or text such as 64MiB or 1.5GB.
    """
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            what = _options.source_of(source, options)
            display.begins(source, None)
            if checksum is None and order is None:
                report = shoal.copy(what, "null:", **options, progress=display.progress)
            else:
                own = options_of_python.read_options(
                    order=order, chunk_size=None, checksum=checksum or "xxh3", shard=None
                )
                with _read.reader(what, own, display.progress, **options) as reader:
                    for one in reader:
                        if checksum is not None:
                            # Eight bytes of size, then the checksum (the engine's `sink/digest.rs`).
                            size, digest = int.from_bytes(one.data[:8], "little"), one.data[8:].hex()
                            _display.manifest_line(one.name, size, digest, as_json=as_json)
                assert reader.report is not None  # noqa: S101  # the reader is closed
                report = reader.report
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None), resumes=False)
            return signals.code or _exit.INTERRUPTED
        display.finished(report, None)
    return _exit.code_of_report(report)
