"""What `shoal serve` lists of a directory that changes or cannot be listed whole, and the names it is asked under."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from conftest import Command, Service

FILES = 1_000_000


def status(url: str, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code


def test_the_command_says_what_a_listing_left_out_when_the_directory_has_been_read(shoal: Command) -> None:
    tree = shoal.directory / "tree"
    tree.mkdir()
    (tree / os.fsdecode(b"\xff-not-text")).write_text("x")
    process = shoal.start("serve", tree, "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip()
    assert "serving" in process.stderr.readline()

    def left_out() -> object:
        with urllib.request.urlopen(url + "/list", timeout=10) as answer:
            return json.loads(answer.read())["LeftOut"]

    assert left_out() == {"Names": 1, "Directories": 0}
    assert process.stderr.readline() == "note: 1 file names left out: not UTF-8, or too long\n"
    left_out()  # says nothing new

    process.terminate()
    _, rest = process.communicate(timeout=10)
    assert rest.count("note:") == 1, "and once more at the end"


def test_a_name_that_is_allowed_is_answered_and_any_other_refused(shoal: Command, service: Service) -> None:
    process = shoal.start("serve", "--synthetic", "1:1", "--port", "0", "--allow-host", "files.example", "--quiet")
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert status(url + "/list", Host="files.example:8080") == 200
    assert status(url + "/list", Host="rebound.example") == 403

    url = service(synthetic="1:1", allow_host=["files.example", "other.example"]).url
    assert status(url + "/list", Host="other.example") == 200
    assert status(url + "/list", Host="rebound.example") == 403


@pytest.fixture
def million() -> Iterator[Path]:
    """A million empty files in memory, in a thousand directories."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("needs a file system in memory, at /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        for directory in range(1000):
            path = Path(root, f"{directory:03}")
            path.mkdir()
            at = os.open(path, os.O_RDONLY)
            for file in range(FILES // 1000):
                os.close(os.open(f"{file:03}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=at))
            os.close(at)
        yield Path(root)


@pytest.mark.slow(minutes=5)
def test_a_million_files_of_which_some_are_renamed_meanwhile_are_all_copied_or_told(
    service: Service, million: Path, tmp_path: Path
) -> None:
    server = service(million, access_log=tmp_path / "log")
    touched: set[str] = set()
    ended = threading.Event()

    def rename() -> None:
        for number in itertools.count():
            name = f"{number * 7919 % 1000:03}/{number * 104_729 % 1000:03}"
            if name not in touched:
                touched.update((name, name + "-renamed"))
                (million / name).rename(million / (name + "-renamed"))
            if ended.wait(1 / 20):
                return

    renaming = threading.Thread(target=rename)
    renaming.start()
    time.sleep(0.5)
    try:
        report = package.copy(server.url, "null:", max_failures=100_000, on_error="record")
    finally:
        ended.set()
        renaming.join()

    server.stop()
    served = set()
    for line in (tmp_path / "log").read_text().splitlines():
        _, target, code, _ = line.split()
        if code == "200" and target.startswith("/get/"):
            served.add(urllib.parse.unquote(target.removeprefix("/get/")))
    names = {f"{directory:03}/{file:03}" for directory in range(1000) for file in range(1000)}
    # A directory is read at once here, so that each file is listed under one of its names.
    lost = {name for name in names if not {name, name + "-renamed"} & served}
    assert names - touched <= served
    assert lost <= touched
    assert len(lost) == report.failed
    assert {(failure.name in touched, failure.kind) for failure in report.failures} <= {(True, "vanished")}
    assert report.listed == report.written + report.failed
    assert report.written == len(served)
    assert len(touched) > 20
