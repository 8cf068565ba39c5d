"""A list/get service on a loopback port that misbehaves on command, with control over every byte it sends.

Left alone it answers `GET /list`, `GET /list?next-marker=TOKEN` and `GET /get/NAME` rightly. A *fault* is a function
that answers one request in some other way; `on_object`, `on_list`, `on_any` say which requests it is for and how often.
`go_away` makes the whole service disappear for a while. Everything it saw is in `requests` and `connections`.

One thread with an event loop over plain sockets; `stop` joins it. Not here: ready-made faults (`faults.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NoReturn, Self
from urllib.parse import parse_qs, unquote_to_bytes

from servers.ports import bound_socket, reset_on_close

HEAD_LIMIT = 1 << 20  # bytes: far above any request a sane client makes
LINGER_LIMIT = 5.0  # seconds to wait for a peer that was sent a FIN
JOIN_LIMIT = 10.0  # seconds in which a stopped server must be gone
SIOCOUTQNSD = 0x894B  # how many bytes the kernel has not yet sent (not: not yet acknowledged)

AwayKind = Literal["refuse", "reset", "status"]


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
    def token(self) -> str | None:
        """The marker of the page asked for; None for the first page."""
        values = parse_qs(self.target.partition("?")[2], keep_blank_values=True).get("next-marker")
        return values[0] if values else None


class ConnectionEndedError(Exception):
    """Ends the work on one connection; raised by the server, never seen by a test."""


class Exchange:
    """One request and the means to answer it. After `finish`, `reset` or `hold` nothing of the fault runs any more."""

    def __init__(self, server: FaultServer, sock: socket.socket, request: Request) -> None:
        self.server = server
        self.request = request
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self.sent = 0

    @property
    def body(self) -> bytes:
        """The bytes of the object that was asked for."""
        return self.server.objects[self.request.name or ""]

    async def send(self, data: bytes) -> None:
        """Sends exactly these bytes."""
        await self._loop.sock_sendall(self._sock, data)
        self.sent += len(data)

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Sends a complete, well-formed answer and keeps the connection."""
        await self.send(head(status, {"Content-Length": str(len(body)), **(headers or {})}) + body)

    async def healthy(self) -> None:
        """Answers as a good service does."""
        await self.server.answer_healthily(self)

    async def pause(self, seconds: float) -> None:
        """Waits; 0 only lets others go first."""
        await asyncio.sleep(seconds)

    async def finish(self) -> NoReturn:
        """Closes the sending side (FIN), then waits for the peer to go: an early close would turn into a reset."""
        self._sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_peer_closes(), LINGER_LIMIT)
        raise ConnectionEndedError

    async def reset(self) -> NoReturn:
        """Resets the connection (RST) once everything sent has left."""
        unsent = bytearray(4)
        while fcntl.ioctl(self._sock, SIOCOUTQNSD, unsent) == 0 and struct.unpack("i", unsent)[0]:
            await asyncio.sleep(0.001)
        reset_on_close(self._sock)
        raise ConnectionEndedError

    async def hold(self) -> NoReturn:
        """Sends nothing more and keeps the connection open until the peer closes it or the server stops."""
        await self._until_peer_closes()
        raise ConnectionEndedError

    async def _until_peer_closes(self) -> None:
        while await self._loop.sock_recv(self._sock, 1 << 16):
            pass


Fault = Callable[[Exchange], Awaitable[None]]


@dataclass
class Rule:
    """Which requests a fault is for."""

    matches: Callable[[Request], bool]
    fault: Fault
    skip: int
    times: int | None
    seen: int = 0

    def takes(self, request: Request) -> bool:
        """Whether this request is one of them; counts it if it matches."""
        if not self.matches(request):
            return False
        self.seen += 1
        return self.seen > self.skip and (self.times is None or self.seen <= self.skip + self.times)


@dataclass
class Absence:
    """A time for which the service is away: refuses connections, resets them, or answers 500 to everything."""

    kind: AwayKind
    seconds: float
    after_gets: int
    started: float | None = None
    ended: float | None = None


def head(status: int, headers: Mapping[str, str], reason: str = "Because") -> bytes:
    """Returns the head of an answer, with the empty line that ends it."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode("latin-1")


@dataclass
class FaultServer:
    """The service. Use it as a context manager, or call `start` and `stop`.

    Attributes:
        objects: Name to bytes; may be changed while it runs.
        names: What the listing names, in this order; by default the names of `objects`.
        page_size: Names on a page.
        next_field: The field of a page that holds the marker of the next one.
        requests: Every request, in order of arrival.
        connections: When each connection was accepted, on the monotonic clock.
        drop_connections: How many connections, from the first, are reset as soon as they are accepted.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    names: list[str] | None = None
    page_size: int = 1000
    next_field: str = "NextMarker"
    requests: list[Request] = field(default_factory=list)
    connections: list[float] = field(default_factory=list)
    drop_connections: int = 0

    def __post_init__(self) -> None:
        self._rules: list[Rule] = []
        self._absences: list[Absence] = []
        self._away: AwayKind | None = None
        self._errors: list[BaseException] = []
        self._conversations: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._gets = 0
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="fault-server", daemon=True)
        self._guard = bound_socket()
        self.port: int = self._guard.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    # What a test scripts before or while it runs.

    def on_object(self, name: str, fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Answers requests for this object with the fault: after `skip` good answers, `times` times or for ever."""
        self.on(lambda request: request.name == name, fault, skip=skip, times=times)

    def on_list(self, fault: Fault, *, page: int | None = None, skip: int = 0, times: int | None = None) -> None:
        """Answers requests for this page of the listing (from 0), or for any, with the fault."""
        token = f"page-{page}" if page else None
        self.on(
            lambda request: request.is_list and (page is None or request.token == token), fault, skip=skip, times=times
        )

    def on_any(self, fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Answers every request with the fault."""
        self.on(lambda _: True, fault, skip=skip, times=times)

    def on(self, matches: Callable[[Request], bool], fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Answers matching requests with the fault. Of several rules that take a request the first counts."""
        self._rules.append(Rule(matches, fault, skip, times))

    def heal(self) -> None:
        """Forgets every fault."""
        self._rules.clear()

    def go_away(self, seconds: float, kind: AwayKind, *, after_gets: int = 0) -> Absence:
        """Goes away for a while at the first request by which that many objects have been asked for.

        With 0, and before `start`: from the beginning.
        """
        absence = Absence(kind, seconds, after_gets)
        self._absences.append(absence)
        return absence

    # What a test reads afterwards.

    def asked(self, name: str) -> list[Request]:
        """The requests for one object."""
        return [request for request in self.requests if request.name == name]

    def listed(self) -> list[str | None]:
        """The markers of the pages asked for, in order; None is the first page."""
        return [request.token for request in self.requests if request.is_list]

    def fetched(self) -> list[str]:
        """The objects asked for, in order."""
        return [request.name for request in self.requests if request.name is not None]

    # Its life.

    def start(self) -> Self:
        """Starts listening; returns when a connection will be answered (or, if away from the start, refused)."""
        self._thread.start()
        if not self._listening.wait(JOIN_LIMIT):
            raise RuntimeError("the fault server did not start")
        return self

    def stop(self) -> None:
        """Closes every connection and joins the thread; raises what went wrong inside a fault."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(JOIN_LIMIT)
        self._guard.close()
        if self._thread.is_alive():
            raise RuntimeError("the fault server did not stop")
        if self._errors:
            raise ExceptionGroup("faults went wrong", [error for error in self._errors if isinstance(error, Exception)])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._listen()
        self._depart()
        self._listening.set()
        await self._stopping.wait()
        tasks = [task for task in (self._accepting, *self._timers, *self._conversations) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def _listen(self) -> None:
        listener = bound_socket(self.port)
        listener.setblocking(False)
        listener.listen(1024)
        self._accepting = self._loop.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        # Not `sock_accept`: cancelled in the wrong moment, it loses a connection that it has just accepted.
        ready = asyncio.Event()
        with listener:
            self._loop.add_reader(listener, ready.set)
            try:
                while True:
                    await ready.wait()
                    ready.clear()
                    with contextlib.suppress(BlockingIOError):
                        while True:
                            self._welcome(listener.accept()[0])
            finally:
                self._loop.remove_reader(listener)

    def _welcome(self, sock: socket.socket) -> None:
        number = len(self.connections)
        self.connections.append(time.monotonic())
        if self._away == "reset" or number < self.drop_connections:
            reset_on_close(sock)
            sock.close()
        else:
            # A conversation that is cancelled before its first step would never close its socket itself.
            self._spawn(self._conversations, self._converse(sock, number)).add_done_callback(lambda _: sock.close())

    async def _converse(self, sock: socket.socket, number: int) -> None:
        with sock:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                async for request in self._incoming(sock, number):
                    self.requests.append(request)
                    exchange = Exchange(self, sock, request)
                    self._gets += request.name is not None
                    self._depart()
                    await self._fault_for(request)(exchange)
            except (ConnectionEndedError, ConnectionError):
                pass
            except asyncio.CancelledError:
                reset_on_close(sock)
                raise
            except Exception as error:  # noqa: BLE001 - a defect in a test's fault: shown when the server stops
                self._errors.append(error)

    async def _incoming(self, sock: socket.socket, number: int) -> AsyncIterator[Request]:
        buffer = b""
        while True:
            while (end := buffer.find(b"\r\n\r\n")) < 0:
                piece = await self._loop.sock_recv(sock, 1 << 16)
                if not piece or len(buffer) > HEAD_LIMIT:
                    return
                buffer += piece
            text, buffer = buffer[:end].decode("latin-1"), buffer[end + 4 :]
            first, *lines = text.split("\r\n")
            method, target, _ = first.split(" ")
            if method != "GET":
                raise ValueError(f"not a GET: {first!r}")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            yield Request(time.monotonic(), number, target, headers)

    # What it answers.

    def _fault_for(self, request: Request) -> Fault:
        if self._away == "status":
            return _server_error
        if self._away:
            return _reset
        return next((rule.fault for rule in self._rules if rule.takes(request)), Exchange.healthy)

    async def answer_healthily(self, exchange: Exchange) -> None:
        """Answers as a good service does."""
        request = exchange.request
        if request.is_list:
            page = self.page(request.token)
            await exchange.answer(
                400 if page is None else 200, page or b"no such page", {"Content-Type": "application/json"}
            )
        elif request.name in self.objects:
            tag = hashlib.sha256(exchange.body).hexdigest()[:16]
            await exchange.answer(200, exchange.body, {"Content-Type": "application/octet-stream", "ETag": f'"{tag}"'})
        else:
            await exchange.answer(404, b"no such object")

    def page(self, token: str | None) -> bytes | None:
        """Returns the page of the listing that this marker stands for."""
        names = list(self.objects) if self.names is None else self.names
        word, _, number = (token or "page-0").partition("-")
        if word != "page" or not number.isdigit() or int(number) * self.page_size > len(names):
            return None
        end = (int(number) + 1) * self.page_size
        page: dict[str, object] = {"FileNames": names[end - self.page_size : end]}
        if end < len(names):
            page[self.next_field] = f"page-{int(number) + 1}"
        return json.dumps(page).encode()

    def _depart(self) -> None:
        for absence in self._absences:
            if absence.started is None and self._gets >= absence.after_gets:
                absence.started = time.monotonic()
                self._away = absence.kind
                self._spawn(self._timers, self._stay_away(absence))

    async def _stay_away(self, absence: Absence) -> None:
        if absence.kind != "status":
            if absence.kind == "refuse" and self._accepting:
                self._accepting.cancel()
            for task in self._conversations:
                task.cancel()
        await asyncio.sleep(absence.seconds)
        self._away = None
        absence.ended = time.monotonic()
        if absence.kind == "refuse":
            self._listen()


async def _server_error(exchange: Exchange) -> None:
    await exchange.answer(500, b"out of order")


async def _reset(exchange: Exchange) -> None:
    await exchange.reset()
