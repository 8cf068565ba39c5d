"""A save that the destination or the limits of the process get in the way of: one clear error, or just slower."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal as package
from conftest import Interpreter


@pytest.mark.root
@pytest.mark.mount
@pytest.mark.parametrize("options", ["size=6m", "size=64m,nr_inodes=1500"])
def test_a_full_disk_ends_it_with_one_error_and_what_was_saved(tmpfs: Callable[[str], Path], options: str) -> None:
    out = tmpfs(options) / "out"
    asked = 0

    def endless() -> Iterator[tuple[str, bytes]]:
        nonlocal asked
        while True:
            asked += 1
            yield f"{asked}", b"%07d" % asked * 500

    with pytest.raises(package.DestinationFullError) as raised:
        package.save(endless(), out, on_error="record")

    report = raised.value.report
    assert report is not None
    run = report.run
    assert run.listed == run.written + run.skipped + run.failed + run.unfinished
    assert asked < 1_000_000
    for path in out.glob("[0-9]*"):
        assert path.read_bytes() == b"%07d" % int(path.name) * 500, "what is there is whole"


def test_few_file_descriptors_cost_no_object(interpreter: Interpreter) -> None:
    script = """
        import resource, shoal
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        report = shoal.save(((f"{n}", bytes(100_000)) for n in range(2000)), "out", workers=64, durability="none")
        print(report.written, report.failed)
    """
    done = interpreter.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2000 0\n", "")


def test_a_file_size_limit_fails_the_objects_that_are_larger(interpreter: Interpreter) -> None:
    script = """
        import resource, shoal, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
        report = shoal.save([("fits", bytes(1000)), ("large", bytes(4 << 20)), ("too", b"x")], "out", on_error="record")
        print(report.written, report.failed, report.failures[0].name)
    """
    done = interpreter.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 1 large\n", "")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_generator_far_ahead_of_a_slow_disk_waits_in_flat_memory(tmp_path: Path) -> None:
    script = """
        import shoal
        def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10
        def items():
            for n in range(400): yield f"{n}", bytearray(1 << 20)  # copied, since it could change
        before = peak()
        report = shoal.save(items(), "out", memory="32MiB", durability="none", workers=2)
        print(report.written, peak() - before)
    """
    # 20 ms for each write: 50 to 100 MB a second, where making the data takes no time.
    slow = (
        "strace",
        "-f",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "-e",
        "trace=write",
        "-e",
        "inject=write:delay_enter=20ms",
    )
    done = subprocess.run(
        [*slow, sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    written, grown = map(int, done.stdout.split())
    assert written == 400
    assert grown < 32 + 60, "MiB"
