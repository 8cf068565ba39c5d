"""A forward proxy on loopback: tunnels (CONNECT) and whole URLs, with or without a password; it counts what it sees.

Names stand for ports of loopback that the test says, and for nothing without the proxy. Not here: what is answered
(`fault_server.py`, `url_server.py`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from servers.ports import bound_socket

JOIN_LIMIT = 10.0  # seconds in which a stopped proxy must be gone
PIECE = 1 << 16  # bytes passed on at once
Head = tuple[str, dict[str, str]]


@dataclass
class ForwardProxy:
    """The proxy. Use it as a context manager; it can be stopped and started again on the same port.

    Attributes:
        places: The port of loopback for which a name stands, by the name in lower case.
        login: The `user:password` that it requires.
        statuses: What it answers for a name instead of passing it on.
        requests: The first lines that it got, with the fields, in order; those that it refused, too.
        connections: How many connections were made.
        stop_after: It stops when it has got so many requests.
        closes: It closes each connection after an answer.
    """

    places: Mapping[str, int] = field(default_factory=dict)
    login: str | None = None
    statuses: dict[str, int] = field(default_factory=dict)
    requests: list[Head] = field(default_factory=list)
    connections: int = 0
    stop_after: int | None = None
    closes: bool = False

    def __post_init__(self) -> None:
        self._listener = bound_socket()
        self.port: int = self._listener.getsockname()[1]
        login = f"{self.login}@" if self.login else ""
        self.url = f"http://{login}127.0.0.1:{self.port}"
        self.shown = f"http://127.0.0.1:{self.port}"  # without the password
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Listens, again if it was stopped."""
        if self._listener.fileno() < 0:
            self._listener = bound_socket(self.port)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="forward-proxy", daemon=True)
        self._thread.start()
        assert self._listening.wait(JOIN_LIMIT), "the proxy did not start"
        return self

    def stop(self) -> None:
        """Closes the port and every connection."""
        if self._thread:
            with contextlib.suppress(RuntimeError):  # it has stopped itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(JOIN_LIMIT)
            assert not self._thread.is_alive(), "the proxy did not stop"
        self._listener.close()

    @property
    def is_running(self) -> bool:
        """Whether it has not stopped."""
        return bool(self._thread and self._thread.is_alive())

    def seen(self, method: str) -> list[str]:
        """The targets of the requests with this method, in order."""
        return [line.split()[1] for line, _ in self.requests if line.startswith(f"{method} ")]

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            tasks.add(task)
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError, ValueError), contextlib.closing(writer):
                await self._converse(reader, writer)
            tasks.discard(task)

        server = await asyncio.start_server(serve, sock=self._listener, backlog=1024)
        self._listening.set()
        await self._stopping.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        behind: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        try:
            while True:
                line, fields = await _head(reader)
                if self.stop_after is not None and len(self.requests) >= self.stop_after:
                    self._stopping.set()
                    return
                self.requests.append((line, fields))
                method, target, _ = line.split(" ")
                place = urlsplit(f"//{target}" if method == "CONNECT" else target)
                name = place.hostname or ""
                port = self.places.get(name, place.port or 80)
                wanted = f"Basic {base64.b64encode((self.login or '').encode()).decode()}"
                if self.login and fields.pop("proxy-authorization", None) != wanted:
                    await _refuse(writer, 407, "Proxy-Authenticate: Basic realm=x\r\n")
                elif name in self.statuses:
                    await _refuse(writer, self.statuses[name])
                elif method == "CONNECT":
                    upward = await asyncio.open_connection("127.0.0.1", port)
                    behind[port] = upward
                    writer.write(b"HTTP/1.0 200 Connection established\r\n\r\n")
                    await asyncio.gather(_pipe(reader, upward[1]), _pipe(upward[0], writer))
                    return
                else:
                    if port not in behind:
                        try:
                            behind[port] = await asyncio.open_connection("127.0.0.1", port)
                        except OSError:
                            await _refuse(writer, 502)
                            continue
                    path = f"{place.path or '/'}{'?' if place.query else ''}{place.query}"
                    lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items())]
                    behind[port][1].write("\r\n".join([*lines, "", ""]).encode("latin-1"))
                    await _pass_back(behind[port][0], writer)
                    if self.closes:
                        return
        finally:
            for _, upward_writer in behind.values():
                upward_writer.close()


async def _head(reader: asyncio.StreamReader) -> Head:
    """Reads a head: its first line, and its fields by their names in lower case."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    return lines[0], {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:-2])}


async def _refuse(writer: asyncio.StreamWriter, status: int, fields: str = "") -> None:
    writer.write(f"HTTP/1.1 {status} x\r\n{fields}Content-Length: 5\r\n\r\nproxy".encode())
    await writer.drain()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes on everything, and then the end."""
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


async def _pass_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes back one answer, which says how long it is."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(head)
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            writer.write(await reader.readexactly(int(value)))
    await writer.drain()
