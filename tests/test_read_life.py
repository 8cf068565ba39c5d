"""A reader in the rough: memory, signals, forks, the end of the interpreter, disks that fail, too few files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Interpreter

MEBIBYTE = 1 << 20

# Peak memory, less what it is before anything is read; in bytes. (`ru_maxrss` begins with the peak of the process that
# started this one.)
MEASURE = """
    import shoal, sys, time
    def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
    shoal.copy  # imported
    before = peak()
"""


def grown(interpreter: Interpreter, script: str, *arguments: str | Path) -> int:
    """Runs a script that prints by how much its memory has grown."""
    text = "\n".join([*map(str.strip, MEASURE.strip().splitlines()), script, "print(peak() - before)"])
    done = interpreter.run(text, *arguments, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout.splitlines()[-1])


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A file of 100 kB, to be read many times."""
    path = tmp_path / "f"
    path.write_bytes(os.urandom(100_000))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file of 10 kB: a thousand of them take no time, and are more than a budget of 1 MiB."""
    path = tmp_path / "small"
    path.write_bytes(os.urandom(10_000))
    return path


@pytest.mark.parametrize("order", ["any", "source"])
def test_a_consumer_that_sleeps_does_not_make_memory_grow(interpreter: Interpreter, many: Path, order: str) -> None:
    script = f"""
paths = [sys.argv[1]] * 20_000
before = peak()
for at, obj in enumerate(shoal.read(paths, memory="64MiB", order="{order}")):
    if at % 2000 == 0: time.sleep(0.1)
assert at == 19_999
"""
    assert grown(interpreter, script, many) < (64 + 60) * MEBIBYTE


@pytest.mark.slow(minutes=2)
def test_two_hundred_thousand_files_and_a_consumer_that_sleeps_stay_within_the_budget(
    interpreter: Interpreter, many: Path
) -> None:
    script = """
paths = [sys.argv[1]] * 200_000
before = peak()
for at, obj in enumerate(shoal.read(paths)):
    if at % 2000 == 0: time.sleep(0.1)
assert at == 199_999
"""
    assert grown(interpreter, script, many) < (256 + 60) * MEBIBYTE


def test_keeping_every_thousandth_object_keeps_only_those(interpreter: Interpreter, tmp_path: Path, many: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(os.urandom(5000))
    script = """
paths = [sys.argv[1], sys.argv[2]] * 50_000
before = peak()
kept = [obj for at, obj in enumerate(shoal.read(paths, memory="32MiB")) if at % 1000 < 2]
assert len(kept) == 200, len(kept)
"""
    # 200 objects, at most twice their size and 4 KiB each; beside the budget.
    assert grown(interpreter, script, many, small) < (32 + 60 + 100 * 2 * 0.11) * MEBIBYTE


def test_a_list_of_four_times_the_budget_works(interpreter: Interpreter, many: Path) -> None:
    script = """
kept = list(shoal.read([sys.argv[1]] * 700, memory="16MiB"))
assert sum(obj.size for obj in kept) == 70_000_000
before = peak()
"""
    grown(interpreter, script, many)


@pytest.mark.timing
def test_ctrl_c_in_the_loop_ends_it_within_two_seconds(interpreter: Interpreter, many: Path) -> None:
    for body in ("pass", "time.sleep(0.001)", "time.sleep(30)"):
        script = f"""
            import shoal, sys, time
            for at, obj in enumerate(shoal.read([sys.argv[1]] * 10_000_000)):
                if at == 10: print("going", flush=True)
                {body if body != "time.sleep(30)" else "if at == 10: time.sleep(30)"}
        """
        process, _ = interpreter.interrupt(script, many, after=0)
        assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize("of", ["", ".batches()"])
@pytest.mark.timing
def test_ctrl_c_ends_a_loop_that_is_not_the_interpreters(interpreter: Interpreter, many: Path, of: str) -> None:
    script = f"""
        import collections, shoal, sys
        print("going", flush=True)
        collections.deque(shoal.read([sys.argv[1]] * 10_000_000){of}, maxlen=0)
    """
    interpreter.interrupt(script, many, after=0.5)


@pytest.mark.timing
def test_ctrl_c_while_waiting_for_a_service_ends_it(interpreter: Interpreter) -> None:
    script = """
        import shoal, socket
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0)); deaf.listen(1)
            print("going", flush=True)
            next(shoal.read(f"http://127.0.0.1:{deaf.getsockname()[1]}"))
    """
    interpreter.interrupt(script)


# A loop that starts over after each exception. `list.extend` keeps what came before one, and runs no bytecode between
# taking an object and keeping it, where the interpreter itself would lose the object to a signal.
GO_ON = """
    import pyarrow, shoal, signal, sys
    class Raised(Exception): pass
    def raises(*_): raise Raised
    in_progress, batches = {in_progress}, {batches}
    reader = shoal.read(sys.argv[1], limit_rate="10MB", progress=raises if in_progress else None)
    source = reader.batches(20) if batches else reader
    signal.signal(signal.SIGALRM, raises)
    taken, raised = [], 0
    while reader.report is None:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0 if in_progress else 0.005)
            taken.extend(source)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Raised:
            raised += 1
    names = [name.as_py() for one in taken for name in pyarrow.record_batch(one)["name"]] if batches else None
    names = names or [one.name for one in taken]
    report = reader.report
    print(len(names), len(set(names)), report.written, report.failed, report.complete, raised > 2)
"""


@pytest.mark.parametrize("in_progress", [False, True], ids=["a signal handler", "the progress function"])
@pytest.mark.parametrize("batches", [False, True], ids=["objects", "batches"])
def test_a_loop_that_goes_on_after_an_exception_gets_every_object_once(
    interpreter: Interpreter, tmp_path: Path, batches: bool, in_progress: bool
) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "tree").mkdir()
    for number in range(600):
        (tmp_path / "tree" / str(number)).write_bytes(b"x" * 10_000)

    done = interpreter.run(GO_ON.format(batches=batches, in_progress=in_progress), tmp_path / "tree")

    assert (done.returncode, done.stdout, done.stderr) == (0, "600 600 600 0 True True\n", "")


def test_a_stream_of_batches_begins_with_what_an_exception_interrupted(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "tree").mkdir()
    for number in range(100):
        (tmp_path / "tree" / str(number)).write_bytes(b"x" * 1000)
    script = """
        import pyarrow, shoal, sys
        def raises(progress):
            if progress.run.written: raise ZeroDivisionError
        batches = shoal.read(sys.argv[1], limit_rate="100kB", progress=raises).batches(10)
        rows, raised = 0, 0
        while not raised:
            try:
                rows += len(next(batches))
            except ZeroDivisionError:
                raised += 1
        rows += sum(map(len, pyarrow.RecordBatchReader.from_stream(batches)))
        print(rows, raised)
    """

    done = interpreter.run(script, tmp_path / "tree")

    assert (done.returncode, done.stdout, done.stderr) == (0, "100 1\n", "")


def test_a_forked_child_is_told_and_new_readers_work_there(interpreter: Interpreter, small: Path) -> None:
    script = """
        import gc, os, shoal, signal, sys
        paths = [sys.argv[1]] * 2_000
        begun, fresh = shoal.read(paths, memory="1MiB"), shoal.read(paths[:100])
        next(begun)
        for attempt in range(20):
            child = os.fork()
            if not child:
                signal.alarm(15)
                try:
                    for obj in begun: pass  # what was taken before the fork may still come
                    os._exit(2)
                except RuntimeError as error:
                    assert "forked" in str(error), error
                for use in (begun.close, lambda: begun.report):
                    try:
                        use()
                    except RuntimeError:
                        pass
                del begun
                gc.collect()
                assert sum(1 for _ in fresh) == 100
                assert sum(1 for _ in shoal.read(paths)) == 2_000
                sys.exit(7)  # through the interpreter's own exit
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, attempt
        print(1 + sum(1 for _ in begun), sum(1 for _ in fresh))
    """
    done = interpreter.run(script, small)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2000 100\n", "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_every_start_method_can_read(
    interpreter: Interpreter, tmp_path: Path, many: Path, method: str
) -> None:
    module = tmp_path / "counting.py"
    module.write_text("import shoal\ndef count(path):\n    return sum(obj.size for obj in shoal.read([path] * 50))\n")
    script = f"""
        import counting, multiprocessing, shoal, sys
        if __name__ == "__main__":
            next(shoal.read([sys.argv[1]] * 1000))
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                print(pool.map(counting.count, [sys.argv[1]] * 4))
    """
    path = tmp_path / "main.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", path, many], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{[5_000_000] * 4}\n", "")


@pytest.mark.timing
@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(5)",
        "raise SystemExit(5)",
        "os._exit(5)",
        "thread = threading.Thread(target=lambda: list(reader), daemon=True); thread.start(); sys.exit(5)",
        "kept = [shoal.read([sys.argv[1]] * 100_000) for _ in range(5)]; [next(one) for one in kept]; sys.exit(5)",
        "sys.modules['kept'] = reader; sys.exit(5)",
    ],
)
def test_the_interpreter_exits_with_a_reader_under_way(interpreter: Interpreter, many: Path, end: str) -> None:
    script = f"""
        import os, shoal, sys, threading
        reader = shoal.read([sys.argv[1]] * 100_000)
        next(reader)
        {end}
    """
    for _ in range(5):
        began = time.monotonic()
        done = interpreter.run(script, many)
        assert (done.returncode, done.stderr) == (5, "")
        assert time.monotonic() - began < 4


def test_a_hundred_readers_dropped_half_way_leave_nothing(interpreter: Interpreter, small: Path) -> None:
    script = """
        import gc, os, shoal, sys, time
        files = len(os.listdir("/proc/self/fd"))
        for attempt in range(100):
            reader = shoal.read([sys.argv[1]] * 1000, memory="1MiB")
            for at, obj in enumerate(reader):
                if at == attempt: break
            if attempt % 2: cycle = [reader]; cycle.append(cycle); del cycle
            del reader
        gc.collect()
        deadline = time.monotonic() + 5
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline: time.sleep(0.01)
        print(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")) - files)
    """
    done = interpreter.run(script, small)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 0\n", "")


def test_few_open_files_mean_fewer_workers_and_no_failure(shoal: Command, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / "tree" / str(number % 5)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / str(number % 5) / str(number)).write_bytes(b"x" * number)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "import shoal; r = shoal.read(sys.argv[1], workers=100);"
        "print(sum(1 for _ in r), r.report.failed, r.report.workers)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "tree"], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    count, failed, workers = map(int, done.stdout.split())
    assert (count, failed) == (300, 0)
    assert workers < 100


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_a_disk_that_cannot_read_fails_that_file_alone_and_says_where(
    shoal: Command, tmp_path: Path, size: int
) -> None:
    for name in ("bad", "good"):
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(os.urandom(size))
    # A large file is read on by position.
    call = "read" if size == 5_000 else "pread64"
    done = subprocess.run(
        [
            *(
                "strace",
                "-f",
                "-o",
                "/dev/null",
                "-P",
                tmp_path / "tree/bad",
                "-e",
                f"inject={call}:error=EIO",
            ),
            *(*shoal.argv, "read", "tree", "--json"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    report = shoal.last_json(done)
    assert done.returncode == 1
    assert (report["written"], report["failed"]) == (1, 1)
    (failure,) = report["failures"]
    assert (failure["name"], failure["kind"]) == ("bad", "read-failed")
    assert ("byte 0" if size == 5_000 else "byte 65537") in failure["reason"]


def test_a_file_that_grows_while_it_is_read_is_a_failure(interpreter: Interpreter, tmp_path: Path) -> None:
    script = """
        import os, shoal, sys, threading
        path = sys.argv[1]
        with open(path, "wb") as file: file.truncate(300 << 20)
        stop = threading.Event()
        def grow():
            with open(path, "ab", buffering=0) as file:
                while not stop.is_set(): file.write(b"x")
        thread = threading.Thread(target=grow)
        thread.start()
        reader = shoal.read(path, memory="1GiB", on_error="record")
        taken = sum(1 for _ in reader)
        stop.set(); thread.join()
        print(taken, [failure.kind for failure in reader.report.failures])
    """
    done = interpreter.run(script, tmp_path / "growing")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 ['changed']\n", "")
