"""Starts `shoal` without starting Python: a process that has the commands loaded forks for each run.

A program of its own, started by `forked.py`. It never uses the engine and has one thread, so that its fork is like a
process that has just loaded the command. Each run has its own memory, processor time, signals and exit code, all told
by the kernel. Not here: commands that start interpreters themselves (`generate`, `bench`), since they look at how the
interpreter was started.

A request is one message on the control socket, with three descriptors: a connection, standard output and standard
error. The new process reads from the connection what to run. The server writes the process id to it, and at the end how
the process ended. When the control socket is closed, the server kills what still runs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from typing import Any, TextIO

# Commands that may be forked. They are loaded here, once.
COMMANDS = ("copy", "read", "unzip", "records", "serve", "status", "verify")
DESCRIPTORS_MAX = 1 << 20  # a process has no more, unless an administrator raised fs.nr_open


def stream(number: int, like: TextIO) -> TextIO:
    """Opens what an interpreter opens at its start for standard output or error, with the settings of this one's."""
    assert isinstance(like, io.TextIOWrapper)
    raw = open(number, "wb", 0 if like.write_through else -1, closefd=False)  # noqa: SIM115
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(raw, like.encoding, like.errors, "\n", lines, like.write_through)


def become(connection: int, stdout: int, stderr: int) -> None:
    """Becomes the command of the request, as `python -m shoal` runs it. Ends with SystemExit."""
    with open(connection, "rb", closefd=False) as file:
        request: dict[str, Any] = json.loads(file.readline())
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, DESCRIPTORS_MAX)
    os.umask(request["umask"])
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdout = sys.__stdout__ = stream(1, sys.stdout)  # type: ignore[misc,assignment]
    sys.stderr = sys.__stderr__ = stream(2, sys.stderr)  # type: ignore[misc,assignment]
    sys.orig_argv[1:] = ["-m", "shoal", *request["arguments"]]
    sys.argv = ["-m", *request["arguments"]]
    sys.path[0] = os.getcwd()  # noqa: PTH109
    sys.path_importer_cache.clear()
    runpy.run_module("shoal", run_name="__main__", alter_sys=True)


class Server:
    """What runs, and the one thread's loop over it."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.running: dict[int, int] = {}  # process id to connection
        self.woken, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> tuple[int, int, int] | None:
        """Answers requests until there are no more. Returns in each new process, too: with its descriptors."""
        poll = select.poll()  # unlike epoll, it holds no descriptor that a new process would inherit
        poll.register(self.control, select.POLLIN)
        poll.register(self.woken, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll()}
            if self.woken in ready:
                os.read(self.woken, 4096)
                self.reap()
            if self.control.fileno() in ready:
                message, descriptors, _, _ = socket.recv_fds(self.control, 1, 3)
                if not message:
                    self.end()
                    return None
                assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
                process = os.fork()
                if process == 0:
                    self.forget()
                    connection, stdout, stderr = descriptors
                    return connection, stdout, stderr
                self.running[process] = descriptors[0]
                self.tell(descriptors[0], {"process": process})
                for number in descriptors[1:]:
                    os.close(number)

    def forget(self) -> None:
        """Leaves nothing of the server in a new process: no handlers, and no object that would close a descriptor."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.control.detach()
        self.running.clear()

    @staticmethod
    def tell(connection: int, what: dict[str, Any]) -> None:
        """Writes to the connection of a run, if the other end still listens."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            os.write(connection, json.dumps(what).encode() + b"\n")

    def reap(self, options: int = os.WNOHANG) -> None:
        """Tells of the processes that have ended."""
        for process in list(self.running):
            ended, status, usage = os.wait4(process, options)
            if ended:
                connection = self.running.pop(process)
                told = {"code": os.waitstatus_to_exitcode(status), "processor": usage.ru_utime + usage.ru_stime}
                # Not exec'd, so this begins with what this process holds, not with a peak of another one.
                self.tell(connection, told | {"peak": usage.ru_maxrss * 1024})
                os.close(connection)

    def end(self) -> None:
        """Kills what still runs."""
        for process in self.running:
            os.kill(process, signal.SIGKILL)
        self.reap(0)


def main() -> None:
    """Loads the commands, and serves."""
    for name in COMMANDS:
        importlib.import_module(f"shoal.cli.{name}")
    # What is never looked at is never copied: 13 of 23 ms of a fork's processor time at its end.
    gc.collect()
    gc.freeze()
    started = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    if started is not None:
        become(*started)


if __name__ == "__main__":
    main()
