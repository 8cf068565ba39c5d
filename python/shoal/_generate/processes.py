"""The caller's handle of one worker of `shoal.generate`: a process, or a thread where the interpreter has no GIL.

Here: start, end and exit status. Not here: scheduling (`supervisor.py`), the worker's own code (`worker.py`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

from shoal._errors import RunError
from shoal._generate import worker

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOADED = "shoal._generate.worker"
GUARD = 'a script must call it under `if __name__ == "__main__":`; standard error has the output of the processes'


class Process:
    """A process, the pipe to it, and its leash: a pipe that it watches and that closes when this process ends."""

    def __init__(self, number: int, function: bytes) -> None:
        """Starts it.

        Raises:
            RunError: It cannot be started.
        """
        context = _context()
        self.pipe, theirs = context.Pipe()
        held, self._leash = context.Pipe(duplex=False)
        self._process = context.Process(
            target=worker.main, args=(theirs, held), name=f"shoal-generate-{number}", daemon=True
        )
        try:
            self._process.start()
        except (OSError, EOFError) as error:
            why = str(error) or type(error).__name__
            raise RunError(f"cannot start a worker process: {why}", hint=GUARD) from error
        finally:
            theirs.close()
            held.close()
        self.sentinel = self._process.sentinel
        with contextlib.suppress(OSError):  # already dead: the sentinel shows it
            self.pipe.send_bytes(function)

    def let_go(self) -> None:
        """Ends it as soon as it has written its current file."""
        self._leash.close()

    def join(self, seconds: float) -> bool:
        """Waits for its end and closes its pipes; returns False after the timeout."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            return False
        self.pipe.close()
        self._leash.close()
        return True

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()

    def how_it_died(self) -> str:
        """Describes how it ended."""
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exited with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


class Thread:
    """The same as a thread: without a GIL, a thread runs as fast as a process."""

    def __init__(self, number: int, function: bytes) -> None:
        """Starts it."""
        self.pipe, self._theirs = multiprocessing.Pipe()
        self.sentinel: int | None = None
        self._thread = threading.Thread(target=self._run, name=f"shoal-generate-{number}", daemon=True)
        self._thread.start()
        self.pipe.send_bytes(function)

    def _run(self) -> None:
        try:
            worker.main(self._theirs, None)
        finally:
            self._theirs.close()

    def let_go(self) -> None:
        """Ends it after its current id."""
        self.pipe.close()

    def join(self, seconds: float) -> bool:
        """Waits for its end; returns False after the timeout."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        self.pipe.close()
        return True

    def kill(self) -> None:
        """Does nothing: a thread cannot be killed. It ends after its current id, and is not joined."""

    def how_it_died(self) -> str:
        """Describes how it ended."""
        return "ended"


def in_threads() -> bool:
    """Returns True if workers are threads: where the interpreter runs threads in parallel."""
    has_gil = getattr(sys, "_is_gil_enabled", None)
    return has_gil is not None and not has_gil()


def _context() -> ForkServerContext | SpawnContext:
    # Never fork: this process has threads.
    if "forkserver" in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("forkserver")
    return multiprocessing.get_context("spawn")


@contextlib.contextmanager
def preloading() -> Iterator[None]:
    """Makes a fork server that starts in this block import shoal once for all its processes.

    The program shares the fork server, so its own list of modules is kept and restored afterwards.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    before = getattr(server, "_preload_modules", None)
    ours = before == ["__main__"] and getattr(server, "_forkserver_pid", 0) is None
    if ours:
        server.set_forkserver_preload(["__main__", PRELOADED])
    try:
        yield
    finally:
        if ours:
            server.set_forkserver_preload(before)


AnyWorker = Process | Thread
