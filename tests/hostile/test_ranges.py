"""Large bodies that break off and are gone on with, or must not be; rows N4, N11 and N12."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from hostile.oracle import Shoal, assert_arrived, numbered
from servers import faults
from servers.fault_server import Exchange, FaultServer, head
from servers.fixtures import MakeServer

BIG = bytes(range(251)) * 1200  # 301,200 bytes: above what is handed on whole (64 KiB), so it is streamed to disk
OTHER = bytes(reversed(BIG))
SIZE = len(BIG)
DATED = {"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Date": "Sun, 06 Nov 1994 08:50:37 GMT"}
TAGGED = {"ETag": '"one"'}


@dataclass
class Ranges:
    """Answers with a body that breaks off, and then with what is asked for, as a good service does or otherwise.

    Attributes:
        cuts: How many bytes of a body are sent, one number for each answer; without a number it is sent whole.
        validator: The header fields that say which version it is.
        body: The object, from now on.
        ends: How the connection is closed where the body is cut.
        part: What a request for a part is answered with, instead of the part: from its first byte.
        asked: `Range` and `If-Range` of each request.
    """

    cuts: list[int]
    validator: Mapping[str, str] = field(default_factory=lambda: dict(TAGGED))
    body: bytes = BIG
    ends: faults.Then = "fin"
    part: Callable[[Exchange, int], tuple[int, bytes, Mapping[str, str]]] | None = None
    after: Callable[[], None] = lambda: None
    asked: list[tuple[str | None, str | None]] = field(default_factory=list)

    async def __call__(self, exchange: Exchange) -> None:
        headers = exchange.request.headers
        wanted, condition = headers.get("range"), headers.get("if-range")
        self.asked.append((wanted, condition))
        status, body, fields = 200, self.body, dict(self.validator)
        found = re.fullmatch(r"bytes=(\d+)-", wanted or "")
        if found and self.part:
            status, body, further = self.part(exchange, int(found[1]))
            fields = dict(further)
        elif found and condition in self.validator.values():
            first = int(found[1])
            status, body = 206, self.body[first:]
            fields["Content-Range"] = f"bytes {first}-{len(self.body) - 1}/{len(self.body)}"
        cut = self.cuts.pop(0) if self.cuts else len(body)
        await exchange.send(head(status, {"Content-Length": str(len(body)), **fields}) + body[:cut])
        self.after()
        if cut < len(body):
            await faults.end(exchange, self.ends)

    @property
    def ranges(self) -> list[str | None]:
        """What was asked for each time."""
        return [wanted for wanted, _ in self.asked]


def serve(make: MakeServer, ranges: Ranges) -> FaultServer:
    """A service whose object `cut` is answered so, among others that are well."""
    server = make({**numbered(10), "cut": BIG})
    server.on_object("cut", ranges)
    return server.start()


# Broken off and gone on with


@pytest.mark.parametrize("ends", ["fin", "rst", "hold"])
@pytest.mark.parametrize("cut", [1, SIZE // 2, SIZE - 1])
@pytest.mark.parametrize("validator", [TAGGED, DATED])
def test_a_body_that_breaks_off_is_gone_on_with_where_the_version_is_known(
    shoal_command: Shoal,
    fault_server: MakeServer,
    ends: faults.Then,
    cut: int,
    validator: Mapping[str, str],
) -> None:
    ranges = Ranges([cut], validator, ends=ends)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0", "--timeout", "0.5")
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert len(ranges.asked) == 2, "no byte is asked for twice"
    wanted, condition = ranges.asked[1]
    # A reset may take bytes with it that had come.
    if ends == "rst":
        found = re.fullmatch(r"bytes=(\d+)-", wanted or "bytes=0-")
        assert found is not None
        assert int(found[1]) <= cut
    else:
        assert wanted == f"bytes={cut}-"
        assert condition == next(iter(validator.values()))
    assert outcome.report["retries"] == 0, "it was one try"


def test_a_body_may_break_off_three_times(shoal_command: Shoal, fault_server: MakeServer) -> None:
    ranges = Ranges([100_000, 100_000, 50_000])
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert ranges.ranges == [None, "bytes=100000-", "bytes=200000-", "bytes=250000-"]


def test_a_body_that_breaks_off_again_and_again_has_failed_and_is_tried_from_its_start(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    ranges = Ranges([1000] * 5)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "1")
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    expected = [None, "bytes=1000-", "bytes=2000-", "bytes=3000-", None, "bytes=1000-"]
    assert ranges.ranges == expected


def test_a_body_that_never_comes_whole_is_a_failure(shoal_command: Shoal, fault_server: MakeServer) -> None:
    ranges = Ranges([1000] * 5)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, numbered(10), {"cut": "short-body"})
    assert len(ranges.asked) == 4


@pytest.mark.parametrize(
    "validator",
    [
        {},
        {"ETag": 'W/"one"'},
        {"ETag": "one"},
        {"ETag": 'W/"one"', **DATED},
        {"Last-Modified": DATED["Last-Modified"]},
        {"Last-Modified": DATED["Last-Modified"], "Date": "Sun, 06 Nov 1994 08:50:36 GMT"},
    ],
)
def test_without_a_strong_validator_the_whole_is_asked_for_again(
    shoal_command: Shoal, fault_server: MakeServer, validator: Mapping[str, str]
) -> None:
    ranges = Ranges([100_000], validator)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert ranges.asked == [(None, None), (None, None)]


def test_a_small_body_is_asked_for_again_as_a_whole(shoal_command: Shoal, fault_server: MakeServer) -> None:
    ranges = Ranges([30_000], body=BIG[: 64 << 10])
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, {**numbered(10), "cut": BIG[: 64 << 10]})
    assert ranges.asked == [(None, None), (None, None)]


# Another answer than the part


def test_a_service_that_knows_no_parts_sends_the_whole_which_is_taken(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    ranges = Ranges([100_000], part=lambda exchange, first: (200, BIG, TAGGED))
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert ranges.ranges == [None, "bytes=100000-"]


@pytest.mark.parametrize("replacement", [OTHER, OTHER + b"longer", OTHER[:100_000], OTHER[:100], b""])
def test_an_object_replaced_in_between_arrives_in_its_new_form(
    shoal_command: Shoal, fault_server: MakeServer, replacement: bytes
) -> None:
    ranges = Ranges([100_000])

    def replace() -> None:
        ranges.body, ranges.validator = replacement, {"ETag": '"two"'}

    ranges.after = replace
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {**numbered(10), "cut": replacement})
    assert ranges.asked == [(None, None), ("bytes=100000-", '"one"')]


@pytest.mark.parametrize("status", [412, 416])
@pytest.mark.parametrize("total", [100_000, SIZE, 5])
def test_a_part_that_is_not_there_begins_the_object_anew(
    shoal_command: Shoal, fault_server: MakeServer, status: int, total: int
) -> None:
    # Also where the service says that it has as many bytes as came: first it had said that there were more.
    def refuse(exchange: Exchange, first: int) -> tuple[int, bytes, Mapping[str, str]]:
        return status, b"no such part", {"Content-Range": f"bytes */{total}"}

    ranges = Ranges([100_000], part=refuse)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert ranges.ranges == [None, "bytes=100000-", None]


@pytest.mark.parametrize("part", ["of the same encoding", "of another encoding"])
def test_a_body_that_is_kept_as_it_was_sent_is_gone_on_with_by_parts_of_the_same_encoding(
    shoal_command: Shoal, fault_server: MakeServer, part: str
) -> None:
    fields = {**TAGGED, "Content-Encoding": "gzip", "Content-Type": "application/gzip"}
    plain = lambda _, first: (206, BIG[first:], {**TAGGED, **part_of(first)})  # noqa: E731
    ranges = Ranges([100_000], validator=fields, part=None if part == "of the same encoding" else plain)
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert ranges.ranges == [None, "bytes=100000-"]
    if ranges.part:
        assert_arrived(outcome, numbered(10), {"cut": "protocol"})
    else:
        assert_arrived(outcome, {**numbered(10), "cut": BIG})


WRONG_PARTS: dict[str, Callable[[int], tuple[int, bytes, Mapping[str, str]]]] = {
    "another version": lambda first: (206, OTHER[first:], {"ETag": '"two"', **part_of(first)}),
    "no version": lambda first: (206, OTHER[first:], part_of(first)),
    "a weak version": lambda first: (206, OTHER[first:], {"ETag": 'W/"one"', **part_of(first)}),
    "from the start": lambda first: (206, BIG, {**TAGGED, "Content-Range": f"bytes 0-{SIZE - 1}/{SIZE}"}),
    "one byte late": lambda first: (206, BIG[first + 1 :], {**TAGGED, **part_of(first + 1)}),
    "one byte early": lambda first: (206, BIG[first - 1 :], {**TAGGED, **part_of(first - 1)}),
    "not to the end": lambda first: (
        206,
        BIG[first:-1],
        {**TAGGED, "Content-Range": f"bytes {first}-{SIZE - 2}/{SIZE}"},
    ),
    "another length": lambda first: (
        206,
        BIG[first:] + b"x",
        {**TAGGED, "Content-Range": f"bytes {first}-{SIZE}/{SIZE + 1}"},
    ),
    "an unknown length": lambda first: (206, BIG[first:], {**TAGGED, "Content-Range": f"bytes {first}-{SIZE - 1}/*"}),
    "no range": lambda first: (206, BIG[first:], TAGGED),
    "fewer bytes than it says": lambda first: (206, BIG[first:-7], {**TAGGED, **part_of(first)}),
    "more bytes than it says": lambda first: (206, BIG[first:] + b"more", {**TAGGED, **part_of(first)}),
    "several parts": lambda first: (206, BIG[first:], {**TAGGED, "Content-Type": "multipart/byteranges; boundary=x"}),
    "encoded": lambda first: (206, BIG[first:], {**TAGGED, "Content-Encoding": "gzip", **part_of(first)}),
}


def part_of(first: int) -> Mapping[str, str]:
    return {"Content-Range": f"bytes {first}-{SIZE - 1}/{SIZE}"}


@pytest.mark.parametrize("kind", WRONG_PARTS)
def test_a_wrong_part_is_never_put_behind_what_came(shoal_command: Shoal, fault_server: MakeServer, kind: str) -> None:
    ranges = Ranges([100_000], part=lambda exchange, first: WRONG_PARTS[kind](first))
    server = serve(fault_server, ranges)
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, numbered(10), {"cut": "protocol"})
    assert ranges.ranges == [None, "bytes=100000-"]
    # And the next try gets it whole.
    again = shoal_command.copy(server, "--retry-failed")
    assert again.code == 0, again
    assert (again.out / "cut").read_bytes() == BIG


@pytest.mark.parametrize("status", [404, 403, 500, 503])
def test_an_error_instead_of_a_part_counts_as_it_always_does(
    shoal_command: Shoal, fault_server: MakeServer, status: int
) -> None:
    ranges = Ranges([100_000], part=lambda exchange, first: (status, b"no", {}))
    server = serve(fault_server, ranges)
    kind = {404: "vanished", 403: "forbidden", 500: "server-error", 503: "throttled"}[status]
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, numbered(10), {"cut": kind})


def test_a_part_may_come_in_chunks_and_must_be_whole(shoal_command: Shoal, fault_server: MakeServer) -> None:
    asked = []

    async def in_chunks(exchange: Exchange) -> None:
        wanted = exchange.request.headers.get("range", "bytes=0-")
        asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if first == 0:
            await exchange.send(head(200, {"Content-Length": str(SIZE), **TAGGED}) + BIG[:100_000])
            await exchange.finish()
        # The first part lacks its last byte, although its chunks come to an end.
        last = SIZE - 1 if first == 100_000 else SIZE
        fields = {"Transfer-Encoding": "chunked", **TAGGED, **part_of(first)}
        await exchange.send(head(206, fields) + faults.chunk(BIG[first:last]) + b"0\r\n\r\n")

    server = fault_server({"cut": BIG})
    server.on_object("cut", in_chunks)
    server.start()
    outcome = shoal_command.copy(server, "--max-retries", "0")
    assert_arrived(outcome, {"cut": BIG})
    assert asked == ["bytes=0-", "bytes=100000-", f"bytes={SIZE - 1}-"]


def test_a_part_may_be_elsewhere(shoal_command: Shoal, fault_server: MakeServer) -> None:
    elsewhere = fault_server({})
    ranges = Ranges([100_000])
    elsewhere.on_object("cut", ranges)
    elsewhere.start()
    server = fault_server({**numbered(10), "cut": b""})
    server.on_object("cut", faults.redirect(302, f"{elsewhere.url}/get/cut"))
    server.start()
    outcome = shoal_command.copy(
        server, "--max-retries", "0", "--header", "X-Secret: s", "--allow-host", f"127.0.0.1:{elsewhere.port}"
    )
    assert_arrived(outcome, {**numbered(10), "cut": BIG})
    assert ranges.ranges == [None, "bytes=100000-"]
    assert all("x-secret" not in request.headers for request in elsewhere.requests)
