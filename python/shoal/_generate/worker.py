"""A worker process of `shoal.generate`: calls the function for each id and passes the result to a writer.

It receives tasks and sends outcomes through one pipe. A thread always receives, because the caller sends tasks without
reading outcomes: if both sides were in `send` with more than the pipe holds, they would deadlock. Not here: writing
(`_shoal.Placer`, on its own thread), replacing a process that died (`supervisor.py`).
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import traceback
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from shoal import _shoal

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from shoal._generate.messages import Failed, Item, Place, Writing, Written

REPORT_EVERY = 0.2  # s between outcomes that are sent during a task
REASON_MAX = 4096  # characters kept of a traceback: the end, which has the cause, and some of the start
REASON_START = 1024


def main(pipe: Connection[Any, Any], leash: Connection[Any, Any] | None) -> None:
    """Runs tasks until the pipe is closed or sends None."""
    if threading.current_thread() is threading.main_thread():
        # A terminal sends Ctrl-C to every process; the caller decides what to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sent = pipe.recv_bytes()
        try:
            function = ForkingPickler.loads(sent)
        except Exception as error:  # noqa: BLE001  # importing the function's module may raise anything
            pipe.send(("broken", explained(error)))
            return
        pipe.send(("ready",))
        told: tuple[Place, Writing] | None = pipe.recv()
        if told is None:
            return
        try:
            placer = _shoal.Placer(told[0], *told[1], leash.fileno() if leash else None)
        except Exception as error:  # noqa: BLE001  # a destination that was removed, no thread
            pipe.send(("broken", explained(error)))
            return
        try:
            Worker(pipe, function, placer).work()
        finally:
            placer.close()
    except (EOFError, OSError):
        return  # the caller has ended, or needs no more


class Worker:
    """The loop over tasks."""

    def __init__(
        self, pipe: Connection[Any, Any], function: Callable[[int | str], object], placer: _shoal.Placer
    ) -> None:
        """Starts without outcomes."""
        self._pipe = pipe
        self._function = function
        self._placer = placer
        self._failed: list[Failed] = []
        self._told = time.monotonic()
        self._tasks: queue.SimpleQueue[tuple[int, list[Item]] | None] = queue.SimpleQueue()

    def work(self) -> None:
        """Runs tasks until there are no more."""
        # A daemon, because after an exception here the thread would still wait for the caller.
        threading.Thread(target=self._receive, name="shoal-tasks", daemon=True).start()
        while (task := self._tasks.get()) is not None:
            number, items = task
            self._pipe.send(("begun", number))
            began = time.perf_counter()
            for item in items:
                self._make(*item)
                if time.monotonic() - self._told >= REPORT_EVERY:
                    self._tell(wait=False)
            seconds = time.perf_counter() - began
            # If another task is queued, the last files of this one are written while that one runs.
            self._tell(wait=self._tasks.empty() and not self._pipe.poll())
            self._pipe.send(("made", number, len(items), seconds))

    def _receive(self) -> None:
        task: tuple[int, list[Item]] | None
        try:
            while (task := self._pipe.recv()) is not None:
                self._tasks.put(task)
        except (EOFError, OSError):
            pass  # the caller has ended, or needs no more
        self._tasks.put(None)

    def _make(self, token: int, one: int | str, name: bytes, again: int) -> None:
        try:
            data = self._function(one)
        except BaseException as error:  # noqa: BLE001  # also SystemExit, which the function raised, not this process
            self._failed.append((token, "function", "the function raised " + explained(error), None, None))
            return
        try:
            self._placer.put(token, name, data, again)
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything when it is read
            why = f"what the function returned cannot be saved: {error}"
            self._failed.append((token, "function", why, None, None))

    def _tell(self, *, wait: bool) -> None:
        done: list[Written]
        done, failed = self._placer.collect(wait)
        failed += self._failed
        self._failed = []
        self._told = time.monotonic()
        if done or failed:
            self._pipe.send(("did", done, failed))


def explained(error: BaseException) -> str:
    """Returns the exception's text, then its traceback with the frames of the function, not of this file."""
    trace = error.__traceback__
    try:
        lines = traceback.format_exception(type(error), error, trace.tb_next if trace else None)
        what = "".join(traceback.format_exception_only(type(error), error)).strip().partition("\n")[0]
    except Exception as second:  # noqa: BLE001  # __str__ of a user's exception may raise anything
        return f"an exception that cannot be shown: showing it raised {type(second).__name__}"
    text = "".join(lines).rstrip()
    if len(text) > REASON_MAX:
        text = text[:REASON_START] + "\n  [...]\n" + text[REASON_START - REASON_MAX :]
    # A name that is not UTF-8 has lone surrogates, which the journal cannot store.
    return f"{what[:REASON_START]}\n{text}".encode("utf-8", "backslashreplace").decode()
