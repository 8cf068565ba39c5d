"""Reports of results, HTML or Markdown, from the two templates in `templates/`.

Whatever was measured is escaped: by Jinja in HTML, by `escaped` in Markdown. An HTML report is one file that runs no
script and loads nothing; its charts are Matplotlib's SVG. Their styles become rules of the page, so that they are light
or dark as the page is. Not here: what is said (`figures.py`, `recommendation.py`), what is drawn (`plot.py`).
"""

import base64
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from shoal import ConfigError
from shoal_bench import figures, plot, words
from shoal_bench.curves import curves
from shoal_bench.recommendation import recommend
from shoal_bench.results import Collection, Results, load
from shoal_bench.text import bar

TITLE = "Which way is the fastest here?"
TEMPLATES = Path(__file__).parent / "templates"
PAGES, MARKDOWN = (".html", ".htm"), ".md"
ACROSS = 8  # points of a scan side by side
LONGEST = 60  # letters of a job in the name of a picture
SIGNS = re.compile(r"[\\`*_\[\]<>|~$&#]")  # what means something anywhere in a line of Markdown
# And what does so at its beginning, up to the sign that is escaped: a rule, an underline, an item of a list.
FIRST = re.compile(r"[-=](?=[-=\s]*$)|[-+](?=\s|$)|\d+[.)](?=\s|$)")
LINK = "://"  # what GitHub makes a link of by itself
# The colours of `plot.py`, as the style sheet calls them.
COLOURS = {colour: f"var(--{kind})" for kind, colour in plot.COLOURS.items()}
COLOURS |= {plot.INK: "var(--ink)", plot.DIM: "var(--dim)", plot.DOT: "var(--dot)"}
COLOURS |= {plot.RAIL: "var(--rail)", plot.PAPER: "var(--paper)"}


def check(json: Path | None, picture: Path | None, report: Path | None) -> None:
    """Refuses what could not be written at the end, before minutes of measuring.

    Raises:
        ConfigError: A directory is not there, a name ends with no form that is known, or what draws is not installed.
    """
    for path in (json, picture, report):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"there is no directory {str(path.absolute().parent)!r}", hint="make it before")
        if path is not None and path.is_dir():
            raise ConfigError(f"{str(path)!r} is a directory", hint="name a file in it")
    if picture is not None:
        plot.check(picture)
    if report is not None:
        _check_form(report)


def _check_form(path: Path) -> None:
    if path.suffix.lower() not in (*PAGES, MARKDOWN):
        ends = f"ends neither with {PAGES[0]} nor with {MARKDOWN}"
        raise ConfigError(f"{str(path)!r} {ends}", hint="the name says the form")


def draw(collection: Collection, *, picture: Path | None, path: Path | None) -> None:
    """Writes what was asked for; no picture where no row has figures, which the table and the report say."""
    if path is not None:
        report(collection, path=path)
    if picture is not None and any(row.trials for one in collection.results for row in one.rows):
        plot.draw(collection.results, picture)


def report(
    *results: Results | Collection | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    title: str = TITLE,
) -> str:
    """Makes one report of results: charts, tables, what to use and why, the machine and the method.

    As HTML it is one file that needs no network, runs no script, and is light or dark as the reader has chosen. As
    Markdown, for an issue or a README file, its charts are SVG files beside it, such as `results-copy.svg` beside
    `results.md`. Without Matplotlib the tables have bars of signs instead.

    Args:
        *results: What a bench has returned, or the names of files that `--results` has written.
        path: Where the report is written, as HTML or, if the name ends with .md, as Markdown; by default nowhere.
        title: The heading.

    Returns:
        The report: Markdown if the path says so, otherwise HTML.

    Raises:
        ConfigError: There is no result, a file is not the lab's, or the path ends neither with .html nor .md.

    Example:
        >>> results = shoal_bench.run("save", count=20, trials=1, only=["limit"])
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
    if path is not None and Path(path).suffix.lower() == MARKDOWN:
        made = _markdown(several, title, Path(path))
    else:
        made = _page(several, title)
    if path is not None:
        Path(path).write_text(made, encoding="utf-8")
    return made


def _drawn(results: Results) -> bool:
    return plot.installed() and any(row.trials for row in results.rows)


def _page(collection: Collection, title: str) -> str:
    rules: dict[str, str] = {}
    pictures = [inline(plot.picture([one], "svg").decode(), rules) if _drawn(one) else "" for one in collection.results]
    look = (TEMPLATES / "style.css").read_text(encoding="utf-8") + "".join(
        f".{name} {{ {style} }}\n" for style, name in rules.items()
    )
    digest = base64.b64encode(hashlib.sha256(look.encode()).digest()).decode()
    # The browser itself refuses whatever would be loaded or run, even if something got in here.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    made = _template("report.html.j2", _visible, autoescape=True).render(
        _content(collection, title, pictures),
        style=Markup(look),  # noqa: S704  # our own
        policy=policy,
        bar=bar,
    )
    return made.strip() + "\n"


def inline(svg: str, rules: dict[str, str]) -> Markup:
    """Returns an SVG of Matplotlib as a part of a page, and adds its styles to the rules of the page, by their text.

    The page's policy allows no style but its own, and its own can be light or dark.
    """
    svg = svg[svg.index("<svg") :]
    for gone in (r"<!--.*?-->", r"<metadata>.*?</metadata>", r"<style.*?</style>", r" id=\"[a-zA-Z0-9.]+_\d+\""):
        svg = re.sub(gone, "", svg, flags=re.DOTALL)
    svg = re.sub(r'id="(bar|trial|whisker|curve|path|end)-\d+"', r'class="\1"', svg)

    def ruled(found: re.Match[str]) -> str:
        style = re.sub(r"'DejaVu Sans'[^;]*", "system-ui, sans-serif", found[1].replace("&apos;", "'"))
        for colour, name in COLOURS.items():
            style = style.replace(colour, name)
        return f'class="{rules.setdefault(style, f"s{len(rules)}")}"'

    svg = re.sub(r'style="([^"]*)"', ruled, svg)
    return Markup(re.sub(r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg class="chart" role="img" \1>', svg, count=1))  # noqa: S704


def _markdown(collection: Collection, title: str, path: Path) -> str:
    names = _names(collection.results)
    pictures = []
    for one, name in zip(collection.results, names, strict=True):
        file = f"{path.stem}-{name}.svg" if _drawn(one) else ""
        if file:
            plot.draw([one], path.with_name(file))
        pictures.append(Markup(quote(os.fsencode(file))))  # noqa: S704
    signs: Callable[[float, int], Markup] = lambda part, longest: Markup(bar(part, longest))  # noqa: E731, S704
    made = _template("report.md.j2", escaped, autoescape=False).render(
        _content(collection, title, pictures), signs=signs
    )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in made.splitlines())).strip() + "\n"


@functools.cache
def _template(name: str, shown: Callable[[str], str], *, autoescape: bool) -> Template:
    """Returns a template that shows values as a function returns them, unless they are markup already."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,  # noqa: S701  # not in Markdown, where `shown` escapes
        finalize=lambda value: value if isinstance(value, Markup) else shown(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _content(collection: Collection, title: str, pictures: list[Any]) -> Mapping[str, Any]:
    """Returns what a template shows."""
    several = collection.results
    jobs = [
        {
            "name": name,
            "words": words.of(one.job, one.settings["case"]),
            "advice": recommend(one),
            "picture": picture,
            "path": figures.PATH if picture and any(curve.path for curve in curves(one)) else "",
            "scanned": figures.scanned(curves(one), ACROSS),
            "figures": figures.figures(one),
            "about": figures.about(one),
            "notes": figures.notes(one),
            "trials": figures.trials(one),
            "versions": {what: value for what, value in one.machine.items() if value},
        }
        for name, one, picture in zip(figures.names(several), several, pictures, strict=True)
    ]
    found = {"title": title, "machines": figures.machines(several), "jobs": jobs, "failed": collection.failed}
    return found | {"method": figures.METHOD, "kinds": plot.KINDS}


def _visible(text: str) -> str:
    """Returns text without control characters, which have no place in a page, and in a title only hide something."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def escaped(text: str) -> str:
    """Returns text as one line that Markdown shows as it is, wherever it stands."""
    clean = SIGNS.sub(r"\\\g<0>", _visible(" ".join(text.split())))
    first = FIRST.match(clean)
    if first:
        clean = f"{clean[: first.end() - 1]}\\{clean[first.end() - 1 :]}"
    return clean.replace(LINK, r":\//")


def _names(several: list[Results]) -> list[str]:
    """Returns what tells the pictures apart: the jobs, which a file may call anything, in plain letters."""
    found: list[str] = []
    for name in figures.names(several):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower().replace(",", ""))[:LONGEST].strip("-") or "job"
        tried = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        found.append(next(one for one in tried if one not in found))
    return found
