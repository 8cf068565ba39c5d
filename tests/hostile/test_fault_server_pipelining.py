"""The fault server with requests sent ahead: what it echoes, counts, forges, cuts and leaves unanswered."""

from __future__ import annotations

import re
import time

import pytest

from hostile.oracle import numbered
from servers import faults, pipeline_faults
from servers.client import asking, connect, get
from servers.fault_server import CLOSE_GRACE, Exchange, Fault, FaultServer
from servers.fixtures import MakeServer, with_and_without_echo
from waiting import wait_until


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
            wait_until(lambda: bool(server.asked("a")))
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
