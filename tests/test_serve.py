"""`shoal serve` and `shoal.serve`: what is served is what is there, and stopping works."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
import zlib
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Service


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body = answer.read()
    assert isinstance(body, bytes)
    return body


def test_a_directory_is_listed_and_its_files_are_served(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"1")
    (tmp_path / "two").write_bytes(b"22")

    server = service(tmp_path)

    assert sorted(json.loads(fetch(server.url + "/list"))["FileNames"]) == ["a/one", "two"]
    assert fetch(server.url + "/get/a/one") == b"1"
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert server.stats.requests == 2


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_small_file_that_changes_while_it_is_read_is_not_sent_as_the_version_before(
    shoal: Command, tmp_path: Path
) -> None:
    path = tmp_path / "tree" / "file"
    path.parent.mkdir()
    path.write_bytes(b"a" * 1000)
    time.sleep(0.1)
    # The file is opened, then half a second passes before it is read.
    delayed = ("-P", str(path), "-e", "inject=pread64:delay_enter=500000")
    # -D: what is started here is the service, so that it is what ends with the test.
    shoal.argv = ("strace", "-D", "-f", "-qq", "-o", os.devnull, *delayed, *shoal.argv)
    process = shoal.start("serve", path.parent, "--port", "0", "--json")
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    answered: list[int] = []

    def ask() -> None:
        try:
            fetch(url + "/get/file")
            answered.append(200)
        except urllib.error.HTTPError as refused:
            answered.append(refused.code)
            refused.close()

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.2)
    with path.open("r+b") as file:
        file.write(b"b" * 500)
    asking.join()

    assert answered == [503]
    assert fetch(url + "/get/file") == b"b" * 500 + b"a" * 500


def test_a_name_that_json_cannot_carry_is_left_out_and_counted(service: Service, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    (tmp_path / os.fsdecode(b"\xff-not-text")).write_text("x")

    server = service(tmp_path)

    assert json.loads(fetch(server.url + "/list"))["FileNames"] == ["text"]
    assert server.stats.unlistable_names == 1


def test_pages_have_the_size_that_was_asked_for(service: Service) -> None:
    page = json.loads(fetch(service(synthetic="25:1", page_size=10).url + "/list"))
    assert len(page["FileNames"]) == 10
    assert page["NextMarker"]


def splitmix64(seed: int, at: int) -> int:
    """Output number `at` of the generator, as Steele, Lea and Flood have published it."""
    word = (1 << 64) - 1
    mixed = (seed + (at + 1) * 0x9E3779B97F4A7C15) & word
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & word
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & word
    return mixed ^ mixed >> 31


def test_random_objects_have_the_bytes_of_the_published_generator_and_do_not_compress(service: Service) -> None:
    url = service(synthetic="1000:100:random").url
    bodies = [fetch(f"{url}/get/object-{index:09}") for index in range(200)]

    for index, body in enumerate(bodies):
        words = [splitmix64(splitmix64(0, index), at) for at in range(13)]
        assert body == b"".join(word.to_bytes(8, "little") for word in words)[:100]
    assert len(zlib.compress(b"".join(bodies), 9)) >= 200 * 100


def test_a_context_manager_stops_at_the_end_of_its_block(tmp_path: Path) -> None:
    with package.serve(synthetic="1:1", access_log=tmp_path / "log") as server:
        fetch(server.url + "/get/object-000000000")

    assert repr(server) == f"<shoal.Server {server.url} (stopped)>"
    assert server.stats.requests == 1
    assert "/get/object-000000000" in (tmp_path / "log").read_text()
    with pytest.raises(urllib.error.URLError):
        fetch(server.url + "/list")
    server.stop()  # once more does no harm


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one of `directory` and `synthetic`"),
        ({"directory": ".", "synthetic": "1:1"}, "exactly one of `directory` and `synthetic`"),
        ({"synthetic": "1x1"}, "COUNT:SIZE"),
        ({"synthetic": "1:1:other"}, "COUNT:SIZE:random"),
        ({"synthetic": "1:1", "port": 70000}, "port"),
        ({"synthetic": "1:1", "port": True}, "port"),
        ({"synthetic": "1:1", "page_size": 0}, "page_size"),
        ({"synthetic": "1:1", "host": "example.org"}, "host"),
        ({"synthetic": "1:1", "allow_host": "files:80"}, "files:80"),
        ({"synthetic": "1:1", "allow_host": [1]}, "allow_host"),
    ],
)
def test_an_argument_that_cannot_work_is_a_config_error(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(package.ConfigError, match=words):
        package.serve(**arguments)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_a_run_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(package.RunError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            package.serve(synthetic="1:1", port=port)


@pytest.mark.timing
def test_the_command_prints_its_url_first_and_ends_well_on_ctrl_c(shoal: Command) -> None:
    process = shoal.start("serve", "--synthetic", "5:20", "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip()
    assert fetch(url + "/get/object-000000004") == b"object-000000004\nobj"
    assert "serving 5:20 synthetic objects" in process.stderr.readline()

    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)

    assert process.returncode == 0
    assert time.monotonic() - began < 2
    assert "answered 1 request, 20 bytes" in said


def test_the_command_ends_well_on_sigterm_and_counts_in_json(shoal: Command) -> None:
    process = shoal.start("serve", "--synthetic", "5:20", "--port", "0", "--json", "--quiet")
    assert process.stdout is not None
    fetch(json.loads(process.stdout.readline())["url"] + "/list")

    process.terminate()
    said, errors = process.communicate(timeout=10)

    assert process.returncode == 0
    assert json.loads(said)["requests"] == 1
    assert errors == ""


def test_the_command_serves_a_directory_relative_to_where_it_runs(shoal: Command) -> None:
    (shoal.directory / "mine").mkdir()
    (shoal.directory / "mine" / "x").write_text("content")
    process = shoal.start("serve", "mine", "--port", "0")
    assert process.stdout is not None
    assert fetch(process.stdout.readline().strip() + "/get/x") == b"content"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "either DIR or --synthetic"),
        (["--synthetic", "5"], 2, "COUNT:SIZE"),
        (["nowhere", "--port", "0"], 3, "nowhere"),
        (["--synthetic", "1:1", "--port", "70000"], 2, "--port"),
        (["--synthetic", "1:1", "--prot", "0"], 2, "--port"),
        (["--synthetic", "1:1", "--allow-host", "http://files"], 2, "http://files"),
    ],
)
def test_a_command_line_that_cannot_work_says_why(shoal: Command, arguments: list[str], code: int, words: str) -> None:
    done = shoal.run("serve", *arguments, "--json")

    assert done.returncode == code
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert shoal.last_json(done)["type"] == "error"
