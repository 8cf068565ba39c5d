"""The same command twice, while the first one is stopped: the second waits or refuses, and nothing is done twice."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from conftest import PATIENCE, Command, Service
from faults.jobs import KINDS, Job
from faults.runs import errors
from waiting import wait_until

pytestmark = pytest.mark.disk


def is_stopped(process: int) -> bool:
    """Whether each thread has been stopped: one that waits for the disk is so later."""
    states = [(task / "stat").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)


@pytest.mark.parametrize("kind", ["copy", *KINDS])
def test_a_twin_of_a_stopped_run_takes_nothing_over_and_both_end_right(
    shoal: Command, service: Service, tmp_path: Path, kind: str
) -> None:
    job = Job(shoal, service, tmp_path, tmp_path / "out", kind)
    first = shoal.start(*job.slowly(3), "--json")
    wait_until(lambda: job.done() > 0)
    first.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(first.pid))
    before = job.found()

    twin = shoal.start(*job.command, "--json")
    if kind == "part":  # as a cluster starts it again; it may wait for as long as it likes
        time.sleep(1)
        assert twin.poll() is None
    else:
        _, said = twin.communicate(timeout=PATIENCE)
        assert twin.returncode == 3, said
        (error,) = errors(said)
        assert f"pid {first.pid}" in error
    assert job.found() == before, "the twin has written nothing"

    first.send_signal(signal.SIGCONT)
    printed, said = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, said
    assert json.loads(printed.splitlines()[-1])["written"] == len(job.own)
    if kind == "part":
        printed, said = twin.communicate(timeout=PATIENCE)
        assert twin.returncode == 0, said
        report = json.loads(printed.splitlines()[-1])
        assert (report["run"]["written"], report["total"]["written"]) == (0, len(job.own))
    job.assert_complete()
