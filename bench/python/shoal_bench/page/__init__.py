"""The results as one page that any browser shows: no script, nothing that is loaded, light or dark as the reader likes.

`markup.py` builds elements in which every string is escaped, `chart.py` draws bars and `panels.py` the curves of a
sweep, `tables.py` has the figures, `style.css` is the look; here is the order of things. What to use is said by
`recommendation.py`, one folder up. Not here: the same as Markdown (`markdown.py`), which says it in the same words.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from shoal_bench import machine, words
from shoal_bench.page import tables
from shoal_bench.page.chart import chart
from shoal_bench.page.markup import Markup, escaped, joined, tag
from shoal_bench.page.panels import panels
from shoal_bench.recommendation import recommend
from shoal_bench.table import notes

if TYPE_CHECKING:
    from shoal_bench.results import Results
    from shoal_bench.stored import Collection

STYLE = Path(__file__).parent / "style.css"
TITLE = "Which way is the fastest here?"
METHOD = (
    "The contestants take turns, round after round. Where there is more than one round, one more before them is thrown "
    "away. Ratios are formed within a round, and the median of them is shown: rates of different pages are not to be "
    "compared, ratios are.",
    "Each run that writes writes into a fresh directory, and nothing is deleted before the end, because ext4 is slow "
    "for minutes where inodes have just been freed. What one run left in the page cache is written back before the "
    "next.",
    "After each run the results are checked, as is said below each table. A contestant that is wrong or ends with an "
    "error loses its row, what it did before included.",
    "Slow contestants get about a second\N{RIGHT SINGLE QUOTATION MARK}s worth of the objects; rates are compared. CPU "
    "is processor time of the whole process with its children, an interpreter\N{RIGHT SINGLE QUOTATION MARK}s start "
    "included; the time is the job\N{RIGHT SINGLE QUOTATION MARK}s own, where a program says it.",
    "spread: fastest less slowest trial, as a part of the median. base is: how many times as fast as the row the base "
    "is. ?: another run may change that by more than 10 %, as far as these trials can tell. first done, last done: "
    "when the first and the last object of a run were complete files, as the file system says; all: the time of it.",
)


def page(collection: Collection, title: str = TITLE) -> str:
    """Returns the page of some results."""
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # The browser itself refuses whatever would be loaded or run, even if something got in here.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    several = collection.results
    body = tag(
        "body",
        tag("header", tag("h1", title), *_machines(several), _contents(collection) if len(several) > 1 else ""),
        tag("main", *(_job(one, at) for at, one in enumerate(several)), _failed(collection), _method()),
        tag("footer", "Made by shoal bench. Everything is in this file; nothing is loaded."),
    )
    return "<!doctype html>\n" + tag("html", head, "\n", body, lang="en") + "\n"


def machines(several: list[Results]) -> list[str]:
    """Returns a line for each machine, and when it was measured."""
    found: dict[str, list[str]] = {}
    for one in several:
        found.setdefault(machine.in_words(one.machine), []).append(one.when[:10])
    return ["; ".join([text, *(day for day in sorted(set(days)) if day)]) for text, days in found.items()]


def names(several: list[Results]) -> list[str]:
    """Returns what each result is called in the contents: its job, and the size where a job is there twice."""
    jobs = [one.job for one in several]
    return [one.job if jobs.count(one.job) == 1 else f"{one.job}, {one.settings['size']:,} bytes" for one in several]


def settings(results: Results) -> str:
    """Returns the study, and what was asked for."""
    said, chosen = words.of(results.job), results.settings
    parts = [f"{chosen['count']:,} {said.noun} of {chosen['size']:,} bytes"]
    parts += [f"case {chosen['case']}"] if chosen["case"] else []
    parts += ["nothing written"] if chosen["into"] == "null" else []
    parts += ["a final sync inside each time"] if chosen["durable"] else []
    parts += ["from a cold cache"] if chosen["cold"] else []
    trials = chosen["trials"]
    study = f"Strategies of the study: {said.study}. " if said.study else ""
    return f"{study}{', '.join(parts)}; {f'medians of {trials} trials, in turn' if trials > 1 else 'one trial'}."


def base(results: Results) -> str:
    """Returns what the rows are compared with, and how they were checked."""
    return f"Base: {results.row(results.base).title}. Checked: {results.checked}."


def versions(results: Results) -> dict[str, str]:
    """Returns what is known of the machine and of the programs."""
    return {what: value for what, value in results.machine.items() if value}


def _machines(several: list[Results]) -> list[Markup]:
    return [tag("p", line, class_="dim") for line in machines(several)]


def _contents(collection: Collection) -> Markup:
    """What to use for each job, with a link to why."""
    items = (
        tag("li", tag("a", name, href=f"#job-{at}"), ": ", recommend(one).headline)
        for at, (name, one) in enumerate(zip(names(collection.results), collection.results, strict=True))
    )
    return tag("nav", tag("ul", *items))


def _job(results: Results, at: int) -> Markup:
    said = words.of(results.job)
    rows = results.rows
    explained = notes(results)
    return tag(
        "section",
        tag("h2", said.title),
        tag("p", settings(results), class_="dim small"),
        _recommendation(results),
        _pictures(results, said.noun),
        tag("h3", "Figures"),
        tables.figures(results, said.noun) if any(row.trials for row in rows) else tag("p", "No row has figures."),
        tag("p", base(results), class_="small"),
        tag("ul", *(tag("li", note) for note in explained), class_="notes") if explained else "",
        tag("details", tag("summary", "Every trial"), tables.trials(results)),
        tag("details", tag("summary", "Machine and versions"), _pairs(versions(results))),
        class_="job",
        id=f"job-{at}",
    )


def _pictures(results: Results, noun: str) -> Markup:
    """The bars; of a sweep its curves, and the bars for those who look for them."""
    curves, bars = panels(results, noun), chart(results, noun)
    return joined(curves, tag("details", tag("summary", "Every point as a bar"), bars)) if curves else bars


def _recommendation(results: Results) -> Markup:
    said = recommend(results)
    items = [tag("li", reason) for reason in said.reasons]
    items += [tag("li", caveat, class_="caveat") for caveat in said.caveats]
    return tag(
        "div",
        tag("p", said.headline, class_="headline"),
        tag("ul", *items) if items else "",
        class_="recommendation",
    )


def _pairs(found: dict[str, str]) -> Markup:
    return tag("dl", *(joined(tag("dt", what), tag("dd", value)) for what, value in found.items()))


def _failed(collection: Collection) -> Markup:
    if not collection.failed:
        return Markup("")
    return tag("section", tag("h2", "Jobs without results"), _pairs(collection.failed))


def _method() -> Markup:
    text = (tag("p", escaped(part)) for part in METHOD)
    return tag("section", tag("h2", "How it was measured"), *text, class_="small")
