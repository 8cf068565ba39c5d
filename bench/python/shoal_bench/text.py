"""Results as text, 120 columns wide, drawn by rich. Not here: its contents (`figures.py`, `comparison.py`)."""

import io
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from shoal_bench import figures, words
from shoal_bench.comparison import Comparison
from shoal_bench.recommendation import recommend
from shoal_bench.results import Results
from shoal_bench.scans import Scan

WIDTH = 120  # columns
BAR = 8  # columns of the longest bar
ACROSS = 5  # points of a scan side by side
SCANNED = "objects per second and, in brackets, times one worker; * is the best of its line."


def table(shown: Results | Scan | Comparison) -> str:
    """Returns a result, a scan or a comparison as text: the figures, and what a reader must know of them.

    Example:
        >>> results = shoal_bench.run("save", count=20, trials=1, only=["limit"])
        >>> "bare probe" in shoal_bench.table(results)
        True
    """
    if isinstance(shown, Scan):
        return _scan(shown)
    if isinstance(shown, Comparison):
        return _paragraphs(_grid(*shown.cells()), [*shown.notes()])
    said = [figures.about(shown), *figures.machines([shown]), *figures.notes(shown), *figures.noise(shown)]
    return _paragraphs(_drawn(figures.figures(shown)), [*said, recommend(shown).headline])


def _scan(scan: Scan) -> str:
    out = []
    for results in scan.contests:
        found = [curve for curve in scan.curves if curve.results is results]
        blocks = [_drawn(table) for table in figures.scanned(found, ACROSS)]
        said = [figures.summary(results, found), figures.about(results)]
        said += [*figures.notes(results), *figures.noise(results)]
        out.append(_paragraphs(f"{words.size(results.settings['size'])}\n\n" + "\n\n".join(blocks), said))
    return "\n\n\n".join([*out, _wrapped([SCANNED, *figures.machines(scan.contests[:1])])])


def _drawn(table: figures.Table) -> str:
    """Returns a table; where its lines have parts, with a bar as long as each behind the rate."""
    head, lines = list(table.head), [list(line) for line in table.lines]
    if table.parts:
        head.insert(2, "")
        for line, part in zip(lines, table.parts, strict=True):
            line.insert(2, bar(part, BAR))
    return _grid(head, lines)


def bar(part: float, longest: int) -> str:
    """Returns a bar of signs."""
    return "#" * max(1, round(longest * part))


def _grid(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Returns cells below one another; a long title wraps, figures never do."""
    grid = Grid(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="")
    for at, name in enumerate(head):
        left = at == 0 or not name  # titles, bars and marks
        grid.add_column(Text(name), justify="left" if left else "right", no_wrap=at > 0, overflow="fold")
    for line in lines:
        grid.add_row(*map(Text, line))
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _paragraphs(grid: str, said: Iterable[str]) -> str:
    return "\n".join([grid, "", _wrapped(said)])


def _wrapped(said: Iterable[str]) -> str:
    return "\n".join(textwrap.fill(one, WIDTH, subsequent_indent="  ") for one in said if one)
