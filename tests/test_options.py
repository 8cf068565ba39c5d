"""An option is the same everywhere: the engine, the functions, the command line, and their documents."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, get_args

import click
import pytest

import shoal as package
from shoal import _api, _generate, _options, _read, _save, _shoal, _source_types, _sources, _unzip
from shoal.cli.copy import command as copy_command
from shoal.cli.generate import command as generate_command
from shoal.cli.read import command as read_command
from shoal.cli.unzip import command as unzip_command

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

ENGINE = _shoal.default_options()
SIZES = {"memory", "limit_rate", "max_size", "shard_size"}
# What sends the parts of a job to a cluster, which the engine knows nothing of.
CLUSTER = {"cluster", "parts", "allow_unlocked"}
# What only Python knows: how it tells of failures and of progress.
OWN = {"on_error", "progress"} | CLUSTER
OUTPUT = {"as_json", "quiet", "verbose", "log_format", "progress"}
# One flag for each way to resume.
RESUME = {"update", "retry_failed", "relist", "restart"}


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


SOURCES = defaults(_sources.list_get) | defaults(_sources.files) | defaults(_sources.archives) | defaults(_sources.urls)
PYTHON = defaults(_api.copy) | SOURCES


def long(flag: click.Option) -> str:
    """The long form of a flag."""
    return next(one for one in flag.opts if one.startswith("--"))


def comparable(name: str, value: Any) -> Any:
    """A default in the one form in which engine and Python can be compared."""
    if name in SIZES and value is not None:
        return _options.parse_size(value, name)
    return list(value) if isinstance(value, tuple) else value


def test_python_has_the_engines_options_and_its_defaults() -> None:
    assert set(PYTHON) == set(ENGINE) | OWN
    assert {name: comparable(name, PYTHON[name]) for name in ENGINE} == ENGINE


def test_save_has_the_engines_options_but_those_of_a_network_and_of_a_second_try_with_its_defaults() -> None:
    own = {"source_id", "header", "final_newline"}
    given = defaults(_save.save)
    assert set(given) - own == set(defaults(_api.copy)) - set(_save.UNUSED) - CLUSTER
    assert {name: given[name] for name in set(given) - own} == {name: PYTHON[name] for name in set(given) - own}


def test_read_has_the_options_of_copy_that_mean_something_there_with_the_same_defaults() -> None:
    own = {"order", "chunk_size"}
    of_a_destination = {
        *("durability", "overwrite", "keep_times", "journal", "shard_size", "shard_age"),
        "allow_different_listings",
    }
    assert (
        set(defaults(_read.read)) - own == set(defaults(_api.copy)) - of_a_destination - {"resume", "dry_run"} - CLUSTER
    )
    for name, default in defaults(_read.read).items():
        assert name in own or default == defaults(_api.copy)[name]


def test_the_command_read_has_every_option_of_read() -> None:
    flags = {one.name: one for one in read_command.params if isinstance(one, click.Option)}
    output = {"as_json", "quiet", "verbose", "log_format", "progress", "checksum", "help_all"}
    sources = {*SOURCES, "is_list"}
    assert set(flags) == set(defaults(_read.read)) - {"chunk_size"} | output | sources
    given = read_command.make_context("read", ["SRC"]).params
    for name, default in defaults(_read.read).items():
        assert name in ("chunk_size", "progress", "on_error") or given[name] == default


def test_generate_has_the_engines_options_but_those_of_a_network_and_of_names_with_its_defaults() -> None:
    own = {"header", "final_newline"}
    given = defaults(_generate.generate)
    assert set(given) - own == set(defaults(_api.copy)) - set(_generate.UNUSED)
    assert {name: given[name] for name in set(given) - own} == {name: PYTHON[name] for name in set(given) - own}


def test_the_command_generate_has_every_option_with_the_same_default() -> None:
    flags = {one.name: one for one in generate_command.params if isinstance(one, click.Option)}
    assert set(flags) == set(defaults(_generate.generate)) - {"resume"} | OUTPUT | {"name", "retry_failed", "restart"}
    given = generate_command.make_context("generate", ["make:it", "3", "DST", "--name", "{}"]).params
    for name, value in defaults(_generate.generate).items():
        if name not in ("progress", "resume"):
            assert long(flags[name]) == "--" + name.replace("_", "-")
            assert given[name] == {"on_error": "record"}.get(name, value)


def test_unzip_has_the_options_of_archives_and_those_of_copy_but_for_a_network_with_the_same_defaults() -> None:
    given = defaults(_unzip.unzip)
    assert set(given) == set(defaults(_sources.archives)) | set(defaults(_api.copy)) - set(_unzip.UNUSED)
    # Archives always have times.
    assert given == {name: PYTHON[name] for name in given} | {"keep_times": True}


def test_the_command_unzip_has_every_option_with_the_same_default() -> None:
    flags = {one.name: one for one in unzip_command.params if isinstance(one, click.Option)}
    assert set(flags) == set(defaults(_unzip.unzip)) - {"resume"} | OUTPUT | RESUME | {"directory", "test", "listed"}
    given = unzip_command.make_context("unzip", ["a.zip", "-d", "DIR"]).params
    for name, value in defaults(_unzip.unzip).items():
        if name not in ("progress", "resume"):
            assert long(flags[name]) == "--" + name.replace("_", "-")
            assert given[name] == {"on_error": "record", "keep_times": None}.get(name, value)


def test_the_binding_is_given_every_option() -> None:
    assert set(_options.Options.__annotations__) == set(defaults(_api.copy)) - {"progress"} - CLUSTER
    assert set(_source_types.ListGetOptions.__annotations__) == set(defaults(_sources.list_get))
    assert set(_source_types.ArchiveOptions.__annotations__) == set(defaults(_sources.archives))
    assert set(inspect.signature(_options.engine_options).parameters) == set(_options.Options.__annotations__)


def test_the_command_line_has_every_option_with_the_same_default() -> None:
    flags = {one.name: one for one in copy_command.params if isinstance(one, click.Option)}
    assert set(flags) == set(PYTHON) - {"resume"} | OUTPUT | RESUME | {"help_all", "is_list"}
    given = copy_command.make_context("copy", ["SRC", "DST"]).params
    for name in set(PYTHON) - {"progress", "resume"}:
        flag = flags[name]
        assert long(flag) == "--" + {"headers": "header"}.get(name, name).replace("_", "-")
        assert given[name] == {"on_error": "record"}.get(name, PYTHON[name])


def test_choices_are_the_same_in_python_and_on_the_command_line() -> None:
    for name, literal in (
        ("durability", _options.Durability),
        ("overwrite", _options.Overwrite),
        ("backslashes", _options.Backslashes),
    ):
        flag = next(one for one in copy_command.params if one.name == name)
        assert isinstance(flag.type, click.Choice)
        assert tuple(flag.type.choices) == get_args(literal)


@pytest.mark.parametrize(
    "function",
    [
        _sources.archives,
        _api.copy,
        _sources.files,
        _sources.list_get,
        _api.serve,
        _api.status,
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
    assert _options.parse_size(text, "memory") == size


@pytest.mark.parametrize(
    ("name", "text", "default", "given"), [("WORKERS", "3", 3, 2), ("MEMORY", "64M", 64 << 20, 1 << 20)]
)
def test_a_variable_of_the_environment_replaces_a_default_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str, default: int, given: int
) -> None:
    option = name.lower()
    options = {one: value for one, value in defaults(_api.copy).items() if one not in {"progress", *CLUSTER}}
    monkeypatch.setenv(f"SHOAL_{name}", text)
    made: dict[str, Any] = dict(_options.engine_options(**options))
    assert made[option] == default
    made = dict(_options.engine_options(**{**options, option: given}))
    assert made[option] == given
    made = dict(_options.engine_options(**{**options, option: f"{options[option]}"}))
    assert made[option] == comparable(option, f"{options[option]}"), (
        "what a caller writes stays, also if it is the default"
    )
    monkeypatch.setenv(f"SHOAL_{name}", "lots")
    (tmp_path / "tree").mkdir()
    with pytest.raises(package.ConfigError, match=f"`SHOAL_{name}` must be "):
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
        _options.parse_size(text, "memory")


def test_an_option_that_is_elsewhere_or_gone_is_refused_with_what_to_write_instead(
    shoal: Command, tmp_path: Path
) -> None:
    functions: list[Any] = [package.copy, package.unzip, package.save]
    for function in functions:
        with pytest.raises(TypeError, match=r"'layout': .* use the destination \"parquet:DIR\""):
            function("source", tmp_path / "out", layout="partition")
    readers: list[Any] = [package.copy, package.read]
    for function in readers:
        with pytest.raises(TypeError, match=r"'list_path': .* shoal\.list_get\(…, list_path=…\)"):
            function("source", list_path="/names")
    for command in (("copy", "a.zip", "out"), ("unzip", "a.zip", "-d", "out")):
        done = shoal.run(*command, "--layout", "names")
        assert done.returncode == 2
        assert "hint: to pack objects into few files" in done.stderr
        assert "use the destination parquet:DIR" in done.stderr
    assert not (shoal.directory / "out").exists()
    assert not (tmp_path / "out").exists()


WRONG: list[tuple[str, Any]] = [
    ("workers", 0),
    ("workers", 65_537),
    ("workers", "many"),
    ("workers", True),
    ("workers", 2.0),
    ("memory", "lots"),
    ("durability", "always"),
    ("overwrite", "sometimes"),
    ("max_retries", -1),
    ("retry_timeout", 0),
    ("retry_timeout", float("nan")),
    ("timeout", float("inf")),
    ("timeout", -1.0),
    ("connect_timeout", "10"),
    ("include", [""]),
    ("exclude", [1]),
    ("limit_rate", 0),
    ("shard_size", 0),
    ("shard_age", -1.0),
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


@pytest.mark.parametrize("value", [1 << 32, (1 << 63) - 1, 1 << 63, 10**5000], ids=["2^32", "2^63-1", "2^63", "long"])
@pytest.mark.parametrize("name", ["max_ratio", "max_entries", "max_depth", "workers", "max_failures"])
def test_a_number_that_is_too_large_is_called_that(name: str, value: int, tmp_path: Path) -> None:
    (tmp_path / "one.zip").write_bytes(b"PK\5\6" + bytes(18))
    given: dict[str, Any] = {name: value}
    with pytest.raises(package.ConfigError, match=f"`{name}` is too large: the maximum is 4294967295"):
        package.unzip(tmp_path / "one.zip", tmp_path / "out", **given)


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
