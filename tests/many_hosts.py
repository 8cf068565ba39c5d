"""Lists of URLs on many hosts, of which some are slow, failing or absent. Not here: the tests of them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from servers.ports import bound_socket
from servers.url_server import UrlServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Command


class Mixed:
    """Healthy hosts, and a slow, a failing and an absent one; and when the objects of the healthy were all sent."""

    def __init__(self, stack: contextlib.ExitStack, healthy: int, each: int, delay: float = 0.05) -> None:
        self.services = [
            stack.enter_context(package.serve(synthetic=f"{each}:100", host=f"127.0.0.{number}"))
            for number in range(1, healthy + 1)
        ]
        self.slow = stack.enter_context(UrlServer(f"127.0.0.{healthy + 1}", delay=delay))
        self.failing = stack.enter_context(UrlServer(f"127.0.0.{healthy + 2}", status=500))
        absent = f"127.0.0.{healthy + 3}"
        sock = stack.enter_context(bound_socket(address=absent))
        self.absent = f"http://{absent}:{sock.getsockname()[1]}"
        self.each, self.wanted = each, healthy * each
        self.alone: float | None = None  # seconds that the healthy hosts take, once they were measured

    def lines(self, *, only_healthy: bool = False) -> Iterator[str]:
        hosts = [f"{service.url}/get" for service in self.services]
        if not only_healthy:
            hosts += [self.slow.url, self.failing.url, self.absent]
        for number in range(self.each):
            for at, host in enumerate(hosts):
                yield f"{at}/{number}\t{host}/object-{number:09}"

    def time(self, source: Any, out: Path | str, **options: Any) -> tuple[float, package.Report]:
        """Copies, and returns after how long the last object of a healthy host was sent."""
        began, done = time.monotonic(), threading.Event()
        before = self.sent()
        took: list[float] = []

        def watch() -> None:
            while not done.wait(0.01):
                if self.sent() - before >= self.wanted:
                    return took.append(time.monotonic() - began)
            return None

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            report = package.copy(source, out, on_error="record", **options)
        finally:
            done.set()
            watcher.join()
        return (took or [time.monotonic() - began])[0], report

    def seconds(self, shoal: Command, list_file: Path) -> float:
        """The same for a copy that is stopped then: it would wait long for the others."""
        before, began = self.sent(), time.monotonic()
        with shoal.start("copy", "--urls", list_file, "null:") as copying:
            while self.sent() - before < self.wanted:
                assert copying.poll() is None
                time.sleep(0.01)
            took = time.monotonic() - began
            copying.send_signal(signal.SIGINT)
        return took

    def assert_not_held_up(self, shoal: Command, beside: Path, *, at_most: float, why: str = "") -> None:
        """The healthy hosts take at most so many seconds longer beside the others of a list than alone."""
        alone = beside.with_name("alone")
        took = self.seconds(shoal, beside)
        if self.alone is None or took >= self.alone + at_most:  # the machine may be busier than it was then
            self.alone = self.seconds(shoal, write(alone, self.lines(only_healthy=True)))
        assert took < self.alone + at_most, why

    def sent(self) -> int:
        return sum(service.stats.requests for service in self.services)


@pytest.fixture(scope="session")
def hosts() -> Iterator[Mixed]:
    """Hosts that several tests share: how long they take alone is measured once."""
    with contextlib.ExitStack() as stack:
        yield Mixed(stack, healthy=17, each=5_000)


def write(path: Path, lines: Iterator[str]) -> Path:
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def lines_of(kind: str, port: int, hosts: int, each: int) -> list[str]:
    """So many URLs of each of so many hosts, all at one port of this machine."""
    authorities = [f"127.1.{host // 250}.{host % 250}:{port}" for host in range(hosts)]
    return [f"{kind}/{a}/{number}\thttp://{a}/{number}" for a in authorities for number in range(each)]


def reasons(out: Path) -> set[str]:
    failures = package.status(out, failures=None).runs[-1].failures
    return {failure.reason.split(": ", 1)[1] for failure in failures}
