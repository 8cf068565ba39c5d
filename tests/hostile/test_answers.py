"""What an answer with status 200 must be to count as the object: its type, and its encoding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from servers import faults
from servers.fault_server import Fault
from servers.fixtures import MakeServer
from servers.url_server import Answer, UrlServer
from trees import tree

PAGE = b"<html>Please sign in</html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
ERROR = b'{"error": "try later"}'
JSON = {"Content-Type": "application/problem+json"}


@pytest.fixture
def server() -> Iterator[UrlServer]:
    with UrlServer() as server:
        yield server


def copy(source: Any, out: Path, **options: Any) -> tuple[set[str], dict[str, str]]:
    """The names of the objects that arrived, and the kinds of those that failed."""
    report = package.copy(source, out, on_error="record", **options)
    return set(tree(out)), {failure.name: failure.kind for failure in report.failures}


@pytest.mark.parametrize("made", ["page", "JSON"])
def test_what_is_sent_in_place_of_an_object_fails_where_the_suffix_says_another_type(
    server: UrlServer, tmp_path: Path, made: str
) -> None:
    body, fields = (PAGE, HTML) if made == "page" else (ERROR, JSON)
    refused = ["a.jpg", "B.PNG", "x.tar.gz", "x.gz", "y.zip", "m.mp4", "s.mp3", "d.pdf", "t.parquet", "t.csv"]
    either = ["a.html", "b.HTM", "c.php", "d.html.gz", "e", "f.unknown", "jpg", "a.jpg/g", "h.jpg.unknown"]
    of_json = ["a.json", "b.jsonl", "c.json.gz"]
    (refused if made == "page" else either).extend(of_json)
    names = [*refused, *either]
    for name in names:
        server.answers[f"/{name}?size=1.jpg"] = Answer(body, headers=fields)
    urls = [(f"{number}/{name}", f"{server.url}/{name}?size=1.jpg") for number, name in enumerate(names)]

    arrived, failed = copy(package.urls(urls), tmp_path / "out")

    assert failed == {name: "unexpected-type" for name, _ in urls[: len(refused)]}
    assert arrived == {name for name, _ in urls[len(refused) :]}
    assert len(server.requests) == len(urls), "it is not asked for again"


def test_the_name_decides_and_then_the_url(server: UrlServer, tmp_path: Path) -> None:
    list_file = tmp_path / "list"
    named = {"1": "/a.jpg", "2.jpg": "/b", "3.jpg": "/get.php?id=3", "4.html": "/d.jpg", "5": "/e.php", "6.jpg": "/%"}
    server.answers = {path: Answer(PAGE, headers=HTML) for path in [*named.values(), "/%25"]}
    list_file.write_text("".join(f"{name}\t{server.url}{path}\n" for name, path in named.items()))
    arrived, failed = copy(package.urls(list_file), tmp_path / "out")
    assert failed == dict.fromkeys(["1", "2.jpg", "3.jpg", "6.jpg"], "unexpected-type")
    assert arrived == {"4.html", "5"}
    (run,) = package.status(tmp_path / "out").runs
    assert {failure.reason.partition(": ")[2].partition(";")[0] for failure in run.failures} == {
        "the server sent an HTML page instead of an image"
    }
    accepted = package.copy(package.urls(list_file, expect_type="*"), tmp_path / "out", resume="failed")
    assert accepted.written == 4, "as the reason says"


def test_an_object_of_its_own_type_or_of_none_that_is_known_arrives(server: UrlServer, tmp_path: Path) -> None:
    types = {"a.jpg": "image/png", "b.jpg": "application/octet-stream", "c.zip": "text/plain", "d.jpg": "json/x"}
    server.answers = {f"/{name}": Answer(b"x", headers={"Content-Type": sent}) for name, sent in types.items()}
    arrived, failed = copy(package.urls([f"{server.url}/{name}" for name in [*types, "e.jpg"]]), tmp_path / "out")
    assert (arrived, failed) == ({*types, "e.jpg"}, {})


@pytest.mark.parametrize("first", ["page", "object"])
def test_a_service_has_no_pages_or_errors_for_images(fault_server: MakeServer, tmp_path: Path, first: str) -> None:
    answers: dict[str, Fault] = {
        "0.html": faults.status(200, PAGE, HTML),
        "1.jpg": faults.status(200, PAGE, HTML),
        "2.jpg": faults.status(200, ERROR, JSON),
        "3.json": faults.status(200, ERROR, JSON),
        "4.jpg": faults.status(200, b"image", {"Content-Type": "image/jpeg"}),
    }
    answers = answers if first == "page" else dict(reversed(answers.items()))
    server = fault_server(dict.fromkeys(answers, b""))
    for name, answer in answers.items():
        server.on_object(name, answer)
    server.start()
    arrived, failed = copy(package.list_get(server.url), tmp_path / "out", workers=1)
    assert failed == dict.fromkeys(["1.jpg", "2.jpg"], "unexpected-type")
    assert arrived == {"0.html", "3.json", "4.jpg"}
