"""What a run hands back: `Report`, its parts, `Progress` while it runs, and `Status` of a journal.

Filled by the binding. Not here: how the command line shows them (`cli/_display.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal._value import Value

if TYPE_CHECKING:
    from datetime import datetime


class Counts(Value):
    """Counts of objects. They balance: listed = written + skipped + failed + unfinished.

    Attributes:
        listed: Named by the listing.
        written: Written to the destination and committed.
        skipped: Left out on purpose: duplicates, excluded names, what is no file, vanished ones where asked for. Empty
            directories count here too, although they are made.
        failed: Failed for good; the journal has their reasons.
        unfinished: None of these yet: what the same call does next time.
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
        name: Its name as the source gave it, not necessarily a safe path; what is not text are surrogate escapes.
        archive: Path of the archive that it is an entry of, or that failed as a whole; None where there is none.
        kind: Stable name of what went wrong, such as `"vanished"`.
        reason: Why, as text.
        tries: How often it was tried.
    """

    name: str
    archive: str | None
    kind: str
    reason: str
    tries: int


class ListedObject(Value):
    """One object of a listing.

    Attributes:
        name: Its name as the source gave it, not necessarily a safe path; what is not text are surrogate escapes.
        size: Its length in bytes; None where the listing does not know it.
        last_modified: When it was last changed, in UTC; None where the listing does not know it.
        archive: Path of the archive that it is an entry of; None where there is none.
    """

    name: str
    size: int | None
    last_modified: datetime | None
    archive: str | None


class Report(Value):
    """What a run did. `ok` is the one thing to look at: whether everything arrived.

    The counts are those of this run, but for `failed`: it has the failures that stand, those of earlier runs included,
    since a resumed run has none of its own for what failed before. `run` and `total` have all counts of this run and of
    all runs that its journal joins; both balance.

    Attributes:
        listed: Objects named by the listing.
        written: Objects written to the destination and committed.
        skipped: Objects left out on purpose.
        failed: Objects that failed for good, over all runs: `total.failed`. Those of this run are `run.failed`.
        unfinished: Objects listed and none of these; 0 unless the run was stopped.
        bytes: Bytes of the written objects; None of a dry run.
        run: All counts of this run. They balance: listed = written + skipped + failed + unfinished.
        total: The same over all runs that the journal joins.
        seconds: Wall time of this run.
        retries: Requests made again after a failure.
        unverified: Objects whose length the source could not tell.
        wasted: Bytes received that became no object: broken bodies, answers asked for again, comparisons.
        duplicates: Of `skipped`: names met before.
        unchanged: Of `skipped`: what an update found as it was. Where nothing was left to do: over all runs.
        dry_run: Nothing was copied: `written` counts what would be.
        complete: The listing has ended and everything in it is committed.
        completed_before: When an earlier run had completed the job, so that there was nothing to do; else None.
        resumed_from: Objects committed by earlier runs that this one continued.
        workers: The number of objects worked on at once that was chosen.
        workers_reason: Why it is not more.
        durability: How durable the result is: the barrier that really ran.
        publish: How files were given their names.
        paused: Seconds for which the host was left alone because it did not answer.
        failures: The first failures; the journal has all.
        notes: Remarks worth reading.
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
    dry_run: bool
    complete: bool
    completed_before: datetime | None
    resumed_from: int
    workers: int
    workers_reason: str
    durability: str
    publish: str
    paused: float
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]

    _shown = ("ok", "written", "failed", "skipped", "unfinished", "bytes", "seconds")

    @property
    def ok(self) -> bool:
        """Whether the job is complete, and everything listed over all runs is written or was skipped on purpose."""
        return (self.complete or self.dry_run) and not self.total.failed and not self.total.unfinished


class Progress(Value):
    """Where a run stands, as a progress function sees it.

    Attributes:
        run: Counts of this run so far; `written` counts what was handed to the destination, committed or not.
        before: Counts of what earlier runs had committed.
        listing_done: The listing has ended, so that `listed` is the total.
        in_flight: Objects being fetched right now.
        workers: The number of objects that may be worked on at once right now.
        retries: Requests made again after a failure.
        deferred: Objects that wait for a later try.
        retry_in: Seconds until the first of these is tried again; None where none waits, or it is not known.
        committed: Objects committed in this run.
        paused: The host does not answer and is left alone for a while.
        seconds: Since the start.
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
    """What a service has done so far.

    Attributes:
        requests: Requests answered, refusals included.
        bytes: Bytes of the bodies in those answers.
        connections: Connections accepted.
        open_connections: Connections open now.
        cut_connections: Connections cut: too slow, or not done when the service stopped.
        unlistable_names: Files left out of the latest listing because of their name.
        not_files: Entries left out of it because they are no files.
        unreadable_directories: Directories left out of it because they may not be read.
        vanished_directories: Directories left out of it because they were gone whenever they were to be read.
        walks: Times that the directory was read for a listing; several listings can share one.
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
    """The process that works on a destination right now.

    Attributes:
        pid: Its process id; 0 where unknown.
        host: The host it runs on.
        since: When it began.
    """

    pid: int
    host: str
    since: datetime


class Sample(Value):
    """How far a run was at a moment.

    Attributes:
        at: The moment.
        objects: Objects so far, over all sessions of the run.
        bytes: Their bytes.
    """

    at: datetime
    objects: int
    bytes: int


class Skipped(Value):
    """An object that was left out without being asked for.

    Attributes:
        name: Its name as the source gave it.
        reason: Why: duplicate, link, dangling-link, looping-link, pipe, socket, device, special (in an archive, a
            device or pipe) or vanished.
    """

    name: str
    reason: str


class RunStatus(Value):
    """One run in a journal: one source with the same options, however often it was resumed.

    Attributes:
        source: Where the objects come from.
        options: The options that change the result.
        started: When it was first begun.
        sessions: How often it was begun or resumed.
        completed: When it was complete, or None while it is not.
        total: What is committed; `unfinished` counts the objects that wait for a later try.
        skipped_by: The skipped objects, counted by reason: those of `Skipped`, and filtered (`include`, `exclude`),
            directory (made, or brought along by what lies in it), elsewhere (in another shard).
        kept: Of those written: what was found as an earlier session of the run had written it.
        skipped: The first that were left out without being asked for.
        skipped_more: How many more there are of these. The journal has the names of the first 100,000.
        deferred: Objects that wait for a later try.
        until_reboot: Something is committed that a reboot would lose; it is done again after one.
        failures: The first failures.
        samples: How far it was, over time.
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


class Status(Value):
    """What the journal of a destination says.

    Attributes:
        path: The destination or journal that was looked at.
        owner: Who works on it right now, or None.
        runs: Its runs, the oldest first.
    """

    path: str
    owner: Owner | None
    runs: tuple[RunStatus, ...]
