"""What is written is committed within seconds, also of a slow source: a kill costs seconds, not partitions."""

from __future__ import annotations

import http.server
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal as package
from conftest import PATIENCE, Command
from waiting import wait_until

pytestmark = pytest.mark.disk


class Slow(http.server.ThreadingHTTPServer):
    """Answers each request after a while, and counts them."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.delay = 0.2
        self.asked: Counter[str] = Counter()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that was killed."""


class Answer(http.server.BaseHTTPRequestHandler):
    """The path of an object as its contents, or a page with all of them."""

    protocol_version = "HTTP/1.1"
    server: Slow

    def do_GET(self) -> None:
        if self.path.startswith("/list"):
            names = ",".join(f'"{number:04}"' for number in range(600))
            body = f'{{"FileNames": [{names}]}}'.encode()
        else:
            self.server.asked[self.path.rsplit("/", 1)[1]] += 1
            time.sleep(self.server.delay)
            body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def slow() -> Iterator[Slow]:
    with Slow() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def committed(out: Path) -> int:
    """What a kill would leave."""
    try:
        return sum(run.total.written for run in package.status(out).runs)
    except package.ShoalError:
        return 0


@pytest.mark.parametrize("source", ["service", "list"])
def test_a_slow_source_is_committed_before_its_partition_is_done(
    shoal: Command, slow: Slow, tmp_path: Path, source: str
) -> None:
    out = shoal.directory / "out"
    (tmp_path / "list.txt").write_text("".join(f"{slow.url}/get/{number:04}\n" for number in range(600)))
    what = [slow.url] if source == "service" else ["--urls", tmp_path / "list.txt"]
    running = shoal.start("copy", *what, out, "--workers", "4")
    # Of a partition of 100 objects, which takes 5 s here.
    wait_until(lambda: running.poll() is not None or committed(out) >= 20)
    early = committed(out)
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=PATIENCE)
    assert early < 80, "the first commit came with its whole partition"
    slow.delay = 0
    slow.asked.clear()
    before = committed(out)
    assert shoal.run("copy", *what, out).returncode == 0
    assert sum(slow.asked.values()) == 600 - before, "nothing that is committed is requested again"
    assert max(slow.asked.values()) == 1
    (run,) = package.status(out).runs
    assert (run.total.listed, run.total.written, run.total.unfinished, run.deferred) == (600, 600, 0, 0)
    assert {path.read_text() for path in out.rglob("0*")} == {f"/get/{number:04}" for number in range(600)}


def test_a_slow_source_is_copied_whole_although_its_partitions_are_cut(slow: Slow, tmp_path: Path) -> None:
    slow.delay = 0.1
    urls = package.urls([f"{slow.url}/get/{number:04}" for number in range(250)], per_host=3)
    report = package.copy(urls, tmp_path / "out", workers=3)
    assert (report.listed, report.written, report.retries, report.ok) == (250, 250, 0, True)
    assert sum(slow.asked.values()) == 250


def test_what_is_read_keeps_its_order(slow: Slow) -> None:
    """Nothing is committed there, so nothing is cut."""
    slow.delay = 0.05
    urls = package.urls([f"{slow.url}/get/{number:04}" for number in range(120)])
    names = [obj.name for obj in package.read(urls, order="source", workers=2)]
    assert names == sorted(names)
