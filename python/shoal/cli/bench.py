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
  shoal bench save                              every way to save the files that a Python function makes
  shoal bench read                              every way to read 50,000 files of 10 kB
  shoal bench read --count 2000 --size 1MB      the same with large files
  shoal bench unzip                             every way to extract many archives
  shoal bench unzip --into null --cold          every entry checked, the archives not in the page cache
  shoal bench unzip --count 50000               40 archives, about 1.6 GB
  shoal bench records                           every way to go through a flat file of 16-byte records
  shoal bench records --case sum --cold         one field added up, the file not in the page cache
"""


# Written out, so that `shoal --help` need not load the lab; a test compares.
DEFAULTS = "60000 for copy, 2000 for save, 50000 for read, 12000 for unzip, 10000000 for records"
SIZES = "100 for copy, 10kB for read; save, unzip and records have objects of their own size"
CASES = ("many", "one", "tiny", "skewed", "touch", "sum", "filter", "group", "convert")


def _keys(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(key.strip() for key in value.split(",") if key.strip())


@click.command("bench", short_help="Measure every strategy for a job on this machine.", epilog=EXAMPLES)
@click.argument("job", metavar="JOB", type=click.Choice(["copy", "save", "read", "unzip", "records"]))
@click.option("--count", type=click.IntRange(1), show_default=DEFAULTS, help="Objects of the fastest.")
@click.option("--size", metavar="SIZE", show_default=SIZES, help="Bytes of each object, such as 100 or 1MB.")
@click.option("--trials", default=3, show_default=True, type=click.IntRange(1), help="Rounds that count.")
@click.option(
    "--into",
    type=click.Choice(["files", "null"]),
    default="files",
    show_default=True,
    help="null = nothing is written; of copy, each gets 10 or 50 times the objects.",
)
@click.option("--durable", is_flag=True, help="A final sync is inside the time of each.")
@click.option(
    "--case",
    type=click.Choice(CASES),
    help="Of unzip: many archives (the default), one entry of 1 GB, tiny entries, 99 small archives and a giant. "
    "Of records: touch each (the default), sum, filter, group, convert to Parquet.",
)
@click.option("--cold", is_flag=True, help="Of unzip and records: what is read is not in the page cache.")
@click.option("--full", is_flag=True, help="Of records: as many as the study has, 93,368,320.")
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
    count: int | None,
    size: str | None,
    trials: int,
    into: str,
    durable: bool,
    case: str | None,
    cold: bool,
    full: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    as_list: bool,
    directory: Path | None,
    keep: bool,
    json_file: Path | None,
    quiet: bool,
) -> int:
    """Measure every strategy for a JOB on this machine, beside shoal.

    JOB is `copy`: from a list/get service (`shoal serve`, started for it) into a directory; `save`: files that a Python
    function makes, into a directory; `read`: files, made for it, into a program; `unzip`: archives, made of this
    machine's files, into a directory; or `records`: a flat file of 16-byte records, through a loop.

    The contestants take turns, each into a fresh directory, after a round that does not count; every byte is compared.
    One that fails or is wrong loses its row, and the exit code is then 1. Nothing is deleted before the end, since a
    file system that has just freed files is slow to make new ones.

    Close other programs, and do not run it within two minutes of deleting many files.
    """
    from shoal._options import parse_size
    from shoal.bench import Settings, jobs, run
    from shoal.bench.contest import chosen

    try:
        chosen_job = jobs.named(job)
        if full and count is not None:
            raise shoal.ConfigError("--full says how many, and so does --count", hint="leave out one of them")
        settings = Settings(
            job=job,
            count=jobs.full(job) if full else chosen_job.COUNT if count is None else count,
            size=chosen_job.SIZE if size is None else parse_size(size, "--size"),
            trials=trials,
            into=into,
            durable=durable,
            only=only,
            skip=skip,
            directory=directory,
            keep=keep,
            case=case or "",
            cold=cold,
        )
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
    return _exit.SOME_FAILED if results.failed else _exit.DONE
