"""The power is cut under a running command: its journal never counts what is gone, and the command completes the job.

ext4 and XFS have a call that drops everything that has not reached the disk. btrfs has none: there the job is halted,
and goes on with what the disk holds in that moment.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.disks import Disk
from faults.runs import RATE, assert_no_entry_without_its_file, assert_resumes, errors, make_source

pytestmark = [pytest.mark.root, pytest.mark.mount]

SLOW = pytest.mark.slow
ROUNDS = {"ext4": 50, "xfs": 20, "btrfs": 10}
# The others are run by make test-faults.
ORDINARY = 2


def halted(disk: Disk, process: subprocess.Popen[str]) -> None:
    """Stops the process where it is, and puts the disk back to what it held in that moment."""
    process.send_signal(signal.SIGSTOP)
    copies: list[str] = []
    kept = disk.image.with_suffix(".kept")
    # Two copies that are the same: nothing was being written back meanwhile.
    while len(copies) < 2 or copies[-1] != copies[-2]:
        shutil.copyfile(disk.image, kept)
        with kept.open("rb") as file:
            copies.append(hashlib.file_digest(file, "blake2b").hexdigest())
    process.kill()
    process.wait()
    disk.unmount()
    kept.replace(disk.image)
    disk.mount()


def rounds() -> list[object]:
    return [
        pytest.param(kind, seed, id=f"{kind}-{seed}", marks=[SLOW] if seed >= ORDINARY else [])
        for kind, count in ROUNDS.items()
        for seed in range(count)
    ]


@pytest.mark.parametrize(("kind", "seed"), rounds())
def test_after_a_power_cut_at_any_time_the_journal_counts_nothing_that_is_lost(
    shoal: Command, service: Service, tmp_path: Path, disk: Callable[[str], Disk], kind: str, seed: int
) -> None:
    wanted = make_source(tmp_path / "source")
    drive = disk(kind)
    destination = drive.on / "out"
    command: list[str | Path] = ["copy", service(tmp_path / "source").url, destination, "--limit-rate", RATE]
    moments = random.Random(seed)
    for _ in range(2):
        run = shoal.start(*command)
        time.sleep(moments.uniform(0.3, 2.0))
        if kind == "btrfs":
            halted(drive, run)
        else:
            drive.cut_power()
            _, said = run.communicate(timeout=20)
            # SQLite maps the log's index: where not even that can be read any more, the run dies as of the power cut.
            assert run.returncode in (0, 3, -signal.SIGBUS), said
            assert len(errors(said)) == (run.returncode == 3), said
            drive.restart()
        assert_no_entry_without_its_file(destination, wanted)
    assert_resumes(shoal, destination, wanted, *command)
