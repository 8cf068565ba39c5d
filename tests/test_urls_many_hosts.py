"""Lists of URLs on many hosts, of which some are slow, failing or absent: the others are not held up."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
from many_hosts import Mixed, hosts, lines_of, reasons, write
from servers.ports import bound_socket
from servers.url_server import Answer, UrlServer

if TYPE_CHECKING:
    from conftest import Command

__all__ = ["hosts"]


def test_a_slow_a_failing_and_an_absent_host_do_not_hold_up_the_others(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=2_000, delay=0.02)
        alone, _ = hosts.time(package.urls(write(tmp_path / "alone", hosts.lines(only_healthy=True))), "null:")
        took, report = hosts.time(
            package.urls(write(tmp_path / "list", hosts.lines()), retry_timeout=5), tmp_path / "out"
        )
        assert report.written == 18 * 2_000
        assert report.failed == 2 * 2_000
        assert report.total.unfinished == 0
        why = reasons(tmp_path / "out")
        assert any("500" in reason for reason in why)
        assert any("refused" in reason for reason in why)
        # The slow host takes about 7 s, and the failing one is given up after 5.
        assert took < min(report.seconds / 2, alone + 5)


@pytest.mark.slow(minutes=20)
@pytest.mark.timing
def test_2_000_000_urls_healthy_hosts_take_at_most_1_15_times_as_long_beside_bad_ones(
    tmp_path: Path, shoal: Command
) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=100_000)
        healthy = write(tmp_path / "healthy", hosts.lines(only_healthy=True))
        every = write(tmp_path / "every", hosts.lines())
        pairs = [(hosts.seconds(shoal, healthy), hosts.seconds(shoal, every)) for _ in range(7)]
        assert statistics.median(beside / alone for alone, beside in pairs) <= 1.15, pairs


@pytest.mark.slow(minutes=1)
@pytest.mark.timing
def test_no_object_waits_for_a_slow_host_on_the_same_lane(tmp_path: Path, shoal: Command) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=20_000, delay=1)
        lines = list(hosts.lines(only_healthy=True))
        # The slow host comes early: lanes that are no longer needed later have its objects.
        lines[1_000:1_000] = [f"slow/{number}\t{hosts.slow.url}/object-{number}" for number in range(200)]
        hosts.assert_not_held_up(shoal, write(tmp_path / "beside", iter(lines)), at_most=2)


def test_hosts_that_pipeline_and_others_do_not_have_the_search_for_workers_begin_anew_each_time(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        pipelining = stack.enter_context(package.serve(synthetic="10000:100", host="127.0.0.1"))
        other = stack.enter_context(UrlServer("127.0.0.2"))
        lines = [f"p/{number}\t{pipelining.url}/get/object-{number:09}" for number in range(10_000)]
        lines += [f"o/{number}\t{other.url}/{number}" for number in range(5_000)]
        random.Random(0).shuffle(lines)
        report = package.copy(package.urls(write(tmp_path / "list", iter(lines))), tmp_path / "out")
        assert report.written == 15_000
        steps = [step.workers for step in report.concurrency]
        jumps = sum(max(a, b) >= 8 * min(a, b) for a, b in itertools.pairwise(steps))
        assert jumps < 10, steps  # between few, and hundreds where requests are sent ahead


@pytest.mark.slow(minutes=1)
@pytest.mark.timing
@pytest.mark.parametrize(("absent", "each"), [(500, 100), (3_000, 5)])
def test_hundreds_of_absent_hosts_do_not_hold_up_the_others(
    tmp_path: Path, shoal: Command, hosts: Mixed, absent: int, each: int
) -> None:
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(bound_socket(address="0.0.0.0")).getsockname()[1]
        lines = [*hosts.lines(only_healthy=True), *lines_of("absent", port, absent, each)]
        random.Random(0).shuffle(lines)
        beside = write(tmp_path / "beside", iter(lines))
        hosts.assert_not_held_up(shoal, beside, at_most=5, why="an absent host is given up after 10 s")
        report = package.copy(package.urls(beside, retry_timeout=2), tmp_path / "out", on_error="record")
        assert (report.written, report.failed, report.total.unfinished) == (hosts.wanted, absent * each, 0)
        assert report.seconds < 15


@pytest.mark.timing
def test_many_hosts_share_few_file_descriptors(tmp_path: Path, shoal: Command) -> None:
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(package.serve(synthetic="100:100", host="0.0.0.0"))
        port = service.url.rpartition(":")[2]
        lines = [f"h{h}/{n}\thttp://127.1.0.{h}:{port}/get/object-{n:09}" for h in range(1, 61) for n in range(100)]
        random.Random(0).shuffle(lines)
        urls = write(tmp_path / "list", iter(lines))
        done = subprocess.run(
            [*shoal.argv, "copy", "--urls", urls, tmp_path / "out", "--workers", "64", "--json"],
            capture_output=True,
            text=True,
            timeout=30,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
        assert done.returncode == 0, done.stderr
        assert shoal.last_json(done)["written"] == 6_000
        # It took more than 30 s while idle connections kept the descriptors that others lacked.


@pytest.mark.timing
@pytest.mark.parametrize(
    ("status", "headers"),
    [(503, {"Retry-After": "1"}), pytest.param(500, {}, marks=pytest.mark.slow(minutes=1))],
)
def test_a_host_that_is_well_again_is_asked_while_others_fill_all_workers(
    tmp_path: Path, shoal: Command, status: int, headers: dict[str, str]
) -> None:
    times: list[float] = []

    class Recovering(UrlServer):
        def answer(self, path: str) -> Answer:
            times.append(time.monotonic())
            is_bad = len(times) > 20 and times[-1] - times[20] < 0.5
            return Answer(b"not now", status, headers) if is_bad else Answer(path.encode())

    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(UrlServer(f"127.0.0.{number}", delay=0.01)) for number in (1, 2)]
        host = stack.enter_context(Recovering("127.0.0.3", delay=0.002))
        lines = [f"{host.url}/own-{number}" for number in range(400)]
        lines += [f"{other.url}/{at}-{number}" for number in range(1_000) for at, other in enumerate(others)]
        list_file = write(tmp_path / "list", iter(lines))
        done = shoal.run("copy", "--urls", list_file, "null:", "-j", "4", "--retry-timeout", "2", "--json")
        assert done.returncode == 0, done.stderr
        longest = max(later - time for time, later in itertools.pairwise(times))
        assert longest < 2, longest


@pytest.mark.parametrize("options", [("--pipeline", "off"), ("--per-host", "2")], ids=" ".join)
def test_hosts_that_share_few_connections_are_all_served(tmp_path: Path, shoal: Command, options: list[str]) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=20, each=100)
        list_file = write(tmp_path / "list", hosts.lines(only_healthy=True))
        for number in range(4):  # once it was a matter of luck whether a run ended
            done = shoal.run("copy", "--urls", list_file, tmp_path / f"out-{number}", "--json", *options)
            assert done.returncode == 0, done.stderr
            assert shoal.last_json(done)["written"] == 2_000


# Peak memory is `VmHWM`: `ru_maxrss` begins with the peak of the process that started this one.
RUN = """
import sys
import shoal
total = shoal.copy(shoal.urls(sys.argv[1], retry_timeout=5), sys.argv[2], on_error="record").total
memory = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
print(total.written, total.failed, total.unfinished, memory)
"""


def start(list_file: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(list_file), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("each", [1_500, pytest.param(100_000, marks=pytest.mark.slow(minutes=8))])
def test_a_run_over_20_hosts_that_is_killed_resumes_and_accounts_for_every_object(tmp_path: Path, each: int) -> None:
    with contextlib.ExitStack() as stack:
        hosts = Mixed(stack, healthy=17, each=each, delay=0.001)
        list_file, out = write(tmp_path / "list", hosts.lines()), tmp_path / "out"
        killed = start(list_file, out)
        while hosts.sent() < hosts.wanted / 3:
            time.sleep(0.01)
            assert killed.poll() is None
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        resumed = start(list_file, out)
        written, failed, unfinished, memory = map(int, resumed.communicate(timeout=1_000)[0].split())
        assert (written, failed, unfinished) == (18 * each, 2 * each, 0)
        assert sum(len(files) for folder, _, files in os.walk(out) if ".shoal" not in folder) == 18 * each
        assert memory < 400 << 10  # KiB: 256 MiB of data at most, and the rest
