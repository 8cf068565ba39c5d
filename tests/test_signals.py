"""Signals and the end of the interpreter: a run stops within two seconds, and goes on the next time."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import shoal as package
from terminal import rest_of
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Interpreter, Service

pytestmark = [pytest.mark.disk, pytest.mark.timing]


STOPS_WITHIN = 2.0  # s: what is promised for a run whose barrier takes less than one
MANY = "1000000:100"  # more objects than any of these runs comes to
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"  # what a terminal is told when drawing begins and ends


def wait_for_objects(destination: Path, count: int) -> None:
    """Waits until a run has written something."""
    # A list of names is quicker than one of paths.
    wait_until(lambda: destination.is_dir() and len(os.listdir(destination)) >= count, 30)  # noqa: PTH208


def wait_for_commit(destination: Path) -> None:
    """Waits until something is in the journal."""
    wait_for_objects(destination, 100)
    wait_until(lambda: any(run.total.written for run in package.status(destination).runs), 30)


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    """Sends a signal and returns what the process said; it must be gone soon."""
    began = time.monotonic()
    process.send_signal(number)
    said = process.communicate(timeout=10)
    assert time.monotonic() - began < STOPS_WITHIN
    return said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=lambda v: str(int(v))
)
def test_a_signal_stops_the_command_and_the_same_command_goes_on(
    shoal: Command, service: Service, number: signal.Signals, code: int
) -> None:
    server = service(synthetic="4000:100", page_size=200)
    process = shoal.start("copy", server.url, "out", "--json", "--limit-rate", "100kB", "--durability", "none")
    wait_for_commit(shoal.directory / "out")

    out, said = stop(process, number)

    assert process.returncode == code
    assert '"kind": "interrupted"' in out
    assert "stopping" in said
    assert "run the same command again to resume" in said

    committed = package.status(shoal.directory / "out").runs[-1].total.written
    assert committed > 0
    before = server.stats.requests
    resumed = shoal.run("copy", server.url, "out", "--json", "--durability", "none")
    report = shoal.last_json(resumed)
    assert resumed.returncode == 0, resumed.stderr
    assert report["total"]["written"] == report["total"]["listed"] == 4000
    assert report["resumed_from"] == committed
    assert report["written"] == 4000 - committed
    # Nothing committed was fetched again: what is left, and some 20 pages.
    assert server.stats.requests - before <= 4000 - committed + 50
    assert len(os.listdir(shoal.directory / "out")) == 4001  # noqa: PTH208


def test_a_second_ctrl_c_ends_the_process_at_once(shoal: Command) -> None:
    process = shoal.start("serve", "--synthetic", "1:1000000000", "--port", "0")
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(":")[2])
    # A client that does not read keeps the service busy for as long as its grace of 5 s.
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        stop(process, signal.SIGINT)
    assert process.returncode == -signal.SIGINT  # a shell says 130


def test_ctrl_c_on_a_terminal_stops_and_leaves_the_terminal_as_it_was(shoal: Command, service: Service) -> None:
    leader, terminal = pty.openpty()
    process = shoal.start(
        "copy",
        service(synthetic=MANY).url,
        "out",
        "--limit-rate",
        "500kB",
        stdin=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while HIDE_CURSOR not in seen:
        seen += os.read(leader, 4096)
    wait_for_objects(shoal.directory / "out", 1000)
    process.send_signal(signal.SIGINT)
    seen += rest_of(leader)

    assert process.wait(timeout=10) == 130
    assert seen.rindex(SHOW_CURSOR) > seen.rindex(HIDE_CURSOR)
    assert b"stopped after" in seen[seen.rindex(SHOW_CURSOR) :]


@pytest.mark.parametrize("step", ["set_live", "show_cursor", "push_render_hook"])
def test_ctrl_c_while_the_progress_begins_leaves_the_terminal_as_it_was(
    shoal: Command, service: Service, step: str
) -> None:
    script = """
import os, signal, sys
from rich.console import Console
from shoal.cli import main
step, *sys.argv[1:] = sys.argv[1:]
before = getattr(Console, step)
def interrupted(self, *given):
    setattr(Console, step, before)
    if step == "show_cursor":
        before(self, *given)
        os.kill(os.getpid(), signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)
        return before(self, *given)
setattr(Console, step, interrupted)
main()
"""
    leader, terminal = pty.openpty()
    command = [sys.executable, "-c", script, step, "copy", service(synthetic=MANY).url, "out", "--limit-rate", "50kB"]
    process = subprocess.Popen(
        command, cwd=shoal.directory, stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, start_new_session=True
    )
    shoal.started.append(process)  # type: ignore[arg-type]  # killed at the end, if it still runs
    os.close(terminal)
    seen = rest_of(leader)

    assert process.wait(timeout=10) == 130, seen.decode()
    assert b"\nstopped" in seen  # "stopped after …", if anything had been listed
    assert b"defect" not in seen
    assert seen.rfind(SHOW_CURSOR) >= seen.rfind(HIDE_CURSOR), "the cursor is shown again"


def test_an_ignored_signal_stays_ignored(shoal: Command, service: Service) -> None:
    process = shoal.start(
        "copy",
        service(synthetic="3000:100").url,
        "out",
        "--limit-rate",
        "150kB",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_for_objects(shoal.directory / "out", 500)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0


COPY = """
    import shoal, sys, time
    began = time.monotonic()
    try:
        shoal.copy(sys.argv[1], "out", limit_rate="500kB", durability="none")
    except KeyboardInterrupt as stopped:
        report = stopped.report.run
        counted = report.written + report.skipped + report.failed + report.unfinished
        print(report.written, report.listed == counted)
"""


def test_ctrl_c_in_python_is_a_keyboard_interrupt_with_the_report(
    interpreter: Interpreter, service: Service, tmp_path: Path
) -> None:
    url = service(synthetic=MANY).url
    process = interpreter.start(COPY, url)
    wait_for_commit(tmp_path / "out")

    out, said = stop(process, signal.SIGINT)

    assert (process.returncode, said) == (0, "")
    written, balanced = out.split()
    assert balanced == "True"
    assert package.status(tmp_path / "out").runs[-1].total.written == int(written) > 0
    assert package.status(tmp_path / "out").owner is None


def test_a_handler_of_ones_own_decides(interpreter: Interpreter, service: Service, tmp_path: Path) -> None:
    script = """
        import shoal, signal, sys
        class Enough(Exception): pass
        def enough(*_): raise Enough
        signal.signal(signal.SIGUSR1, enough)
        try:
            shoal.copy(sys.argv[1], "out", limit_rate="500kB")
        except Enough:
            print("enough")
    """
    process = interpreter.start(script, service(synthetic=MANY).url)
    wait_for_objects(tmp_path / "out", 500)
    assert stop(process, signal.SIGUSR1) == ("enough\n", "")


AT_EXIT = """
    import shoal, sys, threading, time
    seen = threading.Event()
    def run():
        shoal.copy(sys.argv[1], sys.argv[2], limit_rate="500kB", progress=lambda progress: seen.set())
    threading.Thread(target=run, daemon=True).start()
    assert seen.wait(20)
    time.sleep(float(sys.argv[3]))
"""


def exits_well(interpreter: Interpreter, url: str, destination: str, delay: float) -> None:
    process = interpreter.start(AT_EXIT, url, destination, str(delay))
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


def test_the_interpreter_exits_while_a_run_goes_on_in_a_daemon_thread(
    interpreter: Interpreter, service: Service, tmp_path: Path
) -> None:
    url = service(synthetic=MANY).url
    for attempt in range(10):
        began = time.monotonic()
        exits_well(interpreter, url, f"out{attempt}", attempt / 100)
        assert time.monotonic() - began < STOPS_WITHIN + 1  # its start comes on top
    # The run was stopped, not cut off: its lock is free and its journal can be read.
    assert package.status(tmp_path / "out0").owner is None


@pytest.mark.slow(minutes=3)
def test_the_interpreter_exits_a_hundred_times(interpreter: Interpreter, service: Service) -> None:
    url = service(synthetic=MANY).url
    for attempt in range(100):
        exits_well(interpreter, url, "null:", attempt / 500)


def test_the_interpreter_exits_while_a_service_runs(interpreter: Interpreter) -> None:
    began = time.monotonic()
    done = interpreter.run("import shoal; server = shoal.serve(synthetic='1:1'); print(server.url)")
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < STOPS_WITHIN


def test_a_run_at_exit_still_works(interpreter: Interpreter, service: Service, tmp_path: Path) -> None:
    script = """
        import atexit, shoal, sys
        atexit.register(lambda: print(shoal.copy(sys.argv[1], "late").written))
        shoal.copy(sys.argv[1], "early")
    """
    done = interpreter.run(script, service(synthetic="100:10").url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "100\n", "")


@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="needs the module _xxsubinterpreters of Python 3.12 and earlier"
)
def test_a_process_ends_though_a_subinterpreter_that_has_copied_still_exists(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").touch()
    script = """
        import _xxsubinterpreters, sys
        made = _xxsubinterpreters.create()
        _xxsubinterpreters.run_string(made, "import shoal; print(shoal.copy('source', 'out').written, flush=True)")
    """
    done = interpreter.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
