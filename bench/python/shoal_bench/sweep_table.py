"""The tables of a sweep as text: workers across, sizes down. Not here: what stands in them (`sweep.py`)."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from shoal_bench import machine

if TYPE_CHECKING:
    from shoal_bench.curve import Curve, Spot
    from shoal_bench.sweep import Sweep

WIDTH = 120  # columns
ACROSS = 10  # points in a line; more go on below
CELL = 9  # columns of a point
SIDE = 12  # columns before the first


def text(sweep: Sweep) -> str:
    """Returns the tables, a block for each program, and what a reader must know of them."""
    out: list[str] = []
    for key in dict.fromkeys(curve.key for curve in sweep.curves):
        curves = [curve for curve in sweep.curves if curve.key == key]
        out += [f"{curves[0].title}  ({key})", *_block(curves), ""]
    out += _summary(sweep)
    results = sweep.contests[0]
    checks = dict.fromkeys(one.checked for one in sweep.contests)
    trials: dict[int, list[str]] = {}
    for one in sweep.contests:
        trials.setdefault(one.settings["trials"], []).append(size(one.settings["size"]))
    medians = [f"{number} ({', '.join(of)})" if len(trials) > 1 else f"{number}" for number, of in trials.items()]
    about = (
        f"objects a second, and below them times one worker; * is the best of its line. Medians of "
        f"{', '.join(medians)}, all points of a size in turn; {', '.join(checks)}."
    )
    out += [textwrap.fill(about, WIDTH, subsequent_indent="  "), machine.in_words(results.machine)]
    return "\n".join(out + [textwrap.fill(note, WIDTH, subsequent_indent="  ") for note in _notes(sweep)])


def _block(curves: list[Curve]) -> list[str]:
    out = []
    for first in range(0, len(curves[0].spots), ACROSS):
        labels = [_label(spot) for spot in curves[0].spots[first : first + ACROSS]]
        out.append(" " * SIDE + _line(labels))
        for curve in curves:
            spots = curve.spots[first : first + ACROSS]
            rates = [_marked(curve, spot) for spot in spots]
            out.append(f"  {size(curve.results.settings['size'])}".ljust(SIDE) + _line(rates))
            ratios = [ratio(curve, spot, "x") for spot in spots]
            if any(ratios):
                out.append(" " * SIDE + _line(ratios))
    return out


def _line(cells: list[str]) -> str:
    # The last column of a cell is for the mark, so that figures stay under one another.
    return "".join((cell if cell.endswith("*") else f"{cell} ").rjust(CELL) for cell in cells).rstrip()


def _label(spot: Spot) -> str:
    return "its own" if spot.point is None else str(spot.point)


def _marked(curve: Curve, spot: Spot) -> str:
    return rate(spot) + ("*" if spot is curve.best and spot.row.trials and len(curve.spots) > 1 else "")


def rate(spot: Spot) -> str:
    """Returns the objects a second of a point, or why there are none."""
    if not spot.row.trials:
        return "failed" if spot.row.failed else "-"
    return f"{spot.row.rate:,.0f}" if spot.row.rate >= 100 else f"{spot.row.rate:.1f}"


def ratio(curve: Curve, spot: Spot, times: str) -> str:
    """Returns how many times as fast a point is as one worker; nothing, if it cannot be said."""
    found = curve.ratio(spot)
    return "" if found is None else f"{found:.2f}{times}"


def _summary(sweep: Sweep) -> list[str]:
    """Says for each size who was the fastest, and where."""
    out = []
    for results in sweep.contests:
        ran = [curve for curve in sweep.curves if curve.results is results and curve.best.row.trials]
        if not ran:
            continue
        curve = max(ran, key=lambda one: one.best.row.rate)
        best = curve.best
        where = "" if best.point is None else f" at {best.point}"
        line = f"fastest at {size(results.settings['size'])}: {curve.title}{where}"
        times = curve.ratio(best)
        line += f", {times:.2f} times one worker" if times is not None and times != 1 else ""
        out.append(f"{line}, {best.row.rate * results.settings['size'] / 1e6:,.0f} MB/s")
    return [*out, ""]


def _notes(sweep: Sweep) -> list[str]:
    notes: list[str] = []
    for results in sweep.contests:
        at = f" ({size(results.settings['size'])})" if len(sweep.contests) > 1 else ""
        notes += [f"failed{at}: {row.title}: {row.failed}" for row in results.rows if row.failed is not None]
        if results.noisy:
            notes.append(f"noisy{at}, believe them less: {', '.join(results.noisy)}")
    rows = [row for results in sweep.contests for row in results.rows]
    lacking = {f"{row.title.partition(' @ ')[0]}: {row.missing}" for row in rows if row.missing}
    notes += [f"not run: {one}" for one in sorted(lacking)]
    return notes


def size(count: int) -> str:
    """Returns a size as people say it."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count} B"
