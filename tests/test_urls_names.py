"""Names of the objects of a URL list: from its columns, and what to do about two that are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import shoal as package
from servers.url_server import Answer, UrlServer
from trees import tree
from url_copies import copy, write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_name_can_use_one_column_of_the_list(server: UrlServer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"sku": sku, "url": f"{server.url}/{number}"} for number, sku in enumerate(["a 1", "../b", "", "c"])]
    write(tmp_path / "list.csv", "sku,url", *(f"{row['sku']},{row['url']}" for row in rows))
    write(tmp_path / "list.jsonl", *map(json.dumps, rows))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "list.parquet")
    for ending in ("csv", "jsonl", "parquet"):
        report = copy(package.urls(tmp_path / f"list.{ending}", name="pictures/{sku}.jpg"), tmp_path / ending)
        assert tree(tmp_path / ending) == {"pictures/a 1.jpg": b"/0", "pictures/c.jpg": b"/3"}, ending
        reasons = [failure.reason for failure in report.failures]
        assert len(reasons) == 2
        assert any('its field "sku" is empty' in reason for reason in reasons), reasons
    no_fields = "is not a placeholder, and the list has no fields"
    for source, why in (
        (package.urls(write(tmp_path / "plain", f"{server.url}/x"), name="{sku}.jpg"), no_fields),
        (package.urls([f"{server.url}/x"], name="{sku}.jpg"), no_fields),
        (package.urls(tmp_path / "list.csv", name="{sku}", name_field="url"), "would be a second field"),
        (package.urls(tmp_path / "list.csv", name="{name}-{sku}"), "use {path}"),
        (package.urls(tmp_path / "list.csv", name="{color}"), 'no field "color"'),
    ):
        with pytest.raises(package.ConfigError, match=why):
            copy(source, tmp_path / "no")


def test_a_name_can_use_several_columns_of_the_list(server: UrlServer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    shops = [("a", "1"), ("b", "1"), ("", "2"), ("c", None), ("..", "x"), ("/etc", "x"), ("a\0b", "1")]
    rows = [{"shop": one, "sku": two, "n": "7", "url": f"{server.url}/{at}"} for at, (one, two) in enumerate(shops)]
    write(tmp_path / "list.csv", "sku,n,url,shop", *(f"{r['sku'] or ''},7,{r['url']},{r['shop']}" for r in rows))
    write(tmp_path / "list.jsonl", *map(json.dumps, rows))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "list.parquet")
    template, host = "{shop}/{sku}-{n}-{shop}/{host}/{path}.jpg", server.url.removeprefix("http://")
    server.answers["/1"] = Answer(status=404)
    for ending in ("csv", "jsonl", "parquet"):
        source, out = package.urls(tmp_path / f"list.{ending}", name=template), tmp_path / ending
        report = copy(source, out)
        assert tree(out) == {f"a/1-7-a/{host}/0.jpg": b"/0"}, ending
        reasons = {failure.name: failure.reason for failure in report.failures}
        assert len(reasons) == 6
        assert f"b/1-7-b/{host}/1.jpg" in reasons, "a request that failed has its name"
        text = "\n".join(reasons.values())
        assert 'its field "shop" is empty, and its name is made of it' in text
        assert 'its field "sku" is empty, and its name is made of it' in text
        assert "has a NUL character" in text
        assert "unsafe name" in reasons[f"../x-7-../{host}/4.jpg"]
        assert "unsafe name" in reasons[f"/etc/x-7-/etc/{host}/5.jpg"]
    server.answers.clear()
    for ending in ("csv", "jsonl", "parquet"):
        source, out = package.urls(tmp_path / f"list.{ending}", name=template), tmp_path / ending
        assert copy(source, out, resume="failed").written == 1
        assert tree(out)[f"b/1-7-b/{host}/1.jpg"] == b"/1"
    with pytest.raises(package.ConfigError, match='no field "color"'):
        copy(package.urls(tmp_path / "list.csv", name="{sku}/{color}"), tmp_path / "no")


def test_urls_of_one_name_say_what_keeps_them_apart(server: UrlServer, tmp_path: Path) -> None:
    plain = write(tmp_path / "list", f"{server.url}/x?1", f"{server.url}/x?2")
    columns = write(tmp_path / "list.csv", "url,shop", f"{server.url}/x?1,a", f"{server.url}/x?2,a")
    for number, (source, advice) in enumerate(
        [
            (package.urls(plain), '`name="{host}/{path}"`'),
            (package.urls(columns), "a column of the list"),
            (package.urls(columns, name="{shop}.jpg"), "`{hash}` or `{index}` in `name`"),
        ]
    ):
        with pytest.raises(package.ObjectsFailedError) as error:
            package.copy(source, tmp_path / f"out{number}")
        assert advice in (error.value.hint or "")
        assert error.value.hint != advice, "what a repeated call does is said as well"
        assert error.value.report is not None
        (note,) = [note for note in error.value.report.notes if "same name" in note]
        assert advice in note
    assert copy(package.urls(plain, name="{hash}"), tmp_path / "apart").written == 2
