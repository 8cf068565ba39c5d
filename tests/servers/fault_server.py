"""A list/get service on a loopback port that misbehaves on command, with control over every byte it sends.

Left alone it answers `GET /list`, `GET /list?next-marker=TOKEN` and `GET /get/NAME` rightly. A *fault* is a function
that answers one request in some other way; `on_object`, `on_list`, `on_any` say which requests it is for and how often.
`go_away` makes the whole service disappear for a while. Everything it saw is in `requests` and `connections`.

Requests sent ahead are answered in turn; `depths` and `twice_at_once` say how far ahead, and whether an object was
asked for twice at a time. An answer echoes the request's id (`Shoal-Request-Id`) unless `echo` says otherwise.

One thread with an event loop over plain sockets; `stop` joins it. Not here: reading requests (`conversation.py`),
ready-made faults (`faults.py`, `pipeline_faults.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gc
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NoReturn, Self

from servers.conversation import ID_HEADER, Conversation, Request
from servers.ports import bound_socket, reset_on_close

LINGER_LIMIT = 5.0  # seconds to wait for a peer that was sent a FIN
JOIN_LIMIT = 10.0  # seconds in which a stopped server must be gone
CLOSE_GRACE = 1.0  # seconds in which a busy server sees that a client has closed
SIOCOUTQNSD = 0x894B  # how many bytes the kernel has not yet sent (not: not yet acknowledged)

AwayKind = Literal["refuse", "reset", "status"]
Echo = bool | Callable[[Request], Sequence[str]]  # whether a request's id is echoed; or the values to send for it


class ConnectionEndedError(Exception):
    """Ends the work on one connection; raised by the server, never seen by a test."""


class Exchange:
    """One request and the means to answer it. After `finish`, `reset` or `hold` nothing of the fault runs any more."""

    def __init__(self, server: FaultServer, conversation: Conversation, request: Request) -> None:
        self.server = server
        self.request = request
        self.conversation = conversation
        self._sock = conversation.sock
        self._loop = asyncio.get_running_loop()
        self.sent = 0

    @property
    def body(self) -> bytes:
        """The bytes of the object that was asked for."""
        return self.server.objects[self.request.name or ""]

    @property
    def echo(self) -> bytes:
        """The header lines that echo the request's id, as the server is told to; often one, or none."""
        return id_lines(self.server.echoed(self.request))

    def head(self, status: int, headers: Mapping[str, str], *, echo: bool = True) -> bytes:
        """Returns the head of an answer with the echo, if it is to have one."""
        plain = head(status, headers)
        return plain[:-2] + self.echo + b"\r\n" if echo else plain

    def healthy_bytes(self) -> bytes:
        """Returns what a good service answers."""
        status, body, headers = self.server.healthy_answer(self.request)
        return self.head(status, {"Content-Length": str(len(body)), **headers}) + body

    def behind(self) -> Exchange | None:
        """Takes the next request of this connection, if one has come: the fault answers it too."""
        request = self.conversation.take()
        return self.server.begin(self.conversation, request) if request else None

    async def send(self, data: bytes) -> None:
        """Sends exactly these bytes."""
        await self._loop.sock_sendall(self._sock, data)
        self.sent += len(data)

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, echo: bool = True
    ) -> None:
        """Sends a complete, well-formed answer and keeps the connection."""
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        await self.send(self.head(status, fields, echo=echo) + body)

    async def healthy(self) -> None:
        """Answers as a good service does."""
        await self.send(self.healthy_bytes())

    async def pause(self, seconds: float) -> None:
        """Waits; 0 only lets others go first."""
        await asyncio.sleep(seconds)

    async def finish(self) -> NoReturn:
        """Closes the sending side (FIN), then waits for the peer to go: an early close would turn into a reset."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the peer has reset it
                raise
        self.conversation.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.conversation.peer_gone.wait(), LINGER_LIMIT)
        raise ConnectionEndedError

    async def reset(self) -> NoReturn:
        """Resets the connection (RST) once everything sent has left."""
        unsent = bytearray(4)
        while fcntl.ioctl(self._sock, SIOCOUTQNSD, unsent) == 0 and struct.unpack("i", unsent)[0]:
            await asyncio.sleep(0.001)
        self.conversation.end()
        reset_on_close(self._sock)
        raise ConnectionEndedError

    async def hold(self) -> NoReturn:
        """Sends nothing more and keeps the connection open until the peer closes it or the server stops."""
        await self.conversation.peer_gone.wait()
        raise ConnectionEndedError


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


def id_lines(values: Sequence[str]) -> bytes:
    """Returns header lines that say that these are the ids of the request."""
    return "".join(f"{ID_HEADER}: {value}\r\n" for value in values).encode("latin-1")


@dataclass
class FaultServer:
    """The service. Use it as a context manager, or call `start` and `stop`.

    Attributes:
        objects: Name to bytes; may be changed while it runs.
        names: What the listing names, in this order; by default the names of `objects`.
        page_size: Names on a page.
        next_field: The field of a page that holds the marker of the next one.
        marker: What the marker of a page begins with, in front of its number.
        address: The loopback address it listens on.
        port: The port; 0 takes a free one.
        echo: Whether answers echo the ids of their requests, or what they say instead.
        batching: Seconds that a request which comes after a silence waits for others behind it.
        requests: Every request whose turn to be answered came, in that order.
        received: Every request, in order of arrival; those behind a broken answer are never answered.
        connections: When each connection was accepted, on the monotonic clock.
        drop_connections: How many connections, from the first, are reset as soon as they are accepted.
        idle: Seconds without a request after which a connection is closed; None keeps them all.
    """

    _running: ClassVar[int] = 0  # servers in this process
    form: ClassVar[type[Request]] = Request  # what is made of a request

    objects: dict[str, bytes] = field(default_factory=dict)
    names: list[str] | None = None
    page_size: int = 1000
    next_field: str = "NextMarker"
    marker: str = "page"
    address: str = "127.0.0.1"
    port: int = 0
    echo: Echo = True
    batching: float = 0.0
    requests: list[Request] = field(default_factory=list)
    received: list[Request] = field(default_factory=list)
    connections: list[float] = field(default_factory=list)
    drop_connections: int = 0
    idle: float | None = None

    def __post_init__(self) -> None:
        self._rules: list[Rule] = []
        self._absences: list[Absence] = []
        self._away: AwayKind | None = None
        self._errors: list[BaseException] = []
        self._conversations: set[asyncio.Task[None]] = set()
        self._all: dict[int, Conversation] = {}
        self._open: set[Conversation] = set()
        self._suspects: list[tuple[str, float, Conversation, Conversation]] = []
        self._timers: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._gets = 0
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="fault-server", daemon=True)
        self._guard = bound_socket(self.port, self.address)
        self.port = self._guard.getsockname()[1]
        self.url = f"http://{self.address}:{self.port}"

    # What a test scripts before or while it runs.

    def on_object(self, name: str, fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Answers requests for this object with the fault: after `skip` good answers, `times` times or for ever."""
        self.on(lambda request: request.name == name, fault, skip=skip, times=times)

    def on_list(self, fault: Fault, *, page: int | None = None, skip: int = 0, times: int | None = None) -> None:
        """Answers requests for this page of the listing (from 0), or for any, with the fault."""
        token = f"{self.marker}-{page}" if page else None
        self.on(
            lambda request: request.is_list and (page is None or request.token == token), fault, skip=skip, times=times
        )

    def on_objects(self, fault: Fault, *, skip: int = 0, times: int | None = None) -> None:
        """Answers requests for any object with the fault."""
        self.on(lambda request: request.name is not None, fault, skip=skip, times=times)

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

    @property
    def depths(self) -> dict[int, int]:
        """The most requests that were unanswered at once, for each connection that sent any."""
        return {number: conversation.depth for number, conversation in self._all.items() if conversation.depth}

    @property
    def depth(self) -> int:
        """The most requests that were unanswered at once on any one connection."""
        return max(self.depths.values(), default=0)

    @property
    def twice_at_once(self) -> list[str]:
        """What happened to objects asked for while an answer for them was still due elsewhere."""
        return [
            f"{name!r} on connection {new.number} while {old.number} was open"
            for name, at, old, new in self._suspects
            if old is new or old.over_at is None or old.over_at > at + CLOSE_GRACE
        ]

    # Its life.

    def start(self) -> Self:
        """Starts listening; returns when a connection will be answered (or, if away from the start, refused)."""
        gc.freeze()  # to look through all that earlier tests have left stops this server for up to a second
        FaultServer._running += 1
        self._thread.start()
        if not self._listening.wait(JOIN_LIMIT):
            raise RuntimeError("the fault server did not start")
        return self

    def stop(self) -> None:
        """Closes every connection and joins the thread; raises what went wrong inside a fault."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(JOIN_LIMIT)
            FaultServer._running -= 1
            if not FaultServer._running:
                gc.unfreeze()
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
        listener = bound_socket(self.port, self.address)
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
            conversation = self._all[number] = Conversation(sock, number, self._receive, self.form)
            self._open.add(conversation)
            listening = self._loop.create_task(conversation.listen())
            try:
                while request := await asyncio.wait_for(conversation.next(self.batching), self.idle):
                    exchange = self.begin(conversation, request)
                    await self._fault_for(request)(exchange)
                    conversation.current.clear()
            except (ConnectionEndedError, ConnectionError, TimeoutError):
                pass
            except asyncio.CancelledError:
                reset_on_close(sock)
                raise
            except Exception as error:  # noqa: BLE001 - a defect in a test's fault: shown when the server stops
                self._errors.append(error)
            finally:
                conversation.end()
                self._open.discard(conversation)
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    def _receive(self, conversation: Conversation, request: Request) -> None:
        self.received.append(request)
        for other in self._open if request.name is not None else ():
            if other.unanswered(request.name or ""):
                self._suspects.append((request.name or "", request.at, other, conversation))

    def begin(self, conversation: Conversation, request: Request) -> Exchange:
        """Notes that a request's turn has come."""
        self.requests.append(request)
        self._gets += request.name is not None
        self._depart()
        return Exchange(self, conversation, request)

    # What it answers.

    def _fault_for(self, request: Request) -> Fault:
        if self._away == "status":
            return _server_error
        if self._away:
            return _reset
        return next((rule.fault for rule in self._rules if rule.takes(request)), Exchange.healthy)

    def echoed(self, request: Request) -> Sequence[str]:
        """Returns the values with which an answer echoes the id of its request."""
        if callable(self.echo):
            return self.echo(request) if request.id is not None else ()
        return (request.id,) if self.echo and request.id is not None else ()

    def healthy_answer(self, request: Request) -> tuple[int, bytes, dict[str, str]]:
        """Returns status, body and headers of what a good service answers."""
        if request.is_list:
            page = self.page(request.token)
            return 400 if page is None else 200, page or b"no such page", {"Content-Type": "application/json"}
        if request.name not in self.objects:
            return 404, b"no such object", {}
        body = self.objects[request.name]
        tag = hashlib.sha256(body).hexdigest()[:16]
        return 200, body, {"Content-Type": "application/octet-stream", "ETag": f'"{tag}"'}

    def page(self, token: str | None) -> bytes | None:
        """Returns the page of the listing that this marker stands for."""
        names = list(self.objects) if self.names is None else self.names
        word, _, number = (token or f"{self.marker}-0").rpartition("-")
        if word != self.marker or not number.isdigit() or int(number) * self.page_size > len(names):
            return None
        end = (int(number) + 1) * self.page_size
        page: dict[str, object] = {"FileNames": names[end - self.page_size : end]}
        if end < len(names):
            page[self.next_field] = f"{self.marker}-{int(number) + 1}"
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
