"""Web servers that list directories: Python's own, faulty where a test says so, and nginx."""

from __future__ import annotations

import collections
import contextlib
import shutil
import socket
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

NGINX = shutil.which("nginx", path="/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin:/usr/local/sbin")
# As little as it needs, in a directory of its own.
NGINX_CONFIGURATION = """
daemon off; master_process off; pid {own}/pid; error_log {own}/errors; events {{}}
http {{
  access_log off; default_type application/octet-stream;
  client_body_temp_path {own}/1; proxy_temp_path {own}/2; fastcgi_temp_path {own}/3; uwsgi_temp_path {own}/4;
  scgi_temp_path {own}/5;
  server {{ listen 127.0.0.1:{port}; root {root}; autoindex on; }}
}}
"""


class Handler(SimpleHTTPRequestHandler):
    """Python's server, as it lists directories, but for what its `Site` says."""

    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        """Answers as the site says, or with the file or the index."""
        self.site.requests[self.path] += 1
        failures = self.site.failures.get(self.path, [])
        if failures:
            status = failures.pop(0) if len(failures) > 1 or failures[0] < 0 else failures[0]
            return self.send_error(abs(status))
        if (page := self.site.pages.get(self.path)) is None:
            return super().do_GET()
        status, headers, body = page
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_: object) -> None:
        """Not to the tests' output."""


class Site:
    """A directory, and a server that has its files.

    `failures`: by path, the statuses of its answers; the last one stays, unless it is negative. `pages`: by path, what
    is sent for it instead.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.requests: collections.Counter[str] = collections.Counter()
        self.failures: dict[str, list[int]] = {}
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        directory.mkdir(exist_ok=True)
        handler: Any = type("OfSite", (Handler,), {"site": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: handler(*args, directory=str(directory)))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}).start()

    def stop(self) -> None:
        """Ends the server."""
        self.server.shutdown()
        self.server.server_close()

    def page(self, path: str, body: str, status: int = 200, **headers: str) -> None:
        """Sends this page for a path; `headers` with underscores."""
        fields = {"Content-Type": "text/html", "Content-Length": str(len(body.encode()))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (status, {name: value for name, value in fields.items() if value}, body.encode())

    def write(self, *names: str) -> None:
        """Adds files, each with its name as contents."""
        for name in names:
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site without files."""
    site = Site(tmp_path / "site")
    yield site
    site.stop()


@contextlib.contextmanager
def nginx(root: Path, own: Path) -> Iterator[str]:
    """Runs nginx over a directory; returns its URL."""
    if NGINX is None:
        pytest.skip("needs nginx: scripts/install_test_tools.sh")
    own.mkdir()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    (own / "conf").write_text(NGINX_CONFIGURATION.format(own=own, root=root, port=port))
    server = subprocess.Popen([NGINX, "-e", own / "errors", "-c", own / "conf"], stderr=subprocess.DEVNULL)

    def is_up() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    try:
        wait_until(is_up)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def python(root: Path, _: Path) -> Iterator[str]:
    """Runs `python -m http.server` over a directory; returns its URL."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(root)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().split(' port ')[1].split()[0]}/"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def files(root: Path) -> dict[str, bytes]:
    """Returns what is below a directory, without shoal's own."""
    found = (path for path in root.rglob("*") if path.is_file() and ".shoal" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found}
