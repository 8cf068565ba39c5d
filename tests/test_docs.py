"""What the documents say is so: examples run, every command and option is explained."""

from __future__ import annotations

import doctest
import inspect
import re
import shlex
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import shoal as package
from shoal import _api, _expression, _generate, _read, _save, _sources, _status, _unzip
from shoal.cli import COMMANDS, app

if TYPE_CHECKING:
    from conftest import Command


# The commands of this package; `bench` is in another one, which has the same tests.
OURS = [name for name in COMMANDS if name != "bench"]


def command_of(name: str) -> click.Command:
    found = app.get_command(click.Context(app), name)
    assert found is not None
    return found


FUNCTIONS = [
    _sources.archives,
    _api.copy,
    _sources.files,
    _sources.list_get,
    _api.serve,
    _status.status,
    _expression.Operand.is_in,
    _expression.col,
    _expression.count,
    _generate.generate,
    _read.read,
    package.Records,
    *(
        value.__func__ if isinstance(value, staticmethod) else value
        for name, value in vars(package.Records).items()
        if not name.startswith("_") and not isinstance(value, property)
    ),
    _save.save,
    _unzip.unzip,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_example_of_a_function_runs(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"shoal": package, "urllib": urllib, "zipfile": zipfile}
    (example,) = doctest.DocTestFinder(recurse=False).find(function, globs=names)
    assert example.examples
    result = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE).run(example)
    assert result.failed == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(name: str) -> None:
    assert command_of(name).short_help == COMMANDS[name]


@pytest.mark.parametrize("name", OURS)
def test_every_option_of_a_command_is_explained(shoal: Command, name: str) -> None:
    every = any("--help-all" in one.opts for one in command_of(name).params)
    done = shoal.run(name, "--help-all" if every else "--help")

    assert (done.returncode, done.stderr) == (0, "")
    for option in command_of(name).params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.help.endswith(".") or ";" in option.help, option.help
            assert all(flag in done.stdout.replace("--[no-]", "--") for flag in option.opts)
    assert "Examples:" in done.stdout


def examples() -> list[list[str]]:
    """Every command line in the examples of `--help`, with its lines joined and its explanation taken off."""
    found = []
    for command in (app, *map(command_of, OURS)):
        text = (command.epilog or "").replace("\\\n", "")
        found += [line.strip() for line in text.splitlines() if line.strip().startswith("shoal ")]
    return [
        shlex.split(line.split("   ")[0].partition(" | ")[0].partition(" > ")[0])[1:]
        for line in found
        if "SRC" not in line
    ]


@pytest.mark.parametrize("arguments", examples(), ids=lambda arguments: " ".join(arguments)[:40])
def test_an_example_of_the_help_is_a_command_line_that_works(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets").write_text("X-Secret: x\n")
    name, *rest = arguments
    # Raises where an option, a value or an argument is not known.
    command_of(name).make_context(name, rest)


def test_the_help_without_a_command_is_the_list_of_commands(shoal: Command) -> None:
    for arguments in (["--help"], ["-h"]):
        done = shoal.run(*arguments)
        assert done.returncode == 0
        assert all(f"{name} " in done.stdout for name in COMMANDS)
        assert "Exit codes:" in done.stdout


def test_the_exit_codes_in_the_help_are_all_of_them(shoal: Command) -> None:
    from shoal.cli import _exit

    said = shoal.run("--help").stdout.partition("Exit codes:")[2]
    for name, code in vars(_exit).items():
        if name.isupper() and isinstance(code, int):
            assert str(code) in said


def test_functions_say_what_they_raise_and_return() -> None:
    for function in (_sources.archives, _api.copy, _sources.list_get, _api.serve, _status.status, _unzip.unzip):
        text = inspect.getdoc(function) or ""
        for part in ("Args:", "Returns:", "Raises:", "Example:"):
            assert f"\n{part}\n" in text


def blocks(path: Path) -> list[str]:
    """The Python examples of a document."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


READING = blocks(Path(__file__).parent.parent / "docs/read.md")


def runs(directory: Path, example: str, others: list[str]) -> None:
    """Runs an example beside the files that the document has."""
    needed = re.search(r"^# needs: (\w+)", example)
    if needed is not None:
        pytest.importorskip(needed[1], reason=f"{needed[1]} is not installed")
    for other in others:
        named = re.match(r"# file: (\S+)\n", other)
        if named is not None:
            (directory / named[1]).write_text(other)
    (directory / "example.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "example.py"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("example", READING, ids=[f"{at}" for at in range(len(READING))])
def test_an_example_of_the_document_on_reading_and_saving_runs(tmp_path: Path, example: str) -> None:
    for number in range(30):
        (tmp_path / "photos/deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"photos/deep/{number}.jpg").write_bytes(bytes(number * 1000))
    runs(tmp_path, example, READING)


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    with zipfile.ZipFile(tmp_path / "archives/one.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    (example,) = blocks(Path(__file__).parent.parent / "README.md")
    with package.serve(synthetic="20:100") as server:
        runs(tmp_path, example.replace("http://127.0.0.1:8080", server.url), [])
    written = {path.name for path in tmp_path.glob("*/*") if path.is_file()}
    assert {"a.txt", "0.json", "999.json"} <= written


SERVICES = blocks(Path(__file__).parent.parent / "docs/services.md")


@pytest.mark.parametrize("example", SERVICES, ids=[f"{at}" for at in range(len(SERVICES))])
def test_an_example_of_the_document_on_services_runs(tmp_path: Path, example: str) -> None:
    runs(tmp_path, example, SERVICES)


IN_PYTHON = blocks(Path(__file__).parent.parent / "docs/python.md")


@pytest.mark.parametrize("example", IN_PYTHON, ids=[f"{at}" for at in range(len(IN_PYTHON))])
def test_an_example_of_the_document_on_python_runs(tmp_path: Path, example: str) -> None:
    runs(tmp_path, example, IN_PYTHON)


UNZIPPING = blocks(Path(__file__).parent.parent / "docs/unzip.md")


@pytest.mark.parametrize("example", UNZIPPING, ids=[f"{at}" for at in range(len(UNZIPPING))])
def test_an_example_of_the_document_on_archives_runs(tmp_path: Path, example: str) -> None:
    (tmp_path / "downloads").mkdir()
    for month in ("march", "april"):
        with zipfile.ZipFile(tmp_path / f"downloads/{month}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for day in range(30):
                archive.writestr(f"{month}/{day:02}.csv", f"day,count\n{day},1\n" * 100)
    runs(tmp_path, example, UNZIPPING)


def test_the_examples_of_the_document_on_records_run_one_after_the_other(tmp_path: Path) -> None:
    examples = blocks(Path(__file__).parent.parent / "docs/records.md")
    assert len(examples) == 5
    for needed in ("numpy", "polars", "pyarrow"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    for example in examples:
        runs(tmp_path, example, [])


ROOT = Path(__file__).parent.parent
# What a path in a document may begin at.
PLACES = ("crates", "crates/shoal-engine", "crates/shoal-engine/src", "python/shoal", "bench/python/shoal_bench")
BASES = (ROOT, *(ROOT / place for place in PLACES))
TOPS = ("bench", "crates", "python", "tests", "scripts")


def paths_in(document: Path) -> list[str]:
    """Every path of the project that a document names: a pattern, with alternatives in braces each by itself."""
    text = document.read_text()
    named = re.findall(r"`([\w.{},*/-]+)`|\]\(([\w./-]+)\)|(\bdocs/[\w./-]*\w)", text)
    found = []
    for one in map("".join, named):
        placeholder = re.search("[A-Z]{3,}", one) and not one.endswith(".md")
        ours = "/" in one or one.endswith((".rs", ".py", ".pyi", ".md", ".toml", ".json"))
        if ours and not placeholder and ".shoal/" not in one and not re.match(r"[./]|.*\d/", one):
            before, _, rest = one.partition("{")
            inner, _, after = rest.partition("}")
            found += [before + part + after for part in inner.split(",")]
    return found


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_every_path_that_a_document_names_is_there(name: str) -> None:
    missing = []
    for path in paths_in(ROOT / name):
        # A file's name alone means the place that the text is about.
        bases = BASES if "/" in path else (ROOT, *(ROOT / top / "**" for top in TOPS))
        if not any(next(ROOT.glob(str((base / path).relative_to(ROOT))), None) for base in bases):
            missing.append(path)
    assert missing == []
