"""What a message calls an option: its parameter in Python, its flag on the command line, and both exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shoal as package
from conftest import Command
from shoal.cli import _flags, _summary

ROOT = Path(__file__).parent.parent
# In backticks, but no option.
OTHER = {"ls", "yes"}
# Parameters without a flag: they are arguments of a command, or exist only in Python.
ONLY_PYTHON = {"chunk_size", "source_id", "progress", "batch_size", "destination", "source", "failures"} | {
    "function",
    "ids",
    "credentials",
    "path",
    "shuffle",
}


def of_rust(text: str) -> list[str]:
    """The string literals of shipped Rust code, without those in comments and in attributes of the compiler."""
    text = text.partition("#[cfg(test)]\nmod tests")[0]
    text = re.sub(r"#!?\[(?:expect|allow)\(.*?\)\]", "", text, flags=re.DOTALL)
    pattern = r"//[^\n]*|'(?:\\.|[^'\\\n])'|\"(?:[^\"\\]|\\.)*\""
    found = (one for one in re.findall(pattern, text, re.DOTALL) if one.startswith('"'))
    return [re.sub(r"\\\n\s*", "", one[1:-1]).replace('\\"', '"') for one in found]


def of_python(text: str) -> list[str]:
    """The string literals of Python code that are no documentation; what is filled in stands as a word."""
    tree = ast.parse(text)
    documentation = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    pieces = []
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            values = (part.value if isinstance(part, ast.Constant) else "memory" for part in one.values)
            pieces.append("".join(map(str, values)))
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in documentation:
            pieces.append(one.value)
    return pieces


def literals() -> list[tuple[str, str]]:
    """Every string of the code that users run, with its file."""
    found = []
    for folder, ending, read in (("crates", ".rs", of_rust), ("python/shoal", ".py", of_python)):
        for path in sorted((ROOT / folder).rglob(f"*{ending}")):
            parts = set(path.relative_to(ROOT).parts)
            if not parts & {"tests", "testing", "target", "benches", "examples", "cli"}:
                found += [(str(path.relative_to(ROOT)), text) for text in read(path.read_text())]
    return found


LITERALS = literals()


def test_every_option_in_a_message_is_one_that_there_is() -> None:
    flags = _flags.all_flags()
    unknown, options = [], 0
    for path, text in LITERALS:
        for part in re.findall(r"`([^`\n]+)`", text):
            for name, _ in _flags.options_in(part) or []:
                options += 1
                flag = _flags.long_flag(name)
                if name != "resume" and flag not in flags and name not in ONLY_PYTHON | OTHER:
                    unknown.append(f"{path}: `{part}`")
    assert unknown == []
    assert options > 10, "the test reads the messages"


def test_every_way_to_resume_in_a_message_has_a_flag() -> None:
    words = {word for _, text in LITERALS for word in re.findall(r"resume=\"(\w+)\"", text)}
    assert words <= set(_flags.RESUME_FLAGS) | {"auto"}
    assert {"update", "restart"} <= words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('copy with `resume="update"`', "copy with --update"),
        ('`resume="failed", overwrite="always"`', "--retry-failed --overwrite always"),
        ("raise `max_failures`", "raise --max-failures"),
        ('`links="follow"`', "--links follow"),
        ("`keep_times=False`", "--no-keep-times"),
        ('`headers={"Authorization": "…"}`', "--header 'Authorization: …'"),
        ("`next_field=()`", "--next-field none"),
        ('`names_field="data[].id"`', "--names-field 'data[].id'"),
        ("`journal=PATH`", "--journal PATH"),
        ('`tail="drop"`', "--tail drop"),
        ("`chunk_size=`", "`chunk_size=`"),
        ("`chunk_size`, `ulimit -n` and `.shoal`", "`chunk_size`, `ulimit -n` and `.shoal`"),
        ('"a `memory` b": `memory`', '"a `memory` b": --memory'),
        ("an odd ` and `memory`", "an odd ` and `memory`"),
    ],
)
def test_an_option_is_shown_as_its_flag(text: str, shown: str) -> None:
    assert _flags.in_flags(text) == shown


def test_the_name_of_a_file_is_not_taken_for_an_option(shoal: Command) -> None:
    (shoal.directory / "tree").mkdir()
    (shoal.directory / "tree" / "`memory`").write_text("x")
    (shoal.directory / "out").mkdir()
    (shoal.directory / "out" / "`memory`").write_text("mine")
    done = shoal.run("copy", "tree", "out", "--json")
    assert done.returncode == 1
    assert '"`memory`"' in done.stderr
    assert shoal.last_json(done)["failures"][0]["name"] == "`memory`"


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--max-failures", "-1"), ("--workers", "many"), ("--memory", "lots"), ("--limit-rate", "fast"), ("-j", "0")],
)
def test_a_wrong_value_names_the_flag(shoal: Command, flag: str, value: str) -> None:
    done = shoal.run("copy", "a", "b", flag, value)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {'--workers' if flag == '-j' else flag} must be ")


def test_every_note_that_only_verbose_shows_is_one_of_the_engines() -> None:
    texts = [re.sub(r"\{[^}]*\}", "", text) for _, text in LITERALS]
    assert [part for part in _summary.ONLY_VERBOSE if not any(part in text for text in texts)] == []


def test_a_job_that_cannot_be_updated_is_told_to_restart(tmp_path: Path) -> None:
    def run(function: str, header: bool) -> None:
        if function == "save":
            package.save([("a.csv", "1")], tmp_path / function, source_id="one", header=header)
        else:
            package.generate(str, range(1), tmp_path / function, name="{}.csv", header=header)

    for function in ("save", "generate"):
        run(function, header=True)
        with pytest.raises(package.JournalError, match='or `resume="restart"` to continue with the new ones'):
            run(function, header=False)


def test_no_message_of_the_library_has_a_flag() -> None:
    # Python users would not know what to do with it; the command line writes flags itself.
    wrong = [f"{path}: {text}" for path, text in LITERALS if re.search(r"(?:^|[ (])--[a-z]+(?:-[a-z]+)*\b", text)]
    assert wrong == []
