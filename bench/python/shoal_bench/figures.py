"""What every view of a result shows: its tables as cells, and the sentences around them.

Not here: how they are shown, as text (`text.py`), or as HTML, Markdown and pictures (`reports.py`, `plot.py`).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from shoal_bench import machine, sizing, words
from shoal_bench.curves import Curve, Spot
from shoal_bench.results import AGREE, Results, Row
from shoal_bench.words import duration, micros, seconds

NAMED = 4  # rows that a sentence names
DONE = "first/last"
AUTO = "auto"  # where fixed numbers of workers are: the number that shoal finds itself
PATH = (
    "The dotted line is the path of auto in its last trial: each number of workers at the rate measured with it, the "
    "last one as a large dot."
)
METHOD = (
    "The contestants take turns, round after round. Where there is more than one round, one more before them is thrown "
    "away. Ratios are formed within a round, and the median of them is shown. Compare the ratios of different pages, "
    "not the rates.",
    "Each run that writes gets a fresh directory, and nothing is deleted before the end, because ext4 is slow for "
    "minutes where inodes have just been freed. What one run left in the page cache is written back before the next.",
    "After each run the results are checked, as is said below each table. A contestant that is wrong or ends with an "
    "error loses its row, what it did before included.",
    "Slow contestants get about a second\N{RIGHT SINGLE QUOTATION MARK}s worth of the objects; rates are compared. CPU "
    "is processor time of the whole process with its children, the start of an interpreter included; the time is the "
    "job\N{RIGHT SINGLE QUOTATION MARK}s own, where a program says it.",
    "spread: fastest less slowest trial, as a part of the median. base is: how many times as fast as the row the base "
    f"is. {DONE}: seconds until the first and the last object of a run were complete files, as the file system says.",
)


@dataclass(frozen=True)
class Table:
    """Cells, a line for each row.

    Attributes:
        head: The names of the columns; the first column is the row's title.
        lines: The cells.
        kinds: Of each line, the row's kind.
        parts: Of each line, its rate as a part of the fastest.
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    kinds: Sequence[str] = ()
    parts: Sequence[float] = ()


def figures(results: Results) -> Table:
    """Returns a line for each row that has figures, fastest first; with the author's columns, if there are."""
    ran = [row for row in results.rows if row.trials]
    fastest = max((row.rate for row in ran), default=1.0)
    done = (DONE,) if seen(results) else ()
    last_ones = (name.removeprefix("the ") for name in authors(results) or ("MB/s",))
    per = ("spread", "workers", "CPU us", "MiB", "base is")
    head = ("", results.scale.unit, *per, *done, results.scale.title, *last_ones)
    lines = [_cells(results, row) for row in ran]
    return Table(head, lines, [row.kind for row in ran], [row.rate / fastest for row in ran])


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
        *_last(results, row),
    )


def _last(results: Results, row: Row) -> tuple[str, ...]:
    """Returns the author's times of a row; where the study gives none, how many MB came a second."""
    if names := authors(results):
        objects = results.scale.study or results.scale.objects
        times = (row.python2, row.published)[-len(names) :]
        return tuple(duration(objects * time) if time else "" for time in times)
    return (f"{row.rate * results.settings['size'] / 1e6:,.0f}",)


def authors(results: Results) -> tuple[str, ...]:
    """Returns what the columns of the author's are called, if there are any."""
    if not results.scale.figures or not any(row.published or row.python2 for row in results.rows):
        return ()
    return ("Py 2", "Py 3") if any(row.python2 for row in results.rows) else ("the author's",)


def seen(results: Results) -> bool:
    """Returns whether it was seen of any row when its first and last object were complete."""
    return any(row.last is not None for row in results.rows)


def trials(results: Results) -> Table:
    """Returns a line for each trial."""
    done = ("first", "last") if seen(results) else ()
    head = ("", "round", "objects", "seconds", "a second", "CPU, s", "MiB", "workers", *done)
    lines = []
    for row, one in [(each, one) for each in results.rows for one in each.trials]:
        cells = [row.title, str(one.round), f"{one.objects:,}", f"{one.seconds:.4f}", f"{one.rate:,.0f}"]
        cells += [f"{one.cpu:.3f}", f"{one.rss / 2**20:,.0f}", str(one.workers or "")]
        cells += ["" if moment is None else f"{moment:.4f}" for moment in ((one.first, one.last) if done else ())]
        lines.append(cells)
    return Table(head, lines, [row.kind for row in results.rows for _ in row.trials])


def scanned(found: Sequence[Curve], across: int) -> list[Table]:
    """Returns tables of curves with the points across, so many to a table; * is the best of a line."""
    spots = {spot.point: None for curve in found for spot in curve.spots}
    points = sorted(spots, key=lambda point: (point is not None, point))
    own = AUTO if len(points) > 1 else "its own"
    tables = []
    for some in (points[at : at + across] for at in range(0, len(points), across)):
        lines = []
        for curve in found:
            cells = {spot.point: _spot(curve, spot) for spot in curve.spots}
            title = curve.title if curve.key == curve.title else f"{curve.title} ({curve.key})"
            lines.append([title, *(cells.get(point, "") for point in some)])
        labels = [own if point is None else str(point) for point in some]
        tables.append(Table(["", *labels], lines, [curve.kind for curve in found]))
    return tables


def _spot(curve: Curve, spot: Spot) -> str:
    """Returns the rate of a point and times one worker, or why it is missing."""
    if not spot.row.trials:
        return "failed" if spot.row.failed else "-"
    rate = f"{spot.row.rate:,.0f}" if spot.row.rate >= 100 else f"{spot.row.rate:.1f}"
    ratio = curve.ratio(spot)
    best = "*" if spot is curve.best and len(curve.spots) > 1 else ""
    return rate + best if ratio is None else f"{rate}{best} ({ratio:.2f} x)"


def summary(results: Results, found: Sequence[Curve]) -> str:
    """Says which program was the fastest of a scan, and where; nothing if none has figures."""
    ran = [curve for curve in found if curve.best.row.trials]
    if not ran:
        return ""
    curve = max(ran, key=lambda one: one.best.row.rate)
    best, each = curve.best, results.settings["size"]
    where = f" at {best.point or AUTO}" if len(curve.spots) > 1 else ""
    times = curve.ratio(best)
    more = f", {times:.2f} times one worker" if times is not None and times != 1 else ""
    return f"fastest at {words.size(each)}: {curve.title}{where}{more}, {best.row.rate * each / 1e6:,.0f} MB/s"


def notes(results: Results) -> list[str]:
    """Returns what a reader must know of single rows."""
    noted: dict[str, list[Row]] = {}
    for row in results.rows:
        if row.note and row.trials:
            noted.setdefault(row.note, []).append(row)
    said = [results.scale.author] if authors(results) or not results.scale.figures else []
    for note, rows in noted.items():
        start = statistics.median(row.start for row in rows)
        said.append(f"{', '.join(row.title for row in rows)}: {note.replace('{start}', duration(start))}")
    said += [f"failed: {row.title}: {row.failed}" for row in results.rows if row.failed is not None]
    return said + [f"not run: {row.title}: {row.missing}" for row in results.rows if row.missing]


def noise(results: Results) -> list[str]:
    """Returns whether the machine is quiet enough."""
    said = [f"noisy, believe them less: {', '.join(results.noisy)}"] if results.noisy else []
    if many := results.unsteady:
        others = sum(bool(row.trials) for row in results.rows) - 1
        some = f"{', '.join(many[:NAMED])}{', ...' if len(many) > NAMED else ''}"
        said.append(
            f"too noisy: another run may change {len(many)} of {others} ratios by over {AGREE:.0%} ({some}): "
            "take more --trials, with nothing else running"
        )
    return said


def about(results: Results) -> str:
    """Returns what was measured, how often, how it was checked, and the base."""
    chosen, said = results.settings, words.of(results.job, results.settings["case"])
    fitted = chosen.get("full") and results.job in sizing.STUDIES and sizing.study(results.job).fitted
    part = ", of which each gets about a second's worth" if fitted else ""
    parts = [f"{chosen['count']:,} {said.noun} of {chosen['size']:,} bytes{said.source}{part}"]
    parts += [f"case {chosen['case']}"] if chosen["case"] else []
    parts += ["nothing written"] if chosen["into"] == "null" else []
    parts += ["a final sync inside each time"] if chosen["durable"] else []
    parts += ["from a cold cache"] if chosen["cold"] else []
    trials = f"medians of {chosen['trials']} trials, in turn" if chosen["trials"] > 1 else "one trial"
    checks = f"Checked: {results.checked}. Base: {results.row(results.base).title}."
    done = f" {DONE}: seconds until the first and the last object of a run were complete." if seen(results) else ""
    return f"{', '.join(parts)}; {trials}. {checks}{done}"


def machines(several: Sequence[Results]) -> list[str]:
    """Returns a line for each machine, and when it was measured."""
    found: dict[str, list[str]] = {}
    for one in several:
        found.setdefault(machine.in_words(one.machine), []).append(one.when[:10])
    return ["; ".join([text, *(day for day in sorted(set(days)) if day)]) for text, days in found.items()]


def names(several: Sequence[Results]) -> list[str]:
    """Returns what each result is called in the contents: its job, and the size where a job is there twice."""
    jobs = [one.job for one in several]
    return [one.job if jobs.count(one.job) == 1 else f"{one.job}, {one.settings['size']:,} bytes" for one in several]
