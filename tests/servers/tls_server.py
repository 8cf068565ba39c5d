"""A front of TLS before another server on loopback: it shakes hands, and passes bytes on in both directions.

The certificate can be changed while it runs. What it saw of the handshakes is in `handshakes` and `refused`. Not here:
what is answered (`fault_server.py`), who signs certificates (the tests, with trustme).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import Self

from servers.ports import bound_socket

JOIN_LIMIT = 10.0  # seconds in which a stopped front must be gone
PIECE = 1 << 16  # bytes passed on at once


@dataclass(frozen=True)
class Handshake:
    """One handshake that succeeded.

    Attributes:
        protocol: What ALPN agreed on.
        host: The name in the client's SNI; None where it gave none, as for an address.
        version: The version of TLS.
        resumed: Whether it went on with an earlier session.
    """

    protocol: str | None
    host: str | None
    version: str | None
    resumed: bool


@dataclass
class TlsFront:
    """The front. Use it as a context manager.

    Attributes:
        context: With which handshakes are made from now on.
        backend: Port of the server behind it.
        announce_end: Tell TLS of the end when the server behind it closes (close_notify); else only TCP ends.
        handshakes: Those that succeeded, in order.
        accepted: How many connections were made.
    """

    context: ssl.SSLContext
    backend: int
    announce_end: bool = True
    handshakes: list[Handshake] = field(default_factory=list)
    accepted: int = 0

    def __post_init__(self) -> None:
        self._names: dict[int, str] = {}
        self._listener = bound_socket()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="tls-front", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listening.wait(JOIN_LIMIT):
            raise RuntimeError("the TLS front did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(JOIN_LIMIT)
        if self._thread.is_alive():
            raise RuntimeError("the TLS front did not stop")

    def drop_connections(self) -> None:
        """Closes every connection that there is, after what was sent on it."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener.setblocking(False)
        self._listener.listen(1024)
        accepting = self._loop.create_task(self._accept())
        self._listening.set()
        await self._stopping.wait()
        for task in (accepting, *self._tasks):
            task.cancel()
        await asyncio.gather(accepting, *self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        with self._listener:
            while True:
                sock, _ = await self._loop.sock_accept(self._listener)
                self.accepted += 1
                task = self._loop.create_task(self._converse(sock))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _converse(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError, ssl.SSLError, asyncio.CancelledError, EOFError):
            session = _Session(self._loop, sock, self.context)
            await session.shake_hands()
            tls = session.tls
            resumed = bool(tls.session_reused)
            self.handshakes.append(Handshake(tls.selected_alpn_protocol(), session.host, tls.version(), resumed))
            reader, writer = await asyncio.open_connection("127.0.0.1", self.backend)
            upward = self._loop.create_task(self._pass_up(session, writer))
            try:
                while piece := await reader.read(PIECE):
                    await session.send(piece)
                if self.announce_end:
                    await session.announce_end()
                sock.shutdown(socket.SHUT_WR)
                await asyncio.wait([upward], timeout=1.0)
            finally:
                upward.cancel()
                writer.close()  # before the wait, which a second cancellation ends
                await asyncio.gather(upward, return_exceptions=True)

    async def _pass_up(self, session: _Session, writer: asyncio.StreamWriter) -> None:
        while piece := await session.receive():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


class _Session:
    """One TLS session over a socket, with every step in our hands."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host: str | None = None
        self._loop, self._sock = loop, sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context.sni_callback = self._note_host
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _note_host(self, tls: object, host: str | None, _context: ssl.SSLContext) -> None:
        # The context's callback is that of the newest session; sessions of a test that looks at it come one by one.
        self.host = host

    async def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._read()
            except ssl.SSLError:
                await self._flush()  # the alert
                raise
            else:
                return await self._flush()

    async def send(self, data: bytes) -> None:
        self.tls.write(data)
        await self._flush()

    async def receive(self) -> bytes:
        """Returns what came; nothing at the end, announced or not."""
        while True:
            try:
                return self.tls.read(PIECE)
            except ssl.SSLWantReadError:
                await self._read()
            except ssl.SSLError:
                return b""

    async def announce_end(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLError):
            self.tls.unwrap()
        await self._flush()

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self._loop.sock_sendall(self._sock, data)

    async def _read(self) -> None:
        if data := await self._loop.sock_recv(self._sock, PIECE):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
