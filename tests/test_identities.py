"""What the journal calls a source and the options of a run: texts recorded once, which must stay.

With another text, a run that an earlier version has begun would not be resumed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal as package

arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

SERVICE = "http://127.0.0.1:1"  # nothing answers there, and nothing has to
QUICK: dict[str, Any] = {"max_retries": 0, "retry_timeout": 0.1}
URL = f"{SERVICE}/x"
PLAIN = {"include": "[]", "exclude": "[]", "layout": "names"}
LINKS = {"links": "copy"}  # of a directory into another one
OTHER: dict[str, Any] = {
    "names_field": "N",
    "next_field": "none",
    "marker_param": "m",
    "headers": {"A": "b"},
    "encode_slash": True,
    **QUICK,
}

SOURCES: dict[str, Callable[[Path], Any]] = {
    "files:HERE/tree": lambda here: here / "tree",
    "files:HERE/tree file=b\\ c": lambda here: here / "tree/b c",
    "files:HERE/tree glob=*": lambda here: f"{here}/tree/*",
    "zip:HERE glob=*.zip": lambda here: f"zip:{here}/*.zip",
    "tar:HERE glob=*.tar": lambda here: f"tar:{here}/*.tar",
    "unzip:HERE/z.zip into_subdirectories": lambda here: package.archives(here / "z.zip", into_subdirectories=True),
    SERVICE: lambda _: package.list_get(f"{SERVICE}/", **QUICK),
    f"{SERVICE}/pre list_path=/l get_path=/g/{{name}} names_field=N next_field=none name=x/{{name}} marker_param=m": (
        lambda _: package.list_get(
            f"{SERVICE}/pre", list_path="/l", get_path="/g/{name}", name="x/{name}", expect_type="image/*", **OTHER
        )
    ),
    f"{SERVICE}/pub index": lambda _: package.list_get(f"{SERVICE}/pub/", index=True, **QUICK),
    f"{SERVICE} decode=always": lambda _: package.list_get(f"{SERVICE}/", decode="always", **QUICK),
    "urls:HERE/a list": lambda here: package.urls(here / "a list", **QUICK),
    "urls:HERE/a list decode=never": lambda here: package.urls(here / "a list", decode="never", **QUICK),
    "urls:HERE/a list name={host}/{path}\\ x": (
        lambda here: package.urls(here / "a list", name="{host}/{path} x", **QUICK)
    ),
    "urls:HERE/list.csv url_field=my\\ link name_field=file": (
        lambda here: package.urls(here / "list.csv", url_field="my link", name_field="file", **QUICK)
    ),
    "urls:HERE/list.tsv url_field=url": lambda here: package.urls(here / "list.tsv", **QUICK),
    "urls:HERE/list.jsonl url_field=url name_field=file": (
        lambda here: package.urls(here / "list.jsonl", name_field="file", **QUICK)
    ),
    "urls:HERE/list.parquet url_field=url name_field=file": (
        lambda here: package.urls(here / "list.parquet", name_field="file", **QUICK)
    ),
    "urls:HERE/list.csv url_field=my\\ link name_field=file name_field=my\\ link name={file}/{my\\ link}": (
        lambda here: package.urls(here / "list.csv", url_field="my link", name="{file}/{my link}", **QUICK)
    ),
    "urls:items#4fdf5c324f0cb9d76165143a28fa9160": (
        lambda _: package.urls([URL, ("näme", URL), ("#2", URL), (" lead", URL)], **QUICK)
    ),
    "urls:items#e3b0c44298fc1c149afbf4c8996fb924": lambda _: package.urls([], **QUICK),
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/b c").write_text("b")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("x", "1")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tmp_path / "tree/b c", "x")
    (tmp_path / "a list").write_text(f"{URL}\n")
    (tmp_path / "list.csv").write_text(f"my link,file\n{URL},n\n")
    (tmp_path / "list.tsv").write_text(f"url\tfile\n{URL}\tn\n")
    (tmp_path / "list.jsonl").write_text(f'{{"url": "{URL}", "file": "n"}}\n')
    parquet.write_table(arrow.table({"url": [URL], "file": ["n"]}), tmp_path / "list.parquet")
    return tmp_path


def recorded(source: Any, out: Path | str, at: Path, **options: Any) -> tuple[str, dict[str, str]]:
    """What the journal of a run calls its source, and its options."""
    with contextlib.suppress(package.RunError):  # a service that does not answer
        package.copy(source, out, on_error="record", allow_empty=True, **options)
    # Not by `status`, which has no attempts that listed nothing, such as with a service that does not answer.
    database = at / ".shoal/journal.db" if at.is_dir() else at
    with contextlib.closing(sqlite3.connect(database)) as connection:
        found, given = connection.execute("SELECT source, options FROM run ORDER BY started, id").fetchall()[-1]
    return found, dict(json.loads(given))


@pytest.mark.parametrize("wanted", SOURCES)
def test_a_journal_calls_a_source_what_it_has_always_called_it(wanted: str, here: Path) -> None:
    found = recorded(SOURCES[wanted](here), here / "out", here / "out")
    assert found == (wanted.replace("HERE", str(here)), PLAIN | (LINKS if wanted.startswith("files:") else {}))


def test_a_journal_calls_options_what_it_has_always_called_them(here: Path) -> None:
    out = here / "out"
    filters = {"include": '["*"]', "exclude": '["x*"]', "layout": "names"}
    _, options = recorded(here / "tree", out, out, include=["*"], exclude=["x*"])
    assert list(options.items()) == list((filters | LINKS).items())
    files = package.files(here / "tree", links="follow")
    assert recorded(files, here / "followed", here / "followed")[1] == PLAIN | {"links": "follow"}
    _, options = recorded(here / "tree", f"parquet:{here}/rows", here / "rows")
    assert options == PLAIN | {"form": "parquet"}
    _, options = recorded(here / "tree", "null:", here / "journal", journal=here / "journal")
    assert options == PLAIN | {"destination": "null:"}
    package.copy(here / "tree", here / "parts", part=(1, 2))
    assert package.status(here / "parts").runs[-1].options == PLAIN | LINKS | {"part": "1/2"}
    package.save([("a", b"1")], here / "saved", source_id="v1")
    (run,) = package.status(here / "saved").runs
    assert (run.source, run.options) == ("items:v1", {"header": "true", "final_newline": "true"} | PLAIN)


def looks_like_an_option(here: Path) -> list[tuple[Any, Any]]:
    """Pairs of sources that are not the same."""
    (here / "a list name={path}").write_text(f"{URL}\n")
    (here / "list.csv url_field=url").write_text(f"{URL}\n")
    (here / "list.csv").write_text(f"url\n{URL}\n")
    for option in ("into_subdirectories", "encoding=latin1", "backslashes=separator"):
        (here / f"y.zip {option}").write_bytes((here / "z.zip").read_bytes())
    zips = here / "*.zip"
    return [
        (package.archives(str(zips), into_subdirectories=True), package.archives(f"{zips} into_subdirectories")),
        (package.archives(str(zips), encoding="latin1"), package.archives(f"{zips} encoding=latin1")),
        (package.archives(str(zips), backslashes="separator"), package.archives(f"{zips} backslashes=separator")),
        (package.urls(here / "a list", name="{path}", **QUICK), package.urls(here / "a list name={path}")),
        (package.urls(here / "list.csv", **QUICK), package.urls(here / "list.csv url_field=url")),
        (package.list_get(SERVICE, next_field=["a", "b"]), package.list_get(SERVICE, next_field=["a,b"])),
    ]


def test_two_sources_have_two_names(here: Path) -> None:
    for number, pair in enumerate(looks_like_an_option(here)):
        outs = here / f"out{number}", here / f"other{number}"
        one, other = (recorded(source, out, out)[0] for source, out in zip(pair, outs, strict=True))
        assert one != other, pair


def test_two_destinations_have_two_names(here: Path) -> None:
    # One is text that looks like the bytes of the other.
    for name in (b"caf\xe9", b"caf\\xe9"):
        out = here / os.fsdecode(name)
        assert package.copy(here / "tree", out, journal=here / "journal").written == 1
        assert (out / "b c").exists()
