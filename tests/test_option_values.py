"""Which values an option takes, and what an error says of those that it does not take."""

from __future__ import annotations

import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from shoal import _options, _shoal
from shoal._options import DESCRIBED
from shoal._progress import drawing_records


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


class Bar(list[Any]):
    """A progress function that is false while it is empty, as a bar without a total is."""

    def __call__(self, *state: Any) -> None:
        self.append(state)


class Undecided:
    """As `tqdm()`: no function, and without a truth value."""

    def __bool__(self) -> bool:
        raise TypeError("no length is known")


def test_a_progress_function_that_is_false_is_called(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(160_000))
    copied, written = Bar(), Bar()
    package.copy(tmp_path / "a", "null:", limit_rate="160kB", progress=copied)
    assert isinstance(copied[0][0], package.Progress)
    assert drawing_records(written)[0] is written


@pytest.mark.parametrize("progress", [Undecided(), 5, "", []], ids=lambda one: type(one).__name__)
def test_progress_that_is_no_function_is_a_config_error(progress: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(16))
    wrong = f"`progress` must be True or a function, got {type(progress).__name__}"
    for run in (
        lambda: package.copy(tmp_path, "null:", progress=progress),
        lambda: package.read(tmp_path, progress=progress),
        lambda: package.Records(tmp_path / "a", "<QII").write(tmp_path / "out.csv", progress=progress),
    ):
        with pytest.raises(package.ConfigError, match=wrong):
            run()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
