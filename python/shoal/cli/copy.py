"""`shoal copy SRC DST`. Not here: flags (`_options.py`), words (`_display.py`)."""

from __future__ import annotations

from typing import Any

import click

import shoal
from shoal.cli import _exit, _options
from shoal.cli._display import Display

EXAMPLES = """\b
Examples:
  shoal copy http://files.local:8080 out/              every object, one file each
  shoal copy http://files.local:8080 out/              again: goes on where it was stopped
  shoal copy http://files.local:8080 out/ --update     what is new or differs
  shoal copy photos/ out/ --include '**/*.jpg'          some files of a directory
  shoal copy 'zip:downloads/*.zip' out/                 what archives hold; see also shoal unzip
  shoal copy http://files.local:8080 null:             count and drop: how fast is the source?
  shoal copy http://api.example/v1 out/ --list-path /names --get-path '/raw/{name}' \\
      --names-field items --next-field cursor --marker-param after --header @secrets
                                                       a service that speaks a little differently
"""


@click.command("copy", short_help="Copy every object of a source into a directory; resumes.", epilog=EXAMPLES)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@_options.options_of(shoal.copy)
@_options.source_options
@_options.output_options
def command(
    source: str,
    destination: str,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Copy every object of SRC into DST.

    SRC is the URL of a list/get service: `GET /list` answers with names, `GET /get/NAME` with an object. Or it is a
    directory, a file or a glob (in quotes, so that shoal sees it), or with `zip:` or `tar:` in front of a file or glob
    what those archives hold. DST is a directory, made if it is not there, or `null:`.

    What is committed is in the journal DST/.shoal, so the same command again continues after a kill, a crash or Ctrl-C
    without fetching it once more. An object that fails does not stop the others: it is noted with its reason, and the
    exit code is 1.

    Nothing else should change DST while a run is under way, or within 5 seconds after it was killed, and no directory
    that was filled meanwhile be moved into it: such files cannot be told from the run's own.

    SIZE is a number of bytes or text such as 64MiB or 1.5GB.
    """
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            display.begins(source, destination)
            what = _options.source_of(source, options)
            report = shoal.copy(what, destination, **options, progress=display.progress)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None))
            return signals.code or _exit.INTERRUPTED
        display.finished(report, destination)
    return _exit.code_of_report(report)
