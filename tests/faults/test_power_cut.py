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
from faults import datasets
from faults.disks import Disk
from faults.runs import RATE, assert_no_entry_without_its_file, assert_resumes, errors, make_source, wait_for_commit

pytestmark = [pytest.mark.root, pytest.mark.mount]

SLOW = pytest.mark.slow
ROUNDS = {"ext4": 50, "xfs": 20, "btrfs": 10}
DATASETS = {"ext4": 6, "xfs": 3, "btrfs": 3}
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


def cut_power(drive: Disk, run: subprocess.Popen[str]) -> tuple[int, str]:
    """Cuts the power under a command, and turns it on again; returns how the command ended and what it said."""
    if drive.kind == "btrfs":
        halted(drive, run)
        return -signal.SIGKILL, ""
    drive.cut_power()
    _, said = run.communicate(timeout=20)
    # SQLite maps the log's index: where not even that can be read any more, the run dies as of the power cut.
    assert run.returncode in (0, 3, -signal.SIGBUS), said
    assert len(errors(said)) == (run.returncode == 3), said
    drive.restart()
    return run.returncode, said


def rounds(counts: dict[str, int], ordinary: dict[str, int]) -> list[object]:
    return [
        pytest.param(kind, seed, id=f"{kind}-{seed}", marks=[SLOW] if seed >= ordinary.get(kind, 0) else [])
        for kind, count in counts.items()
        for seed in range(count)
    ]


@pytest.mark.parametrize(("kind", "seed"), rounds(ROUNDS, dict.fromkeys(ROUNDS, ORDINARY)))
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
        cut_power(drive, run)
        assert_no_entry_without_its_file(destination, wanted)
    assert_resumes(shoal, destination, wanted, *command)


@pytest.mark.parametrize(("kind", "seed"), rounds(DATASETS, {"ext4": ORDINARY}))
def test_after_power_cuts_a_dataset_has_every_committed_row_once_with_its_bytes(
    shoal: Command, service: Service, tmp_path: Path, disk: Callable[[str], Disk], kind: str, seed: int
) -> None:
    """Two cuts, each after something was committed in that session."""
    wanted = datasets.objects(make_source(tmp_path / "source"))
    drive = disk(kind)
    out = drive.on / "out"
    url = service(tmp_path / "source").url
    command: list[str | Path] = ["copy", url, f"parquet:{out}", *datasets.SMALL]
    moments = random.Random(seed)
    done = 0
    for _ in range(2):
        run = shoal.start(*command, "--limit-rate", "1MB")
        before = done
        wait_for_commit(out, before)
        time.sleep(moments.uniform(0, 0.9))  # a session commits once a second: any moment between two of them
        ended, said = cut_power(drive, run)
        assert ended != 0, said
        done = datasets.assert_published_rows_are_right(out, wanted)
        assert before < done < len(wanted), "what was committed before the cut is still there"
    datasets.assert_resumes(shoal, out, wanted, *command)
