"""The exit codes, and how a command handles signals.

| code | meaning |
|---|---|
| 0 | all done; for `serve`, stopped by the user |
| 1 | some objects failed, and the journal lists them; or parts of a job have listed different names |
| 2 | the command line is wrong, or nothing matches |
| 3 | the run cannot continue: destination full, credentials, source away; or standard output cannot be written |
| 130 | stopped by Ctrl-C; the same command resumes |
| 143 | stopped by SIGTERM or SIGHUP; the same command resumes |
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from shoal._errors import ConfigError, ShoalError
from shoal._report import Report

DONE = 0
SOME_FAILED = 1
USAGE = 2
CANNOT_GO_ON = 3
INTERRUPTED = 130
TERMINATED = 143

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def code_of(error: ShoalError) -> int:
    """Returns the exit code for the exception that ended a command."""
    if error.kind == "different-listings":
        return SOME_FAILED
    # A path that does not exist has its own class, but is a wrong argument too.
    return USAGE if isinstance(error, ConfigError) or error.kind == "config" else CANNOT_GO_ON


def code_of_report(report: Report) -> int:
    """Returns the exit code of a run that has finished.

    An object that failed in an earlier run and has not arrived since is still missing.
    """
    return DONE if report.ok else SOME_FAILED


class Signals:
    """Context in which the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt; a second one ends the process.

    A signal that was ignored stays ignored: `nohup` and background jobs of a shell rely on it.
    """

    code: int | None = None  # the exit code after a signal

    def __init__(self, stopping: Callable[[], None]) -> None:
        """`stopping` is called at the first signal, before the exception is raised."""
        self._stopping = stopping
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        """Installs the handlers."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores the former handlers, unless the process is ending."""
        if self.code is None:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.code = INTERRUPTED if number == signal.SIGINT else TERMINATED
        for other in self._before:
            # The default action needs no interpreter, so it also ends a process that waits for a disk.
            signal.signal(other, signal.SIG_DFL)
        self._stopping()
        raise KeyboardInterrupt
