"""`shoal bench compare`: two results side by side. Not here: what is compared, and how (`shoal_bench.comparison`)."""

from __future__ import annotations

from pathlib import Path

import click

import shoal
from shoal_bench.cli import printing
from shoal_bench.cli.options import as_json

EXAMPLES = """\b
Examples:
  shoal bench compare monday.json tuesday.json    do the ratios agree within 10 %?
  shoal bench compare laptop.json server.json     which machine is faster at what?
  shoal bench compare before.json after.json --json
"""


@click.command("compare", short_help="Compare two results.", epilog=EXAMPLES)
@click.argument("first", metavar="A.json", type=click.Path(path_type=Path))
@click.argument("second", metavar="B.json", type=click.Path(path_type=Path))
@as_json
def command(first: Path, second: Path, as_json: bool) -> int:
    """Compare two results of `shoal bench` that --results has written.

    It compares the programs that are in both: their rates, and their ratios to the base row, which transfer better
    between machines. It prints differences in machine, settings and versions, and marks rows with overlapping trials,
    where a difference means nothing. Two results of the same machine should have ratios that agree within 10 %. If they
    do not, the machine is too noisy, and it says so.

    The exit code is 0 whatever the figures are, and 2 if the files cannot be compared.
    """
    from shoal_bench import compare, load, table

    both = [load(path) for path in (first, second)]
    pairs = []
    for job in dict.fromkeys(one.job for one in both[0].results):
        # Of several results of one job (a sweep over sizes), the first is compared with the first.
        mine, theirs = ([one for one in some.results if one.job == job] for some in both)
        pairs += [compare(one, other) for one, other in zip(mine, theirs, strict=False)]
    if not pairs:
        jobs = [", ".join(one.job for one in some.results) or "no job" for some in both]
        raise shoal.ConfigError(f"there is no job in both: {jobs[0]} and {jobs[1]}")
    if as_json:
        for found in pairs:
            printing.out_json(found.parts())
        printing.out_json({"type": "report", "ok": True, "compared": [found.job for found in pairs]})
    else:
        printing.out("\n\n\n".join(table(found) for found in pairs))
    return 0
