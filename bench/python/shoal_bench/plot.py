"""The rates of results as a picture, PNG or SVG, drawn by Matplotlib. Not here: the page, which draws its own."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal import ConfigError
from shoal_bench import words
from shoal_bench.curve import curves
from shoal_bench.page.chart import KINDS

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from shoal_bench.curve import Curve
    from shoal_bench.results import Results

FORMS = (".png", ".svg")
COLOURS = {"shoal": "#0e8a7d", "strategy": "#5b7fb9", "peer": "#c7823a", "limit": "#9aa5ae"}  # those of the page
WIDE = 9.0  # inches
ROW = 0.3  # inches of a row
FRAME = 1.1  # inches of title and axis
HIGH = 4.5  # inches of the curves of a sweep
LONGEST = 48  # letters of a title


def check(path: str | os.PathLike[str]) -> None:
    """Refuses what could not be drawn.

    Raises:
        ConfigError: The name ends with no form that is known, or Matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMS:
        raise ConfigError(f"{str(path)!r} ends neither with .png nor with .svg", hint="the name says the form")
    if not installed():
        raise ConfigError("Matplotlib is not installed", hint="pip install 'shoal[bench]', or take --report")


def installed() -> bool:
    """Whether Matplotlib is there, without loading it."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(results: Sequence[Results], path: str | os.PathLike[str]) -> None:
    """Draws a chart for each result, one below the other, into one picture.

    Raises:
        ConfigError: As `check` says; or no row has figures.
    """
    check(path)
    shown = [one for one in results if any(row.trials for row in one.rows)]
    if not shown:
        raise ConfigError("no row has figures that could be drawn")
    # No pyplot: that would look for a screen, and keep the figure.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = [sum(bool(row.trials) for row in one.rows) for one in shown]
    heights = [HIGH if curves(one) else FRAME + ROW * many for one, many in zip(shown, rows, strict=True)]
    # The hash makes the names inside an SVG the same each time; fonts as text keep it small and searchable.
    with mpl.rc_context({"svg.hashsalt": "shoal", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(WIDE, sum(heights)), layout="constrained")
        axes = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for one, [axis] in zip(shown, axes, strict=True):
            if found := curves(one):
                _lines(found, axis)
                axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
            else:
                _bars(one, axis)
                kinds = [kind for kind in KINDS if any(row.kind == kind and row.trials for row in one.rows)]
                keys = [Patch(color=COLOURS[kind], label=KINDS[kind]) for kind in kinds]
                axis.legend(handles=keys, loc="lower right", fontsize=8, frameon=False)
            _titles(one, axis, sweep=bool(found))
        form = Path(path).suffix.lower()[1:]
        picture = io.BytesIO()
        figure.savefig(picture, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    Path(path).write_bytes(picture.getvalue())


def _bars(results: Results, axis: Any) -> None:
    rows = [row for row in results.rows if row.trials]
    places = range(len(rows))
    rates = [row.rate for row in rows]
    ends = [[trial.rate for trial in row.trials] for row in rows]
    below = [rate - min(some) for rate, some in zip(rates, ends, strict=True)]
    above = [max(some) - rate for rate, some in zip(rates, ends, strict=True)]
    colours = [COLOURS.get(row.kind, COLOURS["peer"]) for row in rows]
    axis.barh(places, rates, color=colours, height=0.62)
    axis.errorbar(rates, places, xerr=[below, above], fmt="none", ecolor="black", elinewidth=1, capsize=2)
    for place, some in zip(places, ends, strict=True):
        axis.plot(some, [place] * len(some), "o", color="black", markersize=2.5)
    for place, rate, some in zip(places, rates, ends, strict=True):
        axis.annotate(
            f"{rate:,.0f}", (max(some), place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8
        )
    axis.set_yticks(list(places), [_plain(row.title) for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlim(left=0)
    axis.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axis.tick_params(axis="x", labelsize=8)


def _lines(found: Sequence[Curve], axis: Any) -> None:
    """Draws a line for each program over the points of all of them, which stand at equal distances."""
    points = sorted({point for curve in found for point in curve.rows})
    places = {point: at for at, point in enumerate(points)}
    for curve in found:
        rates = [row.rate for row in curve.rows.values()]
        ends = [[trial.rate for trial in row.trials] for row in curve.rows.values()]
        below = [rate - min(some) for rate, some in zip(rates, ends, strict=True)]
        above = [max(some) - rate for rate, some in zip(rates, ends, strict=True)]
        where = [places[point] for point in curve.rows]
        name = _plain(curve.title)
        axis.errorbar(where, rates, yerr=[below, above], marker="o", markersize=4, capsize=2, linewidth=1.5, label=name)
    axis.set_xticks(list(places.values()), [str(point) for point in points], fontsize=8)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axis.tick_params(axis="y", labelsize=8)


def _titles(results: Results, axis: Any, *, sweep: bool) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    said, machine = words.of(results.job), results.machine
    over = f" over workers, {results.settings['size']:,} bytes each" if sweep else ""
    axis.set_title(_plain(f"{said.title}: {said.noun} a second{over}", 120), fontsize=10, loc="left")
    about = f"{machine['cores']} cores ({machine['processor']}), {machine['file system']}, shoal {machine['shoal']}"
    axis.set_xlabel(_plain(f"{about}; medians, fastest and slowest trials", 160), fontsize=7)


def _plain(text: str, longest: int = LONGEST) -> str:
    """Text that no font lacks a sign of for being a control character, and that leaves room for the bars."""
    clean = "".join(sign if sign.isprintable() else "?" for sign in text)
    return clean if len(clean) <= longest else clean[: longest - 3] + "..."
