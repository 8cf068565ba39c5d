"""Answers with a content encoding that was not asked for: undone and checked where that is possible, else a failure.

What is called after its encoding is kept as it was sent, and so is everything if the user says so.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal as package
from hostile.oracle import LIBRARIES, Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import Exchange, Fault
from servers.fixtures import MakeServer, with_and_without_echo
from servers.url_server import Answer, UrlServer
from trees import tree

MEMORY = (128 << 20) - LIBRARIES  # bytes
TEXT = b"".join(b"line %d\n" % number for number in range(40_000))  # compresses
NOISE = random.Random(8).randbytes(300_000)  # does not


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "GZip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
}


def encoded(coding: str, packed: bytes, *, chunk: int = 0, kind: str = "application/octet-stream") -> Fault:
    async def fault(exchange: Exchange) -> None:
        fields = {"Content-Encoding": coding, "ETag": '"one"', "Content-Type": kind}
        if not chunk:
            await exchange.answer(200, packed, fields)
            return
        pieces = [faults.chunk(packed[at : at + chunk]) for at in range(0, len(packed), chunk)]
        start = exchange.head(200, {**fields, "Transfer-Encoding": "chunked"})
        await exchange.send(start + b"".join(pieces) + b"0\r\n\r\n")

    return fault


@with_and_without_echo
@pytest.mark.parametrize("chunk", [0, 5_000])
@pytest.mark.parametrize("coding", PACKED)
def test_an_encoding_that_was_not_asked_for_is_undone(
    shoal_command: Shoal, fault_server: MakeServer, coding: str, chunk: int
) -> None:
    objects = {**numbered(20), "empty": b"", "text": TEXT, "noise": NOISE}
    server = fault_server(objects)
    for name in ("plain-0003", "plain-0009", "empty", "text", "noise"):
        server.on_object(name, encoded(coding, PACKED[coding](objects.get(name, b"")), chunk=chunk))
    objects = {name: data for name, data in objects.items() if name in server.objects}
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects)
    notes = [note for note in outcome.report["notes"] if "encod" in note]
    assert len(notes) == 1, "that they were decoded is said once"
    assert coding.lower().removeprefix("x-") in notes[0], notes


def damaged(packed: bytes, at: int) -> bytes:
    return packed[:at] + bytes([packed[at] ^ 1]) + packed[at:][1:]


@with_and_without_echo
@pytest.mark.parametrize("size", [100, 400_000])
def test_an_encoded_body_that_does_not_check_out_is_no_object(
    shoal_command: Shoal, fault_server: MakeServer, size: int
) -> None:
    data = TEXT[:size]
    packed, zipped = gzip.compress(data), zlib.compress(data)
    bad = {
        "crc": ("gzip", damaged(packed, len(packed) - 8)),
        "length": ("gzip", damaged(packed, len(packed) - 1)),
        "cut": ("gzip", packed[:-9]),
        "cut-in-the-checksum": ("gzip", packed[:-3]),
        "behind": ("gzip", packed + b"more"),
        "nothing": ("gzip", b""),
        "none": ("gzip", data),
        "adler": ("deflate", damaged(zipped, len(zipped) - 1)),
        "cut-zlib": ("deflate", zipped[:-5]),
        "cut-raw": ("deflate", raw_deflate(data)[:-1]),
    }
    server = fault_server({**numbered(10), **dict.fromkeys(bad, data)})
    for name, (coding, body) in bad.items():
        server.on_object(name, encoded(coding, body))
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, numbered(10), dict.fromkeys(bad, "integrity"))


@with_and_without_echo
@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "aws-chunked", "UTF-8", "x\x7f"])
def test_an_encoding_that_shoal_cannot_undo_is_a_failure_that_names_it(
    shoal_command: Shoal, fault_server: MakeServer, coding: str
) -> None:
    server = fault_server({**numbered(10), "packed": b"?"})
    server.on_object("packed", encoded(coding, b"whatever"))
    server.start()
    outcome = shoal_command.copy(server)
    if coding.endswith("\x7f"):
        assert_arrived(outcome, numbered(10), {"packed": {"protocol", "unsupported"}})
        return
    assert_arrived(outcome, numbered(10), {"packed": "unsupported"})
    assert f'"{coding}"' in outcome.report["failures"][0]["reason"]
    assert "--decode never" in outcome.report["failures"][0]["reason"], "what to do"


def test_a_service_that_encodes_everything_in_some_way_fails_every_object_and_is_not_stopped(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    server.on_objects(encoded("br", b"whatever"), skip=100)
    server.start()
    outcome = shoal_command.copy(server)
    assert outcome.code == 1, outcome
    assert outcome.report["failed"] == 200


def test_an_encoded_body_that_broke_off_is_fetched_from_its_start(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    packed = gzip.compress(NOISE)
    server = fault_server({"noise": NOISE, **numbered(10)})

    async def cut(exchange: Exchange) -> None:
        fields = {"Content-Encoding": "gzip", "ETag": '"one"', "Content-Length": str(len(packed))}
        await exchange.send(exchange.head(200, fields) + packed[:200_000])
        await exchange.finish()

    server.on_object("noise", cut, times=1)
    server.on_object("noise", encoded("gzip", packed))
    server.start()
    assert_arrived(shoal_command.copy(server), {"noise": NOISE, **numbered(10)})
    assert not [request for request in server.requests if "range" in request.headers]


def test_an_encoded_bomb_is_a_failure_and_costs_no_memory(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"bomb": b"", "small-bomb": bytes(32 << 20), **numbered(10)})
    server.on_object("bomb", encoded("gzip", gzip.compress(bytes(256 << 20))))
    server.on_object("small-bomb", encoded("gzip", gzip.compress(bytes(32 << 20))))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {"small-bomb": bytes(32 << 20), **numbered(10)}, {"bomb": "too-large"})
    assert outcome.peak < MEMORY


def test_an_encoded_page_of_the_listing_is_decoded_or_refused(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.status(200, gzip.compress(b'{"FileNames": ["a"]}'), {"Content-Encoding": "gzip"}))
    server.start()
    assert_arrived(shoal_command.copy(server), {"a": b"1"})
    other = fault_server({"a": b"1"})
    other.on_list(faults.status(200, b'{"FileNames": ["a"]}', {"Content-Encoding": "br"}))
    other.start()
    shoal_command.out = shoal_command.directory / "other"
    assert_stopped(shoal_command.copy(other), "listing", "br")


def test_one_encoding_upon_another_is_refused_in_two_fields_too(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server(numbered(3))
    twice = gzip.compress(gzip.compress(b"object"))

    async def in_two_fields(exchange: Exchange) -> None:
        head = exchange.head(200, {"Content-Length": str(len(twice)), "Content-Encoding": "gzip"})
        await exchange.send(head.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + twice)

    server.names = [*server.objects, "twice"]
    server.on_object("twice", in_two_fields)
    server.start()
    assert_arrived(shoal_command.copy(server), numbered(3), {"twice": "unsupported"})


# As sent


SENT = {"tiny": gzip.compress(b"x"), "large": gzip.compress(NOISE)}
CALLED = [  # name, encoding, type; the URL has no other name
    ("a.tar.gz", "gzip", "application/x-tar"),
    ("b.TGZ", "X-GZip", "application/octet-stream"),
    ("c.svgz", "gzip", "image/svg+xml"),
    ("d.csv.gz", "gzip", "text/csv"),
    ("e.bz2", "x-bzip2", "application/octet-stream"),
    ("f.tar.zst", "zstd", "application/octet-stream"),
    ("g.xz", "xz", "application/octet-stream"),
    ("h.br", "br", "application/octet-stream"),
    ("i.Z", "compress", "application/octet-stream"),
    ("j", "gzip", "application/gzip; x=y"),
    ("k.bin", "x-gzip", "Application/X-GZip"),
    ("l", "gzip", "application/x-gzip"),
]
CALLED_OTHERWISE = [
    ("m.csv", "gzip", "text/csv"),
    ("n.zip", "gzip", "application/zip"),
    ("o", "gzip", "image/gzip"),
    ("gz", "gzip", "application/octet-stream"),
    ("q.bz2", "gzip", "application/zstd"),
    ("r.gz/s", "gzip", "application/x-gzip-not"),
]


@with_and_without_echo
@pytest.mark.parametrize(("size", "chunk"), [("tiny", 0), ("large", 0), ("tiny", 9), ("large", 5_000)])
def test_what_is_called_after_its_encoding_is_kept_as_it_was_sent(
    shoal_command: Shoal, fault_server: MakeServer, size: str, chunk: int
) -> None:
    sent = SENT[size]
    objects = {name: sent for name, *_ in CALLED} | {name: gzip.decompress(sent) for name, *_ in CALLED_OTHERWISE}
    server = fault_server(objects)
    for name, coding, kind in [*CALLED, *CALLED_OTHERWISE]:
        server.on_object(name, encoded(coding, sent, chunk=chunk, kind=kind))
    server.names = [*objects, "gone.gz"]
    server.on_object("gone.gz", faults.status(404, sent, {"Content-Encoding": "gzip"}))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects, {"gone.gz": "vanished"})
    notes = [note.partition(" ")[0] for note in outcome.report["notes"] if "kept as they were sent" in note]
    assert sum(map(int, notes)) == len(CALLED), outcome.report["notes"]


def test_a_list_of_urls_keeps_what_the_name_or_the_url_calls_after_its_encoding(tmp_path: Path) -> None:
    called = {"a.gz": "/a", "b": "/b.tar.gz?c=d", "c.gz": "/c.gz", "d": "/d?e=f.gz"}
    with UrlServer() as server:
        for path in called.values():
            server.answers[path] = Answer(SENT["tiny"], headers={"Content-Encoding": "gzip"})
        urls = [(name, server.url + path) for name, path in called.items()]
        report = package.copy(package.urls(urls), tmp_path / "out")
    assert tree(tmp_path / "out") == dict.fromkeys(["a.gz", "b", "c.gz"], SENT["tiny"]) | {"d": b"x"}
    assert any("3 answers" in note and "kept as they were sent" in note for note in report.notes)


@pytest.mark.parametrize("chunk", [0, 5_000])
def test_decode_never_keeps_every_body_as_it_was_sent(
    shoal_command: Shoal, fault_server: MakeServer, chunk: int
) -> None:
    codings = ["gzip", "deflate", "br", "gzip, gzip", "aws-chunked", "UTF-8"]
    objects = {f"{number}.{size}": sent for number in range(len(codings)) for size, sent in SENT.items()}
    server = fault_server(objects)
    for name, sent in objects.items():
        server.on_object(name, encoded(codings[int(name[0])], sent, chunk=chunk))
    server.on_list(
        faults.status(200, gzip.compress(json.dumps({"FileNames": [*objects]}).encode()), {"Content-Encoding": "gzip"})
    )
    server.start()
    outcome = shoal_command.copy(server, "--decode", "never")
    assert_arrived(outcome, objects)
    assert not [note for note in outcome.report["notes"] if "ncod" in note]


def test_decode_always_decodes_what_is_called_after_its_encoding_too(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"a.gz": NOISE, "b.br": b"?"})
    server.on_object("a.gz", encoded("gzip", gzip.compress(NOISE), kind="application/gzip"))
    server.on_object("b.br", encoded("br", b"whatever"))
    server.start()
    outcome = shoal_command.copy(server, "--decode", "always")
    assert_arrived(outcome, {"a.gz": NOISE}, {"b.br": "unsupported"})


def test_another_decode_is_another_run_that_replaces_nothing(shoal_command: Shoal, fault_server: MakeServer) -> None:
    packed = gzip.compress(NOISE)
    server = fault_server({"noise": NOISE, **numbered(3)})
    server.on_object("noise", encoded("gzip", packed))
    server.start()
    assert_arrived(shoal_command.copy(server, "--decode", "never"), {"noise": packed, **numbered(3)})
    for other in ([], ["--decode", "always"]):
        outcome = shoal_command.copy(server, *other)
        assert [(failure["name"], failure["kind"]) for failure in outcome.report["failures"]] == [("noise", "exists")]
        assert (outcome.out / "noise").read_bytes() == packed
