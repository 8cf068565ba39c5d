"""The documentation site: every example in it runs, and its checks refuse what they are there to refuse."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import shoal as package
from shoal.cli import app
from test_docs import blocks, runs

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
# Those with tests of their own: test_docs.py, and test_wheel.py for the one that needs an empty environment.
ELSEWHERE = {"README.md", "python.md", "read.md", "records.md", "services.md", "start.md", "unzip.md"}
IN_PYTHON = [(page, text) for page in PAGES if page.name not in ELSEWHERE for text in blocks(page)]


@pytest.mark.parametrize(
    ("page", "example"), IN_PYTHON, ids=[f"{page.stem}-{n}" for n, (page, _) in enumerate(IN_PYTHON)]
)
def test_an_example_of_a_page_runs(tmp_path: Path, page: Path, example: str) -> None:
    runs(tmp_path, example, blocks(page))


SHELL = ("|", "&", "#", ">", ">>", "2>>")


def command_lines(page: Path) -> list[str]:
    """Every command line of shoal in the blocks of a page, without its prompt and its explanation."""
    text = re.sub(r"\\\n\s*", "", page.read_text())
    fences = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    fenced = [line for kind, block in fences.findall(text) if kind == "console" for line in block.splitlines()]
    indented = [line[4:] for line in fences.sub("", text).splitlines() if line.startswith("    ")]
    found = []
    for line in [line for line in fenced if line.startswith("$ ")] + indented:
        started = re.match(r"(?:\$ )?(?:SHOAL_\w+=\S+ |timeout --signal=KILL 3 )*shoal (.*)", line)
        if started is not None and "[OPTIONS]" not in line:  # such a line only names the arguments
            found.append(re.split(r"\s{2,}", started[1])[0])
    return found


COMMANDS = [(page.name, line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page}: {line}"[:70] for page, line in COMMANDS])
def test_a_command_line_of_a_page_is_one_that_works(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("token", "secrets"):
        (tmp_path / name).write_text("Authorization: Bearer TOKEN\n")
    name, *rest = itertools.takewhile(lambda word: word not in SHELL, shlex.split(line))
    if name in ("COMMAND", "bench", "--help", "--version"):
        return
    command = app.get_command(click.Context(app), name)
    assert command is not None, name
    command.make_context(name, rest)  # raises where an option, a value or an argument is not known


def test_most_pages_have_command_lines() -> None:
    assert len(COMMANDS) > 80, "the pattern finds no command lines any more"


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs/api.md").read_text()
    missing = [name for name in package.__all__ if f"\n::: shoal.{name}\n" not in text]
    assert missing == ["BUILD_PROFILE", "__version__"]


def check(script: str, *arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_command_reference_is_what_the_parser_says(tmp_path: Path) -> None:
    assert check("command_reference.py", "--check") == (0, "")


def test_a_stale_command_reference_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import command_reference

    monkeypatch.setattr(command_reference, "PAGE", tmp_path / "page.md")
    assert command_reference.main([]) == 0
    assert command_reference.main(["--check"]) == 0
    (tmp_path / "page.md").write_text((tmp_path / "page.md").read_text().replace("--workers", "--threads"))
    assert command_reference.main(["--check"]) == 1


GOOD = (
    '<html><head><link href="site.css"></head><body><h2 id="here"></h2><a href="#here"></a><a href="deep/">x</a></body>'
)


def site(directory: Path, **pages: str) -> Path:
    for name, text in {"index": GOOD, "deep": "<a href='../#here'>", **pages}.items():
        path = directory / ("index.html" if name == "index" else f"{name}/index.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "site.css").write_text("a { color: red }")
    return directory


def test_a_site_without_dead_links_passes(tmp_path: Path) -> None:
    assert check("check_site.py", site(tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<a href='../gone/'>", "other/index.html: ../gone/ leads nowhere"),
        ("<a href='../#gone'>", "../#gone: no such place"),
        ("<img src='gone.png'>", "gone.png leads nowhere"),
        ("<script src='https://cdn.example/x.js'></script>", "loads https://cdn.example/x.js"),
        ("<link rel='stylesheet' href='//fonts.example/x.css'>", "loads //fonts.example/x.css"),
    ],
)
def test_a_dead_link_or_another_host_is_refused(tmp_path: Path, text: str, said: str) -> None:
    code, output = check("check_site.py", site(tmp_path, other=text))
    assert code == 1
    assert said in output


def test_a_style_sheet_that_loads_a_font_is_refused(tmp_path: Path) -> None:
    (site(tmp_path) / "fonts.css").write_text("@font-face { src: url(https://fonts.example/x.woff2) }")
    assert check("check_site.py", tmp_path)[0] == 1
