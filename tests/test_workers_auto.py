"""`workers="auto"` against a real server. The rules of the search have their proof in the engine, in virtual time."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

import pytest

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 3000

# As small as servers come: the standard library's, with a queue of five connections, and one request on each.
SMALL = f"""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        body = bytes(1000)
        if url.path == "/list":
            at = int(parse_qs(url.query).get("next-marker", ["0"])[0])
            page = {{"FileNames": ["object-%d" % number for number in range(at, at + 1000)]}}
            body = json.dumps(page | ({{"NextMarker": str(at + 1000)}} if at + 1000 < {COUNT} else {{}})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args): pass

class Server(ThreadingHTTPServer):
    request_queue_size = 5
    def handle_error(self, request, address): pass

server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def small_server() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SMALL], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


@pytest.mark.timing
def test_auto_takes_no_more_workers_than_a_small_server_accepts(small_server: str) -> None:
    """Before issue 19, it took 32 to 54 s for 5,000 objects that 8 workers copy in two."""

    def seconds(workers: int | Literal["auto"]) -> float:
        report = package.copy(small_server, "null:", workers=workers)
        assert (report.ok, report.written, report.bytes) == (True, COUNT, COUNT * 1000)
        return report.seconds

    rounds = [(seconds(8), seconds("auto")) for _ in range(3)]
    fixed, auto = (statistics.median(column) for column in zip(*rounds, strict=True))
    assert auto < 2 * fixed, rounds
