"""The rates of results as a picture, PNG or SVG, drawn by Matplotlib. Not here: the pages that have one (`reports.py`).

A bar is the median, the dots are the trials, the line behind them reaches from the slowest to the fastest; of a scan
there is a line for each program, and a dotted one for the path of a program that found its workers itself. A picture is
as wide as a phone, so that its letters can be read there.
"""

import bisect
import importlib.util
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal import ConfigError
from shoal_bench import words
from shoal_bench.curves import Curve, Point, curves
from shoal_bench.results import Results

FORMS = (".png", ".svg")
KINDS = {"shoal": "shoal", "strategy": "strategy of the study", "peer": "program", "limit": "limit of the machine"}
COLOURS = {"shoal": "#0e8a7d", "strategy": "#5b7fb9", "peer": "#c7823a", "limit": "#9aa5ae"}
INK, DIM, DOT, RAIL, PAPER = "#17202a", "#55626e", "#17202b", "#edf1f4", "#ffffff"
WIDE = 5.2  # inches
ROW = 0.44  # inches of a row: a line of letters, a bar, a gap
FRAME = 0.9  # inches of title and legend
HIGH = 4.2  # inches of the curves of a scan
LONGEST = 56  # letters of a title
BESIDE = 32  # letters of titles in the legend of a scan up to which two stand side by side
PATH: dict[str, Any] = {"linestyle": ":", "linewidth": 1.2, "marker": "o", "markersize": 3, "markeredgewidth": 0.6}
LAST = 8  # points of a path's last dot


def check(path: str | os.PathLike[str]) -> None:
    """Refuses what could not be drawn.

    Raises:
        ConfigError: The name ends with no form that is known, or Matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMS:
        raise ConfigError(f"{str(path)!r} ends neither with .png nor with .svg", hint="the name says the form")
    if not installed():
        raise ConfigError("Matplotlib is not installed", hint="pip install 'shoal-bench[all]', or take --report")


def installed() -> bool:
    """Returns whether Matplotlib is there, without loading it."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(results: Sequence[Results], path: str | os.PathLike[str]) -> None:
    """Draws a chart for each result, one below the other, into one file.

    Raises:
        ConfigError: As `check` says; or no row has figures.
    """
    check(path)
    Path(path).write_bytes(picture(results, Path(path).suffix.lower()[1:]))


def picture(results: Sequence[Results], form: str) -> bytes:
    """Returns that picture as "svg" or "png"; of an SVG, what is drawn has an id such as bar-N, curve-N or path-N.

    Raises:
        ConfigError: No row has figures.
    """
    shown = [one for one in results if any(row.trials for row in one.rows)]
    if not shown:
        raise ConfigError("no row has figures that could be drawn")
    # No pyplot: that would look for a screen, and keep the figure.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = [sum(bool(row.trials) for row in one.rows) for one in shown]
    heights = [HIGH if curves(one) else FRAME + ROW * many for one, many in zip(shown, rows, strict=True)]
    # The hash makes the names inside an SVG the same each time; fonts as text keep it small and searchable.
    settings: Any = {"svg.hashsalt": "shoal", "svg.fonttype": "none", "text.parse_math": False, "text.color": INK}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(WIDE, sum(heights)), layout="constrained")
        axes = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for one, [axis] in zip(shown, axes, strict=True):
            if found := curves(one):
                _lines(found, axis)
            else:
                _bars(one, axis)
            said = words.of(one.job, one.settings["case"])
            over = f" over workers, {words.size(one.settings['size'])} each" if found else ""
            axis.set_title(f"{_plain(said.title)}\n{said.noun} a second{over}", fontsize=9, loc="left")
        drawn = io.BytesIO()
        figure.savefig(drawn, format=form, dpi=200, metadata={"Date": None} if form == "svg" else None)
    return drawn.getvalue()


def _bars(results: Results, axis: Any) -> None:
    from matplotlib.patches import Patch

    rows = [row for row in results.rows if row.trials]
    longest = max(trial.rate for row in rows for trial in row.trials)
    for at, row in enumerate(rows):
        rates, kind = [trial.rate for trial in row.trials], row.kind if row.kind in KINDS else "peer"
        axis.barh(at, longest, color=RAIL, height=0.36, clip_on=False)
        axis.barh(at, max(row.rate, longest / 500), color=COLOURS[kind], height=0.36, clip_on=False, gid=f"bar-{at}")
        if len(rates) > 1:
            axis.plot([min(rates), max(rates)], [at, at], color=DOT, linewidth=1.2, clip_on=False, gid=f"whisker-{at}")
            dots: dict[str, Any] = {"markersize": 4, "markeredgecolor": PAPER, "markeredgewidth": 0.6}
            axis.plot(rates, [at] * len(rates), "o", color=DOT, clip_on=False, gid=f"trial-{at}", **dots)
        above: dict[str, Any] = {"textcoords": "offset points", "va": "bottom", "fontsize": 8}
        where = ("axes fraction", "data")
        axis.annotate(_plain(row.title), (0, at), xytext=(0, 6), xycoords=where, **above)
        axis.annotate(f"{row.rate:,.0f}", (1, at), xytext=(0, 6), xycoords=where, ha="right", **above)
    axis.set_xlim(0, longest * 1.02)
    axis.set_ylim(len(rows) - 0.6, -0.9)
    axis.axis("off")
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    keys = [Patch(color=COLOURS[kind], label=KINDS[kind]) for kind in kinds]
    axis.legend(handles=keys, loc="upper left", bbox_to_anchor=(0, 0), ncols=2, fontsize=7, frameon=False)


def _lines(found: Sequence[Curve], axis: Any) -> None:
    """Draws a line for each program over the points of all of them, which stand at equal distances."""
    from matplotlib.lines import Line2D

    points = sorted({point for curve in found for point in curve.rows})
    numbers = [point.workers for point in points if point.threads is None]
    most = max((step.workers for curve in found for step in curve.path), default=0)
    while numbers and numbers[-1] < most:  # a path may lead beyond what was measured
        numbers.append(numbers[-1] * 2)
    points = [*map(Point, numbers), *(point for point in points if point.threads is not None)]
    places = {point: at for at, point in enumerate(points)}
    keys: list[Any] = []
    for at, curve in enumerate(found):
        rates = [row.rate for row in curve.rows.values()]
        ends = [[trial.rate for trial in row.trials] for row in curve.rows.values()]
        below = [rate - min(some) for rate, some in zip(rates, ends, strict=True)]
        above = [max(some) - rate for rate, some in zip(rates, ends, strict=True)]
        where = [places[point] for point in curve.rows]
        look: dict[str, Any] = {"marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.5}
        drawn = axis.errorbar(where, rates, yerr=[below, above], label=_plain(curve.title), **look)
        drawn.lines[0].set_gid(f"curve-{at}")
        keys.append(drawn)
        for part in drawn.get_children():
            part.set_clip_on(False)
        if curve.path and numbers:
            _path(curve, numbers, axis, at, drawn.lines[0].get_color())
    if most and numbers:
        keys.append(Line2D([], [], color=INK, label="path of auto", **PATH))
    axis.set_xticks(list(places.values()), [str(point) for point in points])
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axis.tick_params(labelsize=7, colors=DIM)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(DIM)
    columns = 2 if max(len(key.get_label()) for key in keys) <= BESIDE else 1  # longer ones leave no room for the lines
    axis.legend(handles=keys, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.08), ncols=columns)


def _path(curve: Curve, numbers: Sequence[int], axis: Any, at: int, colour: str) -> None:
    """Draws how a program came to its workers: small dots, joined in the order of time; the last one is large."""
    where = [_place(step.workers, numbers) for step in curve.path]
    rates = [step.objects_per_second for step in curve.path]
    look: dict[str, Any] = {"color": colour, "markeredgecolor": INK, "zorder": 3, "clip_on": False}
    axis.plot(where, rates, gid=f"path-{at}", **look, **PATH)
    axis.plot(where[-1:], rates[-1:], "o", markersize=LAST, gid=f"end-{at}", **look)


def _place(workers: int, numbers: Sequence[int]) -> float:
    """Returns where a number stands among others, at equal distances: between two of them as its logarithm does."""
    at = bisect.bisect_right(numbers, workers) - 1
    if at < 0 or at + 1 == len(numbers):
        return float(max(at, 0))
    return at + math.log(workers / numbers[at]) / math.log(numbers[at + 1] / numbers[at])


def _plain(text: str) -> str:
    """Returns text without control characters, which no font has, and short enough for its place."""
    clean = "".join(sign if sign.isprintable() else "?" for sign in text)
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."
