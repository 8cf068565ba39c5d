"""Killed at any moment, a run resumes to the right bytes and redoes no more than what was not committed.

The kill comes from strace: the process dies *inside* the n-th system call of a kind, before the call takes effect. So
every file create, write, close, barrier and journal write can be the last one.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from conftest import Command, Service
from faults.jobs import KINDS, Job
from faults.tracing import traced
from trees import tree

pytestmark = pytest.mark.disk


COUNT = 1_000
COUNT_MAX = 3_000  # of the sweep that `make test-faults` runs
PAGE = 300  # names: several pages, since a run goes on where one begins
SIZE = 120  # bytes
SHOAL = [sys.executable, "-m", "shoal"]

# Moments inside system calls, counted for each thread apart; more at random times below. The journal is pwrite64 (the
# log) and fsync, the barrier is syncfs, objects are openat2, write and close; the lock and the private directory come
# first.
MOMENTS = [
    *[("mkdirat", 2)],
    *[("flock", 1)],
    *[("openat2", n) for n in (1, 400)],
    *[("write", n) for n in (30, 400)],
    *[("close", n) for n in (200, 400)],
    *[("syncfs", n) for n in (1, 2)],
    *[("pwrite64", n) for n in (8, 40)],
    *[("fsync", n) for n in (3, 10)],
]
MOMENTS_MAX = [
    *[("mkdirat", n) for n in (1, 2)],
    *[("flock", 1)],
    *[("openat2", n) for n in (1, 40, 700, 1200)],
    *[("write", n) for n in (30, 300, 700, 1200)],
    *[("close", n) for n in (200, 900)],
    *[("syncfs", n) for n in (1, 2)],
    *[("pwrite64", n) for n in (1, 3, 8, 20, 40)],
    *[("fsync", n) for n in (1, 3, 6, 10)],
]
# Of the kinds of jobs that have much before the run, or in other threads. An update puts each object in its place by a
# rename.
KIND_MOMENTS = [("syncfs", 2), ("pwrite64", 30), ("close", 60)]
KIND_MOMENTS_MAX = [
    *[("mkdirat", 1), ("openat2", 1), ("fsync", 3), ("fsync", 4), ("syncfs", 1), ("pwrite64", 3), ("pwrite64", 12)],
    *[("write", 90), ("openat2", 90), ("/^renameat2?$", 1), ("unlinkat", 1), ("unlink", 1)],
]
# Seconds after a kill in which changes count as the run's own, and a bit.
LEASE = 6
# Slow enough for several batches, so that something is committed before many of the kills: 2 s and 1.2 s.
SLOWLY = {COUNT: "60kB", COUNT_MAX: "300kB"}


def serve(count: int) -> shoal.Server:
    return shoal.serve(synthetic=f"{count}:{SIZE}", page_size=PAGE if count == COUNT else 1_000)


def wanted(count: int) -> dict[str, bytes]:
    names = [f"object-{number:09}" for number in range(count)]
    return {name: ((name + "\n").encode() * SIZE)[:SIZE] for name in names}


def last_json(text: str) -> dict[str, Any]:
    return dict(json.loads(text.strip().splitlines()[-1]))


def committed(destination: Path) -> int:
    """What the journal of a killed run says, read by the command that a user would ask."""
    if not (destination / ".shoal" / "journal.db").exists():
        return 0
    status = subprocess.run([*SHOAL, "status", str(destination), "--json"], capture_output=True, text=True, timeout=30)
    if status.returncode != 0:
        return 0  # killed before the run was entered into the journal
    runs = last_json(status.stdout)["runs"]
    return int(runs[-1]["written"]) if runs else 0


def resume_and_check(url: str, destination: Path, count: int) -> None:
    before = committed(destination)
    again = subprocess.run(
        [*SHOAL, "copy", url, str(destination), "--json"], capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    report = last_json(again.stdout)
    assert report["written"] == count - before, "what is committed is not fetched again, and nothing is left out"
    assert tree(destination) == wanted(count)
    assert list((destination / ".shoal" / "tmp").iterdir()) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (scripts/install_test_tools.sh)")
@pytest.mark.parametrize(
    ("call", "nth", "count"),
    [
        *[(*moment, COUNT) for moment in MOMENTS],
        *[pytest.param(*moment, COUNT_MAX, marks=pytest.mark.slow) for moment in MOMENTS_MAX],
    ],
)
def test_killed_inside_the_nth_system_call_a_run_resumes(tmp_path: Path, call: str, nth: int, count: int) -> None:
    destination = tmp_path / "out"
    with serve(count) as server:
        inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
        inject += ["-e", f"inject={call}:signal=SIGKILL:when={nth}"]
        command = [*inject, *SHOAL, "copy", server.url, str(destination), "--workers", "8"]
        command += ["--limit-rate", SLOWLY[count]]
        run = subprocess.run(command, capture_output=True, timeout=60)
        assert run.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), run.stderr
        resume_and_check(server.url, destination, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("call", "nth"), [*KIND_MOMENTS, *(pytest.param(*moment, marks=pytest.mark.slow) for moment in KIND_MOMENTS_MAX)]
)
def test_killed_inside_the_nth_system_call_an_update_a_list_and_a_part_resume(
    shoal: Command, service: Service, tmp_path: Path, kind: str, call: str, nth: int
) -> None:
    job = Job(shoal, service, tmp_path, tmp_path / "out", kind)
    kill = traced(tmp_path / "strace", f"{call}:signal=SIGKILL:when={nth}")
    killed = shoal.under(*kill).run(*job.slowly(), "--workers", "2")
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    assert (job.assert_nothing_is_claimed_or_lost() > 0) or (call, nth) != ("syncfs", 2), "the first batch is committed"
    job.assert_resumes()


@pytest.mark.parametrize(
    ("seed", "count"),
    [*[(seed, COUNT) for seed in range(3)], *[pytest.param(n, COUNT_MAX, marks=pytest.mark.slow) for n in range(6)]],
)
def test_killed_again_and_again_at_random_times_a_run_ends_right(tmp_path: Path, seed: int, count: int) -> None:
    moments = random.Random(seed)
    destination = tmp_path / "out"
    with serve(count) as server:
        for _ in range(3):
            command = [*SHOAL, "copy", server.url, str(destination), "--limit-rate", SLOWLY[count]]
            run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.1, 1.5))
            run.kill()
            run.wait(timeout=30)
        status = committed(destination)
        if status == count:
            assert tree(destination) == wanted(count)
        else:
            resume_and_check(server.url, destination, count)


def torn_by_a_kill(shoal: Command, tmp_path: Path, source: Path, out: Path) -> list[Path]:
    """Kills a copy at a write to a file. On a busy machine, one of the journal may come instead: then at the next."""
    for moment in range(50, 60):
        kill = traced(tmp_path / "strace", f"write:signal=SIGKILL:when={moment}")
        killed = shoal.under(*kill).run("copy", source, out, "--workers", "1")
        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
        torn = [path for path in out.iterdir() if path.is_file() and path.stat().st_size < 5_000]
        if torn:
            return torn
        shutil.rmtree(out)
    pytest.fail("no write to a file was met")


@pytest.mark.parametrize("change", ["permissions", "link"])
def test_49_what_a_kill_has_torn_is_never_taken_for_a_copy_that_was_edited(
    shoal: Command, tmp_path: Path, change: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for number in range(200):
        (source / f"{number:03}").write_bytes(random.Random(number).randbytes(5_000))
    time.sleep(0.1)  # the clock that stamps files moves in steps: they are older than the run
    (torn,) = torn_by_a_kill(shoal, tmp_path, source, out)
    time.sleep(LEASE)  # what is changed sooner counts as the run's own work
    if change == "permissions":
        torn.chmod(0o640)
    else:
        (tmp_path / "link").hardlink_to(torn)
    for _ in range(3):
        done = shoal.run("copy", source, out)
        assert done.returncode == 1, done.stderr
        assert f'"{torn.name}": cannot create' in done.stderr
    assert shoal.run("copy", source, out, "--overwrite", "always").returncode == 0
    assert tree(out) == tree(source)
