"""Loopback ports that give no answer, each in its own way. Not here: ports with a server behind them."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator


def bound_socket(port: int = 0, address: str = "127.0.0.1") -> socket.socket:
    """Returns a socket bound to a loopback port and not listening: connections to it are refused.

    While it exists the kernel gives the port to no client, which might otherwise end up connected to itself.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((address, port))
    return sock


def reset_on_close(sock: socket.socket) -> None:
    """Makes the next `close` of this socket send a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses every connection."""
    with bound_socket() as sock:
        yield sock.getsockname()[1]


@contextlib.contextmanager
def black_hole(address: str = "127.0.0.1") -> Iterator[int]:
    """A port that answers nothing at all to a SYN, as behind a firewall that drops.

    The queue of a listening socket is filled and never emptied; Linux then drops every further SYN.
    """
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(bound_socket(address=address))
        sock.listen(0)
        for _ in range(64):  # far more than a queue of length 0 takes (it takes 1)
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.1)
            try:
                filler.connect(sock.getsockname())
            except TimeoutError:
                yield sock.getsockname()[1]
                return
        raise RuntimeError("this kernel does not drop a SYN when the queue is full")


@contextlib.contextmanager
def mute_port(address: str = "127.0.0.1") -> Iterator[int]:
    """A port that takes every connection and never answers a request."""
    with bound_socket(address=address) as sock:
        sock.listen(4096)  # the kernel completes these; nothing accepts them
        yield sock.getsockname()[1]
