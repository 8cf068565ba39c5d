"""`shoal read SRC`. Not here: flags (`_options.py`), printing (`_display.py`)."""

from __future__ import annotations

from typing import Any, get_args

import click

import shoal
from shoal import _options as options_of_python
from shoal import _read
from shoal._options import SOURCES
from shoal.cli import _display, _exit, _options
from shoal.cli._checksums import each_checksum
from shoal.cli._display import Display
from shoal.cli._groups import ARCHIVES, OUTPUT, SERVICES, STORES, URLS, Command

EXAMPLES = """\b
Examples:
  shoal read photos/                                   read everything, count it and measure the speed
  shoal read 'photos/**/*.jpg' --workers 8             only these, eight at a time
  shoal read photos/ --checksum sha256 > SHA256SUMS    a manifest for shoal verify or sha256sum -c
  shoal read http://files.local:8080 --checksum xxh3   the same for a list/get service
  shoal read photos/ --part 3/16                       the fourth of sixteen parts
  shoal read 'zip:downloads/*.zip' --checksum sha256   the same for the entries of archives
"""


@click.command(
    "read",
    cls=Command,
    later=(SERVICES, STORES, URLS, ARCHIVES),
    short_help="Read everything and count it; print checksums on request.",
    epilog=EXAMPLES,
)
@click.argument("source", metavar="SRC", type=click.Path())
@_options.flag(
    OUTPUT,
    ["--checksum"],
    type=click.Choice(get_args(options_of_python.Checksum)),
    metavar="|".join(get_args(options_of_python.Checksum)),
    help="Print the checksum and the name of each object.",
)
@_options.urls_option
@_options.options_of(_read.read, *SOURCES)
@_options.output_options
def command(
    source: str,
    is_list: bool,
    checksum: options_of_python.Checksum | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Read every object of SRC and discard it, to count, to measure, or to make a manifest.

    SRC is a directory, a file, a glob in quotes, the URL of a list/get service, a bucket (`s3://BUCKET/PREFIX`),
    archives (`zip:GLOB`, `tar:GLOB`), or the rows of Parquet files (`parquet:DIR`); with --urls, a list of URLs.
    Nothing is written. An object that cannot be read does not stop the others: it is printed with its reason, and
    the exit code is 1.

    --checksum prints a line for each object, in the format that `sha256sum -c` and `shoal verify` read.

    SIZE is a number of bytes, or text such as 10M, 64MiB or 1.5GB.
    """
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            options = _options.given(options)
            what, unused = _options.source_of(source, options, is_list)
            display.begins(source, None)
            display.unused(unused, "source", source)
            if checksum is None and options.get("order", "any") == "any":
                options.pop("order", None)
                report = shoal.copy(what, "null:", **options, progress=display.progress)
            else:

                def show(name: str, size: int, digest: bytes) -> None:
                    if checksum is None:
                        return
                    if as_json:
                        fields = {"name": name, "size": size, "checksum": digest.hex()}
                        _display.out_json({"type": "object", **fields})
                    else:
                        _display.out_manifest_line(name, digest.hex())

                report = each_checksum(what, checksum or "xxh3", display.progress, options, show)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None), resumes=False)
            return signals.code or _exit.INTERRUPTED
        display.finished(report, None)
    return _exit.code_of_report(report)
