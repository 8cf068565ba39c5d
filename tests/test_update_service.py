"""`resume="update"` of a service where times were kept: only what has changed since is sent again."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import threading
import time
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from trees import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD = 1_500_000_000  # seconds since 1970
NAMES = [f"file-{number:03}" for number in range(100)]

pytestmark = pytest.mark.disk


class Handler(SimpleHTTPRequestHandler):
    """Files below a directory, with `Last-Modified`, and 304 for what is not newer than the request says."""

    protocol_version = "HTTP/1.1"
    answers: collections.Counter[int]  # by status
    echoes_ids = False  # requests may be sent ahead
    names_version = False  # a 304 says of which time it is
    always_304 = False
    leads_to = ""  # a directory below this one, to which requests for objects are redirected
    conditions: list[str]  # the paths of conditional requests

    def send_head(self) -> Any:
        if "If-Modified-Since" in self.headers:
            self.conditions.append(self.path)
        if self.leads_to and self.path.startswith("/file"):
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", f"/{self.leads_to}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if self.always_304 and "file" in self.path:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.end_headers()
            return None
        return super().send_head()

    def send_response(self, code: int, message: str | None = None) -> None:
        self.answers[code] += "file" in self.path
        super().send_response(code, message)
        if code == HTTPStatus.NOT_MODIFIED and self.names_version:
            changed = Path(self.translate_path(self.path)).stat().st_mtime
            self.send_header("Last-Modified", self.date_time_string(int(changed)))

    def end_headers(self) -> None:
        if self.echoes_ids and (given := self.headers["Shoal-Request-Id"]):
            self.send_header("Shoal-Request-Id", given)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Not to the tests' output."""


class Site:
    """A directory and a service that has its files."""

    def __init__(self, directory: Path, **how: bool | str) -> None:
        directory.mkdir()
        self.directory = directory
        self.answers: collections.Counter[int] = collections.Counter()
        self.conditions: list[str] = []
        own = {"answers": self.answers, "conditions": self.conditions, **how}
        self.handler: Any = type("Answering", (Handler,), own)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(self.handler, directory=directory))
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.source = package.list_get(
            url, list_path="/names.json", names_field="[]", get_path="/{name}", max_retries=1
        )

    def make(self, names: list[str], text: str, changed: float, below: str = "") -> None:
        for name in names:
            path = self.directory / below / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text} {name}")
            os.utime(path, (changed, changed))
        listed = sorted({path.name for path in self.directory.rglob("file-*")})
        (self.directory / "names.json").write_text(json.dumps(listed))

    def files(self) -> dict[str, bytes]:
        return {name: data for name, data in tree(self.directory).items() if name != "names.json"}


@contextlib.contextmanager
def site(directory: Path, **how: bool | str) -> Iterator[Site]:
    made = Site(directory, **how)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


@pytest.mark.parametrize("echoes_ids", [False, True], ids=["one at a time", "pipelined"])
def test_only_what_has_changed_since_is_sent_again(tmp_path: Path, echoes_ids: bool) -> None:
    out = tmp_path / "out"
    with site(tmp_path / "site", echoes_ids=echoes_ids) as served:
        served.make(NAMES, "old", OLD)
        assert package.copy(served.source, out, keep_times=True).written == 100
        assert {(out / name).stat().st_mtime for name in NAMES} == {OLD}
        (out / NAMES[3]).unlink()
        served.make(NAMES[90:], "new", OLD + 1)
        served.answers.clear()
        report = package.copy(served.source, out, keep_times=True, resume="update")
        assert (report.written, report.unchanged, report.failed) == (11, 89, 0), report
        assert served.answers == {HTTPStatus.NOT_MODIFIED: 89, HTTPStatus.OK: 11}
        assert tree(out) == served.files()
        served.answers.clear()
        assert package.copy(served.source, out, keep_times=True, resume="update").unchanged == 100
        assert served.answers[HTTPStatus.OK] == 0


def test_an_object_changed_just_now_is_fetched_again_since_its_time_may_stand_for_two_versions(tmp_path: Path) -> None:
    with site(tmp_path / "site") as served:
        served.make(NAMES, "old", time.time())
        assert package.copy(served.source, tmp_path / "out", keep_times=True).written == 100
        served.make(NAMES, "new", time.time())
        report = package.copy(served.source, tmp_path / "out", keep_times=True, resume="update")
        assert report.written == 100, report
        assert tree(tmp_path / "out") == served.files()


def test_a_time_that_the_destination_was_given_by_others_is_not_asked_about(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with site(tmp_path / "site") as served:
        served.make(NAMES, "old", OLD)
        assert package.copy(served.source, out, keep_times=False).written == 100
        (out / NAMES[0]).write_text("mine")
        os.utime(out / NAMES[0], (OLD, OLD))
        report = package.copy(served.source, out, keep_times=True, resume="update", on_error="record")
        assert (report.unchanged, [failure.kind for failure in report.failures]) == (99, ["exists"]), report
        assert served.answers == {HTTPStatus.OK: 200}
        assert (out / NAMES[0]).read_text() == "mine"


def test_an_older_version_put_in_its_place_is_fetched_where_the_service_says_its_time(tmp_path: Path) -> None:
    with site(tmp_path / "site", names_version=True) as served:
        served.make(NAMES, "old", OLD)
        assert package.copy(served.source, tmp_path / "out", keep_times=True).written == 100
        served.make(NAMES[:5], "older", OLD - 1000)
        report = package.copy(served.source, tmp_path / "out", keep_times=True, resume="update")
        assert (report.written, report.unchanged) == (5, 95), report
        assert tree(tmp_path / "out") == served.files()


def test_an_answer_that_nothing_has_changed_is_no_object_where_nothing_is(tmp_path: Path) -> None:
    with site(tmp_path / "site", always_304=True) as served:
        served.make(NAMES[:3], "old", OLD)
        report = package.copy(served.source, tmp_path / "out", keep_times=True, on_error="record")
        assert (report.written, report.failed) == (0, 3), report
        assert {failure.kind for failure in report.failures} == {"bad-answer"}
        assert not list((tmp_path / "out").glob("file-*"))


@pytest.mark.parametrize("echoes_ids", [False, True], ids=["one at a time", "pipelined"])
def test_a_redirect_that_leads_to_another_object_is_followed_without_a_condition(
    tmp_path: Path, echoes_ids: bool
) -> None:
    out = tmp_path / "out"
    with site(tmp_path / "site", leads_to="v1", echoes_ids=echoes_ids) as served:
        served.make(NAMES, "new", OLD, below="v1")
        served.make(NAMES, "old", OLD - 1000, below="v2")
        served.make(NAMES[:50], "new", OLD - 1000, below="v2")
        assert package.copy(served.source, out, keep_times=True).written == 100
        served.conditions.clear()
        served.handler.leads_to = "v2"
        report = package.copy(served.source, out, keep_times=True, resume="update")
        assert report.failed == 0, report
        assert set(served.conditions) == {f"/{name}" for name in NAMES}
        assert tree(out) == tree(tmp_path / "site/v2")


def test_where_a_redirect_leads_an_answer_that_nothing_has_changed_is_not_believed(tmp_path: Path) -> None:
    with site(tmp_path / "site", leads_to="v1") as served:
        served.make(NAMES[:3], "old", OLD, below="v1")
        assert package.copy(served.source, tmp_path / "out", keep_times=True).written == 3
        served.handler.always_304 = True
        report = package.copy(served.source, tmp_path / "out", keep_times=True, resume="update", on_error="record")
        assert (report.unchanged, report.failed) == (0, 3), report
        assert {failure.kind for failure in report.failures} == {"bad-answer"}
