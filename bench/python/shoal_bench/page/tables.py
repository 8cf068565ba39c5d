"""The figures of a result as cells, and as tables of a page.

Not here: the drawing (`chart.py`), the same cells in Markdown (`markdown.py`, one folder up).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal_bench.page.chart import KINDS
from shoal_bench.page.markup import Markup, tag
from shoal_bench.table import authors, duration, last, seconds, seen
from shoal_bench.words import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal_bench.results import Results, Row


def figures(results: Results, noun: str) -> Markup:
    """Returns a line for each row that has figures, fastest first."""
    return _table(*cells(results, noun))


def cells(results: Results, noun: str) -> tuple[list[str], list[tuple[tuple[str, ...], str]]]:
    """Returns the head of the figures, and a line for each row that has any; with the author's columns, if there are.

    A line is its cells, the title first, and the row's kind.
    """
    ran = [row for row in results.rows if row.trials]
    head = ["", f"{noun}/s", "spread", "base is", "workers", "CPU, \N{MICRO SIGN}s each", "memory"]
    head += ["first done, s", "last done, s", "all, s"] if seen(results) else []
    published = authors(results)
    head += [f"here, {results.scale.title}", *published] if published else ["MB/s"]
    unsteady = set(results.unsteady)
    return head, [(_line(results, row, row.title in unsteady), row.kind) for row in ran]


def trials(results: Results) -> Markup:
    """Returns a line for each trial, in the order in which they ran within a round as far as the rows say."""
    done = seen(results)
    head = ["", "round", "objects", "seconds", "a second", "CPU, s", "memory", "workers"]
    head += ["first done", "last done"] if done else []
    lines = []
    for row in results.rows:
        for one in row.trials:
            cells = [f"{one.seconds:.4f}", f"{one.rate:,.0f}", f"{one.cpu:.3f}", _mib(one.rss), str(one.workers or "")]
            if done:
                cells += ["" if moment is None else f"{moment:.4f}" for moment in (one.first, one.last)]
            lines.append(((row.title, str(one.round), f"{one.objects:,}", *cells), row.kind))
    return _table(head, lines)


def _line(results: Results, row: Row, unsteady: bool) -> tuple[str, ...]:
    ratio = results.ratio(results.base, row.key)
    cells = [
        row.title,
        f"{row.rate:,.0f}",
        f"{row.spread:.0%}" + (" noisy" if row.title in results.noisy else ""),
        (f"{ratio:.2f} \N{MULTIPLICATION SIGN}" + (" ?" if unsteady else "")) if ratio else "",
        str(row.workers or ""),
        micros(row.cpu_per_object),
        _mib(row.rss),
    ]
    done = [seconds(moment) for moment in (row.first, row.last, row.seconds)] if seen(results) else []
    here = [duration(results.scale.objects / row.rate)] if authors(results) else []
    return (*cells, *done, *here, *last(results, row))


def _table(head: Sequence[str], lines: Iterable[tuple[Sequence[str], str]]) -> Markup:
    """Returns a table in a frame that scrolls by itself, so that the page does not."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = [
        tag(
            "tr",
            tag("th", tag("i", class_=f"key {kind if kind in KINDS else 'peer'}"), first, scope="row"),
            *(tag("td", cell) for cell in rest),
        )
        for (first, *rest), kind in lines
    ]
    # Focusable, since only what has the focus can be scrolled with the keyboard.
    return tag("div", tag("table", tag("thead", top), tag("tbody", *body)), class_="wide", tabindex=0)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
