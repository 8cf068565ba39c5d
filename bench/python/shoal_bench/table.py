"""The table as text. Not here: what stands in it (`results.py`)."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING

from shoal_bench import full, machine
from shoal_bench.recommendation import recommend
from shoal_bench.results import AGREE
from shoal_bench.words import micros

if TYPE_CHECKING:
    from shoal_bench.results import Results, Row

BAR = 14  # columns of the longest bar, where the table is not too wide for it
LEAST = 6  # columns of it in any case
NARROW = 16  # columns of a title in any case
WIDTH = 120  # columns
NAMED = 4  # rows that a sentence names
HEAD = ("spread", "workers", "CPU us", "MiB", "base is")
DONE = "first/last"


def text(results: Results) -> str:
    """Returns the table and what a reader must know of it."""
    ran = [row for row in results.rows if row.trials]
    fastest = max((row.rate for row in ran), default=1.0)
    done = (DONE,) if seen(results) else ()
    last_ones = (name.removeprefix("the ") for name in authors(results) or ("MB/s",))
    head = ("", results.scale.unit, *HEAD, *done, results.scale.title, *last_ones)
    lines = [head, *(_cells(results, row) for row in ran)]
    out = _aligned(lines, [0.0, *(row.rate / fastest for row in ran)])
    settings = results.settings
    sync = ", a final sync inside each time" if settings["durable"] else ""
    cold = ", from a cold cache" if settings["cold"] else ""
    fitted = settings.get("full") and full.study(results.job).fitted
    part = ", of which each gets about a second's worth" if fitted else ""
    about = (
        f"{settings['count']:,} objects of {settings['size']:,} bytes{part}, {settings['into']}{sync}{cold}; medians "
        f"of {settings['trials']}, in turn; {results.checked}. Base: {results.row(results.base).title}."
    )
    if done:
        about += f" {DONE}: seconds until the first and the last object of a run were complete."
    out += ["", textwrap.fill(about, WIDTH, subsequent_indent="  "), machine.in_words(results.machine)]
    said = [*notes(results), *_noise(results), recommend(results).headline]
    return "\n".join(out + [textwrap.fill(note, WIDTH, subsequent_indent="  ") for note in said])


def _aligned(lines: list[tuple[str, ...]], parts: list[float]) -> list[str]:
    """Returns the lines with their columns below one another, and behind the second a bar as long as each part says.

    The bars take what the columns leave; where that is too little, long titles go on in a line of their own.
    """
    first, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = WIDTH - sum(widths) - 2 * (len(widths) + 1)
    first = max(NARROW, min(first, left - LEAST))
    room = max(LEAST, min(BAR, left - first))
    out = []
    for (title, *rest), part in zip(lines, parts, strict=True):
        head, *more = textwrap.wrap(title, first, subsequent_indent="  ", break_on_hyphens=False) or [""]
        bar = "#" * max(1, round(room * part)) if part else ""
        rate, *cells = (cell.rjust(width) for cell, width in zip(rest, widths, strict=True))
        out.append("  ".join((head.ljust(first), rate, bar.ljust(room), *cells)).rstrip())
        out += more
    return out


def authors(results: Results) -> tuple[str, ...]:
    """Returns what the columns of the author's are called, if there are any."""
    if not results.scale.figures or not any(row.published or row.python2 for row in results.rows):
        return ()
    return ("Py 2", "Py 3") if any(row.python2 for row in results.rows) else ("the author's",)


def notes(results: Results) -> list[str]:
    """Returns what a reader must know of single rows."""
    ran = [row for row in results.rows if row.trials]
    noted: dict[str, list[Row]] = {}
    for row in ran:
        if row.note:
            noted.setdefault(row.note, []).append(row)
    said = [results.scale.author] if authors(results) or not results.scale.figures else []
    for note, rows in noted.items():
        start = statistics.median(row.start for row in rows)
        said.append(f"{', '.join(row.title for row in rows)}: {note.replace('{start}', duration(start))}")
    said += [f"failed: {row.title}: {row.failed}" for row in results.rows if row.failed is not None]
    said += [f"not run: {row.title}: {row.missing}" for row in results.rows if row.missing]
    return said


def _noise(results: Results) -> list[str]:
    """Whether the machine is quiet enough."""
    said = []
    if results.noisy:
        said.append(f"noisy, believe them less: {', '.join(results.noisy)}")
    if many := results.unsteady:
        others = sum(bool(row.trials) for row in results.rows) - 1
        some = f"{', '.join(many[:NAMED])}{', ...' if len(many) > NAMED else ''}"
        said.append(
            f"too noisy: another run may change {len(many)} of {others} ratios by over {AGREE:.0%} ({some}): "
            "take more --trials, with nothing else running"
        )
    return said


def _cells(results: Results, row: Row) -> tuple[str, ...]:
    ratio = results.ratio(results.base, row.key)
    done = ("/".join(filter(None, (seconds(row.first), seconds(row.last)))),) if seen(results) else ()
    return (
        row.title,
        f"{row.rate:,.0f}" if (per := results.scale.unit_objects) == 1 else f"{row.rate / per:,.1f}",
        f"{row.spread:.0%}",
        str(row.workers or ""),
        micros(row.cpu_per_object),
        f"{row.rss / 2**20:.0f}",
        f"{ratio:.2f} x" if ratio else "",
        *done,
        duration(results.scale.objects / row.rate),
        *last(results, row),
    )


def seen(results: Results) -> bool:
    """Returns whether it was seen of any row when its first and last object were complete."""
    return any(row.last is not None for row in results.rows)


def seconds(moment: float | None) -> str:
    """Returns a time in seconds, as three digits or so tell it."""
    if moment is None:
        return ""
    return f"{moment:.2f}" if moment < 10 else f"{moment:.1f}" if moment < 100 else f"{moment:,.0f}"


def last(results: Results, row: Row) -> tuple[str, ...]:
    """Returns the author's times of a row; where the study gives none, how many MB came a second."""
    if names := authors(results):
        objects = results.scale.study or results.scale.objects
        figures = (row.python2, row.published)[-len(names) :]
        return tuple(duration(objects * figure) if figure else "" for figure in figures)
    return (f"{row.rate * results.settings['size'] / 1e6:,.0f}",)


def duration(seconds: float) -> str:
    """Returns a time in the unit in which people would say it."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
