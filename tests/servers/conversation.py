"""One connection of the fault server: reads requests as they come in, answered or not, and keeps count of them.

Not here: what is answered (`fault_server.py`).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import parse_qs, unquote_to_bytes

HEAD_LIMIT = 1 << 20  # bytes: far above any request a sane client makes
ID_HEADER = "Shoal-Request-Id"


def decode(raw: str) -> str:
    """Returns percent-encoded text decoded once, as the file system's names are decoded."""
    return unquote_to_bytes(raw).decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Request:
    """One request as it came in.

    Attributes:
        at: When its head was complete, on the monotonic clock.
        connection: Number of the connection it came on, from 0.
        target: Path and query exactly as sent.
        headers: Its headers, names in lower case.
    """

    at: float
    connection: int
    target: str
    headers: Mapping[str, str]

    @cached_property
    def name(self) -> str | None:
        """The object asked for, if one was."""
        path = self.target.partition("?")[0]
        return decode(path.removeprefix("/get/")) if path.startswith("/get/") else None

    @property
    def is_list(self) -> bool:
        """Whether a page of the listing was asked for."""
        return self.target.partition("?")[0] == "/list"

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The parameters, decoded once; of several with one name, the first."""
        pairs = parse_qs(self.target.partition("?")[2], keep_blank_values=True, errors="surrogateescape")
        return {name: values[0] for name, values in pairs.items()}

    @property
    def token(self) -> str | None:
        """The marker of the page asked for; None for the first page."""
        return self.query.get("next-marker")

    @property
    def id(self) -> str | None:
        """The id that the client gave it, which a good service echoes."""
        return self.headers.get(ID_HEADER.lower())


class Conversation:
    """The requests of one connection.

    Attributes:
        waiting: Received, and their turn has not come.
        current: Being answered: one, or as many as a fault took.
        depth: The most requests that were unanswered at once.
        over_at: When it ended, by either side; None while it goes on.
        peer_gone: Set when the peer has closed or reset it.
    """

    def __init__(
        self,
        sock: socket.socket,
        number: int,
        on_request: Callable[[Conversation, Request], None],
        form: type[Request] = Request,
    ) -> None:
        self.sock = sock
        self.form = form  # what is made of a request
        self.number = number
        self.waiting: deque[Request] = deque()
        self.current: list[Request] = []
        self.depth = 0
        self.over_at: float | None = None
        self.peer_gone = asyncio.Event()
        self._on_request = on_request
        self._news = asyncio.Event()
        self._error: Exception | None = None

    def unanswered(self, name: str) -> bool:
        """Whether an answer for this object is still due here."""
        return any(request.name == name for queue in (self.current, self.waiting) for request in queue)

    def end(self) -> None:
        """Notes that it is over; what waits will never be answered."""
        if self.over_at is None:
            self.over_at = time.monotonic()
        self.waiting.clear()

    async def listen(self) -> None:
        """Reads requests until the peer goes, whatever is being answered meanwhile."""
        loop, buffer = asyncio.get_running_loop(), b""
        try:
            while (piece := await loop.sock_recv(self.sock, 1 << 16)) and len(buffer) <= HEAD_LIMIT:
                *heads, buffer = (buffer + piece).split(b"\r\n\r\n")
                for text in heads:
                    self._receive(text.decode("latin-1"))
                self._news.set()
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - a request that is none: raised where its turn would have come
            self._error = error
        finally:
            self.end()
            self.peer_gone.set()
            self._news.set()

    def _receive(self, text: str) -> None:
        first, *lines = text.split("\r\n")
        method, target, _ = first.split(" ")
        if method != "GET":
            raise ValueError(f"not a GET: {first!r}")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        request = self.form(time.monotonic(), self.number, target, headers)
        self._on_request(self, request)
        if self.over_at is None:
            self.waiting.append(request)
            self.depth = max(self.depth, len(self.waiting) + len(self.current))

    async def next(self, batching: float = 0.0) -> Request | None:
        """Returns the next request, now being answered; None when the peer has gone.

        With `batching`, a request that comes after a silence waits so many seconds for others behind it.
        """
        while not self.waiting:
            if self._error:
                raise self._error
            if self.peer_gone.is_set():
                return None
            self._news.clear()
            await self._news.wait()
            if batching and self.waiting:
                await asyncio.sleep(batching)
        return self.take()

    def take(self) -> Request | None:
        """Returns the next request if one has come, now being answered."""
        if not self.waiting:
            return None
        self.current.append(self.waiting.popleft())
        return self.current[-1]
