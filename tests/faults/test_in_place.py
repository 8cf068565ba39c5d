"""After a kill, files that no barrier covered are written again in place, and no fault makes one of them wrong.

`ARCHITECTURE.md` has the rule. Not here: what a kill has torn (`test_kill_sweep.py`).
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command
from faults.disks import Disk
from faults.runs import assert_no_entry_without_its_file, assert_resumes, committed
from faults.tracing import injected, traced
from trees import tree_of_raw_names
from waiting import wait_until

COUNT, SIZE = 2_000, 2_000
RATE = "2MB"  # a second: two seconds, and several batches
Words = list[str | Path]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    chance = random.Random(1)
    for number in range(COUNT):
        path = tmp_path / f"source/{number % 10}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(SIZE))
    time.sleep(0.05)  # the clock that stamps files moves in steps: they are older than the run
    return tmp_path / "source"


def whole(out: Path, wanted: dict[bytes, bytes]) -> dict[bytes, int]:
    """The files that have their bytes, with the number of each one's inode."""
    found = tree_of_raw_names(out) if out.exists() else {}
    return {name: (out / name.decode()).stat().st_ino for name, data in found.items() if wanted[name] == data}


def killed(shoal: Command, command: Words, out: Path, files: int) -> None:
    """Kills a run when it has written so many files."""
    run = shoal.start(*command, "--limit-rate", RATE)
    wait_until(lambda: sum(path.is_file() for path in out.glob("?/*")) > files)
    run.send_signal(signal.SIGKILL)
    assert run.wait(timeout=30) == -signal.SIGKILL


@pytest.mark.disk
def test_after_a_kill_files_with_the_bytes_of_their_objects_stay_the_same_files(
    shoal: Command, source: Path, tmp_path: Path
) -> None:
    wanted, out = tree_of_raw_names(source), tmp_path / "out"
    command: Words = ["copy", source, out]
    killed(shoal, command, out, COUNT // 2)
    before = whole(out, wanted)
    uncovered = len(before) - committed(out)
    assert_resumes(shoal, out, wanted, *command)
    after = whole(out, wanted)
    assert uncovered > 0
    moved = [name for name, inode in before.items() if after[name] != inode]
    assert moved == [], f"{len(moved)} of {len(before)} were replaced"


@pytest.mark.disk
@pytest.mark.parametrize("nth", [20, 150, *(pytest.param(n, marks=pytest.mark.slow) for n in (30, 50, 80, 110, 200))])
def test_killed_again_inside_a_write_a_resumed_run_has_torn_nothing_that_was_whole(
    shoal: Command, source: Path, tmp_path: Path, nth: int
) -> None:
    wanted, out = tree_of_raw_names(source), tmp_path / "out"
    command: Words = ["copy", source, out]
    killed(shoal, command, out, COUNT // 2)
    before = whole(out, wanted)
    kill = traced(tmp_path / "log", f"/^p?write(64)?$:signal=SIGKILL:when={nth}")
    again = shoal.under(*kill).run(*command, "--workers", "2")
    assert again.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), again.stderr
    assert before.keys() <= whole(out, wanted).keys()
    assert_no_entry_without_its_file(out, wanted)
    assert_resumes(shoal, out, wanted, *command)


@pytest.mark.disk
def test_after_a_failed_barrier_files_get_other_blocks(shoal: Command, source: Path, tmp_path: Path) -> None:
    """The kernel may hold the bytes of what it could not write, and believe that they are on the disk."""
    wanted, out, log = tree_of_raw_names(source), tmp_path / "out", tmp_path / "log"
    command: Words = ["copy", source, out]
    failed = shoal.under(*traced(log, "syncfs:error=EIO:when=1")).run(*command)
    assert failed.returncode == 3, failed.stderr
    assert injected(log) == 1
    before = whole(out, wanted)
    assert committed(out) == 0
    assert_resumes(shoal, out, wanted, *command)
    after = whole(out, wanted)
    kept = [name for name, inode in before.items() if after[name] == inode]
    # A file system may give the number of a file that was replaced to the next one.
    assert len(kept) < len(before) // 2


@pytest.mark.disk
def test_after_a_kill_a_file_that_has_got_another_name_is_replaced_and_not_written_to(
    shoal: Command, source: Path, tmp_path: Path
) -> None:
    """As by `cp -al`, which shares all files with a snapshot."""
    wanted, out, snapshot = tree_of_raw_names(source), tmp_path / "out", tmp_path / "snapshot"
    command: Words = ["copy", source, out]
    killed(shoal, command, out, COUNT // 2)
    subprocess.run(["cp", "-al", out, snapshot], check=True)
    files = [path for path in snapshot.glob("?/*") if path.is_file()]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    again = shoal.run(*command, "--json")
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before
    assert again.returncode == 0, again.stderr
    assert tree_of_raw_names(out) == wanted


@pytest.mark.disk
def test_after_a_kill_nothing_is_written_through_a_link_in_the_place_of_a_file(
    shoal: Command, source: Path, tmp_path: Path
) -> None:
    wanted, out = tree_of_raw_names(source), tmp_path / "out"
    command: Words = ["copy", source, out]
    killed(shoal, command, out, COUNT // 2)
    done = committed(out)
    for name in list(whole(out, wanted))[::7]:
        path, outside = out / name.decode(), tmp_path / f"outside-{name.decode().replace('/', '-')}"
        path.rename(outside)
        path.symlink_to(outside)
    before = {path: path.stat() for path in tmp_path.glob("outside-*")}
    again = shoal.run(*command)
    assert before
    assert done < COUNT
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in before} == {
        path: (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for path, one in before.items()
    }
    assert again.returncode in (0, 1), again.stderr


@pytest.mark.root
@pytest.mark.mount
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_a_power_cut_while_a_killed_run_is_resumed_leaves_no_file_wrong(
    shoal: Command, source: Path, disk: Callable[[str], Disk], kind: str, seed: int
) -> None:
    wanted, drive, moments = tree_of_raw_names(source), disk(kind), random.Random(seed)
    out = drive.on / "out"
    command: Words = ["copy", source, out]
    for _ in range(2):
        run = shoal.start(*command, "--limit-rate", RATE)
        time.sleep(moments.uniform(0.4, 1.2))
        run.kill()
        run.wait(timeout=30)
        assert_no_entry_without_its_file(out, wanted)
        before = committed(out)
        run = shoal.start(*command, "--limit-rate", RATE)
        time.sleep(moments.uniform(0.3, 1.2))
        drive.cut_power()
        run.communicate(timeout=30)
        drive.restart()
        done = assert_no_entry_without_its_file(out, wanted)
        assert done >= before or before == COUNT, "what was committed is durable; of a finished copy, this is an update"
    assert shoal.run(*command).returncode == 0
    drive.cut_power()
    drive.restart()
    assert tree_of_raw_names(out) == wanted, "a run that says it is complete is durable"
    assert shoal.last_json(shoal.run(*command, "--json"))["unchanged"] == COUNT
