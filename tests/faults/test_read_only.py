"""The destination turns read-only, or goes, under a running command: one error at once; later the job goes on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.disks import Disk
from faults.runs import assert_no_entry_without_its_file, assert_resumes, errors, make_source

pytestmark = [pytest.mark.root, pytest.mark.mount]

AT_ONCE = 2.0  # seconds


def copy_until_something_arrived(shoal: Command, command: list[str | Path], destination: Path) -> subprocess.Popen[str]:
    run = shoal.start(*command)
    end = time.monotonic() + 30
    while len(list(destination.glob("[0-9]/*"))) < 600 and time.monotonic() < end:
        time.sleep(0.01)
    return run


@pytest.mark.timing
@pytest.mark.parametrize("fault", ["read-only", "gone"])
def test_a_destination_that_fails_under_a_running_command_is_one_error_and_the_command_goes_on_later(
    shoal: Command,
    service: Service,
    tmp_path: Path,
    disk: Callable[[str], Disk],
    fault: str,
) -> None:
    wanted = make_source(tmp_path / "source")
    place = disk("ext4")
    destination = place.on / "out"
    command: list[str | Path] = ["copy", service(tmp_path / "source").url, destination, "--limit-rate", "2MB"]
    run = copy_until_something_arrived(shoal, [*command, "--json"], destination)

    began = time.monotonic()
    if fault == "gone":
        place.cut_power()
    else:
        place.turn_read_only()
    printed, said = run.communicate(timeout=30)

    assert time.monotonic() - began < AT_ONCE, said
    assert run.returncode == 3, said
    assert len(errors(said)) == 1, said
    assert str(destination) in said, "it says where"
    assert "Traceback" not in said
    kinds = {"destination-failed", "destination-read-only", "journal"}
    assert shoal.last_json(subprocess.CompletedProcess([], 3, printed))["kind"] in kinds
    place.mend()
    assert assert_no_entry_without_its_file(destination, wanted) < len(wanted)
    assert_resumes(shoal, destination, wanted, *command)
