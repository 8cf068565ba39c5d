"""`shoal serve DIR | --synthetic COUNT:SIZE[:random]`. The URL goes to standard output, the rest to standard error."""

from __future__ import annotations

import time
from pathlib import Path

import click

import shoal
from shoal.cli import _display, _exit
from shoal.cli._groups import Hinting

EXAMPLES = """\b
Examples:
  shoal serve photos/                          the files below photos/, on http://127.0.0.1:8080
  shoal serve --synthetic 1000000:100          a million synthetic objects of 100 bytes
  shoal serve --synthetic 1000000:100:random   the same, with contents that do not compress
  shoal serve photos/ --port 0                 on a free port; the first line of output is the URL
  shoal copy http://127.0.0.1:8080 copied/     in another terminal
"""


@click.command("serve", cls=Hinting, short_help="Serve a directory, or synthetic objects, over HTTP.", epilog=EXAMPLES)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--synthetic",
    metavar="COUNT:SIZE",
    help="Instead of DIR: COUNT objects object-000000000... of SIZE bytes each: their name and a newline, repeated. "
    "COUNT:SIZE:random has bytes that do not compress.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all networks.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 for a free one.")
@click.option("--page-size", default=1000, show_default=True, type=click.IntRange(1), help="Names on one page.")
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Answer requests for this host name, besides addresses and this machine's own names; repeatable.",
)
@click.option("--access-log", type=click.Path(path_type=Path), help="Add a line for each request to this file.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the URL and errors.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print lines of JSON: the URL first; the last is the report or the error."
)
def command(
    directory: Path | None,
    synthetic: str | None,
    host: str,
    port: int,
    page_size: int,
    allow_host: tuple[str, ...],
    access_log: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Serve the files below DIR, or synthetic objects, as a list/get service.

    `GET /list` answers with a page of names and a marker for the next one, `GET /get/NAME` with the bytes of a file. No
    path outside DIR is ever served. Ctrl-C (or SIGTERM) lets requests in progress finish and stops; that is success,
    exit code 0.

    A listing has every file that existed when it was requested. Requests share an earlier reading of DIR only if that
    takes longer than 5 s, or if a client gave up waiting for it. What a listing leaves out (names that are not UTF-8,
    directories that cannot be read) is printed here and is on its last page.
    """
    if (directory is None) == (synthetic is None):
        raise click.UsageError("pass either DIR or --synthetic COUNT:SIZE[:random]")
    with _exit.Signals(lambda: None):
        try:
            server = shoal.serve(
                directory,
                synthetic=synthetic,
                host=host,
                port=port,
                page_size=page_size,
                access_log=access_log,
                allow_host=allow_host,
            )
        except shoal.ShoalError as error:
            _display.command_failed(error, as_json=as_json)
            return _exit.code_of(error)
        try:
            what = f"{synthetic} synthetic objects" if synthetic else str(directory)
            _display.service_started(server.url, what, quiet=quiet, as_json=as_json)
            said = (0, 0, 0)
            while True:
                said = _display.service_left_out(server.stats, said, quiet=quiet)
                time.sleep(0.2)  # until a signal arrives; one that arrives just before the sleep does not end it
        except KeyboardInterrupt:
            pass
        finally:
            server.stop()
        _display.service_stopped(server.stats, quiet=quiet, as_json=as_json)
    # A signal is the normal end of a service.
    return _exit.DONE
