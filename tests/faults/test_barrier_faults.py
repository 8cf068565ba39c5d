"""The barrier of a running command fails, or hangs while the user presses Ctrl-C twice."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.jobs import KINDS, Job
from faults.runs import RATE, assert_no_entry_without_its_file, assert_resumes, committed, errors, make_source
from faults.tracing import injected, traced, tracee


def asked_for(accesses: str) -> set[str]:
    """The objects a service was asked for. (Behind a large body some requests are sent twice.)"""
    return set(re.findall(r"/get/\S+", accesses))


def settled(log: Path) -> str:
    """What a service has logged of a run that has ended: it writes the last lines up to half a second later."""
    before, text = "", log.read_text()
    while before != text:
        time.sleep(1)
        before, text = text, log.read_text()
    return text


def threads(process: int) -> list[str]:
    """The threads of a process that are not yet gone; of one that has ended, strace may still hold the first."""
    found = []
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [thread.name] if (thread / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX" else []
    return found


@pytest.mark.parametrize("nth", [1, 2])
def test_after_a_failed_barrier_nothing_is_synced_again_and_all_it_covered_is_fetched_again(
    shoal: Command, service: Service, tmp_path: Path, nth: int
) -> None:
    wanted = make_source(tmp_path / "source")
    log, accesses = tmp_path / "strace", tmp_path / "accesses"
    server = service(tmp_path / "source", access_log=accesses)
    destination = tmp_path / "out"
    command: list[str | Path] = ["copy", server.url, destination, "--limit-rate", RATE]

    failed = shoal.under(*traced(log, f"syncfs:error=EIO:when={nth}")).run(*command, "--json")

    assert failed.returncode == 3, failed.stderr
    assert shoal.last_json(failed)["kind"] == "destination-failed"
    assert len(errors(failed.stderr)) == 1, failed.stderr
    calls = [line for line in log.read_text().splitlines() if "syncfs(" in line]
    assert len(calls) == nth, "no barrier after the one that failed"
    assert "(INJECTED)" in calls[-1]
    assert injected(log) == 1
    done = committed(destination)
    assert (done > 0) == (nth > 1), "the failed barrier has committed nothing"
    assert_no_entry_without_its_file(destination, wanted)
    before = len(settled(accesses))
    assert_resumes(shoal, destination, wanted, *command)
    server.stop()
    assert len(asked_for(accesses.read_text()[before:])) == len(wanted) - done, "all of the lost batch, and no more"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nth", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_after_a_failed_barrier_an_update_a_list_or_a_part_commits_nothing_more_and_resumes(
    shoal: Command, service: Service, tmp_path: Path, kind: str, nth: int
) -> None:
    job, log = Job(shoal, service, tmp_path, tmp_path / "out", kind), tmp_path / "strace"

    failed = shoal.under(*traced(log, f"syncfs:error=EIO:when={nth}")).run(*job.slowly(), "--json")

    assert failed.returncode == 3, failed.stderr
    assert shoal.last_json(failed)["kind"] == "destination-failed"
    (error,) = errors(failed.stderr)
    assert "input/output error" in error
    calls = [line for line in log.read_text().splitlines() if "syncfs(" in line]
    assert len(calls) == nth, "no barrier after the one that failed"
    assert injected(log) == 1
    assert (job.assert_nothing_is_claimed_or_lost() > 0) == (nth > 1), "the failed barrier has committed nothing"
    job.assert_resumes()


@pytest.mark.timing
def test_a_second_ctrl_c_while_a_barrier_hangs_ends_the_process_at_once(
    shoal: Command, service: Service, tmp_path: Path
) -> None:
    wanted = make_source(tmp_path / "source", small=1_000)
    destination = tmp_path / "out"
    command: list[str | Path] = ["copy", service(tmp_path / "source").url, destination, "--limit-rate", RATE]
    log = tmp_path / "strace"
    run = shoal.under(*traced(log, "syncfs:delay_enter=60s:when=2")).start(*command)
    process = tracee(run)
    end = time.monotonic() + 30
    while log.read_text().count("syncfs(") < 2 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)

    os.kill(process, signal.SIGINT)
    time.sleep(1)
    assert len(threads(process)) > 1, "the first waits for the barrier"
    began = time.monotonic()
    os.kill(process, signal.SIGINT)
    while len(threads(process)) > 1 and time.monotonic() < began + 10:
        time.sleep(0.01)
    assert time.monotonic() - began < 1
    run.kill()  # strace would wait for the rest of the 60 s with a process that is gone
    run.wait()
    assert 0 < assert_no_entry_without_its_file(destination, wanted) < len(wanted)
    assert_resumes(shoal, destination, wanted, *command)
