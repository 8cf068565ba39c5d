"""The destination turns read-only, or goes, under a running command: one error at once; later the job goes on."""

from __future__ import annotations

import subprocess
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

AT_ONCE = 2.0  # seconds


@pytest.mark.timing
@pytest.mark.parametrize("fault", ["read-only", "gone"])
@pytest.mark.parametrize("kind", ["copy", *KINDS])
def test_a_destination_that_fails_under_a_running_command_is_one_error_and_the_command_goes_on_later(
    shoal: Command, service: Service, tmp_path: Path, disk: Callable[[str], Disk], kind: str, fault: str
) -> None:
    place = disk("ext4")
    job = Job(shoal, service, tmp_path, place.on / "out", kind)
    run = shoal.start(*job.slowly(3), "--json")
    wait_until(lambda: job.done() > 0)

    began = time.monotonic()
    if fault == "gone":
        place.cut_power()
    else:
        place.turn_read_only()
    printed, said = run.communicate(timeout=30)

    assert time.monotonic() - began < AT_ONCE, said
    assert run.returncode == 3, said
    assert len(errors(said)) == 1, said
    assert str(job.out) in said, "it says where"
    assert "Traceback" not in said
    kinds = {"destination-failed", "destination-read-only", "journal"}
    assert shoal.last_json(subprocess.CompletedProcess([], 3, printed))["kind"] in kinds
    place.mend()
    assert 0 < job.assert_nothing_is_claimed_or_lost() < len(job.own)
    job.assert_resumes()
