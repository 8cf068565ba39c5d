"""`shoal bench all`: every job of the lab, one report. Not here: how they are run (`shoal_bench.everything`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import shoal
from shoal_bench.cli import printing
from shoal_bench.cli.options import as_json, directory, keys, only, plot, skip, stoppable

if TYPE_CHECKING:
    from shoal_bench.results import Collection

EXAMPLES = """\b
Examples:
  shoal bench all                                 writes report.html and report.json
  shoal bench all -o monday.html --dir /mnt/disk
  shoal bench all -o results.md                   as Markdown, for an issue or a README file
  shoal bench all --of save,unzip --trials 7 --minutes 30
  shoal bench all --scale 0.05 --minutes 2        a quick look; the figures mean little
"""

# Written out, so that --help need not load the lab; a test compares.
MINUTES = 9.5


@click.command("all", short_help="Measure every job and make one report.", epilog=EXAMPLES)
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The report, .html or .md; the results are next to it as JSON.",
)
@click.option("--of", default="", metavar="JOB,...", callback=keys, help="Only these jobs.")
@only
@skip
@click.option("--trials", default=3, show_default=True, type=click.IntRange(1), help="Most measured rounds.")
@click.option(
    "--minutes",
    default=MINUTES,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Time for all jobs; if it is short, there are fewer rounds, but at least one.",
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Fraction of the objects of each job.",
)
@plot
@directory
@click.option("-q", "--quiet", is_flag=True, help="Print only the tables.")
@as_json
@stoppable
def command(output: Path, plot: Path | None, quiet: bool, as_json: bool, **given: Any) -> int:
    """Measure every job of the lab, one after the other, and make one report.

    Every job runs with its defaults, and its results are written when it ends. A failed job does not stop the others;
    the report names it, and the exit code is 1. The same holds for a row that fails unexpectedly. All other files are
    removed at the very end: about 20 GB must be free.

    Close other programs, and do not run it within two minutes of deleting many files.
    """
    from shoal_bench import all as every
    from shoal_bench import reports, text

    json_file = output.with_suffix(".json")
    shown: set[str] = set()

    def finished(some: Collection) -> None:
        # After each job, so that stopping it later does not lose what there is.
        json_file.write_text(some.to_json() + "\n")
        reports.draw(some, picture=plot, path=output)
        for results in some.results:
            if results.job not in shown and not as_json:
                shown.add(results.job)
                printing.out(f"{results.job}\n\n{text.table(results)}\n\n")

    began = time.monotonic()
    if output.suffix.lower() == ".json":
        raise shoal.ConfigError(f"{str(output)!r} is the file of the results", hint="name the report .html or .md")
    reports.check(json_file, plot, output)
    found = every(progress=(lambda _: None) if quiet else printing.talk, finished=finished, **given)
    for job, why in found.failed.items():
        printing.talk(f"failed: {job}: {why}")
    if not quiet:
        took = (time.monotonic() - began) / 60
        printing.talk(f"{len(found.results)} jobs in {took:.1f} minutes: {output} and {json_file}")
    if as_json:
        fields = {"report": str(output), "results": str(json_file), "failed": found.failed}
        printing.out_json({"type": "report", "ok": found.clean, **fields})
    return 0 if found.clean else 1
