"""Answers whose length, framing, status or content lies: rows N5, N6, N10, N11 and N18."""

from __future__ import annotations

import gzip

import pytest

import shoal as package
from hostile.oracle import LIBRARIES, Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import Fault, head
from servers.fixtures import MakeServer, with_and_without_echo

BODY = bytes(range(250)) * 4
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
MALFORMED = {"protocol", "short-body"}
MEMORY = (
    300 << 20
) - LIBRARIES  # bytes: Python, the engine and its default budget stay below; a body that is kept whole does not


# Row N5: lengths


def lying_lengths() -> dict[str, Fault]:
    """Returns heads whose length is not the body's, or not a length at all."""
    framed = faults.chunk(BODY) + b"0\r\n\r\n"
    clear = {
        "two-lengths": b"Content-Length: 1000\r\nContent-Length: 999\r\n",
        "two-in-one": b"Content-Length: 1000, 999\r\n",
        "plus": b"Content-Length: +1000\r\n",
        "minus": b"Content-Length: -1000\r\n",
        "hexadecimal": b"Content-Length: 0x3e8\r\n",
        "no-digits": b"Content-Length: \r\n",
        "beyond-64-bits": b"Content-Length: 18446744073709552616\r\n",
    }
    answers = {
        name: faults.raw(b"HTTP/1.1 200 OK\r\n" + faults.ECHO + lines + b"\r\n" + BODY) for name, lines in clear.items()
    }
    both = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nTransfer-Encoding: chunked\r\n\r\n"
    return {**answers, "length-and-chunked": faults.raw(faults.echoing(both) + framed)}


@with_and_without_echo
def test_an_impossible_length_is_refused(shoal_command: Shoal, fault_server: MakeServer) -> None:
    broken = lying_lengths()
    server = fault_server({**dict.fromkeys(broken, BODY), **numbered(20)})
    for name, fault in broken.items():
        server.on_object(name, fault)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, numbered(20), dict.fromkeys(broken, "protocol"))


@with_and_without_echo
def test_an_impossible_length_is_tried_again_on_a_fresh_connection(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    broken = lying_lengths()
    objects = {**dict.fromkeys(broken, BODY), **numbered(20)}
    server = fault_server(objects)
    for name, fault in broken.items():
        server.on_object(name, fault, times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    for name in broken:
        first, second = server.asked(name)
        assert first.connection != second.connection


def test_more_bytes_than_announced_never_become_another_object(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"long": BODY, **numbered(20)})
    server.on_object("long", faults.raw(faults.echoing(head(200, {"Content-Length": "1000"})) + BODY + POISON))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1", "--workers", "1")
    # Whether the surplus is seen in time to doubt the object itself is left open; its own bytes are right.
    if outcome.code == 0:
        assert_arrived(outcome, {"long": BODY, **numbered(20)})
    else:
        assert_arrived(outcome, numbered(20), {"long": MALFORMED})
    used = {request.connection for request in server.asked("long")}
    for connection in used:
        last = [request for request in server.requests if request.connection == connection][-1]
        assert last.name == "long", "nothing is asked on a connection that sent too much"


@with_and_without_echo
def test_a_body_longer_than_announced_is_doubted(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"once": BODY, "always": BODY, **numbered(20)})
    longer = faults.raw(faults.echoing(head(200, {"Content-Length": "990"})) + BODY)
    server.on_object("once", longer, times=1)
    server.on_object("always", longer)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, {"once": BODY, **numbered(20)}, {"always": MALFORMED})


def test_a_huge_announced_length_reserves_no_memory(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"huge": BODY, **numbered(20)})
    server.on_object("huge", faults.raw(faults.echoing(head(200, {"Content-Length": str(1 << 60)})) + BODY, then="fin"))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, numbered(20), {"huge": {"disconnected", "short-body", "too-large"}})
    assert outcome.peak < MEMORY


def test_a_body_without_length_is_kept_and_counted_as_unverified(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = {"http-1.0": BODY, "http-1.1": BODY, "large": BODY * 300, "empty": b"", **numbered(10)}
    server = fault_server(objects)
    old = b"HTTP/1.0 200 OK\r\n" + faults.ECHO + b"\r\n"
    server.on_object("http-1.0", faults.raw(old + BODY, then="fin"))
    for name in ("http-1.1", "large", "empty"):
        server.on_object(name, faults.headers({"Connection": "close"}, then="fin"))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects)
    assert outcome.report["unverified"] == 4


def test_a_body_without_length_fails_where_a_length_is_required(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = {"http-1.0": BODY, "close": BODY, "chunked": BODY, "empty": b"", **numbered(10)}
    server = fault_server(objects)
    server.on_object("http-1.0", faults.raw(b"HTTP/1.0 200 OK\r\n" + faults.ECHO + b"\r\n" + BODY[:500], then="fin"))
    server.on_object("close", faults.headers({"Connection": "close"}, then="fin"))
    chunked = faults.echoing(head(200, {"Transfer-Encoding": "chunked"}))
    server.on_object("chunked", faults.raw(chunked + b"3e8\r\n" + BODY + b"\r\n0\r\n\r\n", then="fin"))
    server.start()
    outcome = shoal_command.copy(server, "--require-length")
    whole = {name: body for name, body in objects.items() if name not in ("http-1.0", "close")}
    assert_arrived(outcome, whole, {"http-1.0": {"integrity"}, "close": {"integrity"}})
    assert outcome.report["unverified"] == 0

    urls = package.urls([f"http://127.0.0.1:{server.port}/get/{name}" for name in objects], require_length=True)
    report = package.copy(urls, "null:", on_error="record")
    assert (report.written, report.failed, report.unverified) == (12, 2, 0)
    assert {failure.kind for failure in report.failures} == {"integrity"}
    assert "does not say how long it is" in report.failures[0].reason


def test_a_body_without_length_that_ends_in_a_reset_is_not_whole(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"once": BODY, "always": BODY, **numbered(10)})
    reset = faults.raw(faults.echoing(head(200, {})) + BODY[:500], then="rst")
    server.on_object("once", reset, times=1)
    server.on_object("always", reset)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, {"once": BODY, **numbered(10)}, {"always": {"disconnected", "short-body"}})
    assert outcome.report["unverified"] == 0


def test_an_http_1_0_answer_with_a_length_is_verified(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"old": BODY, **numbered(10)})
    server.on_object(
        "old", faults.raw(faults.echoing(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n") + BODY, then="fin")
    )
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {"old": BODY, **numbered(10)})
    assert outcome.report["unverified"] == 0


# Row N6: chunks


def broken_chunks() -> dict[str, Fault]:
    """Returns chunked answers that are not."""
    whole = faults.chunk(BODY)
    endings = {
        "no-last-chunk": (whole,),
        "no-last-line": (whole, b"0\r\n"),
        "no-chunk": (),
        "cut-in-a-chunk": (whole[:500],),
        "size-not-a-number": (b"zz\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-empty": (b"\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-negative": (b"-3e8\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-with-prefix": (b"0x3e8\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-beyond-64-bits": (b"1000000000000003e8\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-too-small": (b"3e0\r\n", BODY, b"\r\n0\r\n\r\n"),
        "size-too-large": (b"3f0\r\n", BODY, b"\r\n0\r\n\r\n"),
    }
    return {name: faults.chunked(*pieces, then="fin") for name, pieces in endings.items()}


@with_and_without_echo
def test_broken_chunks_are_tried_again_and_then_fail(shoal_command: Shoal, fault_server: MakeServer) -> None:
    broken = broken_chunks()
    server = fault_server({**numbered(30), **dict.fromkeys(broken, BODY)})
    for name, fault in broken.items():
        server.on_object(name, fault)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, numbered(30), dict.fromkeys(broken, MALFORMED | {"disconnected"}))


@with_and_without_echo
def test_broken_chunks_once_do_no_harm(shoal_command: Shoal, fault_server: MakeServer) -> None:
    broken = broken_chunks()
    objects = {**numbered(30), **dict.fromkeys(broken, BODY)}
    server = fault_server(objects)
    for name, fault in broken.items():
        server.on_object(name, fault, times=1)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


def test_lawful_chunks_arrive_and_count_as_verified(shoal_command: Shoal, fault_server: MakeServer) -> None:
    last = b"0\r\n\r\n"
    tiny = b"".join(faults.chunk(BODY[at : at + 1]) for at in range(1000))
    answers = {
        "one": (faults.chunk(BODY), last),
        "tiny": (tiny, last),
        "extension": (faults.chunk(BODY, b';name="value"'), b"0;last\r\n\r\n"),
        "trailer": (faults.chunk(BODY), b"0\r\nX-Checksum: 1\r\n\r\n"),
        "zeros": (b"00003E8\r\n", BODY, b"\r\n000\r\n\r\n"),
    }
    objects = {**dict.fromkeys(answers, BODY), "empty": b"", **numbered(10)}
    server = fault_server(objects)
    for name, pieces in answers.items():
        server.on_object(name, faults.chunked(*pieces))
    server.on_object("empty", faults.chunked(last))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, objects)
    assert outcome.report["unverified"] == 0


def test_giant_extensions_and_endless_trailers_are_cut_off(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"extension": BODY, "trailer": BODY, "size": BODY, **numbered(10)})
    start = faults.echoing(head(200, {"Transfer-Encoding": "chunked"}))
    sent: list[int] = []
    server.on_object("extension", faults.endless(start + b"3e8;", b"x" * 65536, sent=sent))
    server.on_object("size", faults.endless(start, b"0" * 65536, sent=sent))
    trailer = start + faults.chunk(BODY) + b"0\r\n"
    server.on_object("trailer", faults.endless(trailer, b"X-Filler: x\r\n" * 5000, sent=sent))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, numbered(10), dict.fromkeys(["extension", "size", "trailer"], "protocol"))
    assert outcome.seconds < 10
    assert sum(sent) < 48 << 20  # bytes, three times: what the kernel's buffers take is sent, read or not


# Row N10: something else than the object, under status 200


WRONG_CONTENT = {
    "xml": (b"<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>", "application/xml"),
    "html": (b"<html><form>please log in</form></html>", "text/html; charset=utf-8"),
    "json": (b'{"error": "try later"}', "application/json"),
    "no-type": (BODY, None),
}


def test_an_answer_of_another_type_than_expected_is_never_saved(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({**dict.fromkeys(WRONG_CONTENT, BODY), **numbered(10)})
    for name, (body, content_type) in WRONG_CONTENT.items():
        server.on_object(name, faults.status(200, body, {"Content-Type": content_type} if content_type else {}))
    server.start()
    outcome = shoal_command.copy(server, "--expect-type", "application/octet-*")
    assert_arrived(outcome, numbered(10), dict.fromkeys(WRONG_CONTENT, "unexpected-type"))
    assert all(len(server.asked(name)) == 1 for name in WRONG_CONTENT)
    assert "text/html" in outcome.stderr


def test_where_no_type_is_expected_any_type_but_html_is_the_object(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    # A page in place of an object fails, or stops the run (`test_stops_giving.py`).
    objects = {name: body for name, (body, _) in WRONG_CONTENT.items() if name != "html"}
    server = fault_server(objects)
    for name in objects:
        body, content_type = WRONG_CONTENT[name]
        server.on_object(name, faults.status(200, body, {"Content-Type": content_type} if content_type else {}))
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


def test_an_expected_type_is_compared_without_case_and_parameters(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"image": BODY})
    server.on_object("image", faults.status(200, BODY, {"content-type": "IMAGE/png; charset=x"}))
    server.start()
    assert_arrived(shoal_command.copy(server, "--expect-type", "image/*"), {"image": BODY})


# Row N11: and other statuses that are not the object


@with_and_without_echo
def test_every_status_has_its_consequence(shoal_command: Shoal, fault_server: MakeServer) -> None:
    permanent = {
        "201-created": "bad-answer",
        "204-nothing": "bad-answer",
        "206-part": "bad-answer",
        "304-unchanged": "bad-answer",
        "400-bad": "bad-answer",
        "403-forbidden": "forbidden",
        "404-gone": "vanished",
        "410-gone": "vanished",
        "416-range": "bad-answer",
        "418-teapot": "bad-answer",
    }
    again = {"408-slow": "server-error", "429-wait": "throttled", "500-broken": "server-error", "503-busy": "throttled"}
    server = fault_server({**dict.fromkeys([*permanent, *again], BODY), **numbered(20)})
    for name in (*permanent, *again):
        code = int(name[:3])
        bodiless = faults.raw(faults.echoing(head(code, {})))
        part = faults.status(206, BODY[:10], {"Content-Range": "bytes 0-9/1000"})
        server.on_object(name, bodiless if code in (204, 304) else part if code == 206 else faults.status(code))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, numbered(20), permanent | again)
    assert {name: len(server.asked(name)) for name in permanent} == dict.fromkeys(permanent, 1)
    assert {name: len(server.asked(name)) for name in again} == dict.fromkeys(again, 2)
    for failure in outcome.report["failures"]:
        assert failure["name"][:3] in failure["reason"], failure  # the status is part of the cause
    assert not [request for request in server.requests if "range" in request.headers]


def test_a_refusal_of_credentials_ends_the_run_at_once(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(500)
    server = fault_server(objects)
    server.on(lambda request: request.name is not None, faults.status(401), skip=50)
    server.start()
    outcome = shoal_command.copy(server)
    assert_stopped(outcome, "credentials", "401", manifest=objects)
    assert len(server.fetched()) < 100


def test_status_lines_that_are_not_http_are_refused(shoal_command: Shoal, fault_server: MakeServer) -> None:
    lines = {
        "other-protocol": b"ICY 200 OK",
        "version-9": b"HTTP/9.9 200 OK",
        "no-status": b"HTTP/1.1",
        "two-digits": b"HTTP/1.1 20 OK",
        "letters": b"HTTP/1.1 2oo OK",
        "switching": b"HTTP/1.1 101 Switching Protocols",
        "binary": bytes(range(1, 200)),
    }
    server = fault_server({**numbered(20), **dict.fromkeys(lines, BODY)})
    for name, line in lines.items():
        server.on_object(
            name, faults.raw(faults.echoing(line + b"\r\nContent-Length: 1000\r\n\r\n") + BODY, then="fin")
        )
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, numbered(20), dict.fromkeys(lines, ("protocol", "bad-answer")))


def test_interim_answers_are_passed_over_but_not_for_ever(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"hints": BODY, "endless": BODY, **numbered(10)})
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    server.on_object("hints", faults.raw(interim + faults.echoing(head(200, {"Content-Length": "1000"})) + BODY))
    server.on_object("endless", faults.endless(b"", interim * 100))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {"hints": BODY, **numbered(10)}, {"endless": {"protocol", "timeout"}})
    assert outcome.seconds < 10


# Row N18: bombs


def test_compressed_bodies_are_not_asked_for(shoal_command: Shoal, fault_server: MakeServer) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    server = fault_server({"bomb": bomb, **numbered(10)})
    server.on_object("bomb", faults.headers({"Content-Encoding": "gzip, gzip", "Content-Length": str(len(bomb))}))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, numbered(10), {"bomb": "unsupported"})
    assert {request.headers.get("accept-encoding") for request in server.requests} == {"identity"}
    assert outcome.peak < MEMORY


def test_a_compressed_listing_is_an_error_not_a_bomb(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({})
    server.on_list(faults.status(200, gzip.compress(bytes(256 << 20)), {"Content-Encoding": "gzip"}))
    server.start()
    outcome = shoal_command.copy(server)
    assert_stopped(outcome, "listing", "/list")
    assert outcome.peak < MEMORY


@pytest.mark.parametrize("code", [302, 404, 500])
def test_of_an_error_body_only_the_beginning_is_read(shoal_command: Shoal, fault_server: MakeServer, code: int) -> None:
    server = fault_server({"endless": BODY, "drip": BODY, **numbered(20)})
    start = faults.echoing(
        head(code, {"Content-Length": str(1 << 40), "Location": "http://other.example/", "Content-Encoding": "gzip"})
    )
    sent: list[int] = []
    server.on_object("endless", faults.endless(start, bytes(65536), sent=sent))
    server.on_object("drip", faults.endless(start, b"x", 0.1))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    kind = {302: "bad-answer", 404: "vanished", 500: "server-error"}[code]
    # Of the one that drips, the status or the silence may be named as the cause.
    assert_arrived(outcome, numbered(20), {"endless": kind, "drip": {kind, "timeout"}})
    assert outcome.seconds < 10
    assert sum(sent) < 16 << 20  # bytes: what the kernel's buffers take is sent, whether it is read or not
    assert outcome.peak < MEMORY
