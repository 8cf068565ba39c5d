"""A list/get service with tokens that expire. It counts those that were issued and used.

Not here: other services (`fault_server.py`, `url_server.py`).
"""

from __future__ import annotations

import itertools
import json
import time
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from servers.threaded import QuietHandler, ThreadedServer

PAGE = 20  # names


class TokenServer(ThreadedServer):
    """A server with threads; the body of an object is its name."""

    def __init__(
        self, objects: int, *, life: float = 1e9, delay: float = 0.0, host: str = "127.0.0.1", echoes: bool = False
    ) -> None:
        """Listens on a port; answers nothing before it is entered as a context manager.

        Args:
            objects: Their number.
            life: Seconds for which a token is accepted.
            delay: Seconds that each answer takes.
            host: The address to listen on.
            echoes: Answers have the ids of their requests, so that these can be pipelined.
        """
        self.names = [f"object-{number:05}" for number in range(objects)]
        self.life, self.delay, self.echoes = life, delay, echoes
        self.issued: dict[str, float] = {}
        self.used: set[str] = set()
        self.refused = 0
        self.refusal = 401  # the status with which a token is refused
        self.denied: set[str] = set()  # tokens that are not accepted, although they were issued
        # What is answered for a name, before its token is looked at: a status and fields of the head.
        self.instead: dict[str, tuple[int, dict[str, str]]] = {}
        self.asked: list[tuple[str, str | None]] = []  # names, and the token of each request
        self._numbers = itertools.count(1)
        super().__init__(self._handler(), host)

    def headers(self) -> dict[str, str]:
        """Issues a token. Returns the header that carries it."""
        with self._lock:
            token = f"token-{next(self._numbers)}-of-7f3a"
            self.issued[token] = time.monotonic()
        return {"Authorization": f"Bearer {token}"}

    def revoke(self) -> None:
        """Refuses all tokens that were issued."""
        with self._lock:
            self.issued = dict.fromkeys(self.issued, -1e9)

    def accepts(self, token: str | None) -> bool:
        """Whether a token is valid; counts it."""
        with self._lock:
            accepted = token in self.issued.keys() - self.denied and time.monotonic() - self.issued[token] < self.life
            self.refused += not accepted
            if accepted and token is not None:
                self.used.add(token)
        return accepted

    def answer(self, path: str, token: str | None) -> tuple[int, dict[str, str], bytes]:
        """Returns status, fields and body of an answer."""
        url = urlsplit(path)
        name = url.path.rpartition("/")[2]
        with self._lock:
            self.asked.append((name, token))
        if name in self.instead:
            return *self.instead[name], b""
        if not self.accepts(token):
            return self.refusal, {}, b"no"
        if url.path != "/list":
            return 200, {}, name.encode()
        first = int(parse_qs(url.query).get("next-marker", ["0"])[0])
        page: dict[str, object] = {"FileNames": self.names[first : first + PAGE]}
        if first + PAGE < len(self.names):
            page["NextMarker"] = str(first + PAGE)
        return 200, {"Content-Type": "application/json"}, json.dumps(page).encode()

    def _handler(self) -> type[QuietHandler]:
        server = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(server.delay)
                token = (self.headers["Authorization"] or "").removeprefix("Bearer ") or None
                status, fields, body = server.answer(self.path, token)
                self.send_response(status)
                if server.echoes and (number := self.headers["Shoal-Request-Id"]):
                    fields = {**fields, "Shoal-Request-Id": number}
                for name, value in {**fields, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        return Handler
