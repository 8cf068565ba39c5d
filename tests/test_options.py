"""An option is the same everywhere: the engine, the functions, the command line, and their documents."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import pytest

import command_reference
import shoal as package
import signatures
from shoal import _api, _destinations, _generate, _options, _read, _save, _shoal, _sources, _status, _unzip
from shoal._options import SOURCES
from shoal.cli import _options as cli_options
from shoal.cli.copy import command as copy_command
from shoal.cli.generate import command as generate_command
from shoal.cli.read import command as read_command
from shoal.cli.unzip import command as unzip_command

if TYPE_CHECKING:
    from conftest import Command

SIZES = {"memory", "limit_rate", "max_size", "shard_size"}
OUTPUT = {"as_json", "quiet", "verbose", "log_format", "progress"}
# One flag for each way to resume.
RESUME = {"update", "retry_failed", "relist", "restart"}
CLUSTER = {"cluster", "parts", "allow_unlocked"}


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def long(flag: click.Option) -> str:
    """The long form of a flag."""
    return next(one for one in flag.opts if one.startswith("--"))


def flags_of(command: click.Command) -> dict[str, click.Option]:
    return {one.name or "": one for one in command.params if isinstance(one, click.Option)}


@pytest.mark.parametrize("function", [*SOURCES, "parquet"])
def test_a_function_that_describes_something_has_the_options_of_its_table_with_their_defaults(function: str) -> None:
    table = {option["name"]: option["default"] for option in _options.tables()[function]}
    given = {
        name: _shoal.parse_size(value, name) if name in SIZES and value is not None else value
        for name, value in defaults(getattr(package, function)).items()
        if (function, name) != ("s3", "credentials")  # a function or a session, which no table can have
    }
    assert given == table


def test_each_option_of_a_run_is_in_a_signature_and_has_a_flag() -> None:
    flags = flags_of(copy_command)
    for option in _options.tables()["run"]:
        assert option["name"] in defaults(_api.copy)
        if option["name"] != "resume":
            assert long(flags[option["name"]]) == f"--{option['flag']}"


def test_each_option_of_a_source_or_a_destination_has_a_flag_of_copy() -> None:
    flags = flags_of(copy_command)
    for function in (*SOURCES, "parquet"):
        for option in _options.tables()[function]:
            assert long(flags[option["name"]]) == f"--{option['flag']}"


@pytest.mark.parametrize(
    ("command", "function", "more", "without"),
    [
        (copy_command, _api.copy, {"help_all", "is_list"} | RESUME | {"once"} | CLUSTER, {"resume"}),
        (read_command, _read.read, {"help_all", "is_list", "checksum"}, {"chunk_size"}),
        (unzip_command, _unzip.unzip, {"directory", "test", "listed"} | RESUME | CLUSTER, {"resume"}),
        (generate_command, _generate.generate, {"retry_failed", "restart"} | CLUSTER, {"resume"}),
    ],
)
def test_a_command_has_a_flag_for_each_option_of_its_function(
    command: click.Command, function: Any, more: set[str], without: set[str]
) -> None:
    described = {one["name"] for table in (*SOURCES, "parquet") for one in _options.tables()[table]}
    assert set(flags_of(command)) - described == (set(defaults(function)) - without - described) | OUTPUT | more


def test_the_program_whose_types_are_checked_uses_every_function_with_options() -> None:
    text = (Path(__file__).parent / "typed_program.py").read_text()
    for name in package.__all__:
        function = getattr(package, name)
        if inspect.isfunction(function) and defaults(function):
            assert f"shoal.{name}(" in text


def test_choices_are_the_same_in_python_and_on_the_command_line() -> None:
    for name, literal in (
        ("durability", _options.Durability),
        ("overwrite", _options.Overwrite),
        ("links", _options.Links),
        ("backslashes", _options.Backslashes),
        ("decode", _options.Decode),
        ("pages", _options.PageForm),
        ("list_format", _options.ListFormat),
    ):
        flag = flags_of(copy_command)[name]
        assert isinstance(flag.type, click.Choice)
        assert tuple(flag.type.choices) == get_args(literal)


def test_help_shows_the_defaults(shoal: Command) -> None:
    said = " ".join(shoal.run("copy", "--help-all").stdout.split())
    for shown in ("[default: batch]", "SHOAL_WORKERS; default: auto", "default: 256MiB", "default: /get/{name}"):
        assert shown in said


@pytest.mark.parametrize(
    ("function", "name", "told"),
    [
        ("copy", "per_host", r"an option of shoal\.urls\(…, per_host=…\)$"),
        (
            "copy",
            "timeout",
            r"shoal\.list_get\(…, timeout=…\), shoal\.urls\(…, timeout=…\) and shoal\.s3\(…, timeout=…\)$",
        ),
        ("copy", "shard_size", r"shoal\.parquet\(…, shard_size=…\)$"),
        ("copy", "parts", r"cluster=shoal\.cluster\(…, parts=…\)$"),
        ("copy", "layout", 'use "parquet:DIR"$'),
        ("read", "timeout", r"shoal\.list_get\("),
        ("list_objects", "links", r"shoal\.files\("),
        ("save", "shard_size", r"shoal\.parquet\("),
        ("unzip", "shard_size", r"shoal\.parquet\("),
        ("generate", "allow_unlocked", r"shoal\.cluster\("),
        *((function, "colour", "'colour'$") for function in ("copy", "read", "generate")),
        *(("read", name, f"'{name}'$") for name in ("parts", "layout", "shard_size")),
        *((function, "timeout", "'timeout'$") for function in ("save", "unzip", "generate")),
        ("generate", "shard_size", "'shard_size'$"),
        ("list_objects", "workers", "'workers'$"),
    ],
)
def test_an_option_that_is_elsewhere_is_a_type_error_that_says_where(function: str, name: str, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        getattr(package, function)(**{name: 1})


def test_a_flag_of_a_network_means_nothing_for_a_directory_and_a_note_says_so(shoal: Command) -> None:
    (shoal.directory / "tree").mkdir()
    (shoal.directory / "tree" / "a").touch()
    done = shoal.run("copy", "tree", "out", "--timeout", "5")
    assert done.returncode == 0
    assert "note: --timeout means nothing for this source (tree)" in done.stderr
    done = shoal.run("copy", "tree", "out", "--timeout", "5", "--per-host", "5")
    assert "note: --per-host, --timeout mean nothing for this source (tree)" in done.stderr


@pytest.mark.parametrize(
    "function",
    [
        _sources.archives,
        _api.copy,
        _destinations.parquet,
        _sources.files,
        _sources.list_get,
        _api.serve,
        _status.status,
        _generate.generate,
        _read.read,
        _save.save,
        _unzip.unzip,
    ],
)
def test_every_parameter_is_documented_and_no_other(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    (\w+): ", section, re.MULTILINE) == list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("name", "text", "default", "given"), [("WORKERS", "3", 3, 2), ("MEMORY", "64M", 64 << 20, 1 << 20)]
)
def test_a_variable_of_the_environment_replaces_a_default_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str, default: int, given: int
) -> None:
    option = name.lower()
    untouched = defaults(_api.copy)
    monkeypatch.setenv(f"SHOAL_{name}", text)
    assert _shoal.checked("run", _options.given(untouched))[option] == default
    assert _shoal.checked("run", _options.given({**untouched, option: given}))[option] == given
    same = f"{untouched[option]}"
    assert _shoal.checked("run", _options.given({**untouched, option: same}))[option] in (same, 256 << 20), (
        "what a caller writes stays, also if it is the default"
    )
    (tmp_path / "tree").mkdir()
    for wrong in ("lots", os.fsdecode(b"\xff")):
        monkeypatch.setenv(f"SHOAL_{name}", wrong)
        with pytest.raises(package.ConfigError, match=f"`SHOAL_{name}` must be "):
            package.copy(tmp_path / "tree", tmp_path / "out")
    monkeypatch.setenv(f"SHOAL_{name}", "9" * 5_000)
    with pytest.raises(package.ConfigError, match=f"`SHOAL_{name}` is too large"):
        package.copy(tmp_path / "tree", tmp_path / "out")


def test_a_variable_of_the_environment_counts_for_the_command_line_too(shoal: Command) -> None:
    (shoal.directory / "tree").mkdir()
    (shoal.directory / "tree" / "a").touch()
    done = shoal.run("copy", "tree", "out", "--json", SHOAL_WORKERS="3")
    assert shoal.last_json(done)["workers"] == 3, done.stderr
    done = shoal.run("copy", "tree", "other", SHOAL_MEMORY="lots")
    assert done.returncode == 2, done.stderr
    assert shoal.run("copy", "tree", "other", "--memory", "64M", SHOAL_MEMORY="lots").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", "many"],
        ["--memory", "lots"],
        ["--timeout", "soon"],
        ["--durability", "always"],
        ["--header", "no colon"],
        ["--header", "@nowhere"],
        ["--header", "na me: x"],
        ["--max-retries", "-1"],
        ["--workers", "9" * 5_000],
        ["--max-failures", "9" * 5_000],
        ["--parts", "3"],
        ["--allow-unlocked"],
    ],
)
def test_the_command_line_refuses_it_with_code_2(shoal: Command, arguments: list[str]) -> None:
    done = shoal.run("copy", "http://127.0.0.1:1", "out", *arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert arguments[0].strip("-").replace("-", "_") in done.stderr.replace("-", "_")
    assert not (shoal.directory / "out").exists()


def test_a_misspelt_option_or_command_is_answered_with_the_right_one(shoal: Command) -> None:
    assert "--durability" in shoal.run("copy", "a", "b", "--durabilty", "none").stderr
    assert "did you mean 'status'" in shoal.run("statsu", "out").stderr


def test_a_header_value_is_never_in_a_message(shoal: Command) -> None:
    done = shoal.run("copy", "http://127.0.0.1:1", "out", "--header", "X: s3cr\x01et")
    assert done.returncode == 2
    assert "s3cr" not in done.stderr


@pytest.mark.parametrize("source", [b"http://x", 1, None])
def test_a_source_of_another_type_is_a_config_error(source: Any, tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="source"):
        package.copy(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        *(("list_get", given, "needs the URL of a service") for given in (None, b"http://user:secret@host", "")),
        *(("files", given, "`paths` must be a path or an iterable of paths") for given in (5, [5], "", b"x")),
        ("archives", None, "`archives` must be a path or an iterable of paths"),
        *(("urls", given, "`urls` must be a path or an iterable of URLs") for given in (5, b"x", "")),
        *(("parquet", given, "needs the path of a directory") for given in (None, b"x", "", "parquet:")),
        ("cluster", 5, "`cluster` must be 'ray'"),
        ("status", 5, "`destination` must be a path"),
    ],
)
def test_what_a_function_cannot_describe_is_a_config_error_that_says_what_is_expected(
    function: str, given: Any, expected: str
) -> None:
    with pytest.raises(package.ConfigError, match=expected) as failed:
        getattr(package, function)(given)
    assert "secret" not in str(failed.value)


def test_what_is_no_cluster_is_a_config_error(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"cluster": 5}
    with pytest.raises(package.ConfigError, match="`cluster` must be 'ray'"):
        package.copy(tmp_path, tmp_path / "out", **wrong)


def test_a_destination_is_no_source_and_the_hint_has_the_source(tmp_path: Path) -> None:
    packed: Any = package.parquet("packed")
    for function in (package.read, package.list_objects, lambda source: package.copy(source, tmp_path / "out")):
        with pytest.raises(package.ConfigError, match='hint: use "parquet:packed" as the source'):
            function(packed)


def test_a_path_object_is_the_source_that_its_text_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("zip:a.zip", "w") as archive:
        archive.writestr("entry", "")
    shutil.copy("zip:a.zip", "a.zip")
    assert [one.name for one in package.list_objects(Path("zip:a.zip"))] == ["entry"]
    assert [one.name for one in package.list_objects(package.files("zip:a.zip"))] == ["zip:a.zip"]


@pytest.mark.parametrize(
    ("flags", "resume"),
    [
        ([], "auto"),
        (["--update"], "update"),
        (["--retry-failed"], "failed"),
        (["--relist"], "relist"),
        (["--restart"], "restart"),
    ],
)
def test_each_way_to_resume_has_a_flag(flags: list[str], resume: str) -> None:
    assert copy_command.make_context("copy", ["SRC", "DST", *flags]).params["resume"] == resume
    assert unzip_command.make_context("unzip", ["a.zip", "-d", "DIR", *flags]).params["resume"] == resume


def test_two_ways_to_resume_exclude_each_other(shoal: Command) -> None:
    done = shoal.run("copy", "there", "out", "--relist", "--update")
    assert done.returncode == 2
    assert "--update" in done.stderr
    assert "--relist" in done.stderr
    assert "cannot be used together" in done.stderr


@pytest.mark.parametrize("resume", ["failed", "relist", "update"])
def test_items_that_are_given_once_can_be_saved_anew_or_gone_on_with_only(resume: Any, tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="resume"):
        package.save([("a", b"1")], tmp_path / "out", resume=resume)


def test_the_command_line_needs_no_function_for_what_it_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("files", "parquet"):
        monkeypatch.delattr(package, function)
    source, _ = cli_options.source_of("tree", {"links": "follow"})
    destination, _ = cli_options.destination_of("parquet:out", {"group_rows": 9})
    assert _sources.source_form(source) == ("files", "tree", {"links": "follow"})
    text, options = _destinations.destination_form(destination)
    assert (text, options["group_rows"]) == ("parquet:out", 9)


def test_an_option_that_is_added_to_a_table_is_in_the_signature_the_documents_the_flags_and_their_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What `options!` makes of it, its identity too, is in the example of that macro."""
    added = {**_options.tables()["list_get"][0], "name": "colour", "flag": "colour", "default": "red"}
    added |= {"help": "What colour.", "text": "The colour of the names.", "metavar": "NAME", "group": "Other"}
    tables = {**_options.tables(), "list_get": [*_options.tables()["list_get"], added]}
    monkeypatch.setattr(signatures, "tables", lambda: tables)
    monkeypatch.setattr(_options, "tables", lambda: tables)
    written = signatures.rewritten("list_get", Path(_sources.__file__).read_text())
    assert '    colour: str = "red",\n    # End.\n) -> ListGet:' in written
    assert "\n        colour: The colour of the names.\n" in written
    command = click.Command("copy", params=copy_command.params[:0])
    cli_options.options_of(package.copy, "list_get")(command)
    page = "\n".join(command_reference.options(click.Context(command)))
    assert "| Other | |\n|---|---|\n| `--colour` `NAME` | What colour. [default: red] |" in page
