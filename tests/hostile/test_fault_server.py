"""The fault server itself does what it is told, byte for byte, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from hostile.oracle import numbered, until
from servers import faults, pipeline_faults
from servers.fault_server import CLOSE_GRACE, Exchange, Fault, FaultServer
from servers.fixtures import MakeServer, with_and_without_echo
from servers.ports import black_hole, closed_port, reset_on_close


def get(server: FaultServer, target: str) -> tuple[int, bytes]:
    """Asks once, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def all_bytes(server: FaultServer, target: str) -> bytes:
    """Asks once and reads until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while piece := sock.recv(1 << 16):
            received += piece
        return received


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
        until(lambda: len(server.asked("a")) == 1)
        reset_on_close(sock)
    assert over.wait(5)
    server.stop()  # raises what went wrong


def test_a_closed_port_refuses_and_a_black_hole_does_not_answer() -> None:
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    with black_hole() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.3)


# Requests sent ahead


def connect(server: FaultServer) -> socket.socket:
    """Returns a connection; the caller closes it."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=5)


def asking(*names: str, prefix: str = "id") -> bytes:
    """Returns requests for these objects, with ids that count from 1."""
    lines = "GET /get/{} HTTP/1.1\r\nShoal-Request-Id: {}-{}\r\n\r\n"
    return "".join(lines.format(name, prefix, number) for number, name in enumerate(names, 1)).encode()


def ahead(server: FaultServer, *names: str, ends: bytes | None = None) -> bytes:
    """Asks for objects one, and then the others at once; returns what came until `ends`, or until it closed."""
    received = b""
    with connect(server) as sock:
        first, *others = asking(*names).split(b"\r\n\r\n")
        try:
            sock.sendall(first + b"\r\n\r\n")
            received += sock.recv(1 << 16)
            sock.sendall(b"\r\n\r\n".join(others))
            while (ends is None or not received.endswith(ends)) and (piece := sock.recv(1 << 16)):
                received += piece
        except ConnectionResetError:
            received += b"RST"
    return received


def ids_and_bodies(received: bytes) -> list[tuple[str, bytes]]:
    """Returns the echo and the body of every answer; all bodies have the length that their head says."""
    found = []
    while received.startswith(b"HTTP/1."):
        start, _, received = received.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in start.decode("latin-1").split("\r\n")[1:])
        size = int(fields["Content-Length"])
        found.append((fields.get("Shoal-Request-Id", ""), received[:size]))
        received = received[size:]
    return [*found, ("rest", received)] if received else found


@with_and_without_echo
def test_ids_are_echoed_if_they_are_to_be_and_sent(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"})
    server.on_object("b", faults.raw(b"HTTP/1.1 200 OK\r\n" + faults.ECHO + b"Content-Length: 1\r\n\r\n2"))
    server.start()
    ids = ["id-1", "id-2", "id-3"] if server.echo else ["", "", ""]
    assert ids_and_bodies(ahead(server, "a", "b", "c", ends=b"object")) == list(
        zip(ids, [b"1", b"2", b"no such object"], strict=True)
    )
    assert b"Shoal-Request-Id" not in b"".join(asked_plainly(server))


def asked_plainly(server: FaultServer) -> list[bytes]:
    """Returns what comes of a request without id."""
    with connect(server) as sock:
        sock.sendall(b"GET /get/a HTTP/1.1\r\n\r\n")
        return [sock.recv(1 << 16)]


def test_echoes_can_be_anything(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"})
    server.echo = lambda request: [f"{request.id}!", "x"] if request.name == "b" else []
    server.start()
    received = ahead(server, "a", "b", ends=b"2")
    assert received.count(b"Shoal-Request-Id") == 2
    assert b"Shoal-Request-Id: id-2!\r\nShoal-Request-Id: x\r\n" in received


def test_it_counts_what_is_unanswered_at_once_on_a_connection(fault_server: MakeServer) -> None:
    objects = numbered(9)
    server = fault_server(objects)
    server.batching = 0.05
    server.start()
    get(server, "/get/plain-0000")
    ahead(server, *objects, ends=objects["plain-0008"])
    with connect(server) as sock:  # one at a time
        for name in objects:
            sock.sendall(asking(name))
            assert sock.recv(1 << 16).endswith(objects[name])
    assert server.depths == {0: 1, 1: 8, 2: 1}
    assert server.depth == 8
    assert server.twice_at_once == []
    assert [request.id for request in server.received[1:10]] == [f"id-{number}" for number in range(1, 10)]


def test_it_sees_an_object_asked_for_while_an_answer_is_due_elsewhere(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2", "c": b"3"})
    server.on_object("a", faults.cut_head(0, "hold"), times=1)
    server.start()
    with connect(server) as first:
        first.sendall(asking("a", "b"))
        assert get(server, "/get/c") == (200, b"3")
        assert server.twice_at_once == []
        assert get(server, "/get/b") == (200, b"2")
        assert get(server, "/get/a") == (200, b"1")
        time.sleep(2 * CLOSE_GRACE)
        assert len(server.twice_at_once) == 2
    assert len(server.twice_at_once) == 2


def test_an_object_asked_for_again_after_a_close_is_not_asked_for_twice_at_once(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"})
    server.on_object("a", faults.cut_head(0, "hold"), times=1)
    server.on_object("a", faults.cut_head(0, "rst"), times=2)
    server.start()
    for _ in range(2):
        with connect(server) as sock:
            sock.sendall(asking("a", "b"))
            until(lambda: bool(server.asked("a")))
    assert get(server, "/get/b") == (200, b"2")
    time.sleep(2 * CLOSE_GRACE)
    assert server.twice_at_once == []


def test_the_same_object_twice_on_one_connection_is_seen(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"}).start()
    with connect(server) as sock:
        sock.sendall(asking("a", "a"))
        assert sock.recv(1 << 16)
    assert len(server.twice_at_once) == 1


def test_answers_change_places(fault_server: MakeServer) -> None:
    expected = {
        (pipeline_faults.swapped, False): ["id-1 1", "id-2 2", "id-4 4", "id-3 3"],
        (pipeline_faults.backwards, False): ["id-1 1", "id-4 4", "id-3 3", "id-2 2"],
        (pipeline_faults.swapped, True): ["id-1 1", "id-2 2", "id-3 4", "id-4 3"],
        (pipeline_faults.backwards, True): ["id-1 1", "id-2 4", "id-3 3", "id-4 2"],
    }
    for (order, forged), answers in expected.items():
        server = fault_server({"a": b"1", "b": b"2", "c": b"3", "d": b"4"})
        server.batching = 0.05
        server.on_objects(pipeline_faults.reordered(order, 8, forged=forged))
        server.start()
        with connect(server) as sock:
            sock.sendall(asking("a", "b", "c", "d").split(b"\r\n\r\n")[0] + b"\r\n\r\n")
            received = sock.recv(1 << 16)
            sock.sendall(asking("a", "b", "c", "d").split(b"\r\n\r\n", 1)[1])
            received += sock.recv(1 << 16)  # one piece
        assert [f"{echo} {body.decode()}" for echo, body in ids_and_bodies(received)] == answers


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (pipeline_faults.close_after_every(2, "fin"), [("id-1", b"1"), ("id-2", b"2")]),
        (pipeline_faults.close_after_every(2, "rst"), [("id-1", b"1"), ("id-2", b"2"), ("rest", b"RST")]),
        (pipeline_faults.cut_everywhere(0, 2, "fin", []), [("id-1", b"1"), ("id-2", b"2")]),
        (pipeline_faults.cut_everywhere(0, 2, "rst", []), [("id-1", b"1"), ("id-2", b"2"), ("rest", b"RST")]),
    ],
)
def test_what_is_behind_a_close_is_never_answered(
    fault_server: MakeServer, fault: Fault, expected: list[tuple[str, bytes]]
) -> None:
    server = fault_server({"a": b"1", "b": b"2", "c": b"3"})
    server.on_objects(fault)
    server.start()
    assert ids_and_bodies(ahead(server, "a", "b", "c")) == expected


def test_every_cut_is_one_byte_further(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"})
    cut: list[int] = []
    server.on_objects(pipeline_faults.cut_everywhere(20, 1, "fin", cut))
    server.start()
    lengths = [len(ahead(server, "a", "b")) for _ in range(21)]
    assert lengths == list(range(lengths[0], lengths[0] + 21))
    assert cut == list(range(21))
    assert ids_and_bodies(ahead(server, "a", "b", ends=b"2"))[1] == ("id-2", b"2")


def test_a_forged_answer_comes_behind_a_right_one(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2"})
    server.on_object("b", pipeline_faults.surplus(lambda request: [f"{request.id}0"]))
    server.start()
    answers = ids_and_bodies(ahead(server, "a", "b", ends=b"poison"))
    assert answers == [("id-1", b"1"), ("id-2", b"2"), ("id-20", b"poison")]


def test_harm_meant_for_pipelines_spares_single_requests(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2", "c": b"3"})
    server.batching = 0.05
    hit: list[str] = []
    server.on_objects(pipeline_faults.ahead(faults.cut_head(0, "fin"), hit))
    server.start()
    assert get(server, "/get/b") == (200, b"2")
    assert ids_and_bodies(ahead(server, "a", "b", "c")) == [("id-1", b"1")]
    assert hit == ["b"]
    assert ids_and_bodies(ahead(server, "a", "b", ends=b"2"))[1] == ("id-2", b"2")


def test_framing_and_pieces_are_as_they_are_told_to_be(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"22", "c": b"333"})
    server.on_object("b", pipeline_faults.framed(b"HTTP/1.0 200 OK", chunk=1, interim=b"HTTP/1.1 100 C\r\n\r\n"))
    server.on_object("c", pipeline_faults.byte_by_byte())
    server.start()
    received = ahead(server, "a", "b", "c", ends=b"333")
    assert b"1HTTP/1.1 100 C\r\n\r\nHTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n" in received
    assert b"Shoal-Request-Id: id-2\r\n\r\n1\r\n2\r\n1\r\n2\r\n0\r\n\r\nHTTP/1.1 200 Because\r\n" in received


def test_a_fault_that_answers_for_others_leaves_none_of_them_unanswered(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1", "b": b"2", "c": b"3"})
    server.batching = 0.05
    taken: list[str | None] = []

    async def all_at_once(exchange: Exchange) -> None:
        batch = await pipeline_faults.batch(exchange, 10)
        taken.extend(one.request.name for one in batch)
        await exchange.send(b"".join([one.healthy_bytes() for one in batch]))

    server.on_objects(all_at_once)
    server.start()
    ahead(server, "a", "b", "c", ends=b"3")
    assert taken == server.fetched() == ["a", "b", "c"]
    assert get(server, "/get/b") == (200, b"2")
    assert server.twice_at_once == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("close", {b"", b"RST"}),
        ("close behind", {b"<id-1>1", b"<id-1>1RST"}),
        ("no echo", {b"1"}),
        ("delay", {b"<id-1>1"}),
        ("swap", {b"<id-2>2<id-1>1"}),
        ("poison", {b"<id-1>1<id-1>poison"}),
    ],
)
def test_harm_at_random_is_what_its_name_says(fault_server: MakeServer, kind: str, expected: set[bytes]) -> None:
    ways = set()
    for seed in range(10):
        server = fault_server({"a": b"1", "b": b"2"})
        server.batching = 0.01
        server.on_object("a", pipeline_faults.at_random(seed, 1, [kind]))
        server.on_object("b", faults.cut_head(0, "fin"))
        server.start()
        received = b""
        with connect(server) as sock:
            sock.sendall(asking("a", "b"))
            try:
                while (piece := sock.recv(1 << 16)) and not received.endswith(b"poison"):
                    received += piece
                    if kind == "swap":
                        break
            except ConnectionResetError:
                received += b"RST"
        server.stop()
        short = re.sub(rb"HTTP/1.1 .*?(?:Shoal-Request-Id: ([^\r]*))?\r\n\r\n", shown_id, received, flags=re.DOTALL)
        ways.add(short)
    assert ways == expected


def shown_id(answer: re.Match[bytes]) -> bytes:
    """Returns the echo in angle brackets, in place of a head."""
    return b"<" + answer[1] + b">" if answer[1] else b""


def test_cuts_at_random_are_at_different_places(fault_server: MakeServer) -> None:
    places = set()
    for seed in range(20):
        server = fault_server({"a": b"1" * 100})
        server.on_object("a", pipeline_faults.at_random(seed, 1, ["cut"]))
        server.start()
        places.add(len(ahead(server, "a")))
    assert len(places) > 10


def test_harm_at_random_spares_as_many_as_it_is_told_to(fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_object("a", pipeline_faults.at_random(1, 0.2, ["no echo"]))
    server.start()
    with connect(server) as sock, sock.makefile("rb") as stream:
        sock.sendall(b"GET /get/a HTTP/1.1\r\nShoal-Request-Id: x\r\n\r\n" * 500)
        received = b""
        while received.count(b"\r\n\r\n1") < 500:
            received += stream.read1()
    assert 350 < received.count(b"Shoal-Request-Id: x") < 450
