"""Pipelining without ids: what must be proven before it begins, and what is looked at while it goes on.

`--pipeline N` trusts a service to answer in order. The proof is a comparison at that depth, with objects that differ.
"""

from __future__ import annotations

import asyncio

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_balanced, numbered
from hostile.pipelining import assert_pipelined, service
from servers import pipeline_faults
from servers.fault_server import Exchange
from servers.fixtures import MakeServer
from trees import tree

WORKERS = ("--workers", "64", "--timeout", "10")
MORE = ("--workers", "512", "--timeout", "10")  # room for the deepest pipelines


def test_objects_that_are_alike_prove_nothing_about_the_order(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = {f"empty-{n:04}": b"" for n in range(400)} | numbered(1_100)
    server = service(fault_server, objects, echo=False)
    server.on_objects(pipeline_faults.reordered(pipeline_faults.swapped, 16))
    server.start()

    outcome = shoal_command.copy(server, *WORKERS, "--pipeline", "16")

    assert_pipelined(outcome, server, objects)
    assert any("answered differently" in note for note in outcome.report["notes"]), outcome.report["notes"]


def test_where_all_objects_are_alike_nothing_is_sent_ahead_and_the_report_says_so(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = {f"same-{n:05}": b"same" for n in range(4_500)}
    server = service(fault_server, objects, echo=False).start()

    outcome = shoal_command.copy(server, *WORKERS, "--pipeline", "16")

    assert_arrived(outcome, objects)
    assert server.depth == 1
    assert any("too few different small objects" in note for note in outcome.report["notes"]), outcome.report["notes"]


def test_the_order_is_compared_at_the_depth_that_is_used(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(3_000)
    server = service(fault_server, objects, echo=False)

    async def swaps_when_many_wait(exchange: Exchange) -> None:
        # Not in a pipeline of 16: a service, or a proxy, with a pool of workers behind one queue.
        taken = await pipeline_faults.batch(exchange, 256, 0.005)
        answers = [one.healthy_bytes() for one in taken]
        await exchange.send(b"".join(answers if len(answers) <= 32 else pipeline_faults.swapped(answers)))

    server.on_objects(swaps_when_many_wait)
    server.start()

    outcome = shoal_command.copy(server, *MORE, "--pipeline", "128")

    assert_pipelined(outcome, server, objects)
    assert server.depth > 32, "it never got so far"


@pytest.mark.parametrize("later", [500, 1_500])
def test_a_service_that_begins_to_reorder_later_never_ends_in_a_run_without_failures(
    shoal_command: Shoal, fault_server: MakeServer, later: int
) -> None:
    objects = numbered(4_000)
    server = service(fault_server, objects, echo=False)
    server.on_objects(pipeline_faults.reordered(pipeline_faults.backwards, 16), skip=later)
    server.start()

    outcome = shoal_command.copy(server, *WORKERS, "--pipeline", "16")

    assert outcome.code == 1, outcome
    assert_balanced(outcome.report)
    (failure,) = outcome.report["failures"]
    assert failure["kind"] == "out-of-order"
    assert "may contain the bytes of other objects" in failure["reason"]
    assert "--pipeline off" in failure["reason"]
    found = tree(outcome.out)
    wrong = [name for name, data in objects.items() if name in found and found[name] != data]
    assert wrong, "nothing was reordered, so this shows nothing"
    assert len(wrong) < later + 1_000, "it was found late"
    assert failure["name"] not in found
    # What was written stays doubtful: the same command never calls the run complete.
    server.heal()
    for options in ([], ["--retry-failed"], []):
        again = shoal_command.copy(server, *WORKERS, *options)
        assert (again.code, again.report["failed"]) == (1, 1), again
    mended = shoal_command.copy(server, *WORKERS, "--restart", "--pipeline", "off")
    assert (mended.code, tree(mended.out)) == (0, objects), mended


def test_a_service_that_keeps_the_order_passes_every_sample(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(4_000)
    server = service(fault_server, objects, echo=False).start()

    outcome = shoal_command.copy(server, *WORKERS, "--pipeline", "16")

    assert_pipelined(outcome, server, objects)
    twice = len(server.fetched()) - len(objects)
    assert 16 + 3 <= twice < 60, "the comparison and a sample now and then, no more"


def test_a_sample_that_fails_alone_proves_nothing_and_harms_nothing(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(2_000)
    server = service(fault_server, objects, echo=False)
    asked: dict[str, int] = {}

    async def refuses_what_is_asked_again(exchange: Exchange) -> None:
        name = exchange.request.name or ""
        asked[name] = asked.get(name, 0) + 1
        if asked[name] == 2 and len(asked) > 200:
            await exchange.answer(503, b"busy")
        else:
            await exchange.healthy()
        await asyncio.sleep(0)

    server.on_objects(refuses_what_is_asked_again)
    server.start()

    assert_pipelined(shoal_command.copy(server, *WORKERS, "--pipeline", "16"), server, objects)
