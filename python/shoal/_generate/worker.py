"""A worker process of `shoal.generate`: calls the function for one id after another and hands on what it returns.

It talks to the caller through a pipe: tasks come in, outcomes go out. A thread receives the tasks at any time, because
the caller sends them without looking for outcomes: if both sides were in `send` with more than the pipe holds, neither
would end. Not here: writing (`_shoal.Placer`, on a thread
of its own), what becomes of a process that is killed (`supervisor.py`).
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

REPORT_EVERY = 0.2  # s after which outcomes are told although the task goes on
REASON_MAX = 4096  # characters of a traceback that are kept: the end, where the cause is, and some of the start
REASON_START = 1024


def main(pipe: Connection[Any, Any], leash: Connection[Any, Any] | None) -> None:
    """Works until the pipe says that it is enough, or is closed."""
    if threading.current_thread() is threading.main_thread():
        # Ctrl-C goes to every process of a terminal; the caller decides what it means.
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
        except Exception as error:  # noqa: BLE001  # a destination that was taken away, no thread
            pipe.send(("broken", explained(error)))
            return
        try:
            Worker(pipe, function, placer).work()
        finally:
            placer.close()
    except (EOFError, OSError):
        return  # the caller is gone, or wants no more


class Worker:
    """The loop over tasks."""

    def __init__(
        self, pipe: Connection[Any, Any], function: Callable[[int | str], object], placer: _shoal.Placer
    ) -> None:
        """Starts with nothing told."""
        self._pipe = pipe
        self._function = function
        self._placer = placer
        self._failed: list[Failed] = []
        self._told = time.monotonic()
        self._tasks: queue.SimpleQueue[tuple[int, list[Item]] | None] = queue.SimpleQueue()

    def work(self) -> None:
        """Works on tasks until there are none any more."""
        # A daemon: where this ends with an exception, the thread still waits for what the caller says.
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
            # With a task waiting, the last files of this one are written while that is worked on.
            self._tell(wait=self._tasks.empty() and not self._pipe.poll())
            self._pipe.send(("made", number, len(items), seconds))

    def _receive(self) -> None:
        task: tuple[int, list[Item]] | None
        try:
            while (task := self._pipe.recv()) is not None:
                self._tasks.put(task)
        except (EOFError, OSError):
            pass  # the caller is gone, or wants no more
        self._tasks.put(None)

    def _make(self, token: int, one: int | str, name: bytes, again: int) -> None:
        try:
            data = self._function(one)
        except BaseException as error:  # noqa: BLE001  # also SystemExit: it is the function's, not this process's
            self._failed.append((token, "function", "the function raised " + explained(error), None, None))
            return
        try:
            self._placer.put(token, name, data, again)
        except Exception as error:  # noqa: BLE001  # what looking at the user's object raises
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
    """Returns what was raised, and below it where: the frames of the function, not of this file."""
    trace = error.__traceback__
    try:
        lines = traceback.format_exception(type(error), error, trace.tb_next if trace else None)
        what = "".join(traceback.format_exception_only(type(error), error)).strip().partition("\n")[0]
    except Exception as second:  # noqa: BLE001  # whatever a user's exception raises when asked for its text
        return f"an exception that cannot be shown: showing it raised {type(second).__name__}"
    text = "".join(lines).rstrip()
    if len(text) > REASON_MAX:
        text = text[:REASON_START] + "\n  [...]\n" + text[REASON_START - REASON_MAX :]
    # A name that is not UTF-8 comes with half characters, which no journal holds.
    return f"{what[:REASON_START]}\n{text}".encode("utf-8", "backslashreplace").decode()
