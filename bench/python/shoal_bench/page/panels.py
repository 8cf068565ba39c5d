"""The curves of a sweep, a small drawing for each program, all with the same axes. Not here: bars (`chart.py`)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from shoal_bench.curve import curves
from shoal_bench.page.chart import KINDS
from shoal_bench.page.markup import Markup, joined, tag

if TYPE_CHECKING:
    from shoal_bench.curve import Curve, Point
    from shoal_bench.results import Results, Row

HIGH = 130  # pixels of a drawing
TOP, FOOT = 8, 108  # pixels from its top to the highest rate, and to none
LABELS = 12  # numbers below it, as many as a phone has room for


def panels(results: Results, noun: str) -> Markup:
    """Returns the drawings; nothing where there is no sweep."""
    found = curves(results)
    if not found:
        return Markup("")
    points = sorted({point for curve in found for point in curve.rows})
    longest = max(trial.rate for curve in found for row in curve.rows.values() for trial in row.trials)
    top = f"{noun} a second over the number of workers; all drawings reach from 0 to {longest:,.0f}; dots = the trials"
    each = (_panel(curve, points, longest, noun) for curve in found)
    return joined(tag("p", top, class_="dim small"), tag("div", *each, class_="panels"))


def _panel(curve: Curve, points: list[Point], longest: float, noun: str) -> Markup:
    kind = curve.kind if curve.kind in KINDS else "peer"
    places: dict[Point | None, float] = {
        point: 4 + 92 * at / max(len(points) - 1, 1) for at, point in enumerate(points)
    }
    best = curve.best
    said = f"best at {best.point}: {best.row.rate:,.0f}"
    drawn = [tag("line", class_="foot", x1=0, x2="100%", y1=FOOT, y2=FOOT)]
    for (one, row), (other, following) in itertools.pairwise(curve.rows.items()):
        # No line from the plain points to those of a grid: they are not in one row.
        if (one.threads is None) == (other.threads is None):
            ends = {"x1": _part(places[one]), "x2": _part(places[other])}
            ends |= {"y1": _down(row.rate, longest), "y2": _down(following.rate, longest)}
            drawn.append(tag("line", class_=f"curve {kind}", **ends))
    drawn += [_spot(row, places[point], longest) for point, row in curve.rows.items()]
    drawn.append(
        tag("circle", class_=f"best {kind}", cx=_part(places[best.point]), cy=_down(best.row.rate, longest), r=5)
    )
    step = -(-len(points) // LABELS)
    drawn += [
        tag("text", str(point), x=_part(places[point]), y=HIGH - 6, text_anchor="middle") for point in points[::step]
    ]
    picture = tag(
        "svg", *drawn, class_="panel", role="img", aria_label=f"{curve.title}: {said} {noun} a second", height=HIGH
    )
    return tag("figure", tag("figcaption", tag("b", curve.title), f", {said}"), picture)


def _spot(row: Row, place: float, longest: float) -> Markup:
    rates = [trial.rate for trial in row.trials]
    ends = {"y1": _down(min(rates), longest), "y2": _down(max(rates), longest)}
    dots = (tag("circle", class_="trial", cx=_part(place), cy=_down(rate, longest), r=2) for rate in rates)
    return joined(tag("line", class_="whisker", x1=_part(place), x2=_part(place), **ends), *dots)


def _part(place: float) -> str:
    return f"{place:.2f}%"


def _down(rate: float, longest: float) -> str:
    return f"{FOOT - (FOOT - TOP) * rate / longest:.1f}"
