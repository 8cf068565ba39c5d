"""Where pictures and pages of results go; looked at before a bench begins, as it takes minutes.

Not here: what is in them (`plot.py`, `page/`, `markdown.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal import ConfigError
from shoal_bench import markdown
from shoal_bench import plot as plots
from shoal_bench.page import TITLE, page
from shoal_bench.results import Results
from shoal_bench.stored import Collection, load

if TYPE_CHECKING:
    import os

PAGES = (".html", ".htm")
MARKDOWN = ".md"


def check(json: Path | None, plot: Path | None, report: Path | None) -> None:
    """Refuses what could not be written at the end.

    Raises:
        ConfigError: A directory is not there, a name ends with no form that is known, or what draws is not installed.
    """
    for path in (json, plot, report):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"there is no directory {str(path.absolute().parent)!r}", hint="make it before")
        if path is not None and path.is_dir():
            raise ConfigError(f"{str(path)!r} is a directory", hint="name a file in it")
    if plot is not None:
        plots.check(plot)
    if report is not None:
        _check_form(report)


def _check_form(report: Path) -> None:
    if report.suffix.lower() not in (*PAGES, MARKDOWN):
        raise ConfigError(
            f"{str(report)!r} ends neither with {PAGES[0]} nor with {MARKDOWN}", hint="the name says the form"
        )


def _write(collection: Collection, path: Path, title: str = TITLE) -> str:
    """Writes a report in the form that the name says; returns it."""
    if path.suffix.lower() == MARKDOWN:
        return markdown.write(collection, path, title)
    made = page(collection, title)
    path.write_text(made, encoding="utf-8")
    return made


def draw(collection: Collection, *, plot: Path | None, report: Path | None) -> None:
    """Writes what was asked for; no plot where no row has figures, which the table and the page say."""
    if report is not None:
        _write(collection, report)
    if plot is not None and any(row.trials for one in collection.results for row in one.rows):
        plots.draw(collection.results, plot)


def report(
    *results: Results | Collection | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    title: str = TITLE,
) -> str:
    """Makes one report of results: charts, tables, what to use and why, the machine and the method.

    As HTML it is one file that needs no network, runs no script, and is light or dark as the reader has chosen. As
    Markdown, for an issue or a README file, its charts are SVG files beside it, such as `results-copy.svg` beside
    `results.md`; without Matplotlib the tables have bars of signs instead.

    Args:
        *results: What a bench has returned, or the names of files that `--json` has written.
        path: Where the report is written, as HTML or, if the name ends with .md, as Markdown; by default nowhere.
        title: The heading.

    Returns:
        The report: Markdown if the path says so, otherwise HTML.

    Raises:
        ConfigError: There is no result, a file is none of the lab's, or the path ends neither with .html nor .md.

    Example:
        >>> results = shoal_bench.save(count=20, trials=1, only=["limit"])
        >>> "bare probe" in shoal_bench.report(results, path="report.html")
        True
    """
    if path is not None:
        _check_form(Path(path))
    several = Collection([])
    for one in results:
        found = one if isinstance(one, Collection) else Collection([one]) if isinstance(one, Results) else load(one)
        several.results += found.results
        several.failed |= found.failed
    if not several.results and not several.failed:
        raise ConfigError("there is no result to report", hint="give what a bench has returned, or its JSON file")
    return page(several, title) if path is None else _write(several, Path(path), title)
