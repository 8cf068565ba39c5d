"""The page and the pictures of the lab's results: what they say, and that nothing measured can become part of them."""

from __future__ import annotations

import html.parser
import re
import struct
from typing import TYPE_CHECKING

import pytest

import shoal as package
import shoal.bench
from shoal.bench import curve, jobs, outputs, plot, recommendation
from shoal.bench.page import markup

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Contest

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
    text = shoal.bench.report(save, contest({"shoal": [7.0]}, job="copy"))
    page = Page(text)
    assert (page.count("svg", "chart"), page.count("rect", "bar")) == (2, 3)
    assert (page.count("circle", "trial"), page.count("line", "whisker")) == (6, 2), "one trial has no spread"
    for said in ("305", "the author's", "50.0 s", "some processor", "2026-01-02"):
        assert said in page.text
    assert "failed: broken: it ended with code 7" in page.text
    assert "On this machine use shoal, because it is 3.1 times as fast as threads-10" in page.text


def test_a_job_in_which_all_failed_has_a_page_too(contest: Contest, tmp_path: Path) -> None:
    none = contest({"shoal": [], "a": []}, trials=3)
    page = Page(shoal.bench.report(none))
    assert page.count("svg", "chart") == 0
    assert "No row has figures." in page.text
    assert "failed: a: it ended with code 7" in page.text
    outputs.draw(shoal.bench.Collection([none]), plot=tmp_path / "none.svg", report=tmp_path / "none.html")
    assert [path.name for path in tmp_path.iterdir()] == ["none.html"]


def test_no_string_of_a_result_becomes_markup(contest: Contest) -> None:
    results = contest({"shoal": [300, 310], HOSTILE: [1, 2]}, job=HOSTILE, machine={"processor": HOSTILE, HOSTILE: "1"})
    plain = Page(shoal.bench.report(contest({"shoal": [300, 310], "plain": [1, 2]}, job="plain", machine={"x": "1"})))
    for row in results.rows:
        row.note = row.kind = row.layout = HOSTILE
    results.rows[1].failed = results.rows[1].missing = HOSTILE
    collection = shoal.bench.Collection([results], {HOSTILE: HOSTILE})
    text = shoal.bench.report(collection, title=HOSTILE)
    page = Page(text)
    assert {name for name, _ in page.elements} == {name for name, _ in plain.elements}
    assert not [found for _, found in page.elements if any(name.startswith("on") for name in found)]
    assert "\x1b" not in text
    assert "<script>alert(1)" in page.text, "it is shown as it is"
    links = [value for _, found in page.elements for name, value in found.items() if name in ("src", "href")]
    assert [value for value in links if value != "data:,"] == []
    assert "{0.__class__}" in results.table()


def test_nothing_else_than_elements_of_our_own_can_be_built() -> None:
    assert markup.tag("p", "a<b", markup.tag("i", "&"), title='"') == '<p title="&quot;">a&lt;b<i>&amp;</i></p>'
    for wrong in ("script", "p onload=1", "p>", ""):
        with pytest.raises(ValueError, match="no element"):
            markup.tag(wrong)
    with pytest.raises(ValueError, match="no attribute"):
        markup.tag("p", onclick="x")


def test_the_page_allows_its_own_style_and_nothing_else(contest: Contest) -> None:
    text = shoal.bench.report(contest({"shoal": [1.0]}))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src &#x27;none&#x27;" in policy
    assert "unsafe" not in policy
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


def sweep(contest: Contest) -> shoal.bench.Results:
    """Two programs at four and two points, one of which failed, one program at a single point."""
    threads: dict[str, list[float]] = {
        "threads@1": [10, 11],
        "threads@2": [20, 21],
        "threads@8": [15, 15],
        "threads@64": [],
    }
    return contest(threads | {"java@1": [1, 1], "java@2x10": [2, 2], "shoal@8": [30, 30]}, job="read")


def test_the_points_of_a_sweep_are_curves(contest: Contest) -> None:
    found = curve.curves(sweep(contest))
    assert [(one.key, [str(point) for point in one.rows]) for one in found] == [
        ("threads", ["1", "2", "8"]),
        ("java", ["1", "2x10"]),
    ]
    assert str(found[0].best[0]) == "2"
    assert curve.curves(contest({"threads-10": [1.0], "shoal": [2.0]})) == []
    page = Page(shoal.bench.report(sweep(contest)))
    assert (page.count("svg", "panel"), page.count("rect", "bar")) == (2, 6)
    assert page.count("line", "curve") == 2, "no line leads to a point of a grid"
    assert "best at 2: 20" in page.text
    assert "More workers do not help: threads@2 is 1.37 times as fast as threads@8." in page.text


def test_a_sweep_is_drawn_as_lines(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sweep(contest).plot(tmp_path / "lines.svg")
    picture = (tmp_path / "lines.svg").read_text()
    assert "over workers" in picture
    assert "2x10" in picture


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
        (("save", "--json", "."), "is a directory"),
        (("all", "-o", "report.json"), "is where the results go"),
    ],
)
def test_what_could_not_be_written_is_said_before_anything_runs(
    shoal: Command, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = shoal.run("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bench_writes_its_page_and_its_pictures(shoal: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = shoal.run(
        *("bench", "save", "--only", "limit", "--count", "3", "--trials", "2", "--quiet"),
        *("--plot", "rates.svg", "--report", "report.html"),
    )
    assert done.returncode == 0, done.stderr
    assert "bare probe" in (tmp_path / "rates.svg").read_text()
    assert Page((tmp_path / "report.html").read_text()).count("rect", "bar") == 1


def test_pictures_are_png_or_svg_and_the_same_each_time(contest: Contest, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = contest({"shoal": [3, 4], HOSTILE: [1, 2], "broken": []})
    plot.draw([results, results], tmp_path / "rates.png")
    head = (tmp_path / "rates.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", head[16:])
    assert wide > 800
    assert high > 400
    results.plot(tmp_path / "a.svg")
    results.plot(tmp_path / "b.SVG")
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
        contest({"shoal": [3, 4]}).plot(tmp_path / "rates.png")
    shoal.bench.report(contest({"shoal": [3, 4]}), path=tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text()
