"""An option is the same everywhere: the engine, the functions, the command line, and their documents."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
import zipfile
from collections import UserDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import pytest

import command_reference
import shoal as package
import signatures
from shoal import _api, _destinations, _generate, _options, _read, _save, _shoal, _sources, _status, _unzip
from shoal._options import DESCRIBED, SOURCES
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
        (copy_command, _api.copy, {"help_all", "is_list"} | RESUME | CLUSTER, {"resume"}),
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
        ("backslashes", _options.Backslashes),
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
        ("copy", "timeout", r"shoal\.list_get\(…, timeout=…\) and shoal\.urls\(…, timeout=…\)$"),
        ("copy", "shard_size", r"shoal\.parquet\(…, shard_size=…\)$"),
        ("copy", "parts", r"cluster=shoal\.cluster\(…, parts=…\)$"),
        ("copy", "layout", 'use "parquet:DIR"$'),
        ("read", "timeout", r"shoal\.list_get\("),
        ("list_objects", "follow_links", r"shoal\.files\("),
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
    ("text", "size"),
    [
        (1, 1),
        ("65536", 65536),
        ("256MiB", 256 << 20),
        ("1.5GB", 1_500_000_000),
        ("10 mb", 10_000_000),
        ("4KiB", 4096),
        ("2TiB", 2 << 40),
        ("7B", 7),
        ("10M", 10 << 20),
        ("10m", 10 << 20),
        ("1.5K", 1536),
        ("3Gi", 3 << 30),
        ("2t", 2 << 40),
        ("2TB", 2 * 10**12),
        ("1kb", 1000),
    ],
)
def test_a_size_is_read(text: int | str, size: int) -> None:
    assert _shoal.parse_size(text, "memory") == size


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


@pytest.mark.parametrize("text", [0, -1, True, 1.5, "", "MiB", "1 XB", "10P", "-5", "1e9", "0", "nan", 1 << 63, None])
def test_what_is_not_a_size_is_refused(text: Any) -> None:
    with pytest.raises(package.ConfigError, match="memory"):
        _shoal.parse_size(text, "memory")


WRONG: list[tuple[str, Any]] = [
    ("workers", 0),
    ("workers", 65_537),
    ("workers", "many"),
    ("workers", True),
    ("workers", 2.0),
    ("memory", "lots"),
    ("durability", "always"),
    ("overwrite", "sometimes"),
    ("include", [""]),
    ("exclude", [1]),
    ("limit_rate", 0),
    ("max_failures", -1),
    ("on_error", "ignore"),
    ("resume", "again"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_an_option_does_not_take_is_a_config_error_that_names_it(
    name: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(package.ConfigError, match=name):
        package.copy("http://127.0.0.1:1", tmp_path / "out", **{name: value})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "form", [lambda texts: texts[0], list, tuple, set, iter], ids=["text", "list", "tuple", "set", "iter"]
)
def test_patterns_are_one_text_or_any_number_of_them(form: Any, tmp_path: Path) -> None:
    for name in ("a.txt", "b.csv", "c.txt"):
        (tmp_path / name).touch()
    assert {one.name for one in package.list_objects(tmp_path, include=form(["*.txt"]))} == {"a.txt", "c.txt"}


@pytest.mark.parametrize("headers", [{"A": "b"}, [("A", "b")], [["A", "b"]], UserDict({"A": "b"})], ids=repr)
def test_headers_are_a_mapping_or_pairs(headers: Any) -> None:
    assert package.list_get("http://h", headers=headers).headers == (("A", "b"),)


def test_a_header_that_cannot_be_sent_is_named_and_its_value_is_not_shown() -> None:
    with pytest.raises(package.ConfigError, match=r'the header "Token" cannot be sent') as failed:
        package.list_get("http://h", headers={"Good": "x", "Token": "s3cret\n"})
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("part", [(1, 3), [1, 3]], ids=repr)
def test_a_part_is_a_pair_of_whole_numbers(part: Any) -> None:
    assert _shoal.checked("run", {"part": part})["part"] == (1, 3)


@pytest.mark.parametrize("part", [(True, 3), (1.0, 3), (3, 3), (1, 2, 3), (-1, 3), "13", 1, b"13", (1, 10**5000)])
def test_what_is_no_part_is_refused(part: Any) -> None:
    with pytest.raises(package.ConfigError, match=r"`part` must be \(index, count\)"):
        _shoal.checked("run", {"part": part})


WRONG_OF_OTHERS: list[tuple[str, str, Any]] = [
    ("list_get", "max_retries", -1),
    ("list_get", "retry_timeout", 0),
    ("list_get", "retry_timeout", float("nan")),
    ("urls", "timeout", float("inf")),
    ("urls", "timeout", -1.0),
    ("urls", "connect_timeout", "10"),
    ("urls", "per_host", 0),
    ("urls", "limit_requests", 0),
    ("list_get", "headers", {"na me": "x"}),
    ("list_get", "headers", {"X": 1}),
    ("list_get", "headers", {"X": "é"}),
    ("list_get", "headers", ["ab"]),
    ("list_get", "headers", 5),
    ("list_get", "pipeline", 1),
    ("list_get", "allow_host", [""]),
    ("list_get", "names_field", ""),
    ("list_get", "allow_host", [10**5000]),
    ("urls", "retry_timeout", 1e-9),
    ("parquet", "shard_size", 0),
    ("parquet", "shard_age", -1.0),
]


@pytest.mark.parametrize(("function", "name", "value"), WRONG_OF_OTHERS)
def test_a_description_with_a_value_that_an_option_does_not_take_is_a_config_error_that_names_it(
    function: str, name: str, value: Any
) -> None:
    with pytest.raises(package.ConfigError, match=name):
        getattr(package, function)("x", **{name: value})


WRONG_OF_ARCHIVES: list[tuple[str, Any]] = [
    ("encoding", ""),
    ("encoding", None),
    ("encoding", "no-such-encoding"),
    ("backslashes", "keep"),
    ("max_size", 0),
    ("max_size", "lots"),
    ("max_ratio", 0),
    ("max_ratio", 1.5),
    ("max_ratio", 1 << 32),
    ("max_entries", -1),
    ("max_depth", 0),
]


@pytest.mark.parametrize(("name", "value"), WRONG_OF_ARCHIVES)
def test_a_value_that_an_option_of_archives_does_not_take_is_a_config_error_that_names_it(
    name: str, value: Any, tmp_path: Path
) -> None:
    (tmp_path / "one.zip").write_bytes(b"PK\5\6" + bytes(18))
    with pytest.raises(package.ConfigError, match=name):
        package.unzip(tmp_path / "one.zip", tmp_path / "out", **{name: value})
    assert not (tmp_path / "out").exists()


NUMBERS = [
    (table, option)
    for table in ("run", *DESCRIBED)
    for option in _options.tables()[table]
    if option["kind"] in {"count", "number", "seconds", "size", "word-or-count"}
]
MOST = {"count": (1 << 32) - 1, "size": sys.maxsize, "seconds": 10**9}
MOST_OF = {"workers": 65_536, "pipeline": 256, "limit_requests": 10**6}


@pytest.mark.parametrize(("table", "option"), NUMBERS, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_a_number_may_be_the_maximum_and_what_is_larger_is_called_that(table: str, option: _options.Option) -> None:
    name, kind = option["name"], option["kind"]
    most = MOST_OF.get(name) or MOST[kind]
    assert _shoal.checked(table, {name: most})[name] == most
    texts = [str(most + 1), "99999999T", "9" * 5000] if kind == "size" else []
    numbers = [float("inf")] if kind in {"seconds", "number"} else []
    for large in (most + 1, 1 << 64, 10**400, 10**5000, *texts, *numbers):
        with pytest.raises(package.ConfigError, match=f"^`{name}` is too large: the maximum is {most}$"):
            _shoal.checked(table, {name: large})


def test_a_size_of_chunks_goes_beyond_4_gib(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert len(list(package.read(tmp_path, chunk_size=4 << 30))) == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [("", '""'), (10**30, str(10**30)), (-(10**5000), "a number of many")],
    ids=["", "exact", "long"],
)
def test_what_is_no_text_is_shown_as_it_is_or_not_at_all(value: Any, shown: str) -> None:
    with pytest.raises(package.ConfigError, match=f"^`name` must be text that is not empty, got {shown}"):
        package.list_get("http://h", name=value)


def test_a_flag_that_is_none_has_its_default() -> None:
    assert _shoal.checked("run", {"nice": None})["nice"] is False
    assert _shoal.checked("encode", {"header": None})["header"] is True


@pytest.mark.parametrize("name", ["include", "headers"])
def test_what_the_callers_iterator_raises_is_passed_on(name: str) -> None:
    given: dict[str, Any] = {name: (1 // zero for zero in [0])}
    with pytest.raises(ZeroDivisionError):
        _shoal.checked("list_get" if name == "headers" else "run", given)


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
    source, _ = cli_options.source_of("tree", {"follow_links": True})
    destination, _ = cli_options.destination_of("parquet:out", {"group_rows": 9})
    assert _sources.source_form(source) == ("files", "tree", {"follow_links": True})
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
