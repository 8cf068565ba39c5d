"""The caller's side of `shoal.generate`: schedules ids on worker processes, collects outcomes, replaces dead workers.

    run (threads of the binding) ──tasks──▶ Supervisor (the caller's thread) ──ids──▶ worker processes
                                 ◀─outcomes─                                 ◀─outcomes─

Each worker has one task of several ids running and another one queued. When a worker dies, the ids that it may have
been running run again, alone on a worker. If that worker dies too, they are halved until the id that kills is known.
Not here: how a process starts and ends (`processes.py`), its own code (`worker.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from shoal import _shoal
from shoal._errors import RunError
from shoal._generate.processes import GUARD, AnyWorker, Process, Thread, in_threads, preloading

if TYPE_CHECKING:
    from shoal._generate.checks import Job
    from shoal._generate.messages import Item, Writing
    from shoal._report import Progress, Report

TICK = 0.05  # s between two looks of the supervisor if no event wakes it
PROGRESS_EVERY = 0.1  # s between calls of the progress function
TASK_SECONDS = 0.07  # s of work in a task: long compared with the 0.1 ms of sending it, short compared with a run
TASK_MAX = 64  # ids in a task: at most these run again when a process dies, in a few halvings
SLOW = 0.05  # s for one id, above which no task is queued: another worker may be free sooner
IN_FLIGHT = 256  # ids in progress per worker: two tasks, and as many again for the next ones
KILLS = 2  # deaths with the same ids, after which these are halved, or a single one is a failure
STILLBORN_MAX = 3  # consecutive processes that end before they begin a task
DISMISS_SECONDS = 5.0  # s for a worker to exit by itself: functions may have registered exit handlers
LET_GO_SECONDS = 1.0  # s for a worker to exit after its leash is closed, before it is killed


def run(job: Job, sink: str, options: dict[str, Any], progress: Callable[[Progress], object] | None) -> Report:
    """Runs all ids, as `shoal.generate` documents."""
    kind, noun = (Thread, "thread") if in_threads() else (Process, "process")
    count, reason = len(os.sched_getaffinity(0)), f"a {noun} for each core"
    own = _shoal.checked("run", options)
    if own["nice"]:
        count, reason = -(-count // 2), f"a {noun} for two cores"
    if own["workers"] != "auto":
        count, reason = own["workers"], "as asked"
    if count > max(1, len(job.ids)):
        count, reason = max(1, len(job.ids)), f"a {noun} for each id"
    which = (job.identity, job.arguments, len(job.ids))
    generation = _shoal.Generation(sink, options, which, IN_FLIGHT * count, (count, reason))
    writing = (own | _shoal.checked("encode", options), max(1, own["memory"] // count))
    supervisor = Supervisor(generation, job, writing, progress, kind)
    try:
        supervisor.start(count)
        supervisor.work()
        report, error = generation.finish()
        supervisor.end(at_once=error is not None)
    except BaseException as raised:
        generation.stop()
        supervisor.end(at_once=True)
        report, error = generation.finish()
        if supervisor.broken and error is not None and not isinstance(error, KeyboardInterrupt):
            raise error from None  # the run had ended, and so the worker could not join it
        # A user's own exception may refuse new attributes; it is raised all the same.
        with contextlib.suppress(AttributeError, TypeError):
            raised.report = report  # type: ignore[attr-defined]
        raise
    if error is not None:
        raise error
    return report


@dataclass
class Task:
    """Some ids that a worker is given at once."""

    items: dict[int, Item]  # by token; what is left of it
    kills: int = 0  # workers that died while they ran it
    begun: bool = False
    made: bool = False


@dataclass
class Worker:
    """A worker and what it has to do."""

    process: AnyWorker
    ready: bool = False
    placed: bool = False
    closed: bool = False  # its end of the pipe
    tasks: dict[int, Task] = field(default_factory=dict)

    def load(self) -> int:
        """Returns how many of its tasks are not finished."""
        return sum(not task.made for task in self.tasks.values())

    def is_suspect(self) -> bool:
        """Returns whether it runs ids with which another worker died."""
        return any(task.kills for task in self.tasks.values())


class Supervisor:
    """The loop on the caller's thread."""

    def __init__(
        self,
        generation: _shoal.Generation,
        job: Job,
        writing: Writing,
        progress: Callable[[Progress], object] | None,
        kind: type[Process] | type[Thread],
    ) -> None:
        """`writing`: how the workers write."""
        self.broken = False  # a worker could not begin
        self._generation = generation
        self._job = job
        self._writing = writing
        self._progress = progress
        self._kind = kind
        self._workers: list[Worker] = []
        self._started = 0
        self._stillborn = 0
        self._redo: deque[Task] = deque()
        self._numbers = 0
        self._seconds = 0.0  # for one id, a running mean over the last tasks
        self._told = time.monotonic()

    def start(self, count: int) -> None:
        """Starts the workers."""
        with preloading():
            for _ in range(count):
                self._workers.append(self._new())

    def work(self) -> None:
        """Runs until the run has ended."""
        while not self._generation.ended:
            self._generation.heed()
            self._name()
            self._give()
            self._look()
            self._tell()

    def end(self, *, at_once: bool) -> None:
        """Ends the workers and waits for them; with `at_once`, in the middle of a task."""
        for worker in self._workers:
            if at_once:
                worker.process.let_go()
            else:
                with contextlib.suppress(OSError):
                    if not worker.placed:
                        worker.process.pipe.send(None)
                    worker.process.pipe.send(None)
        until = time.monotonic() + (LET_GO_SECONDS if at_once else DISMISS_SECONDS)
        for worker in self._workers:
            if not worker.process.join(max(0.0, until - time.monotonic())):
                worker.process.kill()
                worker.process.join(LET_GO_SECONDS)
        self._workers.clear()

    def _new(self) -> Worker:
        self._started += 1
        return Worker(self._kind(self._started, self._job.function))

    def _name(self) -> None:
        """Passes the names that the run asks for; only this thread may call Python."""
        if wanted := self._generation.names_wanted():
            self._generation.offer(wanted[0], self._job.names(*wanted))

    def _give(self) -> None:
        """Sends a task to each idle worker, then queues one on each of the others."""
        place = self._generation.place()
        if place is None:
            return
        for ahead in range(1 if self._seconds >= SLOW else 2):
            for worker in self._workers:
                if not worker.ready or worker.closed or worker.load() != ahead or worker.is_suspect():
                    continue
                task = self._next(busy=bool(worker.tasks))
                if task is None:
                    continue
                if not worker.placed:
                    worker.placed = True
                    self._send(worker, (place, self._writing))
                self._numbers += 1
                worker.tasks[self._numbers] = task
                self._send(worker, (self._numbers, list(task.items.values())))

    def _send(self, worker: Worker, message: object) -> None:
        # If it is dead, its sentinel shows it, and its tasks go to another worker.
        with contextlib.suppress(OSError):
            worker.process.pipe.send(message)

    def _next(self, *, busy: bool) -> Task | None:
        """Returns the next task; with `busy`, no task with which another worker died, since this one has other work."""
        if self._redo:
            # A busy worker gets no other task either, so that one is soon idle.
            return None if busy and self._redo[0].kills else self._redo.popleft()
        taken = self._generation.take(self._task_size())
        if not taken:
            return None
        ids = self._job.ids
        return Task({token: (token, ids[index], name, int(again)) for token, index, name, again in taken})

    def _task_size(self) -> int:
        if not self._seconds:
            return 1
        # Tasks become smaller towards the end, so that all workers end together.
        fair = self._generation.waiting() // (2 * len(self._workers))
        return max(1, min(TASK_MAX, int(TASK_SECONDS / self._seconds), fair))

    def _look(self) -> None:
        """Waits for an event and handles it."""
        waited: list[Any] = [self._generation]
        waited += [worker.process.pipe for worker in self._workers if not worker.closed]
        waited += [worker.process.sentinel for worker in self._workers if worker.process.sentinel is not None]
        happened = set(map(id, ready)) if (ready := wait(waited, TICK)) else set()
        for worker in list(self._workers):
            if id(worker.process.pipe) in happened:
                self._hear(worker)
            if worker.closed or worker.process.sentinel in ready:
                self._bury(worker)

    def _hear(self, worker: Worker) -> None:
        """Receives a worker's messages."""
        pipe = worker.process.pipe
        try:
            while not worker.closed and pipe.poll():
                self._take_in(worker, pipe.recv())
        except (EOFError, OSError):
            worker.closed = True

    def _take_in(self, worker: Worker, message: tuple[Any, ...]) -> None:
        match message:
            case ("ready",):
                worker.ready = True
            case ("begun", number):
                worker.tasks[number].begun = True
                self._stillborn = 0
            case ("did", done, failed):
                for outcome in (*done, *failed):
                    for task in worker.tasks.values():
                        task.items.pop(outcome[0], None)
                self._generation.done(done)
                self._generation.failed(failed)
                self._forget_settled(worker)
            case ("made", number, count, seconds):
                worker.tasks[number].made = True
                each = max(seconds / count, 1e-7)
                self._seconds = (self._seconds + each) / 2 if self._seconds else each
                self._forget_settled(worker)
            case ("broken", why):
                self.broken = True
                raise RunError(f"a worker process cannot work: {why}")

    @staticmethod
    def _forget_settled(worker: Worker) -> None:
        worker.tasks = {number: task for number, task in worker.tasks.items() if task.items or not task.made}

    def _bury(self, worker: Worker) -> None:
        """Replaces a worker that has died, and queues its ids again."""
        self._hear(worker)
        if self._generation.ended:
            return
        if not worker.process.join(0 if worker.closed else LET_GO_SECONDS):
            # It has closed its pipe: it can send nothing more.
            worker.process.kill()
            worker.process.join(LET_GO_SECONDS)
        how = worker.process.how_it_died()
        begun = [task for task in worker.tasks.values() if task.begun]
        if not begun:
            self._stillborn += 1
            if self._stillborn >= STILLBORN_MAX:
                raise RunError(f"worker processes end before they begin: the last one {how}", hint=GUARD)
        self._redo.extendleft(task for task in worker.tasks.values() if not task.begun)
        suspects = {token: (*item[:3], 2) for task in begun for token, item in task.items.items()}
        if suspects:
            self._try_again(suspects, 1 + max(task.kills for task in begun), how)
        self._workers[self._workers.index(worker)] = self._new()

    def _try_again(self, suspects: dict[int, Item], kills: int, how: str) -> None:
        if kills < KILLS:
            self._redo.appendleft(Task(suspects, kills))
        elif len(suspects) == 1:
            # A partial file may be left under this name. It is not removed: another id may have the same name, and a
            # torn file of this id cannot be told from a whole one of the other. A retry replaces it.
            why = f"{kills} worker processes died while they ran this id; the last one {how}"
            self._generation.failed([(token, "worker-killed", why, None, None) for token in suspects])
        else:
            items = list(suspects.items())
            half = len(items) // 2
            self._redo.extendleft((Task(dict(items[half:]), kills), Task(dict(items[:half]), kills)))

    def _tell(self) -> None:
        if self._progress is not None and time.monotonic() - self._told >= PROGRESS_EVERY:
            self._told = time.monotonic()
            self._progress(self._generation.progress())
