"""The report as Markdown, for where HTML is not shown: issues, README files, wikis. Its charts are SVG files beside it.

The words and the cells are those of the page (`page/`), the pictures those of `plot.py`; without Matplotlib the table
has bars of signs instead. Not here: the single trials, which the page and the JSON file have.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from shoal_bench import page, plot, words
from shoal_bench.curve import curves
from shoal_bench.page import tables
from shoal_bench.page.markup import visible
from shoal_bench.recommendation import recommend
from shoal_bench.sweep_table import rate, ratio
from shoal_bench.table import BAR, notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shoal_bench.curve import Curve
    from shoal_bench.results import Results
    from shoal_bench.stored import Collection

SIGNS = re.compile(r"[\\`*_\[\]<>|~$&#]")  # what means something anywhere in a line
# And what does so at its beginning, up to the sign that is escaped: a rule, an underline, an item of a list.
FIRST = re.compile(r"[-=](?=[-=\s]*$)|[-+](?=\s|$)|\d+[.)](?=\s|$)")
LINK = "://"  # what GitHub makes a link of by itself
LONGEST = 60  # letters of a job in the name of a picture


def write(collection: Collection, path: Path, title: str = page.TITLE) -> str:
    """Writes the report, and a chart for each job beside it if Matplotlib is installed; returns the report."""
    charts = {}
    if plot.installed():
        for at, (one, name) in enumerate(zip(collection.results, _names(collection.results), strict=True)):
            if any(row.trials for row in one.rows):
                charts[at] = f"{path.stem}-{name}.svg"
                plot.draw([one], path.with_name(charts[at]))
    made = markdown(collection, title, charts)
    path.write_text(made, encoding="utf-8")
    return made


def markdown(collection: Collection, title: str = page.TITLE, charts: Mapping[int, str] | None = None) -> str:
    """Returns the report of some results; `charts` has the file of the picture of a result, by its place."""
    several = collection.results
    parts = [f"# {escaped(title)}", *(escaped(line) for line in page.machines(several))]
    if len(several) > 1:
        named = zip(page.names(several), several, strict=True)
        parts.append(_list(f"**{escaped(name)}**: {escaped(recommend(one).headline)}" for name, one in named))
    for at, one in enumerate(several):
        parts += _job(one, (charts or {}).get(at))
    if collection.failed:
        parts += [
            "## Jobs without results",
            _list(f"{escaped(job)}: {escaped(why)}" for job, why in collection.failed.items()),
        ]
    parts += ["## How it was measured", *(escaped(part) for part in page.METHOD), "Made by shoal bench."]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Returns text as one line that Markdown shows as it is, wherever it stands."""
    clean = SIGNS.sub(r"\\\g<0>", visible(" ".join(text.split())))
    first = FIRST.match(clean)
    if first:
        clean = f"{clean[: first.end() - 1]}\\{clean[first.end() - 1 :]}"
    return clean.replace(LINK, r":\//")


def _job(results: Results, chart: str | None) -> list[str]:
    """Returns the blocks of one result."""
    said, advice, explained = words.of(results.job), recommend(results), notes(results)
    lines = [escaped(reason) for reason in advice.reasons] + [f"*{escaped(caveat)}*" for caveat in advice.caveats]
    about = [[escaped(what), escaped(value)] for what, value in page.versions(results).items()]
    return [
        f"## {escaped(said.title)}",
        escaped(page.settings(results)),
        f"**{escaped(advice.headline)}**",
        _list(lines),
        f"![{said.noun} a second]({quote(os.fsencode(chart))})" if chart else "",
        *_figures(results, said.noun, bars=chart is None),
        escaped(page.base(results)),
        _list(map(escaped, explained)),
        *_folded("Machine and versions", _table(["", ""], "::", about)),
    ]


def _figures(results: Results, noun: str, *, bars: bool) -> list[str]:
    """Returns the table of the figures; of a sweep first what its curves say."""
    ran = [row for row in results.rows if row.trials]
    if not ran:
        return ["No row has figures."]
    head, lines = tables.cells(results, noun)
    cells = [[escaped(cell) for cell in line] for line, _ in lines]
    sides = ":" + "-" * (len(head) - 1)
    if bars:
        each = BAR / max(row.rate for row in ran)
        drawn = ["`" + "#" * max(1, round(each * row.rate)) + "`" for row in ran]
        cells = [[*line[:2], signs, *line[2:]] for line, signs in zip(cells, drawn, strict=True)]
        head, sides = [*head[:2], "", *head[2:]], f"{sides[:2]}:{sides[2:]}"
    table = _table([escaped(cell) for cell in head], sides, cells)
    found = curves(results)
    return [_sweep(found, noun), *_folded("Every point", table)] if found else [table]


def _sweep(found: Sequence[Curve], noun: str) -> str:
    """Returns a table with the workers across and the programs down, the best of each line in bold."""
    points = sorted({spot.point for curve in found for spot in curve.spots if spot.point is not None})
    lines = []
    for curve in found:
        cells = dict.fromkeys(points, "")
        for spot in curve.spots:
            shown = f"**{rate(spot)}**" if spot is curve.best else rate(spot)
            times = ratio(curve, spot, " \N{MULTIPLICATION SIGN}")
            if spot.point is not None:
                cells[spot.point] = f"{shown} ({times})" if times else shown
        lines.append([escaped(curve.title), *cells.values()])
    return _table([f"{noun}/s (times one worker)", *map(str, points)], ":" + "-" * len(points), lines)


def _table(head: Sequence[str], sides: str, lines: Iterable[Sequence[str]]) -> str:
    """Returns a table of cells that are Markdown; of the sides, one for each column, ":" is the left."""
    rule = [":---" if side == ":" else "---:" for side in sides]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _folded(summary: str, *blocks: str) -> list[str]:
    """Returns blocks that are shown when asked for; Markdown inside HTML needs the empty lines around it."""
    return [f"<details>\n<summary>{summary}</summary>", *blocks, "</details>"]


def _names(several: list[Results]) -> list[str]:
    """Returns what tells the pictures apart: the jobs, which a file may call anything, in plain letters."""
    found: list[str] = []
    for name in page.names(several):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower().replace(",", ""))[:LONGEST].strip("-") or "job"
        tried = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        found.append(next(one for one in tried if one not in found))
    return found
