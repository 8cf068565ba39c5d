"""What `shoal.generate` promises while it runs: whatever dies or is stopped, nothing is lost, made twice or left."""

from __future__ import annotations

import os
import signal
import time

import pytest

import shoal as package
from generating import Job, expected, processes_in
from waiting import wait_until

pytestmark = pytest.mark.disk

LEASE = 5.0  # s for which a run may still write after it was last seen


def test_nothing_committed_is_made_again_after_the_caller_was_killed(job: Job) -> None:
    job.module("def make(number): note(PHASE, number); time.sleep(0.003); return plain(number)\nPHASE = 'first'")
    process = job.start("range(900)")

    def committed() -> int:
        try:
            return package.status(job.out).runs[0].total.written
        except (package.ShoalError, IndexError):
            return 0

    wait_until(lambda: committed() >= 100)
    process.kill()
    process.wait()
    wait_until(lambda: not processes_in(job.directory))
    before = committed()
    assert before < 900
    job.module("def make(number): note('second', number); return plain(number)")

    counts, _ = job.run("range(900)")

    assert counts[0] == 900 - before
    assert len(job.lines("second")) == 900 - before
    assert job.contents() == expected(900)


def test_a_worker_that_is_killed_once_is_replaced_and_its_ids_are_done(job: Job) -> None:
    job.module(
        """
        def make(number):
            if number == 17 and once("died"):
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(number)
        """
    )
    counts, failures = job.run("range(400)")
    assert counts[0] == 400
    assert not failures
    assert (job.directory / "died").exists()
    assert job.contents() == expected(400)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(7)"])
def test_an_id_that_kills_its_workers_is_found_and_the_others_are_done(job: Job, end: str) -> None:
    job.module(
        f"""
        def make(number):
            if number in (17, 333):
                {end}
            return plain(number)
        """
    )

    counts, failures = job.run("range(400)")

    assert (counts[0], counts[2], counts[4]) == (398, 2, True)
    assert sorted((name, kind) for name, kind, _ in failures) == [
        ("data-0017.csv", "worker-killed"),
        ("data-0333.csv", "worker-killed"),
    ]
    assert ("SIGKILL" if "SIGKILL" in end else "exited with code 7") in failures[0][2]
    rest = expected(400)
    del rest["data-0017.csv"], rest["data-0333.csv"]
    assert job.contents() == rest


def test_half_a_file_of_a_killed_worker_is_replaced(job: Job) -> None:
    job.module(
        """
        def make(number):
            if number == 5 and once("died"):
                note("out/data-0005.csv", "half a")
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(number)
        """
    )
    counts, _ = job.run("range(20)")
    assert counts[0] == 20
    assert job.contents() == expected(20)


def test_what_a_worker_of_the_dead_run_writes_during_the_next_is_replaced(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60)")
    process = job.start("range(20)", workers=1)
    wait_until(lambda: job.lines("calls"))
    process.kill()
    process.wait()
    killed = time.time()
    # What it left half comes into being only now, while the next run works.
    job.module(
        """
        def make(number):
            if number == 0:
                note("out/data-0000.csv", "half a")
            return plain(number)
        """
    )
    counts, _ = job.run("range(20)")
    if (job.out / "data-0000.csv").read_text() == "half a\n":
        # A machine so busy that the dead run's lease of 5 s was over: then it is another program's file, which is said.
        assert (job.out / "data-0000.csv").stat().st_mtime - killed > LEASE - 1
        assert (counts[0], counts[2]) == (19, 1)
        return
    assert counts[0] == 20
    assert job.contents() == expected(20)


def test_a_worker_that_slept_through_the_death_of_its_run_does_no_harm(job: Job) -> None:
    job.module(
        """
        def make(number):
            if number == 0 and once("stopped"):
                note("pid", os.getpid())
                os.kill(os.getpid(), signal.SIGSTOP)
                return "of the dead run"
            return plain(number)
        """
    )
    process = job.start("range(20)", workers=2)
    wait_until(lambda: job.lines("pid") and len(list(job.out.glob("*.csv"))) >= 10)
    sleeper = int(job.lines("pid")[0])
    process.kill()
    process.wait()
    try:
        counts, _ = job.run("range(20)")
    finally:
        os.kill(sleeper, signal.SIGCONT)
    assert counts[4]
    wait_until(lambda: not processes_in(job.directory))
    assert job.contents() == expected(20)


def test_no_process_outlives_a_caller_that_is_killed(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60)")
    process = job.start("range(20)", workers=3)
    wait_until(lambda: len(job.lines("calls")) == 3)
    process.kill()
    process.wait()
    wait_until(lambda: not processes_in(job.directory))


def test_no_process_is_left_when_the_call_returns_but_pythons_own(job: Job) -> None:
    job.module("make = plain")
    script = """
        import multiprocessing, shoal, job, os
        shoal.generate(job.make, range(50), "out", name="data-{:04d}.csv", workers=3)
        assert not multiprocessing.active_children()
        assert len(os.listdir("/proc/self/task")) == 1
        before = len(os.listdir("/proc/self/fd"))
        shoal.generate(job.make, range(60), "other", name="data-{:04d}.csv", workers=3)
        assert len(os.listdir("/proc/self/fd")) == before
    """
    done = job.interpreter.run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.timing
def test_ctrl_c_ends_it_within_2_s_and_the_same_call_goes_on(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60 if number > 250 else 0); return plain(number)")
    process = job.start("range(300)", durability="none")
    wait_until(lambda: "251" in job.lines("calls"))

    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)

    assert time.monotonic() - began < 2
    assert "KeyboardInterrupt" in said
    wait_until(lambda: not processes_in(job.directory))
    job.module("make = plain")
    assert job.run("range(300)")[0][4]
    assert job.contents() == expected(300)


def test_a_progress_function_is_told_and_what_it_raises_stops_the_run(job: Job) -> None:
    job.module("def make(number): time.sleep(0.02); return plain(number)")
    script = """
        import shoal, job
        seen = []
        def told(progress):
            seen.append(progress.run.written)
            if progress.run.written and len(seen) >= 3:
                raise RuntimeError("enough")
        try:
            shoal.generate(job.make, range(1000), "out", name="data-{:04d}.csv", progress=told)
        except RuntimeError as error:
            assert error.report.unfinished > 0, error.report
            print(error)
    """
    done = job.interpreter.run(script)
    assert done.stdout == "enough\n", done.stderr


def test_two_at_once_into_one_directory_are_refused(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60)")
    job.start("range(20)")
    wait_until(lambda: job.lines("calls"))
    assert "JournalLockedError" in job.refused()


def test_memory_stays_flat_while_the_disk_is_slower_than_the_function(job: Job) -> None:
    job.module(
        """
        def make(number):
            note("peak", open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
            return bytes(4_000_000)
        """
    )
    job.run("range(60)", workers=1, memory="8MiB", durability="file")
    peaks = list(map(int, job.lines("peak")))
    assert peaks[-1] - peaks[0] < 40_000  # kB; all of it would be 240,000
