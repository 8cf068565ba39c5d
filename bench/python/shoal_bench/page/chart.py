"""The rates of a result as an SVG that is as wide as the page: lengths in parts of it, letters of one size.

A bar is the median, the dots are the trials, the line behind them reaches from the slowest to the fastest. The colours
are those of the page, light or dark.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from shoal_bench.page.markup import Markup, escaped, joined, tag

if TYPE_CHECKING:
    from shoal_bench.results import Results, Row

ROW = 46  # pixels from one row to the next: a line of letters, a bar, a gap
TEXT = 15  # pixels from the top of a row to the foot of its letters
BAR = 22  # pixels from the top of a row to its bar
HIGH = 14  # pixels of a bar
LONGEST = 42  # letters of a title, as many as fit on a phone beside the rate
KINDS = {"shoal": "shoal", "strategy": "strategy of the study", "peer": "program", "limit": "limit of the machine"}


def chart(results: Results, noun: str) -> Markup:
    """Returns the drawing with its legend; nothing where no row has figures."""
    rows = [row for row in results.rows if row.trials]
    if not rows:
        return Markup("")
    longest = max(trial.rate for row in rows for trial in row.trials)
    drawn = joined(*(_row(row, at, longest) for at, row in enumerate(rows)))
    label = f"{noun} a second, {len(rows)} rows; the same figures are in the table below"
    picture = tag("svg", drawn, class_="chart", role="img", aria_label=label, width="100%", height=len(rows) * ROW)
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    keys = (tag("span", tag("i", class_=f"key {kind}"), KINDS[kind], class_="item") for kind in kinds)
    caption = f"{noun} a second: bar = median, dots = the trials, line = slowest to fastest"
    legend = tag("figcaption", tag("span", caption, class_="item"), *keys)
    return tag("figure", legend, picture)


def _row(row: Row, at: int, longest: float) -> Markup:
    top = at * ROW
    middle = top + BAR + HIGH / 2
    rates = [trial.rate for trial in row.trials]
    median = statistics.median(rates)
    kind = row.kind if row.kind in KINDS else "peer"
    title = row.title if len(row.title) <= LONGEST else row.title[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
    said = f"{row.title}: {median:,.0f} a second, {min(rates):,.0f} to {max(rates):,.0f}"
    bar = tag(
        "rect",
        tag("title", said),
        class_=f"bar {kind}",
        data_key=row.key,
        x=0,
        y=top + BAR,
        width=_part(median, longest),
        height=HIGH,
        rx=2,
    )
    whisker = tag(
        "line", class_="whisker", x1=_part(min(rates), longest), x2=_part(max(rates), longest), y1=middle, y2=middle
    )
    dots = (tag("circle", class_="trial", cx=_part(rate, longest), cy=middle, r=3) for rate in rates)
    return joined(
        tag("text", escaped(title), class_="name", x=0, y=top + TEXT),
        tag("text", f"{median:,.0f}", class_="rate", x="100%", y=top + TEXT, text_anchor="end"),
        tag("rect", class_="rail", x=0, y=top + BAR, width="100%", height=HIGH, rx=2),
        bar,
        whisker if len(rates) > 1 else "",
        *(dots if len(rates) > 1 else ()),
    )


def _part(rate: float, longest: float) -> str:
    """A length as a part of the widest; the last dot stays inside the drawing."""
    return f"{max(98.5 * rate / longest, 0.3):.2f}%"
