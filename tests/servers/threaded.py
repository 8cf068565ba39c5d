"""What test servers with a thread for each connection have in common. Not here: what they answer."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class QuietHandler(BaseHTTPRequestHandler):
    """Answers requests of connections that are kept, and writes nothing to the tests' output."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answers until the client closes the connection, at whatever moment."""
        # It may open the next before this thread sees the end of the first.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


class ThreadedServer:
    """Listens from the start, and answers as long as it is entered as a context manager."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], host: str, port: int = 0) -> None:
        """Listens on a port; 0 takes a free one."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._server.socket.listen(1024)  # the hosts of a list may all connect at once
        self.authority = f"{host}:{self._server.server_port}"
        self.url = f"http://{self.authority}"

    def __enter__(self) -> Self:
        """Starts to answer."""
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops, and closes the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
