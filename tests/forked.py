"""Runs a command by a fork of a process that has it loaded (`fork_server.py`), since a start of Python takes 0.15 s.

`can` says whether a command line may be run so. `Forked` is the running process; it has what tests use of
`subprocess.Popen`. Not here: what concerns the start of the interpreter, which is run by `python -m shoal`.
"""

from __future__ import annotations

import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from fork_server import COMMANDS

# What the interpreter and the libraries of C read when they start: a fork has the server's.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "TZ")


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of an environment that a fork cannot change any more."""
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


class ForkServer:
    """The process that forks."""

    def __init__(self) -> None:
        self.environment = read_at_start(os.environ)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the tests; they end this by the end of the socket
            )

    def stop(self) -> None:
        """Ends it, and all that it runs."""
        self.control.close()
        self.process.wait(10)


@functools.cache
def server() -> ForkServer:
    """Returns the server of these tests. The first call starts it; `stop` ends it with the session."""
    return ForkServer()


def stop() -> None:
    """Ends the server, if there is one."""
    if server.cache_info().currsize:
        server().stop()
        server.cache_clear()


def can(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a command line may be run by a fork."""
    return bool(arguments) and arguments[0] in COMMANDS and read_at_start(environment) == server().environment


def umask() -> int:
    """Returns the umask of this process without changing it for a moment, which would reach its other threads."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")]
    return int(line.split()[1], 8)


class Forked:
    """A command that was started by a fork; standard input is empty.

    Attributes:
        args: Its command line.
        pid: Its process id.
        returncode: As that of `subprocess.Popen`; None while it runs.
        processor: Seconds of processor time, once it has ended.
        peak: Bytes of resident memory at most, once it has ended.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        stdout: int | IO[Any],
        stderr: int | IO[Any],
    ) -> None:
        self.args = ["shoal", *arguments]
        self.returncode: int | None = None
        self.processor = 0.0
        self.peak = 0
        self.connection, theirs = socket.socketpair()
        outputs = [out if isinstance(out, int) else out.fileno() for out in (stdout, stderr)]
        with theirs:
            socket.send_fds(server().control, [b"x"], [theirs.fileno(), *outputs])
        request = {"arguments": arguments, "directory": str(directory), "umask": umask()}
        request["environment"] = dict(environment)
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        self.told = self.connection.makefile("rb")
        self.pid: int = json.loads(self.told.readline())["process"]

    def poll(self) -> int | None:
        """Returns the exit code if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self.connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            ended = json.loads(self.told.readline())
            self.returncode = int(ended["code"])
            self.processor, self.peak = ended["processor"], ended["peak"]
            self.told.close()
            self.connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end with both outputs into pipes, as `subprocess.run(..., text=True)` does."""
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    with open(pipes[0][0], "rb") as stdout, open(pipes[1][0], "rb") as stderr:  # noqa: PTH123
        try:
            process = Forked(arguments, directory, environment, pipes[0][1], pipes[1][1])
        finally:
            for _, ours in pipes:
                os.close(ours)
        try:
            outputs = read(process, [stdout, stderr], timeout)
        finally:
            process.kill()
            process.wait()
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, *outputs)


def read(process: Forked, files: list[Any], timeout: float) -> list[str]:
    """Reads both outputs to their ends, and waits for that of the process."""
    deadline = time.monotonic() + timeout
    parts: dict[Any, list[bytes]] = {file: [] for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() > deadline:
                texts = [b"".join(parts[file]) for file in files]
                raise subprocess.TimeoutExpired(process.args, timeout, *texts)
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                if part:
                    parts[key.fileobj].append(part)
                else:
                    selector.unregister(key.fileobj)
    process.wait(max(0, deadline - time.monotonic()))
    # As text=True does it: undecodable bytes are an error, and every line ends with a line feed.
    return [b"".join(parts[file]).decode().replace("\r\n", "\n").replace("\r", "\n") for file in files]
