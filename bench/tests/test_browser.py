"""The page of the lab's results in a real browser: what it draws, what it asks for, what it complains of.

The browser may reach nothing but a server of the test, which it takes for its proxy, so that whatever a page asks for
is seen. A second page has each fault that is looked for: a check that finds none there would find none anywhere.
"""

from __future__ import annotations

import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

import shoal_bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Contest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

PHONE, DESK = 390, 1200  # pixels
HOST = "http://lab.invalid"
# What the browser itself asks for whatever its switches say: the time, updates. That a page asks for such, too, is seen
# in what it has loaded.
OWN = re.compile(r"^(https?://)?([a-z0-9-]+\.)*(google|googleapis|gstatic|gvt1)\.com[:/]")
# Looks at the page from outside, in a frame as wide as a phone: no browser window is that narrow.
LOOK = """<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<body style="margin:0"><iframe src="/report.html" style="border:0;width:{width}px;height:900px;color-scheme:light dark">
</iframe><pre></pre><script>
window.onload = () => {{
  const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  page.querySelectorAll("details").forEach((one) => one.open = true);
  const size = (one) => {{ const box = one.getBoundingClientRect(); return [box.width, box.height, box.right]; }};
  const found = {{
    loaded: frames[0].performance.getEntriesByType("resource").map((one) => one.name),
    width: root.clientWidth, needs: root.scrollWidth, title: page.title, scripts: page.scripts.length,
    paper: frames[0].getComputedStyle(page.body).backgroundColor,
    ink: frames[0].getComputedStyle(page.body).color,
    dim: frames[0].getComputedStyle(page.querySelector(".dim") || page.body).color,
    rail: [...page.querySelectorAll("svg.chart g.bar path")].map((one) => frames[0].getComputedStyle(one).fill),
    letters: [...page.querySelectorAll("svg.chart text")].map((one) => frames[0].getComputedStyle(one).fill),
    charts: [...page.querySelectorAll("svg.chart")].map((one) => ({{
      size: size(one), bars: [...one.querySelectorAll("g.bar")].map(size),
      dots: [...one.querySelectorAll("g.trial use")].map(size),
      text: [...one.querySelectorAll("text")].map(size),
    }})),
  }};
  document.querySelector("pre").textContent = JSON.stringify(found);
}};
</script>"""


class Browser:
    """Shows one page and tells what came of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.page = ""
        self.asked: list[str] = []
        browser = self

        class Proxy(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                browser.asked.append(self.path)
                path = self.path.removeprefix(HOST)
                width = re.fullmatch(r"/look-(\d+)", path)
                body = LOOK.format(width=width[1]) if width else browser.page if path == "/report.html" else None
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write((body or "").encode())

            def do_CONNECT(self) -> None:
                browser.asked.append(self.path)
                self.send_error(502)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def show(self, page: str, width: int, *, dark: bool = False) -> tuple[dict[str, Any], list[str], list[str]]:
        """Returns what is on the page, what it asked for, and what stands on the console."""
        self.page, self.asked = page, []
        done = subprocess.run(
            [
                str(CHROMIUM),
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
                *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--enable-logging=stderr", f"--user-data-dir={self.home}", f"--window-size={width + 100},1000"),
                *(f"--proxy-server=http://127.0.0.1:{self.server.server_port}", "--proxy-bypass-list=<-loopback>"),
                *(f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--timeout=30000"),
                *("--dump-dom", f"{HOST}/look-{width}"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        found = re.search(r"<pre>(\{.*\})</pre>", done.stdout)
        assert found, f"the page was not loaded: {done.stderr[-2000:]}"
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        asked = [url for url in self.asked if url not in (f"{HOST}/look-{width}", f"{HOST}/report.html")]
        looked = json.loads(html.unescape(found[1]))
        return looked, [*looked["loaded"], *(url for url in asked if not OWN.match(url))], console


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    one = Browser(tmp_path / "profile")
    yield one
    one.close()


HOSTILE = '"><script>document.title="harmed"</script><img src=http://evil.invalid/x onerror=document.title="harmed">'


def report(contest: Contest) -> tuple[str, list[int]]:
    """A page of four jobs, with names as long and as bad as there can be, and the bars that its charts must have."""
    kinds = {"curl": "peer", "limit": "limit"}
    rates: dict[str, list[float]] = {
        "shoal": [50_000.0, 51_000, 47_000],
        "curl": [20_000, 23_000, 21_000],
        "threads-100": [1.0, 2, 1],
    }
    save = contest({**rates, "limit": [90_000, 80_000, 85_000], "broken": []}, kinds)
    hostile = contest(
        {"shoal": [3, 4], HOSTILE: [1, 2], "x" * 300: [2, 2]}, job=HOSTILE, machine={"processor": HOSTILE}
    )
    points = {f"{program}@{workers}": [workers * 10.0, 7] for program in ("a", "b" * 80) for workers in range(1, 65)}
    copy, sweep = contest({"shoal": [1.0]}, job="copy"), contest(points, job="read")
    several = shoal_bench.Collection([save, copy, hostile, sweep], {HOSTILE: HOSTILE * 3})
    return shoal_bench.report(several), [4, 1, 3, 0]


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_shows_its_charts_fits_and_asks_for_nothing(browser: Browser, contest: Contest, width: int) -> None:
    page, bars = report(contest)
    found, asked, console = browser.show(page, width)
    assert asked == []
    assert console == []
    assert [len(chart["bars"]) for chart in found["charts"]] == bars
    for chart in found["charts"]:
        wide, high, right = chart["size"]
        assert wide > 0.8 * min(width, 600)
        assert high >= 35 * len(chart["bars"])
        for bar in chart["bars"]:
            assert bar[0] > 0.3
            assert bar[1] > 5
        assert all(shape[2] <= right + 0.5 for shape in (*chart["bars"], *chart["dots"]))
    names_and_rates = found["charts"][0]["text"]
    assert all(0 < wide <= found["charts"][0]["size"][0] for wide, _, _ in names_and_rates)
    assert found["needs"] <= found["width"] == width, "the page cannot be scrolled sideways"
    assert (found["title"], found["scripts"]) == ("Which way is the fastest here?", 0)


def test_the_page_is_light_or_dark_as_the_reader_likes(browser: Browser, contest: Contest) -> None:
    page, _ = report(contest)
    looks = [browser.show(page, PHONE, dark=dark)[0] for dark in (False, True)]
    light, dark = (sum(map(int, re.findall(r"\d+", look["paper"])[:3])) for look in looks)
    assert light > 700
    assert dark < 120
    for look in looks:
        paper, ink = ([int(part) for part in re.findall(r"\d+", look[what])[:3]] for what in ("paper", "ink"))
        assert abs(sum(paper) - sum(ink)) > 500, "letters can be read"
        assert look["paper"] not in look["rail"], "bars can be seen"
        assert set(look["letters"]) <= {look["ink"], look["dim"]}, "letters of a chart are those of the page"


FAULTY = """<!doctype html><title>faulty</title><link rel="icon" href="data:,"><body>
<div style="width:2000px">wide</div><svg class="chart" width="0" height="0"></svg>
<img src="http://elsewhere.invalid/pixel.png"><script src="https://elsewhere.invalid/code.js"></script>
<script>console.error("a complaint"); undefinedFunction();</script>"""


def test_a_faulty_page_is_found_out(browser: Browser) -> None:
    found, asked, console = browser.show(FAULTY, PHONE)
    assert asked.count("http://elsewhere.invalid/pixel.png") == 2, "the server saw it, and the browser"
    assert any("elsewhere.invalid:443" in url for url in asked)
    assert any("a complaint" in line for line in console)
    assert any("undefinedFunction" in line for line in console)
    assert found["needs"] > found["width"]
    assert found["charts"][0]["bars"] == []
