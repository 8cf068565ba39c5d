"""Faults of a Ray cluster at random moments: nothing is lost, nothing is there twice, exit codes as without a cluster.

What must arrive is computed here, and read back without shoal. Not here: what a cluster does in order (`test_ray.py`).
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from clusters import LONG, Run, nodes, run
from conftest import Command, Service
from servers import faults
from servers.fault_server import FaultServer
from trees import tree
from waiting import wait_until

pytestmark = [pytest.mark.slow(minutes=4), pytest.mark.timing, pytest.mark.timeout(1200)]

__all__ = ["nodes", "run"]

MOMENTS = 10
COUNT, SIZE = 10_000, 100
ARCHIVES, ENTRIES = 200, 20
SLOWLY = ("--parts", "8", "--limit-rate", "150kB")  # about 7 s for the megabyte of each job
KINDS = ["files", "parquet", "archives"]


@dataclass
class Job:
    """A command line without options, what must be there when it has completed, and what is there."""

    command: Callable[[str], tuple[str, ...]]
    wanted: dict[str, bytes]
    found: Callable[[Path], dict[str, bytes]] = tree
    prefix: str = ""

    def check(self, out: Path, report: dict[str, Any]) -> None:
        """Every object is there once with its bytes, and the counts of the report and of all parts are those."""
        found = self.found(out)
        assert len(found) == len(self.wanted)
        assert not [name for name, data in self.wanted.items() if found.get(name) != data]
        expected = {"listed": len(found), "written": len(found), "bytes": sum(map(len, found.values()))}
        expected |= {"skipped": 0, "failed": 0, "unfinished": 0}
        assert report["complete"]
        assert report["total"] == expected
        status = package.status(f"{self.prefix}{out}")
        assert status.complete
        assert {name: sum(getattr(one.total, name) for one in status.runs) for name in expected} == expected
        assert not list((out / ".shoal").rglob("tmp/*")), "no unfinished file is left"
        assert not list((out / ".shoal").rglob("probe*"))


def synthetic(count: int, size: int) -> dict[str, bytes]:
    """What `synthetic=` serves."""
    names = [f"object-{number:09}" for number in range(count)]
    return {name: (f"{name}\n".encode() * size)[:size] for name in names}


def rows(directory: Path) -> dict[str, bytes]:
    """The objects of a dataset; fails if a name is there twice."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    found: dict[str, bytes] = {}
    for file in sorted(directory.glob("*.parquet")):
        table = parquet.read_table(file, columns=["name", "data"])
        for name, data in zip(*(column.to_pylist() for column in table.columns), strict=True):
            assert name not in found, f"{name} is there twice"
            found[name] = data
    return found


def job_of(kind: str, directory: Path, service: Service) -> Job:
    if kind != "archives":
        url = service(synthetic=f"{COUNT}:{SIZE}").url
        if kind == "files":
            return Job(lambda out: ("copy", url, out), synthetic(COUNT, SIZE))
        return Job(lambda out: ("copy", url, f"parquet:{out}"), synthetic(COUNT, SIZE), rows, "parquet:")
    (directory / "zips").mkdir()
    chance, wanted = random.Random(1), {}
    for number in range(ARCHIVES):
        with zipfile.ZipFile(directory / "zips" / f"a{number}.zip", "w") as archive:
            for entry in range(ENTRIES):
                wanted[f"a{number}/{entry}.bin"] = data = chance.randbytes(chance.randrange(500))
                archive.writestr(f"{entry}.bin", data)
    return Job(lambda out: ("unzip", "zips/*.zip", "-d", out, "--into-subdirectories"), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["worker", "node"])
def test_a_job_survives_ten_losses_at_random_moments(run: Run, service: Service, kind: str, fault: str) -> None:
    job = job_of(kind, run.directory, service)
    chance = random.Random(f"{fault} {kind}")
    lost = 0
    for number in itertools.count():
        process = run.start(*job.command(f"out-{number}"), *SLOWLY, "--json")
        while lost < MOMENTS and process.poll() is None:
            time.sleep(chance.uniform(0, 1.5))
            lost += process.poll() is None and run.nodes.lose(fault, chance)
        job.check(run.directory / f"out-{number}", run.ended(process))
        if lost == MOMENTS:
            return


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_command_completes_a_job_after_its_driver_was_killed_at_ten_random_moments(
    run: Run, service: Service, kind: str
) -> None:
    job = job_of(kind, run.directory, service)
    chance = random.Random(kind)
    killed = number = 0
    while killed < MOMENTS:
        process = run.start(*job.command(f"out-{number}"), *SLOWLY, "--json")
        try:
            process.wait(timeout=chance.uniform(1, 8))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
        else:
            job.check(run.directory / f"out-{number}", run.ended(process))
            number += 1
    job.check(run.directory / f"out-{number}", run(*job.command(f"out-{number}"), *SLOWLY))


def test_of_two_drivers_that_start_at_once_one_is_refused_and_the_other_completes(run: Run, service: Service) -> None:
    job = job_of("files", run.directory, service)
    for number in range(5):
        two = [run.start(*job.command(f"out-{number}"), *SLOWLY, "--json") for _ in range(2)]
        output = {process: process.communicate(timeout=LONG) for process in two}
        first, second = sorted(two, key=lambda process: process.returncode)
        assert (first.returncode, second.returncode) == (0, 3), output
        assert "another driver" in output[second][1]
        job.check(run.directory / f"out-{number}", json.loads(output[first][0].splitlines()[-1]))


@pytest.mark.root
@pytest.mark.mount
def test_a_full_disk_is_one_error_and_the_same_command_completes_the_job_when_there_is_room(
    run: Run, service: Service, tmpfs: Callable[[str], Path]
) -> None:
    count, size = 4_000, 3_000  # a page of memory each on tmpfs: 16 MB
    url = service(synthetic=f"{count}:{size}").url
    job = Job(lambda out: ("copy", url, out, "--parts", "8"), synthetic(count, size))
    place = tmpfs("size=16m")  # 8 MB of it are reserved for the journals of the parts
    for _ in range(2):  # again while it is still full
        process = run.start(*job.command(str(place / "out")), "--json")
        output, errors = process.communicate(timeout=LONG)
        assert process.returncode == 3, errors
        assert json.loads(output.splitlines()[-1])["kind"] == "destination-full"
        assert errors.count("error:") == 1, errors
        there = tree(place / "out")
        assert 0 < len(there) < count
        assert not [name for name, data in there.items() if data != job.wanted[name]], "what is there is whole"
    subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
    job.check(place / "out", run(*job.command(str(place / "out"))))


def test_a_source_that_answers_503_for_20_s_delays_a_job_on_a_cluster_as_it_does_another_run(
    run: Run, shoal: Command
) -> None:
    wanted = synthetic(2_000, 500)
    away = threading.Event()
    with FaultServer(dict(wanted), page_size=100) as server:
        server.on(lambda _: away.is_set(), faults.status(503))
        job = Job(lambda out: ("copy", server.url, out, "--parts", "6"), wanted)
        rate = ("--limit-rate", "100kB", "--json")  # 10 s
        process = run.start(*job.command("out"), *rate)
        wait_until(lambda: len(list(run.directory.glob("out/obj*"))) > 100, LONG)
        local = shoal.start("copy", server.url, "local", *rate)
        wait_until(lambda: len(list(run.directory.glob("local/obj*"))) > 100, LONG)
        away.set()
        time.sleep(20)
        away.clear()
        report = run.ended(process)
        output, errors = local.communicate(timeout=LONG)
        assert local.returncode == 0, errors
    assert tree(run.directory / "local") == wanted
    job.check(run.directory / "out", report)
    assert report["retries"] > 0
    assert json.loads(output.splitlines()[-1])["retries"] > 0
