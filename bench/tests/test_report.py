"""Reports and pictures of the lab's results: what they say, and that nothing measured can become part of them."""

from __future__ import annotations

import dataclasses
import html
import html.parser
import re
import struct
import urllib.parse
from typing import TYPE_CHECKING

import markdown_it
import pytest

import shoal as package
import shoal_bench
from shoal_bench import curves, figures, jobs, plot, recommendation, reports
from shoal_bench.results import Step

if TYPE_CHECKING:
    from pathlib import Path

    from markdown_it.token import Token

    from conftest import Command, Contest, Here

HOSTILE = '"><script>alert(1)</script><img src=http://evil.invalid/x onerror=alert(2)>\x1b[31m{0.__class__}$x^2$'


class Page(html.parser.HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, kind: str = "") -> int:
        return sum(name == tag and kind in ["", *(found.get("class") or "").split()] for name, found in self.elements)


def test_the_page_has_a_bar_for_each_row_and_every_figure(contest: Contest) -> None:
    save = contest({"shoal": [300, 310, 305], "threads-10": [100, 101, 99], "broken": []})
    text = shoal_bench.report(save, contest({"shoal": [7.0]}, job="copy"))
    page = Page(text)
    assert (page.count("svg", "chart"), page.count("g", "bar")) == (2, 3)
    assert (page.count("g", "trial"), page.count("g", "whisker")) == (2, 2), "one trial has no spread"
    for said in ("305", "author's", "50.0 s", "some processor", "2026-01-02"):
        assert said in page.text
    assert "failed: broken: it ended with code 7" in page.text
    assert "On this machine use shoal, because it is 3.1 times as fast as threads-10" in page.text


def test_a_job_in_which_all_failed_has_a_page_too(contest: Contest, tmp_path: Path) -> None:
    none = contest({"shoal": [], "a": []}, trials=3)
    page = Page(shoal_bench.report(none))
    assert page.count("svg", "chart") == 0
    assert "No row has figures." in page.text
    assert "failed: a: it ended with code 7" in page.text
    reports.draw(shoal_bench.Collection([none]), picture=tmp_path / "none.svg", path=tmp_path / "none.html")
    assert [path.name for path in tmp_path.iterdir()] == ["none.html"]


def test_no_string_of_a_result_becomes_markup(contest: Contest) -> None:
    results = contest({"shoal": [300, 310], HOSTILE: [1, 2]}, job=HOSTILE, machine={"processor": HOSTILE, HOSTILE: "1"})
    plain = Page(shoal_bench.report(contest({"shoal": [300, 310], "plain": [1, 2]}, job="plain", machine={"x": "1"})))
    for row in results.rows:
        row.note = row.kind = HOSTILE
    results.rows[1].failed = results.rows[1].missing = HOSTILE
    collection = shoal_bench.Collection([results], {HOSTILE: HOSTILE})
    text = shoal_bench.report(collection, title=HOSTILE)
    page = Page(text)
    assert {name for name, _ in page.elements} == {name for name, _ in plain.elements}
    assert not [found for _, found in page.elements if any(name.startswith("on") for name in found)]
    assert "\x1b" not in text
    assert "<script>alert(1)" in page.text, "it is shown as it is"
    links = [value for _, found in page.elements for name, value in found.items() if name in ("src", "href")]
    assert [value for value in links if value != "data:,"] == []
    assert "{0.__class__}" in shoal_bench.table(results)


def test_the_page_allows_its_own_style_and_nothing_else(contest: Contest) -> None:
    text = shoal_bench.report(contest({"shoal": [1.0]}))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert html.unescape(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert text.count("<style") == 1, "one style sheet, and the policy has its hash"
    assert " style=" not in text
    assert "url(" not in text
    assert "@import" not in text


KINDS = {"curl": "peer", "limit": "limit", "bare": "limit"}


@pytest.mark.parametrize(
    ("rates", "headline"),
    [
        (
            {"shoal": [30, 31, 30], "a": [10, 10, 10]},
            "use shoal, because it is 3.0 times as fast as a, the fastest way",
        ),
        (
            {"shoal": [10, 10, 10], "curl": [30, 31, 30]},
            "use curl, because it is 3.0 times as fast as shoal: shoal is not",
        ),
        ({"shoal": [10, 11, 12], "a": [11, 12, 10]}, "because they are equal within the noise"),
        ({"shoal": [10], "a": [11]}, "because they are equal within the noise"),
        ({"shoal": [10, 10, 10], "limit": [50, 50, 50]}, "shoal alone was measured: 10.0 objects a second"),
        ({"a": [10, 10, 10], "b": [30, 30, 30]}, "use b, because it is 3.0 times as fast as a."),
        ({"limit": [10]}, "Nothing to recommend"),
        ({"shoal": []}, "Nothing to recommend"),
    ],
)
def test_what_to_use_follows_from_the_figures(rates: dict[str, list[float]], headline: str, contest: Contest) -> None:
    assert headline in recommendation.recommend(contest(rates, KINDS, job="some")).headline


def test_the_reasons_name_what_else_matters(contest: Contest) -> None:
    rates: dict[str, list[float]] = {
        "shoal-generate": [100, 101],
        "shoal-save-numpy": [500, 501],
        "limit": [110, 111],
        "threads-10": [50, 50],
        "threads-100": [20, 20],
    }
    found = recommendation.recommend(contest(rates, {"limit": "limit"}))
    said = " ".join(found.reasons)
    assert "shoal-generate does 100 files a second" in said
    assert "More workers do not help: threads-10 is 2.5 times as fast as threads-100." in said
    assert "(limit) is 1.10 times as fast as shoal-generate, so that little is left to gain" in said
    assert "Something else: shoal-save-numpy, for data that come as tables: 5.0 times as fast as shoal-gen" in said
    assert "takes 2.0 times the processor time" in said
    assert found.caveats == []


def test_the_caveats_say_why_to_believe_it_less(contest: Contest) -> None:
    noisy = " ".join(recommendation.recommend(contest({"shoal": [5000, 9000], "a": [100, 100]})).caveats)
    assert "too noisy for 1 of 1 ratios (a)" in noisy
    assert "Trials differ by more than 30 %, believe them less: shoal." in noisy
    assert "Trials of less than 0.2 s (shoal)" in noisy
    assert "one trial only" in " ".join(recommendation.recommend(contest({"shoal": [1]})).caveats)


def test_rows_that_are_named_aside_are_there() -> None:
    for job, rows in recommendation.ASIDE.items():
        if job in jobs.JOBS:
            assert rows.keys() <= {one.key for one in jobs.named(job).contestants()}, job


def sweep(contest: Contest) -> shoal_bench.Results:
    """Two programs at four and two points, one of which failed, one program at a single point."""
    threads: dict[str, list[float]] = {
        "threads@1": [10, 11],
        "threads@2": [20, 21],
        "threads@8": [15, 15],
        "threads@64": [],
    }
    return contest(threads | {"java@1": [1, 1], "java@2x10": [2, 2], "shoal@8": [30, 30]}, job="read")


def test_the_points_of_a_sweep_are_curves(contest: Contest) -> None:
    found = curves.curves(sweep(contest))
    assert [(one.key, [str(point) for point in one.rows]) for one in found] == [
        ("threads", ["1", "2", "8"]),
        ("java", ["1", "2x10"]),
    ]
    assert str(found[0].best.point) == "2"
    assert curves.curves(contest({"threads-10": [1.0], "shoal": [2.0]})) == []
    page = Page(shoal_bench.report(sweep(contest)))
    assert (page.count("svg", "chart"), page.count("g", "curve")) == (1, 2)
    assert "20.5* (1.95 x)" in page.text
    assert "More workers do not help: threads@2 is 1.37 times as fast as threads@8." in page.text


def test_a_sweep_is_drawn_as_lines(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot.draw([sweep(contest)], tmp_path / "lines.svg")
    picture = (tmp_path / "lines.svg").read_text()
    assert "over workers" in picture
    assert "2x10" in picture


def with_path(contest: Contest, *path: tuple[int, float]) -> shoal_bench.Results:
    """A sweep of shoal with 1, 2 and 8 workers, and a row that found its number by a path of numbers and rates."""
    results = contest({"shoal@1": [10], "shoal@2": [20], "shoal@8": [25], "shoal": [24]}, job="read")
    own = results.row("shoal")
    steps = tuple(Step(float(at), workers, rate, 1.0) for at, (workers, rate) in enumerate(path))
    own.trials = [dataclasses.replace(own.trials[0], path=steps)]
    return results


def test_the_path_of_auto_is_drawn_over_the_curve(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = with_path(contest, (1, 9.0), (4, 23.0), (32, 0.0), (16, 24.0))
    shoal_bench.report(results, path=tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert (page.count("g", "curve"), page.count("g", "path"), page.count("g", "end")) == (1, 1, 1)
    assert figures.PATH in page.text
    text = shoal_bench.report(results, path=tmp_path / "r.md")
    assert text.count(figures.PATH) == 1
    picture = (tmp_path / "r-read.svg").read_text()
    assert "path of auto" in picture
    (group,) = re.findall(r'<g id="path-0">(.*?)</g>\s*<g id="end-0">', picture, re.DOTALL)
    dots = [(float(x), float(y)) for x, y in re.findall(r'<use xlink:href="[^"]*" x="([\d.]+)" y="([\d.]+)"', group)]
    assert len(dots) == 3, "what was not measured has no dot"
    (one, four, sixteen) = (x for x, _ in dots)
    assert four - one == pytest.approx(sixteen - four, rel=0.01), "4 is midway between 2 and 8"
    assert dots[0][1] > dots[1][1] > dots[2][1], "higher is faster"
    assert ">16<" in picture, "the axis reaches as far as the path"


def test_a_sweep_without_a_path_says_nothing_of_one(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for at, results in enumerate((sweep(contest), with_path(contest), with_path(contest, (2, 0.0)))):
        text = shoal_bench.report(results, path=tmp_path / f"{at}.md")
        assert figures.PATH not in text
        assert "path of auto" not in (tmp_path / f"{at}-read.svg").read_text()


def test_bench_report_makes_one_page_of_several_files(shoal: Command, contest: Contest, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(contest({"shoal": [3, 3]}).to_json())
    (tmp_path / "b.json").write_text(contest({"shoal": [4, 4]}, job="read").to_json())
    done = shoal.run("bench", "report", "a.json", "b.json", "-o", "report.html", "--title", "Mine & yours")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = (tmp_path / "report.html").read_text()
    assert Page(text).count("svg", "chart") == 2
    assert "<title>Mine &amp; yours</title>" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "gone.json", "-o", "report.html"), "cannot be read"),
        (("report", "gone.json", "-o", "nowhere/report.html"), "there is no directory"),
        (("save", "--plot", "rates.gif"), "neither with .png nor with .svg"),
        (("save", "--report", "nowhere/report.html"), "there is no directory"),
        (("save", "--results", "."), "is a directory"),
        (("all", "-o", "report.json"), "is the file of the results"),
        (("all", "-o", "report.pdf"), "ends neither with .html nor with .md"),
        (("save", "--report", "report"), "ends neither with .html nor with .md"),
        (("report", "gone.json", "-o", "report.txt"), "ends neither with .html nor with .md"),
    ],
)
def test_what_could_not_be_written_is_said_before_anything_runs(
    shoal: Command, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = shoal.run("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bench_writes_its_page_and_its_pictures(lab: Here, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = lab.run(
        *("bench", "save", "--only", "limit", "--count", "3", "--trials", "2", "--quiet"),
        *("--plot", "rates.svg", "--report", "report.html"),
    )
    assert done.returncode == 0, done.stderr
    assert "bare probe" in (tmp_path / "rates.svg").read_text()
    assert Page((tmp_path / "report.html").read_text()).count("g", "bar") == 1


class Document:
    """What a reader sees of Markdown, as CommonMark with tables reads it."""

    def __init__(self, text: str) -> None:
        self.tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
        self.inline = [one for token in self.tokens for one in token.children or []]
        self.text = "\n".join(self.said(token) for token in self.tokens if token.type == "inline")

    @staticmethod
    def said(token: Token) -> str:
        return "".join(
            one.content for one in token.children or [] if one.type in ("text", "text_special", "code_inline")
        )

    @property
    def html(self) -> list[str]:
        return [one.content.strip() for one in (*self.tokens, *self.inline) if one.type.startswith("html")]

    @property
    def pictures(self) -> list[str]:
        return [str(one.attrs["src"]) for one in self.inline if one.type == "image"]

    @property
    def links(self) -> list[Token]:
        return [one for one in self.inline if one.type == "link_open"]

    def tables(self) -> list[list[list[str]]]:
        found: list[list[list[str]]] = []
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.type == "table_open":
                found.append([])
            elif before.type == "tr_open":
                found[-1].append([])
            if before.type in ("th_open", "td_open"):
                found[-1][-1].append(self.said(token))
        return found


FOLDS = ["<details>\n<summary>Machine and versions</summary>", "</details>"]


def test_markdown_has_every_row_and_what_to_use(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    save = contest({"shoal": [300, 310, 305], "threads-10": [100, 101, 99], "broken": []})
    copy = contest({"shoal": [7.0]}, job="copy")
    text = shoal_bench.report(save, copy, path=tmp_path / "my results.md", title="Mine & *yours*")
    assert (tmp_path / "my results.md").read_text() == text
    found = Document(text)
    figures, versions, others, _ = found.tables()
    assert figures[0] == [
        *("", "files/s", "spread", "workers", "CPU us", "MiB", "base is"),
        *("5,000 files", "author's"),
    ]
    assert [line[:2] for line in figures[1:]] == [["shoal", "305"], ["threads-10", "100"]]
    assert figures[2][3:] == ["2", "5,000", "1", "3.07 x", "50.0 s", "50.0 s"]
    assert [line[:2] for line in others] == [["", "files/s"], ["shoal", "7"]]
    assert ["processor", "some processor"] in versions
    assert found.text.count("On this machine use shoal, because it is 3.1 times as fast as threads-10") == 2, "contents"
    for said in ("Mine & *yours*", "some processor", "2026-01-02", "failed: broken: it ended with code 7", "one trial"):
        assert said in found.text
    for said in (*recommendation.recommend(save).reasons, *recommendation.recommend(copy).caveats):
        assert said in found.text
    assert found.html == FOLDS * 2
    assert found.pictures == ["my%20results-save.svg", "my%20results-copy.svg"]
    for name in found.pictures:
        assert "a second" in (tmp_path / urllib.parse.unquote(name)).read_text()
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_that_was_measured_becomes_markup_of_markdown(contest: Contest, tmp_path: Path) -> None:
    signs = (
        "| a | `b` **c** _d_ [e](http://evil.invalid) ![f](x) <b>g</b> &lt; <!-- \\| \\\n\n# h\n- i\n---\n1. j ~~k~~"
    )
    rates: dict[str, list[float]] = {"shoal": [300, 310]}
    rates |= {f"{signs}\n{HOSTILE}": [1.0, 2.0], "- one": [4.0, 4.0], "1. two\\": [3.0, 3.0], "---": [2.0, 2.0]}
    job = f"../../{signs}"
    results = contest(rates, job=job, machine={"processor": signs, signs: HOSTILE})
    for row in results.rows[1:]:
        row.note = row.kind = signs
    collection = shoal_bench.Collection([results, results], {signs: HOSTILE})
    text = shoal_bench.report(collection, path=tmp_path / "report.md", title=signs)
    found = Document(text)
    assert found.html == FOLDS * 2
    assert found.links == []
    kinds = {one.type for one in found.inline}
    assert kinds <= {"text", "text_special", "image", "strong_open", "strong_close", "em_open", "em_close"} | {
        "code_inline"
    }
    figures = found.tables()[0]
    assert {len(line) for line in figures} == {len(figures[0])}
    shown = [" ".join(row.title.split()).replace("\x1b", "\N{REPLACEMENT CHARACTER}") for row in results.rows]
    assert [line[0] for line in figures[1:]] == shown, "each is shown as it is"
    headings = [token.markup for token in found.tokens if token.type == "heading_open"]
    assert headings == ["#", "##", "##", "##", "##"]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["report.md"] if not found.pictures else sorted([*found.pictures, "report.md"])
    assert all(re.fullmatch(r"report-[a-z0-9-]+\.svg", name) for name in found.pictures)


def test_two_results_of_one_job_have_pictures_of_their_own(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    several = [contest({"shoal": [3.0]}, job="read", size=size) for size in (10_000, 1_000_000, 10_000)]
    text = shoal_bench.report(*several, contest({"shoal": []}), path=tmp_path / "r.md")
    found = Document(text)
    assert found.pictures == ["r-read-10000-bytes.svg", "r-read-1000000-bytes.svg", "r-read-10000-bytes-2.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*found.pictures, "r.md"])
    assert "No row has figures." in found.text


def test_without_matplotlib_markdown_has_bars_of_signs(
    contest: Contest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    text = shoal_bench.report(contest({"shoal": [300, 300], "a": [150, 150]}), path=tmp_path / "report.md")
    found = Document(text)
    assert found.pictures == []
    assert [line[:3] for line in found.tables()[0][1:]] == [["shoal", "300", "#" * 14], ["a", "150", "#" * 7]]
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_a_scan_in_markdown_has_its_curves_as_a_picture_and_as_a_table(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = shoal_bench.report(sweep(contest), path=tmp_path / "sweep.md")
    found = Document(text)
    (name,) = found.pictures
    assert "over workers" in (tmp_path / name).read_text()
    over, every, _ = found.tables()
    assert over == [
        ["", "1", "2", "8", "64", "2x10"],
        ["threads@1 (threads)", "10.5 (1.00 x)", "20.5* (1.95 x)", "15.0 (1.43 x)", "failed", ""],
        ["java@1 (java)", "1.0 (1.00 x)", "", "", "", "2.0*"],
    ]
    assert len(every) == 7


def test_the_commands_write_markdown_where_the_name_says_so(shoal: Command, contest: Contest, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(contest({"shoal": [3, 3]}).to_json())
    done = shoal.run("bench", "report", "a.json", "-o", "report.MD", "--title", "Mine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "report.MD").read_text().startswith("# Mine\n")
    done = shoal.run(
        *("bench", "save", "--only", "limit", "--count", "3", "--trials", "1", "--quiet", "--report", "results.md")
    )
    assert done.returncode == 0, done.stderr
    found = Document((tmp_path / "results.md").read_text())
    assert [line[0] for line in found.tables()[0]] == ["", "bare probe: fork, make, write"]
    assert set(found.pictures) <= {path.name for path in tmp_path.iterdir()}


def test_what_has_no_meaning_in_markdown_is_left_as_it_is() -> None:
    for plain in ("shoal copy --pipeline off", "1.00 x", "-1", "100 threads, 50 at once", "1,639", "2.5"):
        assert reports.escaped(plain) == plain


def test_pictures_are_png_or_svg_and_the_same_each_time(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = contest({"shoal": [3, 4], HOSTILE: [1, 2], "broken": []})
    plot.draw([results, results], tmp_path / "rates.png")
    head = (tmp_path / "rates.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", head[16:])
    assert wide > 800
    assert high > 400
    plot.draw([results], tmp_path / "a.svg")
    plot.draw([results], tmp_path / "b.SVG")
    picture = (tmp_path / "a.svg").read_bytes()
    assert picture == (tmp_path / "b.SVG").read_bytes()
    assert b"<script>alert" not in picture
    with pytest.raises(package.ConfigError, match="no row has figures"):
        plot.draw([contest({"broken": []})], tmp_path / "none.png")


def test_without_matplotlib_a_plot_is_refused_and_a_page_is_not(
    contest: Contest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(package.ConfigError, match="Matplotlib is not installed"):
        plot.draw([contest({"shoal": [3, 4]})], tmp_path / "rates.png")
    shoal_bench.report(contest({"shoal": [4, 4], "a": [2, 2]}), path=tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<svg" not in page
    assert re.findall(r'<td class="signs">(#+)</td>', page) == ["#" * 14, "#" * 7]
