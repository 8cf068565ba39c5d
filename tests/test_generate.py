"""What `shoal.generate` and `shoal generate` promise: a file for each id, made in worker processes, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from conftest import Command, Interpreter

# What every script of these tests begins with. `note` leaves a line in a file that all processes share; `once` is true
# for the first process that asks.
MODULE = """
import os, signal, sys, time
import shoal

def note(file, text):
    with open(file, "a") as out:
        out.write(f"{text}\\n")

def once(file):
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def plain(number):
    return f"content of {number}\\n"
"""

RUN = """
import json, sys, shoal, job
report = shoal.generate(job.make, {ids}, "out", **{options})
print(json.dumps([report.written, report.skipped, report.failed, report.bytes, report.complete]))
for one in report.failures:
    print(json.dumps([one.name, one.kind, one.reason]))
"""


def processes_in(directory: Path) -> list[int]:
    """Every process whose working directory this is: those that a test has started, and theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cwd").readlink() == directory.resolve():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


class Job:
    """A module with a function `make`, and scripts that call `shoal.generate` with it."""

    def __init__(self, directory: Path, interpreter: Interpreter) -> None:
        self.directory = directory
        self.interpreter = interpreter
        self.out = directory / "out"
        self.started: list[subprocess.Popen[str]] = []

    def module(self, text: str) -> None:
        (self.directory / "job.py").write_text(MODULE + textwrap.dedent(text))

    @staticmethod
    def script(ids: str, options: dict[str, Any]) -> str:
        return RUN.format(ids=ids, options=options)

    def run(self, ids: str = "range(20)", **options: Any) -> tuple[list[Any], list[list[str]]]:
        """Runs it: written, skipped, failed, bytes, complete; and the failures."""
        done = self.interpreter.run(self.script(ids, options))
        assert done.returncode == 0, done.stderr
        counts, *failures = map(json.loads, done.stdout.splitlines())
        return counts, failures

    def refused(self, ids: str = "range(20)", **options: Any) -> str:
        """The last words of one that cannot run."""
        done = self.interpreter.run(self.script(ids, options))
        assert done.returncode == 1, done.stdout
        return done.stderr

    def start(self, ids: str, **options: Any) -> subprocess.Popen[str]:
        process = self.interpreter.start(self.script(ids, options))
        self.started.append(process)
        return process

    def lines(self, file: str) -> list[str]:
        path = self.directory / file
        return path.read_text().splitlines() if path.exists() else []

    def contents(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in sorted(self.out.iterdir()) if one.is_file()}


@pytest.fixture
def job(tmp_path: Path, interpreter: Interpreter) -> Iterator[Job]:
    job = Job(tmp_path, interpreter)
    yield job
    for process in job.started:
        process.kill()
    try:
        until(lambda: not processes_in(tmp_path), 10)
    finally:
        for left in processes_in(tmp_path):
            os.kill(left, signal.SIGKILL)
        for process in job.started:
            process.communicate()


def expected(count: int) -> dict[str, str]:
    return {f"data-{number:04}.csv": f"content of {number}\n" for number in range(count)}


def test_every_id_has_a_file_with_what_the_function_returned_for_it(job: Job) -> None:
    job.module("make = plain")

    counts, failures = job.run("range(1234)")

    assert counts == [1234, 0, 0, sum(map(len, expected(1234).values())), True]
    assert not failures
    assert job.contents() == expected(1234)


def test_one_worker_is_given_the_ids_in_their_order(job: Job) -> None:
    job.module("def make(number): note('calls', number); return ''")
    job.run("range(1000, 0, -1)", workers=1)
    assert job.lines("calls") == [str(number) for number in range(1000, 0, -1)]


def test_the_function_is_called_in_other_processes_as_many_as_asked(job: Job) -> None:
    job.module("def make(number): time.sleep(0.02); return f'{os.getpid()}'")
    job.run("range(60)", workers=3)
    assert len(set(job.contents().values())) == 3


def test_ids_may_be_texts_and_names_may_have_directories(job: Job) -> None:
    job.module("def make(text): return text.upper()")

    job.run("['a', 'ä/b', '7']", name="{}/data.txt")

    assert (job.out / "a/data.txt").read_text() == "A"
    assert (job.out / "ä/b/data.txt").read_text() == "Ä/B"
    assert (job.out / "7/data.txt").read_text() == "7"


def test_no_ids_are_a_complete_job(job: Job) -> None:
    job.module("make = plain")
    assert job.run("[]")[0] == [0, 0, 0, 0, True]


@pytest.mark.parametrize("durability", ["none", "batch", "file"])
def test_every_durability_writes_the_same(job: Job, durability: str) -> None:
    job.module("make = plain")
    job.run("range(30)", durability=durability)
    assert job.contents() == expected(30)


def test_every_kind_of_data_is_saved(job: Job) -> None:
    job.module(
        """
        import array
        KINDS = {
            "bytes": b"1\\0", "text": "ä", "empty": "", "bytearray": bytearray(b"2"),
            "view": memoryview(b"abcdef")[::2], "array": array.array("H", [1, 2]), "large": bytes(9 << 20),
        }
        def make(kind): return KINDS[kind]
        """
    )
    job.run("['bytes', 'text', 'empty', 'bytearray', 'view', 'array', 'large']", name="{}", memory=1000)

    contents = {one.name: one.read_bytes() for one in job.out.iterdir() if one.is_file()}
    assert contents.pop("large") == bytes(9 << 20)
    assert contents == {
        "bytes": b"1\0",
        "text": "ä".encode(),
        "empty": b"",
        "bytearray": b"2",
        "view": b"ace",
        "array": b"\1\0\2\0",
    }


def test_tables_and_arrays_are_written_as_their_names_end(job: Job) -> None:
    numpy = pytest.importorskip("numpy")
    job.module("import numpy\ndef make(number): return numpy.arange(6).reshape(2, 3) + number")

    job.run("range(2)", name="{}.csv")
    job.run("range(2)", name="{}.npy", journal="journal")

    assert (job.out / "1.csv").read_text() == "1,2,3\n4,5,6\n"
    assert numpy.load(job.out / "1.npy").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_csv_files_end_as_asked(job: Job) -> None:
    pytest.importorskip("numpy")
    job.module("import numpy\ndef make(number): return numpy.arange(2).reshape(2, 1)")
    job.run("range(1)", name="{}.csv", final_newline=False)
    assert (job.out / "0.csv").read_text() == "0\n1"


def test_what_is_no_data_is_a_failure_of_its_id_alone(job: Job) -> None:
    job.module("def make(number): return number if number == 3 else plain(number)")

    counts, failures = job.run("range(10)")

    assert (counts[0], counts[2]) == (9, 1)
    ((name, kind, reason),) = failures
    assert (name, kind) == ("data-0003.csv", "function")
    assert "int" in reason


def test_an_id_that_raises_is_a_failure_with_its_traceback(job: Job, shoal: Command) -> None:
    job.module(
        """
        def deeper(number): raise LookupError(f"nothing for {number}")
        def make(number): return deeper(number) if number == 3 else plain(number)
        """
    )

    counts, failures = job.run("range(10)")

    assert (counts[0], counts[2], counts[4]) == (9, 1, True)
    ((name, kind, reason),) = failures
    assert (name, kind) == ("data-0003.csv", "function")
    assert reason.startswith("the function raised LookupError: nothing for 3\nTraceback")
    assert "in deeper" in reason
    assert "worker.py" not in reason
    said = shoal.run("status", "out").stdout
    assert "LookupError: nothing for 3" in said
    assert "in deeper" in said


def test_a_long_traceback_is_cut(job: Job) -> None:
    job.module("def make(number): raise ValueError('x' * 100_000)")
    _, failures = job.run("range(1)")
    assert len(failures[0][2]) < 6000


def test_sys_exit_in_the_function_ends_its_id_only(job: Job) -> None:
    job.module("def make(number): return sys.exit(5) if number == 3 else plain(number)")
    counts, failures = job.run("range(10)")
    assert (counts[0], counts[2]) == (9, 1)
    assert "SystemExit: 5" in failures[0][2]


def test_what_failed_can_be_made_again_after_mending(job: Job) -> None:
    job.module("def make(number): note('calls', number); return 1 / 0 if number % 5 == 0 else plain(number)")
    assert job.run("range(12)")[0][:3] == [9, 0, 3]
    job.module("def make(number): note('calls', number); return plain(number)")

    assert job.run("range(12)", retry_failed=True)[0][:3] == [3, 0, 0]

    assert job.contents() == expected(12)
    assert sorted(job.lines("calls")[12:]) == ["0", "10", "5"]


def test_the_first_failure_is_raised_on_request(job: Job) -> None:
    job.module("def make(number): raise LookupError('nothing')")
    said = job.refused("range(10)", on_error="raise")
    assert "ObjectError" in said
    assert "LookupError: nothing" in said


def test_a_name_that_somebody_else_has_is_a_failure_and_stays(job: Job) -> None:
    job.module("make = plain")
    job.out.mkdir()
    (job.out / "data-0002.csv").write_text("mine")

    counts, failures = job.run("range(5)")

    assert (counts[0], counts[2]) == (4, 1)
    assert failures[0][:2] == ["data-0002.csv", "exists"]
    assert (job.out / "data-0002.csv").read_text() == "mine"


def test_a_name_that_leads_out_is_a_failure(job: Job, tmp_path: Path) -> None:
    job.module("def make(text): return text")
    counts, failures = job.run("['a', '../b']", name="{}")
    assert (counts[0], counts[2]) == (1, 1)
    assert failures[0][1] == "unsafe-name"
    assert not (tmp_path / "b").exists()


def test_a_complete_job_is_not_done_again_unless_asked(job: Job) -> None:
    job.module("def make(number): note('calls', number); return plain(number)")
    job.run("range(10)")
    assert job.run("range(10)")[0][0] == 0
    assert len(job.lines("calls")) == 10

    job.module("def make(number): return 'new'")
    assert job.run("range(10)", again=True)[0][0] == 10
    assert set(job.contents().values()) == {"new"}


def test_nothing_committed_is_made_again_after_the_caller_was_killed(job: Job) -> None:
    job.module("def make(number): note(PHASE, number); time.sleep(0.003); return plain(number)\nPHASE = 'first'")
    process = job.start("range(900)")

    def committed() -> int:
        try:
            return package.status(job.out).runs[0].total.written
        except (package.ShoalError, IndexError):
            return 0

    until(lambda: committed() >= 100)
    process.kill()
    process.wait()
    until(lambda: not processes_in(job.directory))
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
    assert ("SIGKILL" if "SIGKILL" in end else "exit code 7") in failures[0][2]
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
    until(lambda: job.lines("calls"))
    process.kill()
    process.wait()
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
    until(lambda: job.lines("pid") and len(list(job.out.glob("*.csv"))) >= 10)
    sleeper = int(job.lines("pid")[0])
    process.kill()
    process.wait()
    try:
        counts, _ = job.run("range(20)")
    finally:
        os.kill(sleeper, signal.SIGCONT)
    assert counts[4]
    until(lambda: not processes_in(job.directory), 2)
    assert job.contents() == expected(20)


def test_no_process_outlives_a_caller_that_is_killed(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60)")
    process = job.start("range(20)", workers=3)
    until(lambda: len(job.lines("calls")) == 3)
    process.kill()
    process.wait()
    until(lambda: not processes_in(job.directory), 2)


def test_no_process_is_left_when_the_call_returns_but_pythons_own(job: Job) -> None:
    job.module("make = plain")
    script = """
        import multiprocessing, shoal, job, os
        shoal.generate(job.make, range(50), "out", workers=3)
        assert not multiprocessing.active_children()
        assert len(os.listdir("/proc/self/task")) == 1
        before = len(os.listdir("/proc/self/fd"))
        shoal.generate(job.make, range(60), "other", workers=3)
        assert len(os.listdir("/proc/self/fd")) == before
    """
    done = job.interpreter.run(script)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_it_within_2_s_and_the_same_call_goes_on(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60 if number > 250 else 0); return plain(number)")
    process = job.start("range(300)", durability="none")
    until(lambda: "251" in job.lines("calls"))

    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)

    assert time.monotonic() - began < 2
    assert "KeyboardInterrupt" in said
    until(lambda: not processes_in(job.directory), 2)
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
            if len(seen) == 3:
                raise RuntimeError("enough")
        try:
            shoal.generate(job.make, range(1000), "out", progress=told)
        except RuntimeError as error:
            assert error.report.unfinished > 0, error.report
            print(len(seen), error)
    """
    done = job.interpreter.run(script)
    assert done.stdout == "3 enough\n", done.stderr


@pytest.mark.parametrize(
    "function",
    ["lambda number: ''", "nested()", "shoal.serve(synthetic='1:1').stop", "functools.partial(print, file=sys.stdout)"],
)
def test_a_function_that_cannot_be_sent_is_refused_before_anything_starts(job: Job, function: str) -> None:
    job.module(
        """
        import functools
        def nested():
            def inner(number): return ""
            return inner
        """
    )
    script = f"""
        import job, shoal
        from job import *
        try:
            shoal.generate({function}, range(3), "out")
        except shoal.ConfigError as error:
            print(error)
    """
    done = job.interpreter.run(script)
    assert "cannot be sent to worker processes" in done.stdout, done.stderr
    assert "top level of a module" in done.stdout
    assert not job.out.exists()


@pytest.mark.parametrize("way", ["-c", "-"])
def test_a_function_of_a_program_that_is_no_file_is_refused_with_what_to_do(tmp_path: Path, way: str) -> None:
    script = "import shoal\ndef make(number): return ''\nshoal.generate(make, range(3), 'out')\n"
    arguments = [sys.executable, way, *([script] if way == "-c" else [])]
    done = subprocess.run(arguments, cwd=tmp_path, input=script, capture_output=True, text=True, timeout=60)
    assert "ConfigError" in done.stderr
    assert "put it into a module" in done.stderr
    assert not (tmp_path / "out").exists()


GUARDED = """
import shoal
def make(number): return str(number)
if __name__ == "__main__":
    print(shoal.generate(make, range(30), "out").written)
"""


@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]])
def test_a_function_of_a_script_works_run_either_way(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "program.py").write_text(GUARDED)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "30\n", done.stderr
    # The other way is the same job.
    other = [sys.executable, *(["-m", "program"] if len(arguments) == 1 else ["program.py"])]
    done = subprocess.run(other, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_a_script_without_the_guard_is_told_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(GUARDED.replace('__name__ == "__main__"', "True"))
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr
    assert "worker process" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]
    until(lambda: not processes_in(tmp_path), 5)


def test_a_module_that_workers_cannot_import_ends_the_run_with_the_reason(job: Job) -> None:
    job.module("import multiprocessing\nif multiprocessing.parent_process(): raise OSError('not here')\nmake = plain")
    said = job.refused()
    assert "RunError" in said
    assert "not here" in said


def test_the_function_may_call_shoal_itself(job: Job) -> None:
    job.module(
        """
        def make(number):
            report = shoal.save([("x", plain(number))], f"side/{number}")
            return f"{report.written}"
        """
    )
    assert job.run("range(4)")[0][0] == 4
    assert set(job.contents().values()) == {"1"}


def test_the_function_cannot_call_generate(job: Job) -> None:
    job.module("def make(number): return str(shoal.generate(plain, range(2), 'inner').written)")
    counts, failures = job.run("range(2)")
    assert counts[2] == 2
    assert "ConfigError" in failures[0][2]


def test_two_at_once_into_one_directory_are_refused(job: Job) -> None:
    job.module("def make(number): note('calls', number); time.sleep(60)")
    job.start("range(20)")
    until(lambda: job.lines("calls"))
    assert "JournalLockedError" in job.refused()


@pytest.mark.parametrize(
    ("ids", "options", "words"),
    [
        ("range(3)", {"name": "data.csv"}, "calls every object the same"),
        ("range(3)", {"name": "{:s}"}, "does not take the id 0"),
        ("['a', 'b']", {}, "does not take the id 'a'"),
        ("range(3)", {"name": "{} {}"}, "does not take the id 0"),
        ("iter([1])", {}, "not a range or a sequence"),
        ("'abc'", {}, "not a range or a sequence"),
        ("[1, 2.5]", {}, "neither a whole number nor text: 2.5"),
        ("range(3)", {"workers": 0}, "workers"),
    ],
)
def test_an_argument_that_is_wrong_is_refused_before_anything_starts(
    job: Job, ids: str, options: dict[str, Any], words: str
) -> None:
    job.module("make = plain")
    said = job.refused(ids, **options)
    assert "ConfigError" in said
    assert words in said
    assert not job.out.exists()


def test_nothing_can_be_generated_into_null(job: Job) -> None:
    job.module("make = plain")
    with pytest.raises(package.ConfigError, match="null:"):
        package.generate(len, range(3), "null:")


def test_workers_are_threads_where_there_is_no_gil(job: Job) -> None:
    # The same loops over the same pipes; here with a GIL, which only makes them slower.
    job.module("def make(number): return 1 / 0 if number == 3 else f'{os.getpid()}'")
    script = """
        import os, shoal, job
        from shoal._generate import supervisor
        supervisor.in_threads = lambda: True
        report = shoal.generate(job.make, range(200), "out", workers=2)
        print(report.written, report.failed, report.workers, open("out/data-0000.csv").read() == str(os.getpid()))
    """
    done = job.interpreter.run(script)
    assert done.stdout == "199 1 2 True\n", done.stderr


def test_memory_stays_flat_while_the_disk_is_slower_than_the_function(job: Job) -> None:
    job.module(
        """
        import resource
        def make(number):
            note("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            return bytes(4_000_000)
        """
    )
    job.run("range(60)", workers=1, memory="8MiB", durability="file")
    peaks = list(map(int, job.lines("peak")))
    assert peaks[-1] - peaks[0] < 40_000  # kB; all of it would be 240,000


class TestCommand:
    """`shoal generate MODULE:FUNCTION COUNT DST`."""

    @pytest.fixture
    def module(self, tmp_path: Path) -> None:
        (tmp_path / "job.py").write_text(MODULE)

    @pytest.mark.usefixtures("module")
    def test_it_saves_a_file_for_each_number_and_goes_on(self, shoal: Command) -> None:
        done = shoal.run("generate", "job:plain", "25", "out", "--json")
        assert done.returncode == 0, done.stderr
        assert shoal.last_json(done)["written"] == 25
        assert "workers: " in done.stderr
        assert (shoal.directory / "out/data-0024.csv").read_text() == "content of 24\n"
        assert "complete" in shoal.run("generate", "job:plain", "25", "out").stderr

    @pytest.mark.usefixtures("module")
    def test_names_are_as_asked(self, shoal: Command) -> None:
        done = shoal.run("generate", "job:plain", "3", "out", "--name", "{:02x}.txt", "--workers", "1")
        assert done.returncode == 0, done.stderr
        assert sorted(one.name for one in (shoal.directory / "out").glob("*.txt")) == ["00.txt", "01.txt", "02.txt"]

    @pytest.mark.usefixtures("module")
    def test_failures_are_exit_code_1_and_named_in_one_line(self, shoal: Command) -> None:
        (shoal.directory / "job.py").write_text(MODULE + "def broken(number): raise ValueError('why')\n")
        done = shoal.run("generate", "job:broken", "2", "out")
        assert done.returncode == 1
        assert '"data-0000.csv": the function raised ValueError: why' in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.usefixtures("module")
    @pytest.mark.parametrize(
        "arguments",
        [["job", "3"], ["nowhere:make", "3"], ["job:nothing", "3"], ["job:plain", "-3"], ["job:plain", "many"]],
    )
    def test_what_is_wrong_with_the_command_line_is_exit_code_2(self, shoal: Command, arguments: list[str]) -> None:
        done = shoal.run("generate", *arguments, "out")
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert not (shoal.directory / "out").exists()

    @pytest.mark.usefixtures("module")
    def test_ctrl_c_is_exit_code_130(self, shoal: Command) -> None:
        (shoal.directory / "job.py").write_text(MODULE + "def slow(number): note('calls', number); time.sleep(60)\n")
        process = shoal.start("generate", "job:slow", "5", "out", "--durability", "none")
        until(lambda: (shoal.directory / "calls").exists())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        assert process.returncode == 130
        assert "the same command goes on" in said
        until(lambda: not processes_in(shoal.directory), 2)
