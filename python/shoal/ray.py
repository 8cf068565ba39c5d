"""Runs the parts of a job as tasks of Ray (`cluster="ray"`). Only this module imports Ray.

```text
driver ──job, part──▶ task on a node: the engine, one part at a time ──report──▶ driver
  ▲                     │
  └──── Board (actor) ◀─┘ progress; answers whether to stop
```

Ray starts a task again if its process or its node dies, and the part resumes by its journal. If the driver dies, Ray
ends its tasks. The same call then finds the finished parts complete, and runs the rest. Secrets are in arguments of
tasks only, never in names, environments or messages. Not here: adding up reports, and what is sent (`_cluster.py`).
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
from ray._private import worker as of_ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal import _api
from shoal._cluster import PARTS_PER_SLOT, Job, add_progress, add_up, facts, failed_objects
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
from shoal._watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from shoal._options import Part
    from shoal._report import Progress, Report

PUSH_EVERY = 0.3  # s between the messages of a part: as fast as a person reads
LOOK_EVERY = 0.2  # s between the looks of the driver
PROBE_WITHIN = 60.0  # s for all nodes to answer before anything starts
SEEN_WITHIN = 10.0  # s for a file to be seen on another node: network file systems cache names for some seconds
RETRIES = 20  # of a part after the loss of its process or node: one that always crashes must not run for ever
STOP_WITHIN = 20.0  # s that stopped parts have to commit, before the driver ends without them
OWN = 0o700  # the mode of shoal's own directories
# What ends all parts at once: an argument, the destination and the credentials are the same for all of them.
FOR_ALL = ConfigError | ObjectError | DestinationFullError | CredentialsError


class Stopped(BaseException):
    """Raised in a part by its progress function, to end it as Ctrl-C does."""


class Board:
    """An actor: the node and the progress of each part, and whether the parts are to stop."""

    def __init__(self) -> None:
        """Starts empty."""
        self.states: dict[int, tuple[str, Progress]] = {}
        self.stopping = False

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


def work(job: Job, part: Part, board: Any) -> tuple[str, str, Any]:
    """Runs one part on a node. Returns how it ended, the node, and the report or the exception."""
    node = f"{facts()['host']} ({ray.get_runtime_context().get_node_id()[:8]})"
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


def probe(directory: Path | None, name: str, text: str) -> dict[str, str]:
    """Reads the file of the driver at the destination on a node, and leaves one for the driver."""
    found = facts()
    if directory is None:
        return found
    path = directory / ".shoal" / "parts" / name
    until = time.monotonic() + SEEN_WITHIN
    while True:
        try:
            seen = path.read_text()
        except OSError as error:
            seen, found["error"] = "", f"{type(error).__name__}: {error.strerror}"
        if seen == text:
            found.pop("error", None)
            break
        if time.monotonic() > until:
            found.setdefault("error", "it has other contents there")
            return found
        time.sleep(0.1)
    own = f"{name}-{ray.get_runtime_context().get_node_id()}"
    path.with_name(own).write_text(text)
    return found | {"left": own}


def run(job: Job) -> Report:
    """Runs all parts of a job on a Ray cluster. `shoal.copy` says what it raises."""
    with connected(job.cluster), driving(job.directory):
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        if not nodes:
            raise ConfigError("the cluster has no node with a processor")
        check_nodes(job.directory, nodes)
        processors = [int(node["Resources"]["CPU"]) for node in nodes]
        each = min(processors)  # one part at a time on the smallest node
        slots = sum(count // each for count in processors)
        parts = job.parts or known_parts(job.directory) or PARTS_PER_SLOT * slots
        notes = job.share_limits(min(slots, parts))
        with Watch(
            job.progress, lambda: f"{job.name} in {count_text(parts, 'part')} on {count_text(len(nodes), 'node')}"
        ) as watch:
            return watch.ended(Driver(job, parts, each, notes).run(watch))


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
    shown = getattr(of_ray, "_worker_logs_enabled", True)
    of_ray._worker_logs_enabled = False
    try:
        yield
    finally:
        ray.shutdown()
        of_ray._worker_logs_enabled = shown


@contextlib.contextmanager
def driving(directory: Path | None) -> Iterator[None]:
    """Keeps a second driver of the same job out.

    Raises:
        JournalLockedError: There is one.
    """
    if directory is None:
        yield
        return
    try:
        _api.status(directory)
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
        yield
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
    return len(_api.status(directory, failures=0, skipped=0).parts)


def check_nodes(directory: Path | None, nodes: list[dict[str, Any]]) -> None:
    """Checks that every node has this version of shoal and of Python, and sees the same destination.

    Raises:
        ConfigError: One does not; the message names it.
    """
    name, text = f"probe-{secrets.token_hex(8)}", secrets.token_hex(16)
    own = directory / ".shoal" / "parts" if directory else None
    here = facts()
    try:
        if own:
            with writing(own):
                (own / name).write_text(text)
        ask = ray.remote(num_cpus=0, max_retries=3)(probe)
        asked = {}
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[node["NodeID"]] = ask.options(scheduling_strategy=there, name="shoal probe").remote(
                directory, name, text
            )
        until = time.monotonic() + PROBE_WITHIN
        for node in nodes:
            what = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            try:
                found = ray.get(asked[node["NodeID"]], timeout=max(0.1, until - time.monotonic()))
            except ray.exceptions.RayError as error:
                if node["NodeID"] not in (one["NodeID"] for one in ray.nodes() if one["Alive"]):
                    continue  # it was lost just now: the parts run on the others
                why = str(error).strip().splitlines()[-1]
                raise ConfigError(f"{what} cannot run shoal: {why}", hint="install shoal on every node") from None
            for program in ("shoal", "Python"):
                if found[program] != here[program]:
                    raise ConfigError(
                        f"{what} has {program} {found[program]}, and this machine has {here[program]}",
                        hint="all nodes need the same versions",
                    )
            seen = "error" not in found and (own is None or seen_here(own / found["left"], text))
            if not seen:
                why = found.get("error", "what it writes there is not seen here")
                raise ConfigError(
                    f'{what} does not see the destination "{directory}": {why}',
                    hint="the destination must be a directory that all nodes share",
                )
    finally:
        if own:
            for left in own.glob("probe-*"):  # also what a driver that was killed has left
                left.unlink(missing_ok=True)


def seen_here(path: Path, text: str) -> bool:
    """Whether a file of another node is seen here within some seconds."""
    until = time.monotonic() + SEEN_WITHIN
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if path.read_text() == text:
                return True
        time.sleep(0.1)
    return False


class Driver:
    """Starts the parts, follows them, and adds up what they return."""

    def __init__(self, job: Job, parts: int, processors: int, notes: list[str]) -> None:
        """Takes the job, the number of parts, and the processors of each."""
        self.job, self.parts, self.notes = job, parts, notes
        self.began = time.monotonic()
        self.board = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=1)(Board).remote()
        task = ray.remote(num_cpus=processors, max_retries=RETRIES, scheduling_strategy="SPREAD")(work)
        self.sent = ray.put(job)
        self.pending: dict[Any, int] = {}
        for index in range(parts):
            started = task.options(name=f"shoal part {index}/{parts}").remote(self.sent, (index, parts), self.board)
            self.pending[started] = index
        self.reports: dict[int, Report] = {}
        self.nodes: dict[str, Counter[str]] = defaultdict(Counter)
        self.errors: list[ShoalError] = []

    def run(self, watch: Watch) -> Report:
        """Waits for all parts. Stops them if a part cannot continue, or if an exception is raised here."""
        try:
            while self.pending:
                self.collect(LOOK_EVERY)
                if watch.progress is not None:
                    watch.progress(self.progress())
                if any(isinstance(error, FOR_ALL) for error in self.errors):
                    self.stop()
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
        if report.failed and self.job.arguments.get("on_error", "raise") == "raise":
            raise failed_objects(report)
        return report

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
