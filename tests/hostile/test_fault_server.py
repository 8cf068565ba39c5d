"""The fault server itself does what it is told, byte for byte, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from hostile.oracle import numbered
from servers import faults
from servers.client import all_bytes, asking, connect, get
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer
from servers.ports import black_hole, closed_port, reset_on_close
from waiting import wait_until


def test_left_alone_it_lists_and_serves_every_object(fault_server: MakeServer) -> None:
    objects = {**numbered(5), "a b/%2e/日本語": b"odd"}
    server = fault_server(objects)
    server.page_size = 4
    server.start()
    names, target = [], "/list"
    while True:
        code, body = get(server, target)
        assert code == 200
        names += json.loads(body)["FileNames"]
        if (token := json.loads(body).get("NextMarker")) is None:
            break
        target = f"/list?next-marker={token}"
    assert names == list(objects)
    assert get(server, "/get/plain-0003") == (200, objects["plain-0003"])
    assert get(server, "/get/a%20b/%252e/%E6%97%A5%E6%9C%AC%E8%AA%9E") == (200, b"odd")
    assert get(server, "/get/absent")[0] == 404
    assert get(server, "/list?next-marker=page-9")[0] == 400
    assert server.fetched() == ["plain-0003", "a b/%2e/日本語", "absent"]
    assert server.listed() == [None, "page-1", "page-9"]


def test_requests_on_one_connection_are_answered_in_order_even_when_sent_at_once(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"}).start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(b"GET /get/a HTTP/1.1\r\n\r\nGET /get/b HTTP/1.1\r\n\r\n")
        received = b""
        while not received.endswith(b"2"):
            received += sock.recv(1000)
    assert [request.connection for request in server.requests] == [0, 0]
    assert received.index(b"\r\n\r\n1") < received.index(b"\r\n\r\n2")


@pytest.mark.parametrize("after", [0, 1, 50, 100])
@pytest.mark.parametrize("then", ["fin", "rst"])
def test_it_closes_after_exactly_the_bytes_it_was_told_to_send(
    fault_server: MakeServer, then: faults.Then, after: int
) -> None:
    server = fault_server({"a": bytes(100)})
    server.on_object("a", faults.cut_body(after, then))
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(b"GET /get/a HTTP/1.1\r\n\r\n")
        received, ended = b"", "fin"
        try:
            while piece := sock.recv(1000):
                received += piece
        except ConnectionResetError:
            ended = "rst"
    assert (len(received.partition(b"\r\n\r\n")[2]), ended) == (after, then)


def test_a_fault_counts_its_requests(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_object("a", faults.status(503), skip=1, times=2)
    server.start()
    assert [get(server, "/get/a")[0] for _ in range(5)] == [200, 503, 503, 200, 200]
    assert len(server.asked("a")) == len(server.connections) == 5


def test_a_fault_for_one_page_of_the_listing_leaves_the_others_alone(fault_server: MakeServer) -> None:
    server = fault_server(numbered(3))
    server.page_size = 1
    server.on_list(faults.status(500), page=0, times=1)
    server.on_list(faults.status(502), page=1)
    server.start()
    targets = ["/list", "/list", "/list?next-marker=page-1", "/list?next-marker=page-2"]
    assert [get(server, target)[0] for target in targets] == [500, 200, 502, 200]


@pytest.mark.parametrize("kind", ["refuse", "reset", "status"])
def test_it_goes_away_for_a_while_and_comes_back_on_the_same_port(fault_server: MakeServer, kind: str) -> None:
    server = fault_server({"a": b"1"})
    absence = server.go_away(0.3, kind, after_gets=2)  # type: ignore[arg-type] # one of the three, by the line above
    server.start()
    seen: list[object] = []
    deadline = time.monotonic() + 5
    while (not seen or seen[-1] != 200 or len(seen) < 3) and time.monotonic() < deadline:
        try:
            seen.append(get(server, "/get/a")[0])
        except OSError as error:
            seen.append(type(error))
        time.sleep(0.02)
    assert seen[0] == seen[-1] == 200
    between = set(seen[1:-1])
    assert between <= {500} if kind == "status" else between <= {ConnectionResetError, ConnectionRefusedError}
    assert absence.started is not None
    assert absence.ended is not None
    assert 0.3 <= absence.ended - absence.started < 1


def test_the_first_connections_can_be_dropped(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.drop_connections = 2
    server.start()
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            get(server, "/get/a")
    assert get(server, "/get/a") == (200, b"1")
    assert len(server.connections) == 3


def test_it_drips_stalls_and_never_ends_when_told_to(fault_server: MakeServer) -> None:
    server = fault_server({"drip": b"1234", "stall": b"1234", "endless": b""})
    sent: list[int] = []
    server.on_object("drip", faults.drip(0.05))
    server.on_object("stall", faults.cut_body(2, "hold"))
    server.on_object("endless", faults.endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000, sent=sent))
    server.start()
    before = time.monotonic()
    assert get(server, "/get/drip") == (200, b"1234")
    assert time.monotonic() - before >= 0.15
    for name, size in (("stall", 10), ("endless", 5000)):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock, sock.makefile("rb") as stream:
            sock.sendall(f"GET /get/{name} HTTP/1.1\r\n\r\n".encode())
            assert len(stream.read(size)) == size
    server.stop()
    assert len(sent) == 1
    assert sent[0] >= 5000


def test_a_body_without_length_ends_with_the_connection(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1234"})
    server.on_object("a", faults.headers({}, then="fin"))
    server.start()
    assert all_bytes(server, "/get/a").endswith(b"\r\n\r\n1234")


def test_stopping_leaves_no_thread_and_no_port(tmp_path: Path) -> None:
    for _ in range(20):
        server = FaultServer({"a": b"1"})
        server.on_object("a", faults.cut_body(0, "hold"))
        with server, socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            sock.sendall(b"GET /get/a HTTP/1.1\r\n\r\n")
            assert sock.recv(10)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
    assert not [thread for thread in threading.enumerate() if thread.name == "fault-server"]


def test_a_mistake_in_a_fault_is_not_swallowed() -> None:
    server = FaultServer({})
    server.on_any(faults.cut_body(0, "fin"))  # there is no object to cut
    server.start()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        get(server, "/get/a")
    with pytest.raises(ExceptionGroup, match="faults went wrong"):
        server.stop()


@pytest.mark.parametrize("then", ["fin", "rst", "hold"])
def test_a_client_that_resets_its_connection_is_no_mistake_of_a_fault(
    fault_server: MakeServer, then: faults.Then
) -> None:
    server, over = fault_server({"a": b"1"}), threading.Event()

    async def when_the_client_is_gone(exchange: Exchange) -> None:
        await exchange.conversation.peer_gone.wait()
        over.set()
        await faults.end(exchange, then)

    server.on_object("a", when_the_client_is_gone)
    server.start()
    with connect(server) as sock:
        sock.sendall(asking("a"))
        wait_until(lambda: len(server.asked("a")) == 1)
        reset_on_close(sock)
    assert over.wait(5)
    server.stop()  # raises what went wrong


def test_a_closed_port_refuses_and_a_black_hole_does_not_answer() -> None:
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    with black_hole() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.3)
