"""`nice`: the threads of a run have low priorities, and no other thread of the process is touched."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
from trees import tree
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command, Service
    from generating import Job

LOWERED = (10, 3)  # nice value; IOPRIO_CLASS_IDLE

# The C library has no function for it, and no name for its number.
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}.get(platform.machine())
pytestmark = pytest.mark.skipif(IOPRIO_GET is None, reason="the number of ioprio_get is not known for this machine")


def priority(thread: int) -> tuple[int, int]:
    """Nice value and I/O class of a thread; 0 for the calling one."""
    io = ctypes.CDLL(None, use_errno=True).syscall(IOPRIO_GET, 1, thread)  # IOPRIO_WHO_PROCESS
    if io < 0:
        raise ProcessLookupError(ctypes.get_errno(), "ioprio_get")
    return os.getpriority(os.PRIO_PROCESS, thread), io >> 13


def threads(process: int) -> dict[str, list[tuple[int, int]]]:
    """The priorities of a process's threads by their names; the main thread is called "main"."""
    found: dict[str, list[tuple[int, int]]] = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip() if int(task.name) != process else "main"
            found.setdefault(name, []).append(priority(int(task.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def wait_for_priority(process: subprocess.Popen[str], names: set[str], wanted: tuple[int, int]) -> None:
    """Waits until a command has all these threads with this priority, and none of them with another.

    A thread exists for a moment before it lowers itself.
    """

    def are_there() -> bool:
        assert process.poll() is None, process.communicate()
        found = threads(process.pid)
        return all(set(found.get(name, [])) == {wanted} for name in names)

    wait_until(are_there, 30)


@pytest.fixture
def usual() -> tuple[int, int]:
    """The priority of this process; everything here needs one that can be lowered."""
    own = priority(0)
    if own[0] >= LOWERED[0] or own[1] == LOWERED[1]:
        pytest.skip(f"the tests run with a low priority already: {own}")
    return own


def test_the_threads_of_a_nice_run_have_low_priorities_and_it_copies_everything(
    shoal: Command, service: Service, usual: tuple[int, int]
) -> None:
    url = service(synthetic="2000:1000").url
    of_a_run = {"shoal-lane", "shoal-commit", "shoal-lease"}
    for name, flags, expected in (("nice", ["--nice"], LOWERED), ("usual", [], usual)):
        process = shoal.start("copy", url, name, *flags, "--limit-rate", "500K", "-v")
        wait_for_priority(process, of_a_run, expected)
        assert threads(process.pid)["main"] == [usual], "the caller's thread only watches"
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "--nice" not in said, "there is nothing to note"
        assert len(tree(shoal.directory / name)) == 2000
    assert tree(shoal.directory / "nice") == tree(shoal.directory / "usual")


def test_the_threads_that_encode_rows_have_low_priorities(
    shoal: Command, service: Service, usual: tuple[int, int]
) -> None:
    url = service(synthetic="2000:1000").url
    for flags, expected in ((["--nice"], LOWERED), ([], usual)):
        process = shoal.start("copy", url, f"parquet:out{len(flags)}", *flags, "--limit-rate", "500K")
        wait_for_priority(process, {"shoal-parquet-0"}, expected)
        assert process.wait(60) == 0


def test_a_thread_that_a_source_starts_inherits_them(shoal: Command, usual: tuple[int, int]) -> None:
    # Large enough to be planned by a thread of its own, and slow enough to be seen.
    (shoal.directory / "noise").write_bytes(random.Random(19).randbytes(6 << 20))
    with tarfile.open(shoal.directory / "one.tar.bz2", "w:bz2") as archive:
        archive.add(shoal.directory / "noise", "noise")
    for flags, expected in ((["--nice"], LOWERED), ([], usual)):
        process = shoal.start("unzip", "one.tar.bz2", "-d", f"out{len(flags)}", *flags)
        wait_for_priority(process, {"shoal-plan"}, expected)
        assert process.wait(60) == 0
        assert tree(shoal.directory / f"out{len(flags)}")["noise"] == (shoal.directory / "noise").read_bytes()


def test_the_callers_threads_keep_their_priority(tmp_path: Path, service: Service, usual: tuple[int, int]) -> None:
    over, others = threading.Event(), []

    def wait_and_look() -> None:
        over.wait()
        others.append(priority(0))

    other = threading.Thread(target=wait_and_look)
    other.start()

    report = package.copy(service(synthetic="100:100").url, tmp_path / "copied", nice=True)
    read = sum(1 for _ in package.read(tmp_path / "copied", nice=True))
    saved = package.save([("a", b"1")], tmp_path / "saved", nice=True)

    over.set()
    other.join()
    assert (report.written, report.complete, read, saved.written) == (100, True, 100, 1)
    assert priority(0) == usual
    assert others == [usual]


def test_a_nice_run_from_a_network_has_lanes_for_half_of_the_cores(shoal: Command, service: Service) -> None:
    url = service(synthetic="2000:1000").url
    lanes = []
    for name, flags in (("usual", []), ("nice", ["--nice"])):
        process = shoal.start("copy", url, name, "--workers", "64", *flags, "--limit-rate", "1M")
        wait_until((shoal.directory / name / "object-000000000").exists, 30)  # listed after the lanes have started
        lanes.append(len(threads(process.pid)["shoal-lane"]))
        assert process.wait(60) == 0
    assert lanes[1] == -(-lanes[0] // 2)


def test_a_nice_run_of_files_begins_with_half_of_the_cores(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").touch()
    usual, nice = (package.copy(tmp_path / "tree", tmp_path / f"{nice}", nice=nice).workers for nice in (False, True))
    assert nice == -(-usual // 2)


def test_a_run_goes_on_with_it_and_without_it(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "file").write_text(name)
    for nice in (False, True, False):
        report = package.copy(tmp_path / "tree", tmp_path / "out", nice=nice, resume="relist")
        assert (report.complete, report.total.written) == (True, 3)


def test_the_processes_of_a_nice_generate_have_low_priorities_and_are_half_as_many(
    job: Job, usual: tuple[int, int]
) -> None:
    job.module(
        f"""
        import ctypes

        def make(number):
            io = ctypes.CDLL(None).syscall({IOPRIO_GET}, 1, 0)
            return f"{{(os.getpriority(os.PRIO_PROCESS, 0), io >> 13)}} {{os.getpid()}}"
        """
    )
    half = -(-len(os.sched_getaffinity(0)) // 2)
    for nice, expected in ((True, LOWERED), (False, usual)):
        counts, failures = job.run(nice=nice, resume="restart", overwrite="always")
        assert (counts[0], failures) == (20, [])
        made = [data.decode().rpartition(" ") for data in tree(job.out).values()]
        assert {found for found, _, _ in made} == {str(expected)}
        assert not nice or len({process for _, _, process in made}) <= half


@pytest.mark.parametrize("command", ["copy", "read", "unzip", "generate", "verify"])
def test_help_lists_it_beside_the_workers(shoal: Command, command: str) -> None:
    speed = shoal.run(command, "--help").stdout.partition("Speed:\n")[2].partition("\n\n")[0].splitlines()
    workers = next(index for index, line in enumerate(speed) if "--workers" in line)
    assert any("--nice" in line for line in speed[workers + 1 :])
