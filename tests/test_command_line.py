"""What all commands share: groups of options, variables, lines of JSON, logs, tables, and words for newcomers."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import signal
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import shoal as package
from shoal.cli import COMMANDS, app
from shoal.cli._groups import (
    ARCHIVES,
    DESTINATION,
    ELSEWHERE,
    ERRORS,
    GROUPS,
    OUTPUT,
    SERVICES,
    SOURCE,
    SPEED,
    STORES,
    URLS,
)
from terminal import rest_of

if TYPE_CHECKING:
    from conftest import Command, Service


@pytest.fixture
def tree(shoal: Command) -> Path:
    (shoal.directory / "tree").mkdir()
    for number in range(5):
        (shoal.directory / f"tree/{number}").write_text(str(number))
    return shoal.directory / "tree"


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("", "--help"),
        ("help", "--help"),
        ("help help", "--help"),
        ("bench", "bench --help"),
        ("help bench", "bench --help"),
        ("help copy", "copy --help"),
        ("-V", "--version"),
        ("version", "--version"),
    ],
)
def test_help_and_the_version_are_printed_however_they_are_asked_for(shoal: Command, line: str, other: str) -> None:
    done, expected = (shoal.run(*one.split()) for one in (line, other))
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, "")
    assert done.stdout.startswith("Usage: shoal " if "help" in other else f"shoal {package.__version__}\n")


def headings(text: str) -> list[str]:
    return [line[:-1] for line in text.splitlines() if line[:-1] in GROUPS]


@pytest.mark.parametrize(
    ("command", "groups"),
    [
        ("copy", [SOURCE, DESTINATION, ERRORS, SPEED, OUTPUT]),
        ("read", [SOURCE, ERRORS, SPEED, OUTPUT]),
        ("unzip", [SOURCE, DESTINATION, ERRORS, SPEED, OUTPUT, ARCHIVES]),
        ("generate", [SOURCE, DESTINATION, ERRORS, SPEED, OUTPUT]),
    ],
)
def test_help_shows_options_in_groups(shoal: Command, command: str, groups: list[str]) -> None:
    assert headings(shoal.run(command, "--help", COLUMNS="100").stdout) == groups


@pytest.mark.parametrize("command", ["copy", "read"])
def test_the_other_groups_are_shown_on_request(shoal: Command, command: str) -> None:
    brief, whole = (shoal.run(command, flag, COLUMNS="100").stdout for flag in ("--help", "--help-all"))
    assert headings(whole) == [*headings(brief), SERVICES, STORES, URLS, ARCHIVES]
    assert "--ca-file" not in brief
    assert "--ca-file" in whole


@pytest.mark.parametrize("command", ["copy", "read", "unzip", "generate", "verify"])
def test_an_option_takes_one_line_of_help(shoal: Command, command: str) -> None:
    every = "--help-all" if command in ("copy", "read") else "--help"
    text = shoal.run(command, every, COLUMNS="100").stdout
    flags = [line for line in text.splitlines() if re.match(r"  (-\w, )?--", line)]
    more = [line for line in text.partition("Examples:")[0].splitlines() if line.startswith(" " * 34)]
    assert len(flags) > 5
    assert more == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("bench", "completion")])
def test_every_command_takes_json(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert "--json" in {flag for one in command.params for flag in one.opts}


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "line",
    [
        "copy tree out",
        "copy missing out",
        "copy tree",
        "copy tree out --memory lots",
        "read tree --checksum crc32",
        "read missing",
        "unzip missing.zip -d out",
        "unzip missing.zip",
        "generate make:text 3 out",
        "records tree/1 --size 1",
        "records tree/1 --format B --count",
        "records tree/1 --format B --by f0 --count",
        "records tree/1 --format B --to out.csv",
        "records missing",
        "status missing",
        "status done",
        "status done --failures all --skipped all",
        "verify tree missing",
        "serve missing --port 0",
        "bench compare missing.json missing.json",
        "bench copy --list",
        "bench nothing",
    ],
)
def test_json_is_an_object_on_each_line_and_the_last_is_the_report_or_the_error(shoal: Command, line: str) -> None:
    if "done" in line:
        package.copy(shoal.directory / "tree", shoal.directory / "done")
    done = shoal.run(*line.split(), "--json")
    lines = [json.loads(text) for text in done.stdout.splitlines()]
    assert [one["type"] for one in lines if one["type"] in ("report", "error")] == [lines[-1]["type"]]
    assert (lines[-1]["type"] == "error") == (done.returncode in (2, 3)), done
    assert lines[-1]["type"] == "report" or set(lines[-1]) >= {"kind", "message", "hint"}


def test_json_ends_with_the_error_when_a_signal_stops_the_command(shoal: Command, service: Service) -> None:
    url = service(synthetic="100000:100").url
    process = shoal.start("read", url, "--checksum", "crc32", "--limit-rate", "10kB", "--json")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    last = json.loads(process.communicate(timeout=30)[0].splitlines()[-1])
    assert process.returncode == 130
    assert (last["type"], last["kind"]) == ("error", "interrupted")


@pytest.mark.usefixtures("tree")
def test_the_environment_sets_workers_memory_progress_and_the_form_of_logs(shoal: Command) -> None:
    def copied(variable: str, *arguments: str) -> dict[str, object]:
        name, _, value = variable.partition("=")
        shoal.environment = {key: one for key, one in shoal.environment.items() if not key.startswith("SHOAL_")}
        shoal.environment[name] = value
        return shoal.last_json(shoal.run("copy", "tree", "null:", "--json", *arguments))

    assert copied("SHOAL_WORKERS=3")["workers"] == 3
    assert copied("SHOAL_WORKERS=3", "--workers", "2")["workers"] == 2
    assert copied("SHOAL_WORKERS=3", "-j", "2")["workers"] == 2
    assert copied("SHOAL_WORKERS=")["written"] == 5
    assert "SHOAL_WORKERS` must be" in str(copied("SHOAL_WORKERS=many")["message"])
    assert "SHOAL_MEMORY` must be" in str(copied("SHOAL_MEMORY=lots")["message"])
    assert copied("SHOAL_PROGRESS=often")["kind"] == "usage"
    del shoal.environment["SHOAL_PROGRESS"]
    said = shoal.run("copy", "tree", "null:", SHOAL_LOG_FORMAT="json").stderr
    assert json.loads(said)["type"] == "summary"


@pytest.mark.usefixtures("tree")
def test_the_environment_never_changes_what_is_copied_or_how_safely(shoal: Command) -> None:
    variables = {option.envvar for name in COMMANDS if name != "bench" for option in options(name) if option.envvar}
    assert variables == {"SHOAL_WORKERS", "SHOAL_MEMORY", "SHOAL_PROGRESS", "SHOAL_LOG_FORMAT"}


def options(name: str) -> list[click.Parameter]:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command.params


@pytest.mark.usefixtures("tree")
def test_a_log_has_the_time_of_each_message(shoal: Command) -> None:
    for source, lines in (("tree", 1), ("missing", 1)):
        said = shoal.run("copy", source, "null:", "--log-format", "text").stderr.splitlines()
        moment, _, text = said[0].partition(" ")
        assert abs((datetime.now().astimezone() - datetime.fromisoformat(moment)).total_seconds()) < 120
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", moment)
        assert text.startswith(("read", "wrote", "error: "))
        assert len(said) == lines
        logged = json.loads(shoal.run("copy", source, "null:", "--log-format", "json").stderr)
        assert datetime.fromisoformat(logged["time"]).tzinfo is not None
    assert not shoal.run("copy", "tree", "null:").stderr.startswith("20")


@pytest.mark.usefixtures("tree")
def test_a_terminal_needs_no_time(shoal: Command) -> None:
    assert on_terminal(shoal, "copy", "tree", "null:", "--log-format", "text").startswith(b"wrote 5 objects")


def on_terminal(shoal: Command, *line: str, **extra: str) -> bytes:
    """What a command writes to a terminal on its standard error."""
    leader, terminal = pty.openpty()
    shoal.environment = {"TERM": "xterm", **{k: v for k, v in shoal.environment.items() if k != "TERM"}, **extra}
    shoal.start(*line, "--progress", "none", stderr=terminal).wait(timeout=60)
    os.close(terminal)
    return rest_of(leader).replace(b"\r\n", b"\n")


def test_a_terminal_shows_errors_hints_and_notes_in_colour(shoal: Command, tree: Path) -> None:
    red, cyan = b"\x1b[1;31merror:\x1b[0m no such option", b"\n\x1b[36mhint:\x1b[0m use --workers\n"
    said = on_terminal(shoal, "copy", "tree", "out", "--threads", "4")
    assert said.startswith(red)
    assert said.endswith(cyan)
    assert on_terminal(shoal, "copy", "missing", "out").startswith(b"\x1b[1;31merror:\x1b[0m ")
    (tree / "link").symlink_to("1")
    note = on_terminal(shoal, "copy", "tree", "null:", "--encoding", "cp437")
    assert note.startswith(b"\x1b[33mnote:\x1b[0m --encoding means nothing")


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_without_colour_a_terminal_shows_what_a_pipe_gets(shoal: Command, extra: dict[str, str]) -> None:
    line = ("copy", "tree", "out", "--threads", "4", *([] if extra else ["--json"]))
    piped = shoal.run(*line).stderr
    assert piped == "error: no such option: --threads\nhint: use --workers\n"
    assert on_terminal(shoal, *line, **extra).decode() == piped


def test_failures_are_printed_as_a_table_of_csv(shoal: Command, tree: Path) -> None:
    latin = os.fsdecode(b'latin\xe9,"quoted"')
    (tree / latin).write_text("x")
    (tree / "link").symlink_to("1")
    out = shoal.directory / "out"
    out.mkdir()
    for number in range(5):
        (out / str(number)).write_text("mine")
    (out / latin).write_text("mine")
    assert shoal.run("copy", "--links", "skip", "tree", "out").returncode == 1

    rows = list(csv.DictReader(io.StringIO(shoal.run("status", "out", "--csv", "--skipped", "all").stdout)))

    assert list(rows[0]) == ["state", "name", "kind", "reason", "tries", "source"]
    assert {row["name"] for row in rows if row["state"] == "failed"} == {*"01234", 'latin\\udce9,"quoted"'}
    assert {row["kind"] for row in rows if row["state"] == "failed"} == {"exists"}
    assert [(row["name"], row["kind"]) for row in rows if row["state"] == "skipped"] == [("link", "link")]
    assert len(shoal.run("status", "out", "--csv", "--failures", "2").stdout.splitlines()) == 3
    assert shoal.run("status", "out", "--csv", "--json").returncode == 2


def test_a_table_without_failures_has_its_first_line(shoal: Command, tree: Path) -> None:
    package.copy(tree, shoal.directory / "out")
    assert shoal.run("status", "out", "--csv").stdout == "state,name,kind,reason,tries,source\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("copy a.json b.json out", "quote a glob, so that the shell does not expand it: shoal copy '*.json' out"),
        ("copy a b --threads 4", "use --workers"),
        ("copy a b --delete", "shoal deletes nothing"),
        ("copy -r a b", "directories are always copied with their contents"),
        ("copy -a a b", "permissions and times"),
        ("copy a b --again", "--update"),
        ("sync a b", "use shoal copy --update"),
        ("cp a b", "use shoal copy"),
        ("cpoy a b", "did you mean 'copy'?"),
        ("ls a", "shoal unzip --list ARCHIVE lists an archive"),
        ("list a", "shoal.list_objects(SRC) lists any source"),
        ("help cpoy", "did you mean 'copy'?"),
        ("generate rec.py:make 3 out", "rec:make"),
        ("generate ./jobs/rec.py:make 3 out", "jobs.rec:make"),
    ],
)
def test_what_newcomers_type_is_answered_with_what_to_type(shoal: Command, line: str, said: str) -> None:
    done = shoal.run(*line.split())
    assert done.returncode == 2
    assert said in done.stderr
    assert not (shoal.directory / "out").exists()


@pytest.mark.parametrize(
    ("command", "flag", "hint"),
    [
        ("copy", "-C", "run the same command again to resume"),
        ("copy", "-P", "progress is shown, and the same command resumes"),
        ("copy", "-a", "links, permissions and times are kept without a flag; --exact keeps owners, ACLs"),
        ("copy", "-o", "pass the destination as the last argument"),
        ("copy", "-t", "pass the destination as the last argument; modification times are kept"),
        ("copy", "-u", "use --update"),
        ("copy", "-x", "use --exclude"),
        ("copy", "-i", "use --urls"),
        ("generate", "-P", "use --workers"),
        ("generate", "-n", "pass the number of ids as the second argument"),
        ("generate", "-u", "use --restart"),
        ("generate", "-o", "pass the destination as the last argument"),
        ("read", "-P", "use --workers"),
        ("read", "-a", "every file is read"),
        ("read", "-c", "`shoal verify` compares checksums"),
        ("read", "-n", "shoal read writes nothing"),
        ("read", "-o", "shoal read writes nothing"),
        ("read", "-u", "shoal read --help lists the options"),
        ("read", "-x", "use --exclude"),
        ("records", "-C", "without --format"),
        ("records", "-P", "use --workers"),
        ("records", "-n", "use --head N"),
        ("records", "-o", "use --to OUT"),
        ("records", "-t", "use --format"),
        ("records", "-u", "shoal records --help lists the options"),
        ("serve", "-C", "the service speaks only HTTP"),
        ("serve", "-P", "requests are answered in parallel"),
        ("serve", "-b", "use --host"),
        ("serve", "-p", "use --port"),
        ("serve", "-u", "clients can only read"),
        ("serve", "-x", "shoal serve --help lists the options"),
        ("status", "-j", "use --json"),
        ("status", "-n", "use --failures N"),
        ("status", "-o", "redirect the output"),
        ("status", "-w", "watch shoal status DST"),
        ("status", "-x", "shoal status --help lists the options"),
        ("unzip", "-C", "use -d DIR"),
        ("unzip", "-P", "shoal cannot unpack encrypted entries"),
        ("unzip", "-a", "entries are written byte for byte"),
        ("unzip", "-p", "entries are written to files"),
        ("unzip", "-o", "use --overwrite always"),
        ("unzip", "-t", "use --test"),
        ("unzip", "-u", "use --update"),
        ("unzip", "-x", "archives are unpacked without a flag; to leave out entries, use --exclude"),
        ("verify", "-a", "use --checksum sha256"),
        ("verify", "-c", "pass the manifest as the second argument"),
        ("verify", "-o", "shoal verify --help lists the options"),
    ],
)
def test_a_flag_of_another_program_is_explained_for_the_command(
    shoal: Command, command: str, flag: str, hint: str
) -> None:
    done = shoal.run(command, flag, "a", "b")
    error, said = done.stderr.splitlines()
    assert done.returncode == 2
    assert error.startswith("error: no such option")
    assert said.startswith(f"hint: {hint}")


def test_every_hint_for_a_command_names_only_flags_that_it_has() -> None:
    for name, hints in ELSEWHERE.items():
        flags = {flag for one in options(name) for flag in one.opts}
        assert flags.isdisjoint(hints), name
        assert flags.issuperset(flag for hint in hints.values() for flag in re.findall(r"--[a-z-]+", hint)), name


@pytest.mark.parametrize("line", ["unzip -j a.zip", "unzip -ja.zip", "copy -j a.zip out"])
def test_workers_that_took_an_argument_are_named_when_it_is_missing(shoal: Command, line: str) -> None:
    error, hint = shoal.run(*line.split()).stderr.splitlines()
    assert error.startswith("error: missing argument")
    assert hint.startswith("hint: -j is --workers, and took 'a.zip' as its number")
    assert "lists the options" in shoal.run("copy", "-j", "2", "out").stderr


@pytest.mark.parametrize("line", ["unzip -j a.zip b.zip -d out", "copy -j a b out", "read -j a b"])
def test_workers_that_took_an_argument_are_named_when_enough_are_left(shoal: Command, line: str) -> None:
    error, hint = shoal.run(*line.split()).stderr.splitlines()
    assert error.startswith('error: --workers must be "auto" or a whole number, got')
    assert hint.startswith("hint: -j is --workers")
    assert ("entries always keep their directories" in hint) == line.startswith("unzip")
    assert not (shoal.directory / "out").exists()


def test_a_run_that_fails_says_so_on_two_lines(shoal: Command, tree: Path) -> None:
    out = shoal.directory / "my out"
    out.mkdir()
    (out / "1").write_text("mine")
    (out / "2").write_text("mine")
    done = shoal.run("copy", "tree", "my out", "--workers", "1")
    first, second = done.stderr.splitlines()
    assert first.startswith("wrote 3 objects, 3 bytes, in ")
    assert second.startswith('2 objects failed, the first "')
    assert second.endswith("; to see them: shoal status 'my out' --failures all; to retry: the same command")
    verbose = shoal.run("copy", "tree", "my out", "--verbose").stderr
    assert verbose.count("a file of this name exists, which this run did not write") == 2
