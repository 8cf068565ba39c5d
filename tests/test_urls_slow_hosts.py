"""Lists of URLs on many hosts, of which some send their objects very slowly."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
from many_hosts import Mixed, write
from servers.fault_server import Exchange, FaultServer
from servers.url_server import UrlServer

if TYPE_CHECKING:
    from conftest import Command

LARGE, SMALL = 200_000, 40_000  # larger and smaller than what arrives in one piece at the destination


async def slowly(exchange: Exchange) -> None:
    """Sends 5,000 bytes a second."""
    await exchange.send(exchange.head(200, {"Content-Length": str(len(exchange.body))}))
    for at in range(0, len(exchange.body), 2_500):
        await exchange.pause(0.5)
        await exchange.send(exchange.body[at : at + 2_500])


@pytest.mark.timing
@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_hundreds_of_slow_hosts_do_not_hold_up_the_others(tmp_path: Path, shoal: Command, size: int) -> None:
    objects = {str(number): bytes(size) for number in range(10)}
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=1_000)
        slow = stack.enter_context(FaultServer(objects, address="0.0.0.0"))
        slow.on_objects(slowly)
        lines = [
            f"slow/{host}/{name}\thttp://127.1.{host // 250}.{host % 250}:{slow.port}/get/{name}"
            for name in objects
            for host in range(200)
        ]
        lines += hosts.lines(only_healthy=True)
        beside = write(tmp_path / "beside", iter(lines))
        hosts.assert_not_held_up(shoal, beside, at_most=15, why="each of the others takes 8 or 40 s, and six at a time")


@pytest.mark.parametrize("destination", ["out", "parquet:out"])
def test_every_object_of_slow_hosts_arrives(tmp_path: Path, destination: str) -> None:
    objects = {f"{number}": os.urandom(size) for number, size in enumerate([70_000, SMALL])}
    with FaultServer(objects, address="0.0.0.0") as slow:
        slow.on_objects(slowly)
        lines = [f"{h}/{name}\thttp://127.1.0.{h}:{slow.port}/get/{name}" for h in range(1, 7) for name in objects]
        source = package.urls(write(tmp_path / "list", iter(lines)), per_host=2)
        out = destination.replace("out", str(tmp_path / "out"))
        report = package.copy(source, out, workers=4)  # so that what is slow takes no place, and is too much for that
        assert (report.written, report.failed, report.total.unfinished) == (12, 0, 0)
    expected = {f"{h}/{name}": body for h in range(1, 7) for name, body in objects.items()}
    if destination == "out":
        assert {name: (tmp_path / "out" / name).read_bytes() for name in expected} == expected
    else:
        pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        rows = pq.read_table(tmp_path / "out", columns=["name", "data"]).to_pylist()
        assert {row["name"]: row["data"] for row in rows} == expected
        assert len(rows) == len(expected)


def test_a_slow_object_takes_no_place_any_more_once_others_that_took_none_have_arrived(tmp_path: Path) -> None:
    done = threading.Event()

    async def very_slowly(exchange: Exchange) -> None:
        await exchange.send(exchange.head(200, {"Content-Length": str(len(exchange.body))}))
        for at in range(0, len(exchange.body), 1_000):
            await exchange.pause(0 if done.is_set() else 0.25)
            await exchange.send(exchange.body[at : at + 1_000])

    def progress(now: package.Progress) -> None:
        if now.run.written >= 53 or now.seconds > 60:
            done.set()

    objects = {"slow": bytes(115_000), "very slow": bytes(800_000)}
    with FaultServer(objects, address="0.0.0.0") as slow, UrlServer("127.0.0.1") as other:
        slow.on_object("slow", slowly)
        slow.on_object("very slow", very_slowly)
        # One has a place, and three take none: the last has to wait for the end of one of them, after 23 s.
        lines = [f"slow/{h}\thttp://127.1.0.{h}:{slow.port}/get/slow" for h in range(1, 4)]
        lines += [f"slow/4\thttp://127.1.0.4:{slow.port}/get/very%20slow"]
        lines += [f"other/{number}\t{other.url}/{number}" for number in range(50)]
        source = package.urls(write(tmp_path / "list", iter(lines)))
        report = package.copy(source, tmp_path / "out", workers=1, progress=progress)
        assert (report.written, report.failed, report.total.unfinished) == (54, 0, 0)
        assert report.seconds < 45
