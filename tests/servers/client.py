"""A plain client of the fault server, for the tests of the server itself."""

from __future__ import annotations

import http.client
import socket

from servers.fault_server import FaultServer


def get(server: FaultServer, target: str) -> tuple[int, bytes]:
    """Asks once, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def connect(server: FaultServer) -> socket.socket:
    """Returns a connection; the caller closes it."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=5)


def asking(*names: str, prefix: str = "id") -> bytes:
    """Returns requests for these objects, with ids that count from 1."""
    lines = "GET /get/{} HTTP/1.1\r\nShoal-Request-Id: {}-{}\r\n\r\n"
    return "".join(lines.format(name, prefix, number) for number, name in enumerate(names, 1)).encode()


def all_bytes(server: FaultServer, target: str) -> bytes:
    """Asks once and reads until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while piece := sock.recv(1 << 16):
            received += piece
        return received
