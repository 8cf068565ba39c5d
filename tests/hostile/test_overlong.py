"""What comes on a connection behind a complete answer, in a segment of its own: objects before it are doubted."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from hostile.oracle import DEFAULTS, Outcome, Shoal, assert_arrived, numbered
from hostile.pipelining import MANY, assert_pipelined, service
from servers import faults, pipeline_faults
from servers.fault_server import Exchange, Fault
from servers.fixtures import MakeServer
from trees import tree

BIG = bytes(range(251)) * 1200  # 301,200 bytes: streamed to disk


def late(surplus: bytes = b"", wait: float = 0.002) -> Fault:
    """The right body under a length that is one too small, the last byte later; or the right one and a surplus."""

    async def fault(exchange: Exchange) -> None:
        body = exchange.body + surplus
        said = len(exchange.body) - (not surplus)
        await exchange.send(exchange.head(200, {"Content-Length": str(said)}) + body[:said])
        await exchange.pause(wait)
        await exchange.send(body[said:])

    return fault


async def slow(exchange: Exchange) -> None:
    """Right, but so late that all surpluses are there before."""
    await exchange.pause(0.5)
    await exchange.healthy()


@pytest.mark.parametrize("surplus", [b"", b"H", b"HTTP/1.", b"\r\n"])
def test_pipelined_an_answer_longer_than_it_says_is_fetched_again(
    shoal_command: Shoal, fault_server: MakeServer, surplus: bytes
) -> None:
    objects = numbered(600)
    server = service(fault_server, objects)
    hit: list[str] = []
    for name in list(objects)[100:600:60]:
        server.on_object(name, pipeline_faults.ahead(late(surplus), hit))
    server.start()

    assert_pipelined(shoal_command.copy(server, *MANY), server, objects)
    assert hit


def assert_all_but(outcome: Outcome, objects: dict[str, bytes], hit: Collection[str]) -> None:
    """Fails unless these are failures without files, and all others arrived."""
    rest = {name: data for name, data in objects.items() if name not in hit}
    assert_arrived(outcome, rest, dict.fromkeys(hit, "short-body"))


def test_one_at_a_time_an_object_that_may_be_short_is_a_failure_until_it_is_fetched_again(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(200, 20)
    server = service(fault_server, objects, echo=False)
    names = list(objects)
    hit = set(names[10:190:20])
    for name in hit:
        server.on_object(name, late())
    server.start()

    # One connection, so that each of them has an answer behind it.
    outcome = shoal_command.copy(server, "--workers", "1", "--max-retries", "3")

    assert_all_but(outcome, objects, hit)
    again = shoal_command.copy(server, "--workers", "1")
    assert {failure["name"] for failure in again.report["failures"]} == hit, "the same command says so again"
    server.heal()
    mended = shoal_command.copy(server, "--retry-failed")
    assert (mended.code, tree(mended.out)) == (0, objects), mended


def test_an_object_that_was_longer_than_announced_is_fetched_again_with_patience(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = {"first": b"first", "second": b"second"}
    server = service(fault_server, objects, echo=False)
    server.on_object("first", late(wait=0.05))
    server.start()
    assert_all_but(shoal_command.copy(server, "--workers", "1"), objects, ["first"])

    # Alone, and the last of its connection: nothing comes behind it that would show the surplus.
    again = shoal_command.copy(server, "--workers", "1", "--retry-failed")

    assert again.code == 1, again
    assert again.report["total"]["failed"] == 1
    assert set(tree(again.out)) == {"second"}
    server.heal()
    mended = shoal_command.copy(server, "--workers", "1", "--retry-failed")
    assert (mended.code, tree(mended.out)) == (0, objects), mended


def test_a_large_object_with_requests_sent_behind_it_is_a_failure_if_it_may_be_short(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(600)
    large = list(objects)[200:600:50]
    objects |= {name: name.encode() + BIG for name in large}
    server = service(fault_server, objects)
    hit: list[str] = []
    for name in large:
        server.on_object(name, pipeline_faults.ahead(late(), hit))
    server.start()

    outcome = shoal_command.copy(server, *MANY, "--max-retries", "0")

    assert hit, "nothing was sent behind them"
    assert_all_but(outcome, objects, hit)


def test_a_request_timeout_said_on_an_idle_connection_blames_no_object(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(60)
    server = service(fault_server, objects, echo=False)

    async def says_goodbye(exchange: Exchange) -> None:
        await exchange.healthy()
        await exchange.pause(0.002)
        await exchange.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await exchange.finish()

    # Alone, and slow enough behind it that the goodbye comes before the next request.
    server.on_object("plain-0030", says_goodbye)
    server.start()
    outcome = shoal_command.copy(server, "--workers", "1", "--limit-rate", "100KB")
    assert outcome.code == 0, outcome
    assert tree(outcome.out) == objects


def test_no_large_body_that_is_longer_than_it_says_is_kept_without_a_word(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    big = {f"big-{n:02}": bytes([n]) + BIG for n in range(40)}
    objects = big | numbered(100)  # these show what stands behind the last large ones
    server = service(fault_server, objects, echo=False)
    for name in big:
        server.on_object(name, late(wait=0.001))
    server.start()

    # Whether the surplus is there when the body ends is a matter of luck; that it comes is not.
    outcome = shoal_command.copy(server, "--max-retries", "0")

    assert_all_but(outcome, objects, big)


def replayed(wait: float) -> Fault:
    """The right answer, and once more a moment later: it is taken for the answer to the next request."""

    async def fault(exchange: Exchange) -> None:
        await exchange.healthy()
        await exchange.pause(wait)
        await exchange.send(exchange.healthy_bytes())

    return fault


@pytest.mark.parametrize("wait", [0, 0.0005, 0.003, 0.03])
def test_without_ids_no_object_has_the_bytes_of_another_after_an_answer_too_many(
    shoal_command: Shoal, fault_server: MakeServer, wait: float
) -> None:
    objects = numbered(60, 20)
    server = service(fault_server, objects, echo=False)
    for name in list(objects)[5:60:10]:
        server.on_object(name, replayed(wait))
    server.start()

    outcome = shoal_command.copy(server)

    assert outcome.code == 1, outcome
    wrong = {name: data for name, data in tree(outcome.out).items() if data != objects[name]}
    assert not wrong, "each is a failure, and has no file"
    assert {failure["kind"] for failure in outcome.report["failures"]} == {"short-body"}
    server.heal()
    mended = shoal_command.copy(server, "--retry-failed")
    assert (mended.code, tree(mended.out)) == (0, objects), mended


@pytest.mark.parametrize("options", [[], ["--pipeline", "off"]])
@pytest.mark.parametrize("wait", [0.0005, 0.003, 0.03])
def test_with_ids_an_answer_without_one_is_no_object_once_the_answer_that_it_displaced_has_come(
    shoal_command: Shoal, fault_server: MakeServer, wait: float, options: list[str]
) -> None:
    objects = numbered(60, 20)
    server = service(fault_server, objects)

    async def fault(exchange: Exchange) -> None:
        await exchange.healthy()
        await exchange.pause(wait)
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")

    for name in list(objects)[5:60:10]:
        server.on_object(name, fault)
    server.start()

    outcome = shoal_command.copy(server, *options, "--workers", "1")

    wrong = {name: data for name, data in tree(outcome.out).items() if data != objects[name]}
    assert not wrong, "each is fetched again, or is a failure and has no file"
    assert outcome.code == 1 or tree(outcome.out) == objects, outcome
    server.heal()
    mended = shoal_command.copy(server)
    assert (mended.code, tree(mended.out)) == (0, objects), mended


def test_an_object_of_a_list_of_urls_that_may_be_short_has_no_file_until_it_is_fetched_again(
    shoal_command: Shoal, fault_server: MakeServer, tmp_path: Path
) -> None:
    objects = numbered(100, 20)
    server = service(fault_server, objects, echo=False)
    names = list(objects)
    hit = set(names[10:90:20])
    for name in hit:
        server.on_object(name, late())
    server.start()
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{name}\t{server.url}/get/{name}\n" for name in names))

    def copy(*options: str) -> Outcome:
        return shoal_command.run("copy", "--urls", urls, shoal_command.out, *DEFAULTS, "--workers", "1", *options)

    assert_all_but(copy(), objects, hit)
    server.heal()
    mended = copy("--retry-failed")
    assert (mended.code, tree(mended.out)) == (0, objects), mended


def test_without_ids_objects_are_doubted_also_if_the_answer_too_many_is_that_of_an_object_which_is_gone(
    shoal_command: Shoal, fault_server: MakeServer, tmp_path: Path
) -> None:
    objects = numbered(40, 20)
    server = service(fault_server, objects, echo=False)
    *_, last = names = list(objects)
    server.on_object(names[5], replayed(0.003))
    server.on_object(last, faults.status(404))
    server.start()
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"{name}\t{server.url}/get/{name}\n" for name in names))

    outcome = shoal_command.run("copy", "--urls", urls, shoal_command.out, *DEFAULTS, "--workers", "1")

    assert outcome.code == 1, outcome
    assert not {name: data for name, data in tree(outcome.out).items() if data != objects[name]}


def test_a_file_that_the_user_puts_where_a_withdrawn_one_was_is_left_alone(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(10, 20)
    server = service(fault_server, objects, echo=False)
    *_, last = names = list(objects)
    server.on_object(last, late(b"junk", wait=0.02))
    server.on_object(names[0], slow)  # the run goes on, and looks at the connection of the other
    server.start()
    assert_all_but(shoal_command.copy(server, "--workers", "2"), objects, [last])
    (shoal_command.out / last).write_bytes(objects[last])
    server.heal()
    server.on_object(last, faults.status(404))

    outcome = shoal_command.copy(server)

    assert outcome.code == 1, outcome
    assert tree(outcome.out) == objects


def test_an_update_removes_no_file_that_has_the_bytes_which_it_doubts(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(10, 20)
    server = service(fault_server, objects, echo=False)
    server.start()
    assert shoal_command.copy(server).code == 0
    *_, last = names = list(objects)
    server.on_object(last, late(b"junk", wait=0.02))
    server.on_object(names[0], slow)

    outcome = shoal_command.copy(server, "--update", "--workers", "2")

    assert outcome.code == 1, outcome
    assert [failure["name"] for failure in outcome.report["failures"]] == [last]
    assert tree(outcome.out) == objects
