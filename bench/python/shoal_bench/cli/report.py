"""`shoal bench report`: a report of results. Not here: what is in it (`shoal_bench.reports`)."""

from __future__ import annotations

from pathlib import Path

import click

from shoal_bench.cli import printing
from shoal_bench.cli.options import as_json, plot

EXAMPLES = """\b
Examples:
  shoal bench report copy.json -o copy.html
  shoal bench report copy.json save.json read.json -o report.html --title "The new server"
  shoal bench report report.json -o report.html --plot rates.svg
  shoal bench report copy.json -o results.md      for an issue or a README file; its chart is results-copy.svg
"""


@click.command("report", short_help="Make a report of results.", epilog=EXAMPLES)
@click.argument("files", metavar="A.json ...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The report: .html or .md.")
@plot
@click.option("--title", help="The heading of the page.")
@as_json
def command(files: tuple[Path, ...], output: Path, plot: Path | None, title: str | None, as_json: bool) -> int:
    """Make one report of results that `shoal bench JOB --results` or `shoal bench all` has written.

    The report has charts, tables, what to use on that machine and why, the machine and the method. HTML is one file,
    without network access or scripts, readable on a phone, in light and dark. The charts of Markdown are SVG files next
    to it; without Matplotlib, its tables have text bars instead.
    """
    from shoal_bench import Collection, load, report, reports

    reports.check(None, plot, output)
    found = [load(path) for path in files]
    report(*found, path=output, **({"title": title} if title else {}))
    reports.draw(Collection([one for some in found for one in some.results]), picture=plot, path=None)
    if as_json:
        printing.out_json({"type": "report", "ok": True, "report": str(output), "plot": plot and str(plot)})
    return 0
