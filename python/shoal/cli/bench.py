"""`shoal bench JOB`: every strategy on this machine. Not here: how it measures (`shoal.bench`)."""

from __future__ import annotations

from pathlib import Path

import click

import shoal
from shoal.cli import _display, _exit

EXAMPLES = """\b
Examples:
  shoal bench copy                              every way to copy from a list/get service
  shoal bench copy --list                       who takes part, and who cannot here
  shoal bench copy --only shoal,curl,combo --trials 5 --json results.json
  shoal bench copy --into null                  nothing is written: how fast are the requests?
  shoal bench copy --durable --dir /mnt/disk    a final sync inside the time of each
"""


def _keys(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(key.strip() for key in value.split(",") if key.strip())


@click.command("bench", short_help="Measure every strategy for a job on this machine.", epilog=EXAMPLES)
@click.argument("job", metavar="JOB", type=click.Choice(["copy"]))
@click.option("--count", default=60_000, show_default=True, type=click.IntRange(1), help="Objects of the fastest.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(1), help="Bytes of each object.")
@click.option("--trials", default=3, show_default=True, type=click.IntRange(1), help="Rounds that count.")
@click.option(
    "--into",
    type=click.Choice(["files", "null"]),
    default="files",
    show_default=True,
    help="null = nothing is written, and each gets 10 or 50 times the objects.",
)
@click.option("--durable", is_flag=True, help="A final sync is inside the time of each.")
@click.option("--only", default="", metavar="KEY,...", callback=_keys, help="Only these contestants.")
@click.option("--skip", default="", metavar="KEY,...", callback=_keys, help="All but these contestants.")
@click.option("--list", "as_list", is_flag=True, help="Name the contestants, and what those lack that cannot run.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where files are written, in a new directory that is removed at the end; by default here.",
)
@click.option("--keep", is_flag=True, help="Leave the files that were written.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every trial to this file as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the table.")
def command(
    job: str,
    count: int,
    size: int,
    trials: int,
    into: str,
    durable: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    as_list: bool,
    directory: Path | None,
    keep: bool,
    json_file: Path | None,
    quiet: bool,
) -> int:
    """Measure every strategy for a JOB on this machine, beside shoal.

    JOB is `copy`: from a list/get service (`shoal serve`, started for it) into a directory. The contestants take turns,
    each into a fresh directory, after a round that does not count; every byte is compared after each run. Nothing is
    deleted before the end, since a file system that has just freed files is slow to make new ones.

    Close other programs, and do not run it within two minutes of deleting many files.
    """
    from shoal.bench import Settings, run
    from shoal.bench.contest import chosen

    settings = Settings(job, count, size, trials, into, durable, only, skip, directory, keep)
    try:
        if as_list:
            for one in chosen(settings):
                lacks = one.missing()
                _display.out(f"{one.key:<24}{one.title}" + (f"   (cannot run: {lacks})" if lacks else ""))
            return _exit.DONE
        results = run(settings, (lambda _: None) if quiet else _display.talk)
    except shoal.ShoalError as error:
        _display.command_failed(error, as_json=False)
        return _exit.code_of(error)
    _display.out(results.table())
    if json_file is not None:
        json_file.write_text(results.to_json() + "\n")
    return _exit.DONE
