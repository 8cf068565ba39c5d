"""Trees of links, such as caches of models and of data: no run over one ends empty and quiet.

Not here: what is done about a single link (`test_links.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal as package
from conftest import Command
from every_kind import put
from test_links import noted, rows, texts
from trees import tree


def hugging_face(root: Path) -> Path:
    """A cache as `huggingface_hub` makes it: snapshots of links into `blobs`, named by their hashes."""
    model = root / "models--org--name"
    blobs = {"config.json": b"{}", "model.safetensors": b"weights" * 1_000, "tokenizer/vocab.txt": b"vocabulary"}
    for number, (name, data) in enumerate(blobs.items()):
        put(model / f"blobs/{number:040x}", data)
        for revision in ("0123abc", "4567def"):
            link = model / f"snapshots/{revision}" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            up = "../" * (2 + name.count("/"))
            link.symlink_to(f"{up}blobs/{number:040x}")
    put(model / "refs/main", b"0123abc")
    return model


def git_annex(root: Path) -> Path:
    """A repository of git-annex: each file is a link into `.git/annex/objects`, and some contents are not here."""
    repository = root / "annex"
    for number in range(6):
        key = f"SHA256E-s{number}--{number:064x}.jpg"
        link = repository / f"photos/{number}.jpg"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../.git/annex/objects/Xx/{number}/{key}/{key}")
        if number % 3:
            put(repository / f".git/annex/objects/Xx/{number}/{key}/{key}", f"photo {number}".encode(), 0o444)
    return repository


def data_version_control(root: Path) -> Path:
    """A workspace of DVC with `cache.type symlink`: absolute links into a cache elsewhere."""
    workspace, cache = root / "workspace", root / "cache/files/md5"
    for number in range(5):
        blob = put(cache / f"{number:02x}/{number:030x}", f"data {number}".encode(), 0o444)
        link = workspace / f"data/{number}.csv"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    return workspace


def directories_only(root: Path) -> Path:
    """Links to directories, and nothing else."""
    put(root / "releases/1/program", b"program")
    (root / "current").mkdir()
    (root / "current/latest").symlink_to("../releases/1")
    return root / "current"


CACHES: dict[str, Callable[[Path], Path]] = {
    "hugging face": hugging_face,
    "hugging face, snapshots": lambda root: hugging_face(root) / "snapshots",
    "git-annex": git_annex,
    "git-annex, photos": lambda root: git_annex(root) / "photos",
    "dvc": data_version_control,
    "directories only": directories_only,
}


COMMANDS = ["copy", "read", "parquet", "null", "checksum"]
WAYS = [*((command, "") for command in COMMANDS), ("read", "copy"), ("parquet", "copy")]
WAYS += [(command, links) for command in ("copy", "parquet") for links in ("follow", "skip", "inside")]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(("command", "links"), WAYS)
def test_no_run_over_a_tree_of_links_ends_empty_and_quiet(
    shoal: Command, tmp_path: Path, cache: str, command: str, links: str
) -> None:
    source = CACHES[cache](tmp_path)
    line: dict[str, list[str | Path]] = {
        "copy": ["copy", source, "out"],
        "read": ["read", source],
        "parquet": ["copy", source, "parquet:packed"],
        "null": ["copy", source, "null:"],
        "checksum": ["read", source, "--checksum", "xxh3"],
    }
    given = ["--links", links] if links else []
    done = shoal.run(*line[command], *given, "--json")
    last = shoal.last_json(done)
    if done.returncode == 0:
        assert last["written"] > 0 or noted(last["notes"], "link"), last
        assert last["written"] > 0 or "link" in done.stderr
        reached = {"": command != "copy", "inside": True}.get(links, False)
        assert not reached or noted(last["notes"], "followed") or last["skipped"] > 0, last
    else:
        assert last.get("failed") or last["type"] == "error", last
        assert "link" in done.stderr or "failed" in done.stderr


@pytest.mark.parametrize("cache", CACHES)
def test_the_copy_of_a_tree_of_links_has_the_same_links(tmp_path: Path, cache: str) -> None:
    source = CACHES[cache](tmp_path)
    report = package.copy(source, tmp_path / "out")
    assert report.written == len(tree(source))
    assert texts(tmp_path / "out") == texts(source)
    assert tree(tmp_path / "out") == tree(source)
    leads_out = cache in ("hugging face, snapshots", "git-annex, photos", "dvc", "directories only")
    assert bool(noted(report.notes, "out of the source")) == leads_out, report.notes


@pytest.mark.parametrize("cache", [name for name in CACHES if name != "directories only"])
def test_reading_a_tree_of_links_gives_the_contents_and_names_what_is_not_here(tmp_path: Path, cache: str) -> None:
    source = CACHES[cache](tmp_path)
    wanted, gone = {}, set()
    for folder, _, files in os.walk(source):
        for path in (Path(folder, name) for name in files):
            name = str(path.relative_to(source))
            if path.exists():
                wanted[name] = path.read_bytes()
            else:
                gone.add(name)
    reader = package.read(source, on_error="record")
    assert {one.name: bytes(one.data) for one in reader} == wanted
    report = package.copy(source, f"parquet:{tmp_path}/packed", on_error="record")
    assert rows(tmp_path / "packed") == wanted
    for told in (reader.report, report):
        assert told is not None
        assert {one.name: one.kind for one in told.failures} == dict.fromkeys(gone, "vanished")
        assert told.ok == (not gone)
