"""The table as text. Not here: what stands in it (`results.py`)."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING

from shoal.bench import machine

if TYPE_CHECKING:
    from shoal.bench.results import Results, Row

BAR = 14  # columns of the longest bar
WIDTH = 120  # columns
HEAD = ("spread", "workers", "CPU us", "MiB", "base is")


def text(results: Results) -> str:
    """Returns the table and what a reader must know of it."""
    ran = [row for row in results.rows if row.trials]
    fastest = max((row.rate for row in ran), default=1.0)
    authors = _authors(results)
    head = ("", results.scale.rate[0], "", *HEAD, results.scale.title, *(authors or ("MB/s",)))
    lines = [head, *((*_cells(results, row, fastest), *_last(results, row, authors)) for row in ran)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    left = {0, 2}
    out = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    settings = results.settings
    sync = ", a final sync inside each time" if settings["durable"] else ""
    cold = ", from a cold cache" if settings["cold"] else ""
    about = (
        f"{settings['count']:,} objects of {settings['size']:,} bytes, {settings['into']}{sync}{cold}; medians of "
        f"{settings['trials']}, in turn; {results.checked}. Base: {results.row(results.base).title}."
    )
    out += ["", textwrap.fill(about, WIDTH, subsequent_indent="  "), machine.in_words(results.machine)]
    return "\n".join(out + [textwrap.fill(note, WIDTH, subsequent_indent="  ") for note in _notes(results, ran)])


def _authors(results: Results) -> tuple[str, ...]:
    """What the columns of the author's are called, if there are any."""
    if not results.scale.figures or not any(row.published or row.python2 for row in results.rows):
        return ()
    return ("Py 2", "Py 3") if any(row.python2 for row in results.rows) else ("the author's",)


def _notes(results: Results, ran: list[Row]) -> list[str]:
    """What a reader must know of single rows."""
    noted: dict[str, list[Row]] = {}
    for row in ran:
        if row.note:
            noted.setdefault(row.note, []).append(row)
    authors = _authors(results)
    notes = [results.scale.author] if authors or not results.scale.figures else []
    for note, rows in noted.items():
        start = statistics.median(row.start for row in rows)
        notes.append(f"{', '.join(row.title for row in rows)}: {note.format(start=duration(start))}")
    notes += [f"failed: {row.title}: {row.failed}" for row in results.rows if row.failed is not None]
    notes += [f"not run: {row.title}: {row.missing}" for row in results.rows if row.missing]
    if results.noisy:
        notes.append(f"noisy, believe them less: {', '.join(results.noisy)}")
    return notes


def _cells(results: Results, row: Row, fastest: float) -> tuple[str, ...]:
    ratio = results.ratio(results.base, row.key)
    cpu = row.cpu_per_object * 1e6
    return (
        row.title,
        f"{row.rate:,.0f}" if (per := results.scale.rate[1]) == 1 else f"{row.rate / per:,.1f}",
        "#" * max(1, round(BAR * row.rate / fastest)),
        f"{row.spread:.0%}",
        str(row.workers or ""),
        f"{cpu:.3f}" if cpu < 1 else f"{cpu:.1f}" if cpu < 1000 else f"{cpu:,.0f}",
        f"{row.rss / 2**20:.0f}",
        f"{ratio:.2f} x" if ratio else "",
        duration(results.scale.objects / row.rate),
    )


def _last(results: Results, row: Row, authors: tuple[str, ...]) -> tuple[str, ...]:
    """The author's times; where the study gives none, how many bytes came."""
    if authors:
        objects = results.scale.study or results.scale.objects
        figures = (row.python2, row.published)[-len(authors) :]
        return tuple(duration(objects * figure) if figure else "" for figure in figures)
    return (f"{row.rate * results.settings['size'] / 1e6:,.0f}",)


def duration(seconds: float) -> str:
    """Returns a time in the unit in which people would say it."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
