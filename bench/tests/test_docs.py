"""What the documents of the lab say is so: examples run, every option is explained, what is quoted was measured."""

from __future__ import annotations

import html
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import shoal as package
import shoal_bench
from shoal_bench import jobs
from shoal_bench.cli import COMMANDS, command

if TYPE_CHECKING:
    from conftest import Command

RESULTS = Path(__file__).parent.parent / "results"


def test_the_pin_of_shoal_is_the_version_that_is_here() -> None:
    wanted = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert f'"shoal=={package.__version__}"' in wanted


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(shoal: Command, name: str) -> None:
    done = shoal.run("bench", name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: shoal bench {name}" in done.stdout
    for option in command(name).params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.help.endswith(".") or ";" in option.help, option.help
            assert all(flag in done.stdout for flag in option.opts)
    assert "Examples:" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(shoal: Command, name: str) -> None:
    assert f"  {name:<9}{command(name).short_help}\n" in shoal.run("bench", "--help").stdout


def test_every_command_takes_json(shoal: Command) -> None:
    assert [
        name for name in COMMANDS if "--json" not in {flag for one in command(name).params for flag in one.opts}
    ] == []


def examples() -> list[list[str]]:
    """Every command line in the examples of `--help`, without its explanation."""
    texts = [one.epilog or "" for one in map(command, COMMANDS)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [shlex.split(line.split("   ")[0])[2:] for line in lines if line.startswith("shoal bench ")]


@pytest.mark.parametrize("arguments", examples(), ids=lambda arguments: " ".join(arguments)[:40])
def test_an_example_of_the_help_is_a_command_line_that_works(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *rest = arguments
    # Raises where an option, a value or an argument is not known.
    command(name).make_context(name, rest)


def test_the_published_results_are_whole_and_the_documents_quote_them() -> None:
    found = shoal_bench.load(RESULTS / "report.json")
    assert [one.job for one in found.results] == list(jobs.JOBS)
    assert found.failed == {}
    reports = [(RESULTS / name).read_text().replace("\\", "") for name in ("report.md", "report.html")]
    for one in found.results:
        assert one.failed == []
        assert (RESULTS / f"report-{one.job}.svg").stat().st_size > 0
        for text in reports:
            assert all(row.title in html.unescape(text) for row in one.rows if row.trials)
    for job, key in (("copy", "shoal"), ("copy", "shoal-off"), ("read", "shoal"), ("unzip", "shoal")):
        (rate,) = [one.row(key).rate for one in found.results if one.job == job]
        for document in (RESULTS.parent.parent / "README.md", RESULTS / "README.md"):
            assert f"{rate:,.0f}" in document.read_text(), f"{document.name} quotes the rate of {job}, {key}"
