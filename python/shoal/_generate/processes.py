"""One worker of `shoal.generate` as the caller has it: a process, or a thread where the interpreter has no GIL.

Here: starting, ending and how it died. Not here: what it is given to do (`supervisor.py`), what it does (`worker.py`).
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
GUARD = 'is the call in a script under `if __name__ == "__main__":`? what they said themselves is on standard error'


class Process:
    """A process, the pipe to it, and its leash: a pipe that it watches, and that ends with this process."""

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
            raise RunError(f"a worker process cannot be started: {why}", hint=GUARD) from error
        finally:
            theirs.close()
            held.close()
        self.sentinel = self._process.sentinel
        with contextlib.suppress(OSError):  # dead already: the sentinel tells
            self.pipe.send_bytes(function)

    def let_go(self) -> None:
        """Ends it at once, but for the file that it is writing."""
        self._leash.close()

    def join(self, seconds: float) -> bool:
        """Waits for its end; whether it came. What belongs to it is closed then."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            return False
        self.pipe.close()
        self._leash.close()
        return True

    def kill(self) -> None:
        """Ends it without asking."""
        self._process.kill()

    def how_it_died(self) -> str:
        """Returns its end in words, once that has come."""
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"ended by itself with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


class Thread:
    """The same as a thread: with no GIL, one does as much as a process."""

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
        """Ends it after the id that it is at."""
        self.pipe.close()

    def join(self, seconds: float) -> bool:
        """Waits for its end; whether it came."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        self.pipe.close()
        return True

    def kill(self) -> None:
        """Leaves it alone: a thread cannot be killed. It ends after the id that it is at, and is not waited for."""

    def how_it_died(self) -> str:
        """Returns its end in words."""
        return "ended by itself"


def in_threads() -> bool:
    """Whether workers are threads: where the interpreter runs them at the same time."""
    has_gil = getattr(sys, "_is_gil_enabled", None)
    return has_gil is not None and not has_gil()


def _context() -> ForkServerContext | SpawnContext:
    # Never fork: this process has threads.
    if "forkserver" in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("forkserver")
    return multiprocessing.get_context("spawn")


@contextlib.contextmanager
def preloading() -> Iterator[None]:
    """Within it a server of processes that is started imports shoal once for all of them.

    It is Python's own and the program's, so what the program has set stays, and is there again afterwards.
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
