"""`shoal bench copy` and the other jobs, which have the same options. Not here: how it measures (`shoal_bench`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import shoal
from shoal_bench.cli import printing
from shoal_bench.cli.options import as_json, directory, only, plot, skip, stoppable

if TYPE_CHECKING:
    from shoal_bench.results import Results

# Job -> its line in the list of commands, and what is done.
JOBS = {
    "copy": (
        "Copy from a list/get service into a directory.",
        "Copy from a list/get service (a `shoal serve` of its own) into a directory, with every strategy.",
    ),
    "save": (
        "Save the files that a Python function makes.",
        "Save the files that a Python function makes into a directory, with every strategy.",
    ),
    "read": ("Read files into a program.", "Read generated files into a program, with every strategy."),
    "unzip": (
        "Unpack archives into a directory.",
        "Unpack archives of this machine's files into a directory, with every strategy.",
    ),
    "records": (
        "Loop over a flat file of 16-byte records.",
        "Loop over a flat file of 16-byte records, with every strategy.",
    ),
}

HELP = """

The programs take turns, each in a fresh directory, after a warm-up round. Every byte is compared. A program that fails
or is wrong loses its row, and the exit code is 1. Nothing is deleted before the end, because a file system that has
just freed files is slow to create new ones.

--workers and --sizes make a scan: a table for each size with a column per number of workers and the best of each line
marked. --only then names programs without their number (threads, not threads-8).

Close other programs, and do not run it within two minutes of deleting many files.
"""

EXAMPLES = """
shoal bench copy                              every strategy for copying from a list/get service
shoal bench copy --list                       the programs, and which cannot run here
shoal bench copy --only shoal,curl,combo --trials 5 --results copy.json
shoal bench copy --case hosts                 a list of URLs of 20 hosts, with shoal, aria2c, wget2 and curl
shoal bench copy --case tree                  a directory, with shoal, cp, rsync and tar
shoal bench save --durable --dir /mnt/disk    with a final sync in each time
shoal bench save --workers 1,2x10,4x10        processes, and processes with 10 threads each
shoal bench save --full                       as many files as in the study
shoal bench save --strategy mine.py:save      your own function in the same table
shoal bench save --plot save.svg --report save.html
shoal bench unzip --into null --cold          every entry verified, from a cold cache
shoal bench records --case sum                the sum of one field
shoal bench read --workers 1..64 --sizes 10KB,1MB,3.6MB --only threads,java,shoal
"""

# Written out, so that `shoal --help` need not load the lab; a test compares.
DEFAULTS = "60000 for copy, 1000 for save, 50000 for read, 7500 for unzip, 10000000 for records"
SIZES = "100 for copy, 10kB for read; save, unzip and records have their own sizes"
CASES = ("urls", "hosts", "tree", "many", "one", "tiny", "skewed", "touch", "sum", "filter", "group", "convert")

OPTIONS = [
    click.option(
        "--count", type=click.IntRange(1), show_default=DEFAULTS, help="Number of objects for the fastest programs."
    ),
    click.option("--size", metavar="SIZE", show_default=SIZES, help="Bytes of each object, such as 100 or 1MB."),
    click.option(
        "--trials",
        type=click.IntRange(1),
        show_default="3; of read --full 20 for small files",
        help="Measured rounds.",
    ),
    click.option(
        "--into",
        type=click.Choice(["files", "null"]),
        default="files",
        show_default=True,
        help="null: write nothing; in copy, with 10 or 50 times the objects.",
    ),
    click.option("--durable", is_flag=True, help="Include a final sync in each time."),
    click.option(
        "--case",
        type=click.Choice(CASES),
        help="For copy: a list of URLs of one server (urls) or of 20 hosts, or a directory (tree, with 30000 "
        "files of 10kB). For unzip: many archives (the default), one entry of 1 GB, tiny entries, or 99 small archives "
        "and a giant. For records: touch each (the default), sum, filter, group, or convert to Parquet.",
    ),
    click.option("--cold", is_flag=True, help="For unzip and records: read from a cold cache."),
    click.option(
        "--full",
        is_flag=True,
        help="Use the study's sizes. Each program runs for about one second, or over all data for read and records.",
    ),
    click.option(
        "--workers",
        metavar="N,...|N..M|NxT",
        help="Measure each program with these numbers of workers: 1,2,8, or 1..64, which doubles (1, 2, 4, ... 64), "
        "or a grid such as 2x10 or 1..4x10 (processes with threads in each). "
        "One worker is always measured too.",
    ),
    click.option(
        "--sizes",
        metavar="SIZE,...",
        help="For copy and read: measure each of these sizes, such as 10KB,1MB; 200 MB each without --count.",
    ),
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        metavar="MODULE:FUNCTION",
        help="Add your own function, of a module or as FILE.py:FUNCTION; repeatable.",
    ),
    only,
    skip,
    click.option(
        "--list", "as_list", is_flag=True, help="List the programs, and what is missing for those that cannot run."
    ),
    directory,
    click.option("--keep", is_flag=True, help="Keep the files that were written."),
    click.option(
        "--results", "results_file", type=click.Path(path_type=Path), help="Write every trial to this file (JSON)."
    ),
    plot,
    click.option("--report", type=click.Path(path_type=Path), help="Write a report to this file: .html or .md."),
    as_json,
    click.option("-q", "--quiet", is_flag=True, help="Print only the table."),
]


def job_command(job: str) -> click.Command:
    """Returns the command of a job."""
    line, what = JOBS[job]

    def measure(**given: Any) -> int:
        return _measure(job, **given)

    decorated: Any = stoppable(measure)
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    examples = "".join(f"  {one}\n" for one in EXAMPLES.splitlines() if one.startswith(f"shoal bench {job}"))
    return click.command(job, short_help=line, help=what + HELP, epilog=f"\b\nExamples:\n{examples}")(decorated)


def _measure(
    job: str,
    *,
    size: str | None,
    sizes: str | None,
    workers: str | None,
    full: bool,
    as_list: bool,
    results_file: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    from shoal_bench import contest, curves, jobs, reports, scans, sizing, text
    from shoal_bench.contest import chosen
    from shoal_bench.results import Collection
    from shoal_bench.settings import parse_size

    results: Results | scans.Scan
    study = sizing.study(job) if full else None
    if study is not None and (given["count"] is not None or size is not None or sizes is not None):
        raise shoal.ConfigError("--full sets the number and the size", hint="leave out --count, --size and --sizes")
    if size is not None and sizes is not None:
        raise shoal.ConfigError("--sizes sets the sizes", hint="leave out --size")
    counted = given["count"] is not None or full
    trials = given["trials"]
    given |= {"count": study.count} if study else {}
    bytes_ = None if size is None else parse_size(size, "--size")
    settings = jobs.settings(job, size=bytes_, full=full, **given)
    points = curves.points(workers) if workers is not None else ()
    wanted = scans.sizes(sizes) if sizes is not None else (study.sizes if study else ())
    if as_list:
        some = [family.at(None) for family in scans.families_of(settings, points)] if points else chosen(settings)
        for one in some:
            lacks = one.missing()
            if as_json:
                printing.out_json({"type": "contestant", "key": one.key, "title": one.title, "missing": lacks or None})
            else:
                printing.out(f"{one.key:<24}{one.title}" + (f"   (cannot run: {lacks})" if lacks else ""))
        if as_json:
            printing.out_json({"type": "report", "ok": True, "contestants": len(some)})
        return 0
    reports.check(results_file, plot, report)
    talk = (lambda _: None) if quiet else printing.talk
    if points or wanted:
        results = scans.run(settings, points, wanted, talk, counted=counted, trials=trials)
    else:
        results = contest.run(settings, talk)
    # Before anything is printed: minutes of measuring must not depend on standard output.
    if results_file is not None:
        results_file.write_text(results.to_json() + "\n")
    if as_json:
        printing.out_json({"type": "report", "ok": not results.failed, **json.loads(results.to_json())})
    else:
        printing.out(text.table(results))
    contests = list(results.contests) if isinstance(results, scans.Scan) else [results]
    reports.draw(Collection(contests), picture=plot, path=report)
    return 1 if results.failed else 0
