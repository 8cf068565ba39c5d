"""`shoal copy SRC DST`. Not here: flags (`_options.py`), printing (`_display.py`)."""

from __future__ import annotations

from typing import Any

import click

import shoal
from shoal._options import DESCRIBED
from shoal.cli import _exit, _options
from shoal.cli._display import Display
from shoal.cli._groups import ARCHIVES, SERVICES, STORES, URLS, Command, Usage

EXAMPLES = """\b
Examples:
  shoal copy http://files.local:8080 out/              every object, one file each
  shoal copy http://files.local:8080 out/              run it again to resume
  shoal copy photos/ backup/                           all files of a directory
  shoal copy photos/ backup/ --include '**/*.jpg'       some of them
  shoal copy 'zip:downloads/*.zip' out/                 the entries of archives; see also shoal unzip
  shoal copy http://files.local:8080 parquet:out/      one row each, in Parquet files: for tiny objects
  shoal copy s3://films/frames frames/                 a bucket, with the keys of the AWS command line; see --help-all
  shoal copy --urls list.txt out/                      a URL on each line, or NAME<TAB>URL; any number of hosts
  shoal copy http://files.local:8080 null:             discard everything: how fast is the source?
  shoal copy http://api.example/v1 out/ --list-path /names --get-path '/raw/{name}' \\
      --names-field items --next-field cursor --marker-param after --header @secrets
                                                       a service with other paths and fields
"""


@click.command(
    "copy",
    cls=Command,
    later=(SERVICES, STORES, URLS, ARCHIVES),
    short_help="Copy every object of a source into a directory; resumes.",
    epilog=EXAMPLES,
)
@click.argument("source", metavar="SRC", type=click.Path())
@click.argument("destination", metavar="DST", type=click.Path())
@click.argument("more", metavar="", nargs=-1, type=click.Path())
@_options.urls_option
@_options.options_of(shoal.copy, *DESCRIBED)
@_options.output_options
def command(
    source: str,
    destination: str,
    more: tuple[str, ...],
    is_list: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Copy every object of SRC into DST.

    SRC is a directory, a file, a glob in quotes, the URL of a list/get service, a bucket (`s3://BUCKET/PREFIX`),
    archives (`zip:GLOB`, `tar:GLOB`), or the rows of Parquet files (`parquet:DIR`); with --urls, a list of URLs.
    DST is a directory, which is created if it does not exist; `parquet:DIR`, which packs the objects as rows of Parquet
    files in DIR; or `null:`, which discards everything.

    Run the same command again to resume: the journal in DST/.shoal records what is done. A failed object does not stop
    the others; it is recorded with its reason, and the exit code is 1.

    Do not let other programs change DST during a run, or within 5 seconds after it was killed: shoal cannot tell their
    files from its own.

    SIZE is a number of bytes, or text such as 10M, 64MiB or 1.5GB.
    """
    if more:
        raise Usage(
            f"expected one source and one destination, got {2 + len(more)} arguments",
            hint=f"quote a glob, so that the shell does not expand it: shoal copy '*.json' {more[-1]}",
        )
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            display.begins(source, destination)
            options = _options.given(options)
            what, unused = _options.source_of(source, options, is_list)
            where, useless = _options.destination_of(destination, options)
            display.unused(unused, "source", source)
            display.unused(useless, "destination", destination)
            options |= _options.cluster_of(options)
            report = shoal.copy(what, where, **options, progress=display.progress)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None))
            return signals.code or _exit.INTERRUPTED
        display.finished(report, destination)
    return _exit.code_of_report(report)
