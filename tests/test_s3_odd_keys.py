"""Odd keys of an S3 store: each arrives as it is where it can, and is a failure with a reason where it cannot.

Most keys are those of `names.json`, which other sources have, too. Others are odd only for S3.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shoal as package
from s3_copies import failed, rows, source
from servers.fixtures import MakeStore
from trees import tree
from url_copies import copy

KEY_MAX = 1024  # bytes: S3 has no longer ones
ENCODED = ["a%2Fb", "a%252Fb", "a%20b", "a%2Bb", "a +b", "100%", "%%", "%u0041", "=", "a=b&list-type=2", "?list-type=2"]
SIGNED = ["a~b", "a'()*!b", "a:b@c", "a,b;c", "[x]", "{x}|^`", "\u00e4\u00f6", "\uffff", "\U0010ffff", "\u00a0", "a  b"]
REPLACED = ["a\ufffdb", "\x01", "a\x7fb", "a\x85b", "\u2028", "&amp;", "&#10;", "]]>", "<Key>x</Key>", "<!--", "\r\n"]


def table(group: str) -> list[str]:
    """Returns the names of a group of the table that can be keys."""
    named = json.loads((Path(__file__).parent / "names.json").read_text("utf-8"))[group]
    names = [row if isinstance(row, str) else row[0] * row[1] + "".join(row[2:]) for row in named]
    return [name for name in names if 0 < len(name.encode()) <= KEY_MAX]


UNSAFE = table("unsafe")
LEGAL = [*table("legal"), *ENCODED, *SIGNED, *REPLACED]
OBJECTS = {key: b"bytes of " + key.encode() for key in [*UNSAFE, *LEGAL]}


def test_there_are_many_odd_keys() -> None:
    assert len(OBJECTS) == len(UNSAFE) + len(LEGAL) > 60


@pytest.mark.parametrize("page_size", [1000, 1, 7])
def test_odd_keys_become_files_unless_they_are_unsafe(tmp_path: Path, s3_store: MakeStore, page_size: int) -> None:
    store = s3_store(OBJECTS, page_size=page_size)
    report = copy(source(store), tmp_path / "out")
    assert tree(tmp_path / "out") == {key: OBJECTS[key] for key in LEGAL}
    assert (report.written, report.failed) == (len(LEGAL), len(UNSAFE))
    (run,) = package.status(tmp_path / "out").runs
    assert {failure.name: failure.kind for failure in run.failures} == dict.fromkeys(UNSAFE, "unsafe-name")
    assert sorted(store.fetched()) == sorted(LEGAL), "what cannot be stored is not asked for"
    assert store.refusals == []


@pytest.mark.parametrize("page_size", [1000, 1])
def test_odd_keys_become_rows_whatever_they_are(tmp_path: Path, s3_store: MakeStore, page_size: int) -> None:
    store = s3_store(OBJECTS, page_size=page_size)
    report = copy(source(store), f"parquet:{tmp_path}/out")
    assert failed(report) == {}
    assert rows(tmp_path / "out") == OBJECTS
    assert store.refusals == []


def test_a_loop_and_a_listing_have_odd_keys_as_they_are(s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=7)
    assert {obj.name: bytes(obj.data) for obj in package.read(source(store))} == OBJECTS
    assert {one.name: one.size for one in package.list_objects(source(store))} == {
        key: len(data) for key, data in OBJECTS.items()
    }


@pytest.mark.parametrize("prefix", ["a b", "a+b", "\u00e4/%2F", "#x", "x//y", "./z"])
def test_an_odd_prefix_names_what_is_below_it(tmp_path: Path, s3_store: MakeStore, prefix: str) -> None:
    below = {f"{prefix}/{name}": name.encode() for name in ("one", "two/three", "a+b")}
    store = s3_store(below | {f"{prefix}x": b"x", f"{prefix}0/x": b"x"}, page_size=1)
    assert package.copy(source(store, prefix), f"parquet:{tmp_path}/out").written == 3
    assert rows(tmp_path / "out") == {"one": b"one", "two/three": b"two/three", "a+b": b"a+b"}
    assert store.refusals == []


def test_a_key_that_is_a_directory_has_no_bytes_or_is_unsafe(tmp_path: Path, s3_store: MakeStore) -> None:
    objects = {"empty/": b"", "full/": b"bytes", "both/": b"", "both/file": b"f", "empty": b""}
    store = s3_store({key: data for key, data in objects.items() if key != "empty"})
    report = copy(source(store), tmp_path / "out")
    assert failed(report) == {"full/": "unsafe-name"}
    assert (report.written, report.skipped) == (1, 2)
    assert tree(tmp_path / "out") == {"both/file": b"f"}
    assert (tmp_path / "out/empty").is_dir()
    assert not (tmp_path / "out/full").exists()

    store = s3_store(objects)
    assert package.copy(source(store), f"parquet:{tmp_path}/rows").written == 5
    assert rows(tmp_path / "rows") == objects
    assert {obj.name: bytes(obj.data) for obj in package.read(source(store))} == objects


def test_a_key_and_a_prefix_conflict_in_a_directory(tmp_path: Path, s3_store: MakeStore) -> None:
    objects = {key: key.encode() for key in ("a", "a/b", "a/b/c", "a/d", "other")}
    store = s3_store(objects)
    report = copy(source(store), tmp_path / "out")
    assert set(failed(report).values()) == {"name-conflict"}
    found = tree(tmp_path / "out")
    assert found.items() <= objects.items()
    assert found.keys() | failed(report).keys() == objects.keys()
    assert package.copy(source(store), f"parquet:{tmp_path}/rows").written == 5
    assert rows(tmp_path / "rows") == objects
