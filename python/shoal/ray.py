"""Runs the parts of a job as tasks of Ray (`cluster="ray"`). Only this module and `_ray_nodes.py` import Ray.

```text
driver ──job, part──▶ task on a node: the engine, one part at a time ──report──▶ driver
  ▲                     │
  └──── Board (actor) ◀─┘ progress; answers whether to stop
```

Ray starts a task again if its process or its node dies, and the part resumes by its journal. If the driver dies, Ray
ends its tasks. The same call then finds the finished parts complete, and runs the rest. Secrets are in arguments of
tasks only, never in names, environments or messages. Not here: checking nodes (`_ray_nodes.py`), adding up
reports, and what is sent (`_cluster.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ray

from shoal._cluster import (
    COUNTS,
    PARTS_PER_SLOT,
    Job,
    add_progress,
    add_up,
    changed,
    facts,
    failed_objects,
)
from shoal._errors import (
    ConfigError,
    CredentialsError,
    DestinationFullError,
    JournalError,
    JournalLockedError,
    ObjectError,
    ObjectsFailedError,
    RunError,
    ShoalError,
)
from shoal._progress import count_text, size_text
from shoal._ray_nodes import SEEN_WITHIN, NodeError, Sight, check_nodes
from shoal._status import status
from shoal._watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from shoal._options import Part
    from shoal._report import Progress, Report

PUSH_EVERY = 0.3  # s between the messages of a part: as fast as a person reads
LOOK_EVERY = 0.2  # s between the looks of the driver
RETRIES = 20  # of a part after the loss of its process or node: one that always crashes must not run for ever
STOP_WITHIN = 20.0  # s that stopped parts have to commit, before the driver ends without them
OWN = 0o700  # the mode of shoal's own directories
HANGS_AFTER = 600.0  # s without a sign of life: longer than any pause of a file system that comes back
HANGING_EVERY = 10.0  # s between looks


class Stopped(BaseException):
    """Raised in a part by its progress function, to end it as Ctrl-C does."""


class Board:
    """An actor: the node and the progress of each part, and whether the parts are to stop."""

    def __init__(self) -> None:
        """Starts empty."""
        self.states: dict[int, tuple[str, Progress]] = {}
        self.begun: dict[int, str] = {}
        self.stopping = False

    def begin(self, part: int, node: str) -> None:
        """Notes that a part has begun on a node."""
        self.begun[part] = node

    def running(self) -> dict[int, str]:
        """Returns the node of each part that has begun."""
        return self.begun

    def put(self, part: int, node: str, state: Progress) -> bool:
        """Takes the progress of a part on a node. Returns whether it is to stop."""
        self.states[part] = node, state
        return self.stopping

    def get(self) -> dict[int, tuple[str, Progress]]:
        """Returns the node and the progress of each part."""
        return self.states

    def stop(self) -> None:
        """Tells all parts to stop."""
        self.stopping = True


def work(job: Job, part: Part, board: Any, sight: Sight) -> tuple[str, str, Any]:
    """Runs one part on a node. Returns how it ended, the node, and the report or the exception."""
    node = f"{facts()['host']} ({ray.get_runtime_context().get_node_id()[:8]})"
    with contextlib.suppress(ray.exceptions.RayError):  # the board is being restarted
        ray.get(board.begin.remote(part[0], node))  # first of all, since everything below may hang
    # Here, because a node may have joined after the check of all nodes, or lost its mount since.
    if why := sight.differs(job):
        hint = "mend or remove this node, and run the same command again to resume"
        return "failed", node, NodeError(f"node {node} {why}", hint=hint)
    told: list[Any] = []
    pushed = 0.0

    def push(state: Progress) -> None:
        nonlocal pushed
        if told and ray.wait(told, timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):  # the board is being restarted
                if ray.get(told.pop()):
                    raise Stopped
            told.clear()
        if not told and time.monotonic() - pushed >= PUSH_EVERY:
            pushed = time.monotonic()
            told.append(board.put.remote(part[0], node, state))

    try:
        return "done", node, job.run(part, push)
    except (Stopped, KeyboardInterrupt) as stopped:
        return "stopped", node, getattr(stopped, "report", None)
    except ShoalError as error:
        return "failed", node, error


def run(job: Job) -> Report:
    """Runs all parts of a job on a Ray cluster. `shoal.copy` says what it raises."""
    with connected(job.cluster.address), driving(job.directory) as left:
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        if not nodes:
            raise ConfigError("the cluster has no node with a processor")
        sight = Sight(job, *left)
        check_nodes(job, sight, nodes)
        processors = [int(node["Resources"]["CPU"]) for node in nodes]
        each = min(processors)  # one part at a time on the smallest node
        slots = sum(count // each for count in processors)
        parts = job.cluster.parts or known_parts(job.directory) or PARTS_PER_SLOT * slots
        notes = job.share_limits(min(slots, parts))
        with Watch(
            job.progress, lambda: f"{job.name} in {count_text(parts, 'part')} on {count_text(len(nodes), 'node')}"
        ) as watch:
            return watch.ended(Driver(job, parts, each, notes, sight).run(watch))


@contextlib.contextmanager
def connected(cluster: str) -> Iterator[None]:
    """Connects to a cluster, unless this process is connected already.

    Raises:
        ConfigError: There is no cluster at this address.
    """
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address="auto" if cluster == "ray" else cluster, log_to_driver=False, logging_level=40)
    except (ConnectionError, RuntimeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"cannot connect to the Ray cluster {cluster!r}: {why}",
            hint="start a head node of Ray, or pass the address as ray://HOST:PORT",
        ) from None
    # Ray prints what it says of a lost process or node on standard output, which is for JSON. It has no public switch.
    with contextlib.suppress(ImportError):
        from ray._private import worker as of_ray

        shown = getattr(of_ray, "_worker_logs_enabled", True)
        of_ray._worker_logs_enabled = False
    try:
        yield
    finally:
        ray.shutdown()
        with contextlib.suppress(NameError):
            of_ray._worker_logs_enabled = shown


@contextlib.contextmanager
def driving(directory: Path | None) -> Iterator[tuple[str, str]]:
    """Keeps a second driver of the same job out. Leaves a file for the nodes; returns its name and contents.

    Raises:
        JournalLockedError: There is one.
    """
    left = f"probe-{secrets.token_hex(8)}", secrets.token_hex(16)
    if directory is None:
        yield left
        return
    try:
        status(directory, allow_different_listings=True)
        fresh = False
    except ShoalError:
        fresh = True
    if not fresh and not (directory / ".shoal" / "parts" / "job").exists():
        raise ConfigError(
            f'a run without parts has written to "{directory}", which therefore cannot be written in parts',
            hint="leave out `cluster`, or choose another destination",
        )
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for own in (directory / ".shoal", directory / ".shoal" / "parts"):
            own.mkdir(mode=OWN, exist_ok=True)
        file = os.open(directory / ".shoal" / "parts" / "driver", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalLockedError(
                f'another driver runs the parts of this job: "{directory}"',
                kind="journal-locked",
                hint="wait until it ends, or stop it and run the same command again",
            ) from None
        own = directory / ".shoal" / "parts"
        try:
            with writing(own):
                (own / left[0]).write_text(left[1])
            yield left
        finally:
            for old in own.glob("probe-*"):  # also what a driver that was killed has left
                old.unlink(missing_ok=True)
    finally:
        os.close(file)


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Raises an error of shoal if the destination cannot be written."""
    try:
        yield
    except OSError as error:
        message = f'"{error.filename or directory}": cannot be written: {os.strerror(error.errno or 0).lower()}'
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DestinationFullError(message, errno=error.errno) from None
        kind = "destination-read-only" if error.errno == errno.EROFS else "journal"
        raise JournalError(message, kind=kind) from None


def known_parts(directory: Path | None) -> int | None:
    """Returns the number of parts that an earlier call has chosen."""
    if directory is None or not (directory / ".shoal" / "parts" / "job").exists():
        return None
    return len(status(directory, failures=0, skipped=0).parts)


def lease_moved(directory: Path | None, part: int) -> float | None:
    """Returns when the clock of a part was read last. None if it has no clock."""
    if directory is None:
        return None
    with contextlib.suppress(FileNotFoundError):
        return (directory / ".shoal" / "parts" / str(part) / "clock").stat().st_mtime
    return None


class HangingError(RunError):
    """A part shows no sign of life. This ends the job."""

    _kind = "part-hangs"


# What ends all parts at once: an argument, the destination and the credentials are the same for all of them.
FOR_ALL = ConfigError | ObjectError | DestinationFullError | CredentialsError | NodeError | HangingError


class Driver:
    """Starts the parts, follows them, and adds up what they return."""

    def __init__(self, job: Job, parts: int, processors: int, notes: list[str], sight: Sight) -> None:
        """Takes the job, the number of parts, the processors of each, and what each node must see."""
        self.job, self.parts, self.notes = job, parts, notes
        self.began = time.monotonic()
        self.board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=1)(Board).remote()
        task = ray.remote(num_cpus=processors, max_retries=RETRIES, scheduling_strategy="SPREAD")(work)
        self.sent, seen = ray.put(job), ray.put(sight)
        self.pending: dict[Any, int] = {}
        for index in range(parts):
            started = task.options(name=f"shoal part {index}/{parts}").remote(
                self.sent, (index, parts), self.board, seen
            )
            self.pending[started] = index
        self.reports: dict[int, Report] = {}
        self.nodes: dict[str, Counter[str]] = defaultdict(Counter)
        self.errors: list[ShoalError] = []
        # Of each part that has begun: what showed last that it is alive, and when that changed.
        self.alive: dict[int, tuple[object, float]] = {}
        self.looked = self.began

    def run(self, watch: Watch) -> Report:
        """Waits for all parts. Stops them if a part cannot continue, or if an exception is raised here."""
        try:
            while self.pending:
                self.collect(LOOK_EVERY)
                if watch.progress is not None:
                    watch.progress(self.progress())
                self.look_for_hanging()
                if any(isinstance(error, FOR_ALL) for error in self.errors):
                    self.stop()
                    break
        except BaseException as raised:
            self.stop()
            with contextlib.suppress(AttributeError):  # not every exception takes an attribute
                raised.report = self.report()  # type: ignore[attr-defined]
            raise
        report = self.report()
        if self.errors:
            error = next((one for one in self.errors if isinstance(one, ConfigError)), self.errors[0])
            error.report = report
            raise error
        if not report.complete:
            # A part was stopped or cancelled on its node, by something else than this driver.
            stopped = RunError("not all parts have completed", hint="run the same command again to resume")
            stopped.report = report
            raise stopped
        if wrong := self.wrong_there(report):
            wrong.report = changed(report, complete=False)
            raise wrong
        if report.failed and self.job.arguments.get("on_error", "raise") == "raise":
            raise failed_objects(report)
        return report

    def wrong_there(self, report: Report) -> RunError | None:
        """Returns how the journals at the destination, as seen here, differ from what the parts have returned."""
        directory = self.job.directory
        if directory is None:
            return None
        until, wrong = time.monotonic() + SEEN_WITHIN, None
        while True:
            list((directory / ".shoal" / "parts").iterdir())  # so that a network file system looks for new names
            now = status(directory, failures=0, skipped=0, allow_different_listings=self.job.allows_different)
            missing = [part.index for part in now.parts if part.state != "complete"]
            sums = {name: sum(getattr(run.total, name) for run in now.runs) for name in COUNTS}
            counted = {name: getattr(report.total, name) for name in COUNTS}
            if missing or len(now.parts) != self.parts:
                parts = ", ".join(map(str, missing))
                wrong = f"parts that have ended elsewhere are not complete at the destination: {parts}"
            elif sums != counted:
                wrong = f"the journals at the destination count {sums}, and the parts have returned {counted}"
            else:
                return now.difference
            if time.monotonic() > until:
                hint = "check that all nodes share the destination, and run the same command again"
                return RunError(wrong, hint=hint)
            time.sleep(0.5)

    def look_for_hanging(self) -> None:
        """Adds an error for a part that shows no sign of life: its process or its file system hangs.

        It is not started again elsewhere, since it may still write.
        """
        now = time.monotonic()
        if now - self.looked < min(HANGS_AFTER / 10, HANGING_EVERY):
            return
        self.looked = now
        begun: dict[int, str] = {}
        states: dict[int, tuple[str, Progress]] = {}
        with contextlib.suppress(ray.exceptions.RayError):  # the board is being restarted
            begun, states = ray.get([self.board.running.remote(), self.board.get.remote()], timeout=1)
        for index in set(self.pending.values()) & set(begun):
            # A session reads the clock of the destination every 2 s. Without such a clock, messages count.
            sign: object = lease_moved(self.job.directory, index) or (index in states and states[index][1].seconds)
            before, since = self.alive.get(index, (None, now))
            if sign != before:
                since = now
            self.alive[index] = sign, since
            if now - since >= HANGS_AFTER:
                self.errors.append(
                    HangingError(
                        f"part {index} of {self.parts} on node {begun[index]} has not moved for {now - since:,.0f} s",
                        hint="look whether its process, the source or the destination hangs there; end that process, "
                        "and run the same command again to resume",
                    )
                )

    def progress(self) -> Progress:
        """Returns the progress of the job, with that of each node."""
        states: dict[int, tuple[str, Progress]] = {}
        with contextlib.suppress(ray.exceptions.RayError):  # the board is being restarted, because its node was lost
            states = ray.get(self.board.get.remote(), timeout=1)
        running = {part: states[part] for part in self.pending.values() if part in states}
        return add_progress(running, self.reports, self.nodes, self.parts, self.began)

    def collect(self, seconds: float) -> None:
        """Takes what ended parts return."""
        ended, _ = ray.wait(list(self.pending), num_returns=1, timeout=seconds)
        for one in ended:
            index = self.pending.pop(one)
            try:
                how, node, what = ray.get(one)
            except ray.exceptions.TaskCancelledError:
                continue
            except ray.exceptions.RayError as error:
                why = str(error).strip().splitlines()[-1]
                self.errors.append(
                    RunError(
                        f"part {index} of {self.parts} was lost: {why}", hint="run the same command again to resume"
                    )
                )
                continue
            report = what.report if how == "failed" else what
            if how == "failed" and not isinstance(what, ObjectsFailedError):
                self.errors.append(what)
            if report is not None:
                self.reports[index] = report
                self.nodes[node].update(parts=1, objects=report.run.written, bytes=report.run.bytes or 0)

    def stop(self) -> None:
        """Stops the parts. Each commits what it has written."""
        with contextlib.suppress(ray.exceptions.RayError):
            self.board.stop.remote()
        for one in self.pending:
            ray.cancel(one, force=False)
        until = time.monotonic() + STOP_WITHIN
        while self.pending and time.monotonic() < until:
            self.collect(LOOK_EVERY)

    def report(self) -> Report:
        """Returns the sum of what the parts have returned, with a note for each node."""
        nodes = []
        for node, done in sorted(self.nodes.items()):
            size = size_text(done["bytes"])
            nodes.append(f"node {node}: {count_text(done['parts'], 'part')}, {count_text(done['objects'])}, {size}")
        return add_up(self.reports, self.parts, self.began, [*nodes, *self.notes])
