"""A web server on one loopback address, for lists of URLs: its answers are set by path, and it counts what it sees.

Not here: a list/get service (`fault_server.py`).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from servers.threaded import QuietHandler, ThreadedServer


@dataclass
class Answer:
    """What is sent for a path.

    `cut`: only so many bytes of it, and then the connection is closed; or the rest when `held` is set.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    held: threading.Event | None = None


class UrlServer(ThreadedServer):
    """A server with threads. By default the object of a path is the path itself."""

    def __init__(self, host: str = "127.0.0.1", *, port: int = 0, delay: float = 0.0, status: int = 200) -> None:
        """Listens on a port; answers nothing before it is entered as a context manager."""
        self.answers: dict[str, Answer] = {}
        self.delay, self.status = delay, status
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.busy = self.busy_peak = 0  # requests that are being answered
        super().__init__(self._handler(), host, port)

    @property
    def paths(self) -> list[str]:
        """The paths that were requested, in their order."""
        return [path for path, _ in self.requests]

    def answer(self, path: str) -> Answer:
        """Returns what is sent for a path."""
        return self.answers.get(path) or Answer(path.encode(), self.status)

    def _handler(self) -> type[QuietHandler]:
        server = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with server._lock:
                    server.requests.append((self.path, dict(self.headers)))
                    server.busy += 1
                    server.busy_peak = max(server.busy_peak, server.busy)
                time.sleep(server.delay)
                answer = server.answer(self.path)
                with server._lock:
                    server.busy -= 1
                head = [f"HTTP/1.1 {answer.status} x", f"Content-Length: {len(answer.body)}"]
                head += [f"{name}: {value}" for name, value in answer.headers.items()]
                message = "\r\n".join([*head, "", ""]).encode() + answer.body
                self.wfile.write(message[: answer.cut])
                if answer.held:
                    answer.held.wait()
                    self.wfile.write(message[answer.cut :])
                elif answer.cut is not None:
                    self.close_connection = True

        return Handler
