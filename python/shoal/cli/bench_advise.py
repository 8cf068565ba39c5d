"""`shoal bench advise MODULE:FUNCTION IDS`. Not here: what is measured, and what follows (`shoal.bench.adviser`)."""

from __future__ import annotations

from pathlib import Path

import click

import shoal
from shoal.cli import _display, _exit

EXAMPLES = """\b
Examples:
  shoal bench advise make:table 0..1000             table(0), table(1), ... of make.py
  shoal bench advise mine.py:fetch ids.txt          an id in each line of a file
  shoal bench advise make:table 0..50 --json advice.json
"""


@click.command("advise", short_help="Say what to run a function of yours with.", epilog=EXAMPLES)
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("ids", metavar="IDS")
@click.option("--seconds", default=8.0, show_default=True, type=click.FloatRange(1, 600), help="How long it is called.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all figures to this file as JSON.")
def command(function: str, ids: str, seconds: float, json_file: Path | None) -> int:
    """Measure FUNCTION on a sample of IDS and say what to run it with: threads, processes, async, or shoal.

    FUNCTION takes one id. It is found as `python -m` finds it, or in a file: FILE.py:FUNCTION. IDS are a range such as
    0..1000, which is 0 to 999, or a file with an id in each line.

    It is called for about ten seconds in processes of its own: by one thread, by two, and in two processes. What it
    does besides, such as writing files, it really does.
    """
    from shoal.bench import advise

    try:
        if json_file is not None and not json_file.absolute().parent.is_dir():
            raise shoal.ConfigError(
                f"there is no directory {str(json_file.absolute().parent)!r}", hint="make it before"
            )
        advice = advise(function, ids, seconds=seconds)
    except shoal.ShoalError as error:
        _display.command_failed(error, as_json=False)
        return _exit.code_of(error)
    if json_file is not None:
        json_file.write_text(advice.to_json() + "\n")
    _display.out(advice.text())
    return _exit.DONE
