"""Lists of URLs on many hosts, of which some do not answer: from the start, later, for a while, or behind redirects."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from many_hosts import Mixed, hosts, lines_of, reasons, write
from servers.fault_server import Exchange, FaultServer
from servers.faults import drip
from servers.ports import black_hole, bound_socket, mute_port
from servers.url_server import Answer, UrlServer

if TYPE_CHECKING:
    from conftest import Command

__all__ = ["hosts"]


# Whole runs in virtual time are in crates/shoal-engine/src/hosts/models/; six of these are in `make test`.
@pytest.mark.timing
@pytest.mark.parametrize(
    ("silent", "count", "each"),
    [
        (black_hole, 300, 20),
        pytest.param(mute_port, 300, 20, marks=pytest.mark.slow(minutes=1)),
        pytest.param(black_hole, 1_500, 5, marks=pytest.mark.slow(minutes=1)),
        pytest.param(mute_port, 1_500, 5, marks=pytest.mark.slow(minutes=1)),
    ],
)
def test_hundreds_of_silent_hosts_do_not_hold_up_the_others(
    tmp_path: Path, shoal: Command, hosts: Mixed, silent: Any, count: int, each: int
) -> None:
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(silent("0.0.0.0"))
        lines = [*hosts.lines(only_healthy=True), *lines_of("silent", port, count, each)]
        random.Random(0).shuffle(lines)
        beside = write(tmp_path / "beside", iter(lines))
        hosts.assert_not_held_up(shoal, beside, at_most=5, why="a silent host is given up after 20 s")
        source = package.urls(beside, retry_timeout=2, connect_timeout=1.5, timeout=1.5)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (hosts.wanted, count * each, 0)


class SilentLater(UrlServer):
    """A server of many hosts that answers two requests of each, and the others when `again` is set.

    `cut`: of these others, it sends so many bytes before. The object of a path is the path, `times` over.
    """

    def __init__(self, cut: int = 0, times: int = 1) -> None:
        super().__init__("0.0.0.0")
        self.cut, self.times = cut, times
        self.count: collections.Counter[str] = collections.Counter()
        self.again = threading.Event()

    def answer(self, path: str) -> Answer:
        host = path.split("/")[1]
        self.count[host] += 1
        body = path.encode() * self.times
        return Answer(body, cut=self.cut, held=self.again) if self.count[host] > 2 else Answer(body)

    def lines(self, hosts: int, each: int) -> list[str]:
        port = self.authority.rpartition(":")[2]
        return [f"h{h}/{n}\thttp://127.1.0.{h}:{port}/h{h}/{n}" for h in range(1, hosts + 1) for n in range(each)]


SILENT_LATER = [
    pytest.param(0, 1, id="without_an_answer", marks=pytest.mark.slow(minutes=1)),
    pytest.param(-2, 1, id="in_a_body", marks=pytest.mark.slow(minutes=1)),
    pytest.param(-2, 10_000, id="in_a_large_body"),
]


@pytest.mark.slow(minutes=1)
@pytest.mark.timing
@pytest.mark.parametrize(("cut", "times"), SILENT_LATER)
def test_hosts_that_go_silent_later_do_not_hold_up_the_others(
    tmp_path: Path, shoal: Command, hosts: Mixed, cut: int, times: int
) -> None:
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(SilentLater(cut, times))
        stack.callback(silent.again.set)
        lines = [*hosts.lines(only_healthy=True), *silent.lines(150, 20)]
        random.Random(0).shuffle(lines)
        beside = write(tmp_path / "beside", iter(lines))
        hosts.assert_not_held_up(shoal, beside, at_most=15, why="a request takes 30 s, and a host has six at a time")


@pytest.mark.parametrize(("cut", "times"), SILENT_LATER)
def test_hosts_that_are_silent_for_a_while_lose_nothing(tmp_path: Path, cut: int, times: int) -> None:
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(UrlServer("127.0.0.1"))
        silent = stack.enter_context(SilentLater(cut, times))
        stack.callback(silent.again.set)

        def progress(now: package.Progress) -> None:
            if now.seconds > 8:  # longer than a host is waited for
                silent.again.set()

        lines = [*silent.lines(10, 50), *(f"o/{n}\t{others.url}/o/{n}" for n in range(2_000))]
        random.Random(0).shuffle(lines)
        report = package.copy(package.urls(write(tmp_path / "list", iter(lines))), tmp_path / "out", progress=progress)
        assert (report.written, report.failed, report.total.unfinished) == (2_500, 0, 0)
        assert silent.again.is_set(), "the run was over before"
        for h, n in itertools.product(range(1, 11), range(50)):
            assert (tmp_path / "out" / f"h{h}" / str(n)).read_text() == f"/h{h}/{n}" * times


@pytest.mark.slow(minutes=1)
@pytest.mark.timing
def test_pipelined_hosts_that_are_silent_for_a_while_hold_up_no_others_and_lose_nothing(tmp_path: Path) -> None:
    answered: collections.Counter[str] = collections.Counter()
    again = threading.Event()

    async def silent_later(exchange: Exchange) -> None:
        host = (exchange.request.name or "").split("/")[0]
        answered[host] += 1
        while answered[host] > 100 and not again.is_set():
            await exchange.pause(0.05)
        await exchange.healthy()

    objects = {f"h{host}/{n}": f"{host}-{n}".encode() for host in range(1, 41) for n in range(300)}
    took: list[float] = []
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=2_000)
        silent = stack.enter_context(FaultServer(objects, address="0.0.0.0"))
        silent.on_objects(silent_later)

        def progress(now: package.Progress) -> None:
            if hosts.sent() >= hosts.wanted and not again.is_set():
                took.append(now.seconds)
                again.set()

        lines = [*hosts.lines(only_healthy=True)]
        lines += [f"{name}\thttp://127.1.0.{name[1:].split('/')[0]}:{silent.port}/get/{name}" for name in objects]
        random.Random(0).shuffle(lines)
        source = package.urls(write(tmp_path / "list", iter(lines)), timeout=120)
        report = package.copy(source, tmp_path / "out", progress=progress)
        assert (report.written, report.failed, report.total.unfinished) == (46_000, 0, 0)
        assert all((tmp_path / "out" / name).read_bytes() == body for name, body in objects.items())
        assert silent.depth > 1, "nothing was sent ahead"
        assert took[0] < 100, "a request takes 120 s, the healthy hosts a few"


@pytest.mark.timing  # the hangs of a busy machine come on top of those of the host
@pytest.mark.parametrize("per_host", [pytest.param(1, marks=pytest.mark.slow(minutes=1)), 6])
def test_objects_that_are_never_answered_fail_and_the_others_of_their_host_do_not(
    tmp_path: Path, per_host: int
) -> None:
    with contextlib.ExitStack() as stack:
        host = stack.enter_context(UrlServer("127.0.0.1"))
        other = stack.enter_context(UrlServer("127.0.0.2", delay=0.02))
        never = threading.Event()
        stack.callback(never.set)
        lines = [f"h/{n}\t{host.url}/{n}" for n in range(300)]
        lines += [f"o/{n}\t{other.url}/{n}" for n in range(1_000)]
        for n in range(per_host):  # all connections at once
            host.answers[f"/{n}"] = Answer(b"never", cut=0, held=never)
        source = package.urls(write(tmp_path / "list", iter(lines)), per_host=per_host, timeout=2, retry_timeout=4)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (1_300 - per_host, per_host, 0)
        assert report.seconds < 40


class Starting(UrlServer):
    """A server of many hosts, of which each answers no request that comes in its first 1.5 seconds."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        super().__init__("0.0.0.0")
        self.first: dict[str, float] = {}
        self.never = threading.Event()
        stack.enter_context(self)
        stack.callback(self.never.set)

    def answer(self, path: str) -> Answer:
        is_starting = time.monotonic() - self.first.setdefault(path.split("/")[1], time.monotonic()) < 1.5
        return Answer(path.encode(), cut=0, held=self.never) if is_starting else Answer(path.encode())

    def url_of(self, host: int, number: int) -> str:
        return f"http://127.1.0.{host}:{self.authority.rpartition(':')[2]}/h{host}/{number}"


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("per_host", [1, 6])
def test_hosts_whose_first_requests_hang_are_asked_again_before_they_are_given_up(
    tmp_path: Path, per_host: int
) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Starting(stack)
        other = stack.enter_context(UrlServer("127.0.0.1", delay=0.02))
        lines = [f"h{h}/{n}\t{hosts.url_of(h, n)}" for h in range(1, 9) for n in range(100)]
        lines += [f"o/{n}\t{other.url}/o/{n}" for n in range(1_000)]
        random.Random(0).shuffle(lines)
        source = package.urls(write(tmp_path / "list", iter(lines)), per_host=per_host, timeout=10, retry_timeout=5)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (1_800, 0, 0)


@pytest.mark.slow(minutes=1)
def test_a_redirect_to_a_host_whose_first_requests_hang_is_followed_again(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        target = Starting(stack)
        shortener = stack.enter_context(UrlServer("127.0.0.1"))
        for n in range(300):
            shortener.answers[f"/{n}"] = Answer(status=302, headers={"Location": target.url_of(1, n)})
        lines = [f"{shortener.url}/{n}" for n in range(300)]
        source = package.urls(write(tmp_path / "list", iter(lines)), timeout=10, retry_timeout=5)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (300, 0, 0)


@pytest.mark.slow(minutes=1)
def test_a_host_whose_large_object_arrives_again_after_a_silence_is_not_given_up(tmp_path: Path) -> None:
    async def pausing(exchange: Exchange) -> None:
        await exchange.send(exchange.head(200, {"Content-Length": str(len(exchange.body))}))
        await exchange.send(exchange.body[:100_000])
        for at in range(100_000, len(exchange.body), 10_000):
            await exchange.pause(6.5 if at == 100_000 else 0.5)  # first longer than a host is waited for
            await exchange.send(exchange.body[at : at + 10_000])

    async def silent(exchange: Exchange) -> None:
        await exchange.hold()

    objects = {"large": os.urandom(200_000), "lost": b"found", **{f"{n}": b"small" for n in range(40)}}
    others = {f"{n}": b"of the other" for n in range(130)}
    with FaultServer(objects) as host, FaultServer(others, address="127.0.0.2") as other:
        host.on_object("large", pausing)
        host.on_object("lost", silent, times=1)
        other.on_objects(drip(0.1, size=6))  # it answers all the time
        lines = [f"h/{name}\t{host.url}/get/{name}" for name in objects]
        lines += [f"o/{name}\t{other.url}/get/{name}" for name in others]
        source = package.urls(write(tmp_path / "list", iter(lines)), per_host=2, timeout=9, retry_timeout=1)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (172, 0, 0)
        assert (tmp_path / "out" / "h" / "large").read_bytes() == objects["large"]
        assert len(host.asked("large")) == 1


@pytest.mark.parametrize("silent", [pytest.param(black_hole, marks=pytest.mark.slow(minutes=1)), mute_port])
def test_redirects_to_silent_hosts_fail_alone(tmp_path: Path, silent: Any) -> None:
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(UrlServer("127.0.0.1"))
        shortener = stack.enter_context(UrlServer("127.0.0.2"))
        port = stack.enter_context(silent("127.0.0.3"))
        for n in range(0, 40, 2):
            shortener.answers[f"/{n}"] = Answer(status=302, headers={"Location": f"http://127.0.0.3:{port}/{n}"})
        lines = [f"short/{n}\t{shortener.url}/{n}" for n in range(40)]
        lines += [f"o/{n}\t{others.url}/o/{n}" for n in range(500)]
        random.Random(0).shuffle(lines)
        source = package.urls(write(tmp_path / "list", iter(lines)), timeout=1, connect_timeout=1, retry_timeout=2)
        report = package.copy(source, tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (520, 20, 0)
        assert all("127.0.0.3" in why and why.endswith(" where a redirect leads") for why in reasons(tmp_path / "out"))
        assert report.seconds < 12, "an object is given up once its target has been silent for 2 s"
        assert all((tmp_path / "out" / "short" / str(n)).read_text() == f"/{n}" for n in range(1, 40, 2))


@pytest.mark.slow(minutes=1)
def test_hosts_that_are_slow_to_answer_at_first_are_waited_for(tmp_path: Path) -> None:
    first: dict[str, float] = {}

    class Slow(UrlServer):
        def answer(self, path: str) -> Answer:
            host, number = path.split("/")[1:]
            # Longer than the time after which a silent host is paused; a longer one for some.
            since = time.monotonic() - first.setdefault(host, time.monotonic())
            time.sleep(max(0.0, (4 if host.endswith("7") else 1.5) - since))
            return Answer(f"{host}-{number}".encode())

    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(Slow("0.0.0.0"))
        others = stack.enter_context(UrlServer("127.0.0.1"))
        port = slow.authority.rpartition(":")[2]
        lines = [f"h{h}/{n}\thttp://127.0.1.{h}:{port}/h{h}/{n}" for n in range(20) for h in range(1, 41)]
        lines += [f"o/{n}\t{others.url}/{n}" for n in range(2_000)]
        report = package.copy(package.urls(write(tmp_path / "list", iter(lines))), tmp_path / "out")
        assert (report.written, report.failed, report.total.unfinished) == (2_800, 0, 0)
        for h, n in itertools.product(range(1, 41), range(20)):
            assert (tmp_path / "out" / f"h{h}" / str(n)).read_text() == f"h{h}-{n}"
        assert report.seconds < 30


@pytest.mark.slow(minutes=1)
def test_objects_of_hosts_that_stay_away_fail_again_when_only_they_are_left(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(UrlServer("127.0.0.1"))
        port = stack.enter_context(bound_socket(address="0.0.0.0")).getsockname()[1]
        lines = [*lines_of("absent", port, 3, 5), *(f"o/{n}\t{others.url}/{n}" for n in range(100))]
        source = package.urls(write(tmp_path / "list", iter(lines)), retry_timeout=1)
        for resume in ("auto", "auto", "failed"):
            report = package.copy(source, tmp_path / "out", on_error="record", resume=resume)
            total = report.total
            assert (total.listed, total.written, total.failed, total.unfinished) == (115, 100, 15, 0)
            assert all("connection refused" in reason for reason in reasons(tmp_path / "out"))


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("options", [{"memory": 64 << 10}, {"workers": 1}], ids=str)
def test_silent_hosts_are_given_up_also_where_none_may_hang(tmp_path: Path, options: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=3, each=500)
        port = stack.enter_context(black_hole("0.0.0.0"))
        lines = [*hosts.lines(only_healthy=True), *lines_of("silent", port, 5, 4)]
        random.Random(0).shuffle(lines)
        source = package.urls(write(tmp_path / "list", iter(lines)), connect_timeout=0.3, retry_timeout=1)
        report = package.copy(source, tmp_path / "out", on_error="record", **options)
        assert (report.written, report.failed, report.total.unfinished) == (hosts.wanted, 20, 0)


@pytest.mark.slow(minutes=1)
def test_a_silent_host_that_is_there_again_in_time_loses_nothing(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(UrlServer("127.0.0.1"))
        hole = stack.enter_context(contextlib.ExitStack())
        port = hole.enter_context(black_hole("127.0.0.2"))

        def progress(now: package.Progress) -> None:
            if now.seconds > 3 and not there:
                hole.close()
                there.append(stack.enter_context(UrlServer("127.0.0.2", port=port)))

        there: list[UrlServer] = []
        lines = [f"back/{n}\thttp://127.0.0.2:{port}/{n}" for n in range(100)]
        lines += [f"o/{n}\t{others.url}/{n}" for n in range(2_000)]
        source = package.urls(write(tmp_path / "list", iter(lines)), connect_timeout=2)
        report = package.copy(source, tmp_path / "out", progress=progress)
        assert (report.written, report.failed, report.total.unfinished) == (2_100, 0, 0)
        assert there, "the run was over before"
