"""Results: `Report` and its parts, `Progress` of a run, and `Status` of a journal.

The binding creates them. Not here: how the command line shows them (`cli/_display.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from shoal._value import Value

if TYPE_CHECKING:
    from datetime import datetime

    from shoal._errors import RunError


class Counts(Value):
    """Counts of objects. They always add up: listed = written + skipped + failed + unfinished.

    Attributes:
        listed: Objects in the listing.
        written: Written to the destination and committed.
        skipped: Left out on purpose: duplicates, excluded names, links and devices, and vanished objects with
            `ignore_vanished`. Empty directories count here too, although they are created.
        failed: Failed after all retries; the journal has the reasons.
        unfinished: Not processed yet; the next call continues with these.
        bytes: Bytes of the written objects.
    """

    listed: int
    written: int
    skipped: int
    failed: int
    unfinished: int
    bytes: int


class Failure(Value):
    """One object that failed.

    Attributes:
        name: Its name as the source gave it, not necessarily a safe path; surrogate escapes for invalid UTF-8.
        archive: Path of the archive of the entry, or of the archive that failed as a whole; None for other sources.
        kind: Stable name of the cause, such as `"vanished"`.
        reason: The cause as text.
        tries: Number of attempts.
    """

    name: str
    archive: str | None
    kind: str
    reason: str
    tries: int


class ListedObject(Value):
    """One object of a listing.

    Attributes:
        name: Its name as the source gave it, not necessarily a safe path; surrogate escapes for invalid UTF-8.
        size: Its length in bytes; None if the listing does not have it.
        last_modified: Time of its last change, in UTC; None if the listing does not have it.
        archive: Path of the archive of the entry; None for other sources.
    """

    name: str
    size: int | None
    last_modified: datetime | None
    archive: str | None


class Step(Value):
    """A part of a run in which one number of workers held; the next step begins where it ends.

    Attributes:
        seconds: Seconds from the start of the run to the moment from which it held.
        workers: The number of workers.
        objects_per_second: Objects finished per second while it held; 0 if nothing was measured.
        bytes_per_second: Their bytes per second; 0 if nothing was measured.
    """

    seconds: float
    workers: int
    objects_per_second: float
    bytes_per_second: float


class Report(Value):
    """The result of a run. Check `ok`: it is true if everything arrived.

    The counts are those of this run, except `failed`: it also counts unresolved failures of earlier runs. `run` and
    `total` have all counts of this run, and of all runs in its journal; both add up.

    Attributes:
        listed: Objects in the listing.
        written: Objects written to the destination and committed.
        skipped: Objects left out on purpose.
        failed: Objects that failed after all retries, over all runs: `total.failed`. Those of this run: `run.failed`.
        unfinished: Objects that were not processed; 0 unless the run was stopped.
        bytes: Bytes of the written objects; None for a dry run.
        run: All counts of this run. They add up: listed = written + skipped + failed + unfinished.
        total: The same over all runs in the journal.
        seconds: Wall time of this run.
        retries: Requests that were retried after a failure.
        unverified: Objects with a length that the source did not tell.
        wasted: Bytes received but not used: interrupted bodies, repeated answers, comparisons.
        duplicates: Part of `skipped`: names that were listed before.
        unchanged: Part of `skipped`: objects that an update found unchanged. If nothing was left to do: over all runs.
        edited: Part of `skipped`: copies that you changed while their source was not changed. They stay as they are.
        dry_run: True if nothing was copied; `written` counts what would be copied.
        complete: True if the listing has ended and everything in it is committed.
        completed_before: When an earlier run had completed the job, if nothing was left to do; else None.
        not_listed: With `completed_before`: that the source was not listed again, and what to do for that. None with
            `resume="once"`.
        resumed_from: Objects that earlier runs had committed.
        workers: The number of workers that was chosen.
        workers_reason: Why it is not larger.
        concurrency: The path to `workers`: each number that held for a while, in order of time, at most 200. A number
            that you set is one step, unless it had to be lowered. Empty if nothing was left to do.
        durability: How durable the result is: what was really synced.
        publish: How files got their names.
        paused: Seconds without requests, because the host did not answer.
        failures: The first failures; the journal has all of them.
        notes: Notes about the run.
    """

    listed: int
    written: int
    skipped: int
    failed: int
    unfinished: int
    bytes: int | None
    run: Counts
    total: Counts
    seconds: float
    retries: int
    unverified: int
    wasted: int
    duplicates: int
    unchanged: int
    edited: int
    dry_run: bool
    complete: bool
    completed_before: datetime | None
    not_listed: str | None
    resumed_from: int
    workers: int
    workers_reason: str
    concurrency: tuple[Step, ...]
    durability: str
    publish: str
    paused: float
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]

    _shown = ("ok", "written", "failed", "skipped", "unfinished", "bytes", "seconds")

    @property
    def ok(self) -> bool:
        """True if the job is complete, and everything listed over all runs is written or was skipped on purpose."""
        return (self.complete or self.dry_run) and not self.total.failed and not self.total.unfinished

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON has them, `ok` first: times as ISO 8601, seconds to the microsecond.

        Example:
            >>> import json
            >>> report = shoal.save({"a.txt": "hello"}, "saved/")
            >>> json.loads(json.dumps(report.to_dict()))["written"]
            1
        """
        return {"ok": self.ok, **_plain(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 6)
    return value.isoformat() if hasattr(value, "isoformat") else value


class NodeProgress(Value):
    """What a node of a cluster has done of a job so far.

    Attributes:
        name: The name of the node.
        running: Parts that run on it.
        done: Parts that have ended on it.
        written: Objects that it has written in this run.
        bytes: Their bytes.
        paused: True while all of its parts send no requests, because their hosts do not answer.
    """

    name: str
    running: int
    done: int
    written: int
    bytes: int
    paused: bool


class Progress(Value):
    """The state of a run, as passed to a progress function.

    Attributes:
        run: Counts of this run so far; `written` counts written objects, committed or not.
        before: Counts of what earlier runs had committed.
        listing_done: True if the listing has ended, so that `listed` is the total.
        in_flight: Objects that are being fetched.
        workers: The current number of workers.
        retries: Requests that were retried after a failure.
        deferred: Objects that wait for a retry.
        retry_in: Seconds until the next retry; None if none waits, or if it is not known.
        committed: Objects committed in this run.
        paused: True while no requests are sent because the host does not answer.
        seconds: Seconds since the start.
        nodes: On a cluster, what each node does.
    """

    run: Counts
    before: Counts
    listing_done: bool
    in_flight: int
    workers: int
    retries: int
    deferred: int
    retry_in: float | None
    committed: int
    paused: bool
    seconds: float
    nodes: tuple[NodeProgress, ...] = ()

    _shown = ("done", "listed", "listing_done", "in_flight", "workers", "retries", "paused", "seconds")

    @property
    def done(self) -> int:
        """Objects that need no more work, over all runs."""
        return sum(counts.written + counts.skipped + counts.failed for counts in (self.before, self.run))

    @property
    def listed(self) -> int:
        """Objects listed so far, over all runs; the total once `listing_done`."""
        return self.before.listed + self.run.listed


class ServerStats(Value):
    """Statistics of a service.

    Attributes:
        requests: Requests answered, including rejected ones.
        bytes: Bytes of the bodies in those answers.
        connections: Connections accepted.
        open_connections: Connections open now.
        cut_connections: Connections closed because they were too slow, or unfinished when the service stopped.
        unlistable_names: Files missing from the latest listing because of their name.
        not_files: Entries missing from it because they are not files.
        unreadable_directories: Directories missing from it because they cannot be read.
        vanished_directories: Directories missing from it because they were gone each time shoal tried to read them.
        walks: How often the directory was read for a listing; several listings can share one reading.
        lost_log_lines: Lines of the access log that could not be written.
    """

    requests: int
    bytes: int
    connections: int
    open_connections: int
    cut_connections: int
    unlistable_names: int
    not_files: int
    unreadable_directories: int
    vanished_directories: int
    walks: int
    lost_log_lines: int

    _shown = ("requests", "bytes", "connections")


class Owner(Value):
    """The process that uses a destination.

    Attributes:
        pid: Its process id; 0 if unknown.
        host: The host that it runs on.
        since: When it started.
    """

    pid: int
    host: str
    since: datetime


class Sample(Value):
    """The progress of a run at one time.

    Attributes:
        at: The time.
        objects: Objects so far, over all sessions of the run.
        bytes: Their bytes.
    """

    at: datetime
    objects: int
    bytes: int


class Skipped(Value):
    """An object that was skipped without being excluded.

    Attributes:
        name: Its name as the source gave it.
        reason: One of duplicate, link, dangling-link, looping-link, pipe, socket, device, special (in an archive, a
            device or pipe) and vanished.
    """

    name: str
    reason: str


class RunStatus(Value):
    """One run in a journal: one source with the same options, however often it was resumed.

    Attributes:
        source: The source of the objects.
        options: The options that change the result.
        started: When it was first started.
        sessions: How often it was started or resumed.
        completed: When it was completed, or None: not complete, or failed objects are to be retried.
        total: What is committed; `unfinished` counts the objects that wait for a retry.
        skipped_by: The skipped objects, counted by reason: those of `Skipped`, and filtered (`include`, `exclude`),
            directory (created, or implied by its files).
        kept: Part of the written ones: files that an earlier session of the run had already written.
        skipped: The first objects that were skipped without being excluded.
        skipped_more: How many more of these there are. The journal has the names of the first 100,000.
        deferred: Objects that wait for a retry.
        until_reboot: True if a reboot would lose committed objects; they are copied again after one.
        failures: The first failures.
        samples: The progress over time.
    """

    source: str
    options: dict[str, str]
    started: datetime
    sessions: int
    completed: datetime | None
    total: Counts
    skipped_by: dict[str, int]
    kept: int
    skipped: tuple[Skipped, ...]
    skipped_more: int
    deferred: int
    until_reboot: bool
    failures: tuple[Failure, ...]
    samples: tuple[Sample, ...]

    _shown = ("source", "started", "completed", "total", "deferred")


class PartStatus(Value):
    """One part of a job (`part=`).

    Attributes:
        index: Its number, counted from 0.
        state: `"complete"`; `"running"` while a process works on it; `"unfinished"`; or `"missing"`, if it has not
            begun.
        owner: The process that works on it, or None.
        run: Its run. None if it is missing, or if only the process that works on it can read its journal.
    """

    index: int
    state: Literal["complete", "running", "unfinished", "missing"]
    owner: Owner | None
    run: RunStatus | None


class Status(Value):
    """The contents of a destination's journal, or of the journals of all parts of a job.

    Attributes:
        path: The destination or journal that was read.
        owner: The process that uses it, or None. If several do, the one that works on the first part.
        runs: Its runs, oldest first; of a job in parts, those of the parts that have begun, in order.
        parts: Of a job in parts, each part; otherwise empty.
        difference: How the listings of complete parts differ, as an error, or None. The job is not complete then.
    """

    path: str
    owner: Owner | None
    runs: tuple[RunStatus, ...]
    parts: tuple[PartStatus, ...]
    difference: RunError | None

    @property
    def complete(self) -> bool:
        """Whether every run is complete, and every part of a job."""
        if self.parts:
            return self.difference is None and all(part.state == "complete" for part in self.parts)
        return bool(self.runs) and all(run.completed for run in self.runs)
