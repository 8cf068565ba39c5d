"""The power is cut under an update, a list of URLs or a part: what was committed, or there before, is not lost.

Not here: copies, other file systems than ext4, `parquet:` (`test_power_cut.py`).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.disks import Disk
from faults.jobs import KINDS, Job
from faults.runs import errors
from waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.mount]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_after_a_power_cut_an_update_a_list_or_a_part_has_all_that_it_claims_and_resumes(
    shoal: Command, service: Service, tmp_path: Path, disk: Callable[[str], Disk], kind: str, seed: int
) -> None:
    drive = disk("ext4")
    job = Job(shoal, service, tmp_path, drive.on / "out", kind)
    run = shoal.start(*job.slowly(3))
    # The first cut is behind the first commit, the others are at any time.
    if seed:
        time.sleep(random.Random(seed).uniform(0.2, 2.5))
    else:
        wait_until(lambda: job.done() > 0)

    drive.cut_power()

    _, said = run.communicate(timeout=20)
    # SQLite maps the log's index: where not even that can be read any more, the run dies as of the power cut.
    assert run.returncode in (0, 3, -signal.SIGBUS), said
    assert len(errors(said)) == (run.returncode == 3), said
    drive.restart()
    done = job.assert_nothing_is_claimed_or_lost()
    assert done > 0 or seed
    assert done == len(job.own) or run.returncode != 0, "a run that says it is complete is durable"
    if done < len(job.own):
        job.assert_resumes()
    job.assert_complete()
