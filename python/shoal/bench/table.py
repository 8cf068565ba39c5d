"""The table as text. Not here: what stands in it (`results.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.bench import machine

if TYPE_CHECKING:
    from shoal.bench.results import Results, Row

BILLION = 1e9
BAR = 14  # columns of the longest bar
HEAD = ("", "files/s", "", "spread", "workers", "CPU us", "MiB", "base is", "a billion", "the author's")


def text(results: Results) -> str:
    """Returns the table and what a reader must know of it."""
    ran = [row for row in results.rows if row.trials]
    fastest = max((row.rate for row in ran), default=1.0)
    lines = [HEAD, *(_cells(results, row, fastest) for row in ran)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    left = {0, 2}
    out = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    settings = results.settings
    # Into nowhere there is nothing to compare: what the contestants say they received is added up.
    checked = "every byte compared" if settings["into"] == "files" else "bytes counted, not compared"
    sync = ", a final sync inside each time" if settings["durable"] else ""
    out += [
        "",
        f"{settings['count']:,} objects of {settings['size']:,} bytes, {settings['into']}{sync}; medians of "
        f"{settings['trials']}, in turn; {checked}. Base: {results.row(results.base).title}.",
        machine.in_words(results.machine),
    ]
    notes: dict[str, list[str]] = {}
    for row in ran:
        if row.note:
            notes.setdefault(row.note, []).append(row.title)
    out += [f"{', '.join(titles)}: {note}" for note, titles in notes.items()]
    out += [f"not run: {row.title}: {row.missing}" for row in results.rows if row.missing]
    if results.noisy:
        out.append(f"noisy, believe them less: {', '.join(results.noisy)}")
    return "\n".join(out)


def _cells(results: Results, row: Row, fastest: float) -> tuple[str, ...]:
    ratio = results.ratio(results.base, row.key)
    return (
        row.title,
        f"{row.rate:,.0f}",
        "#" * max(1, round(BAR * row.rate / fastest)),
        f"{row.spread:.0%}",
        str(row.workers or ""),
        f"{row.cpu_per_object * 1e6:.1f}",
        f"{row.rss / 2**20:.0f}",
        f"{ratio:.2f} x" if ratio else "",
        duration(BILLION / row.rate),
        f"{duration(BILLION * row.published)}" if row.published else "",
    )


def duration(seconds: float) -> str:
    """Returns a time in the unit in which people would say it."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
