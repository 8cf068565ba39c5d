"""Prints what a journal records as text, JSON or CSV, for `shoal status`. Not here: options (`status.py`)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from shoal._progress import count_text, size_text
from shoal.cli._display import has_utf8, out, out_csv, out_json
from shoal.cli._fields import COUNT_NAMES, count_fields, failure_fields
from shoal.cli._flags import in_flags
from shoal.cli._summary import FailureLines, local_time, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal._report import Failure, RunStatus, Sample, Status

BARS = "▁▂▃▄▅▆▇█"
BARS_ASCII = "_.-=+*#"
BARS_MAX = 60  # bars of a rate history: it and its peak fit on a line of 80 characters
# What is said of the parts of a job in each state.
STATES = {
    "complete": "complete",
    "running": "running",
    "unfinished": "unfinished; run the same command again to resume",
    "missing": "not begun",
}
CSV_HEADER = ("state", "name", "kind", "reason", "tries", "source")


def is_ok(status: Status) -> bool:
    """Whether everything is complete, and no object has failed."""
    return status.complete and not any(run.total.failed for run in status.runs)


def lines_out(lines: Iterable[str]) -> None:
    """Prints lines."""
    for line in lines:
        out(line)


def failures_as_json(failures: Iterable[Failure]) -> None:
    """Prints failures as JSON, one object per line."""
    for fields in failure_fields(failures):
        out_json({"type": "failure", **fields})


def skipped_fields(run: RunStatus) -> list[dict[str, str]]:
    """Returns skipped names for JSON."""
    return [{"name": one.name, "reason": one.reason} for one in run.skipped]


def skipped_as_text(run: RunStatus, *, counted_only: bool) -> None:
    """Prints skipped names; `counted_only`: the journal has only the number of the others."""
    for one in run.skipped:
        out(f"  {shown_name(one.name)}: skipped, {_reason_text(one.reason)}")
    if run.skipped_more and (run.skipped or counted_only):
        out(f"  ... and {run.skipped_more:,} more" + (", without their names" if counted_only else ": --skipped all"))


def skipped_as_json(run: RunStatus) -> None:
    """Prints skipped names as JSON, one object per line."""
    for fields in skipped_fields(run):
        out_json({"type": "skipped", **fields})


def _reason_text(reason: str) -> str:
    return reason.replace("-", " ")


def status_as_json(status: Status, *, with_names: bool) -> None:
    """Prints what a journal records as one line of JSON, `with_names` of skipped objects."""
    owner = status.owner
    out_json(
        {
            "type": "report",
            "ok": is_ok(status),
            "path": status.path,
            **(_part_fields(status) if status.parts else {}),
            "owner": owner and {"pid": owner.pid, "host": owner.host, "since": owner.since.isoformat()},
            "runs": [
                {
                    "source": run.source,
                    "options": run.options,
                    "started": run.started.isoformat(),
                    "sessions": run.sessions,
                    "completed": run.completed and run.completed.isoformat(),
                    **count_fields(run.total),
                    "skipped_by": run.skipped_by,
                    "kept": run.kept,
                    "skipped_names": skipped_fields(run) if with_names else [],
                    "skipped_more": run.skipped_more,
                    "deferred": run.deferred,
                    "until_reboot": run.until_reboot,
                    "failures": failure_fields(run.failures),
                    "samples": [[round(one.at.timestamp(), 3), one.objects, one.bytes] for one in run.samples],
                }
                for run in status.runs
            ],
        }
    )


def _part_fields(status: Status) -> dict[str, Any]:
    parts = [{"index": part.index, "state": part.state} for part in status.parts]
    different = status.difference and status.difference.message
    return {"complete": status.complete, "different_listings": different, "parts": parts, "total": sum_of_runs(status)}


class Table:
    """What failed or was skipped, as CSV."""

    def __init__(self, *, has_urls: bool) -> None:
        """Prints the names of the columns; `has_urls`: also one with the URL of each failure."""
        self._has_urls = has_urls
        self.changed = 0  # failures of which the list has another record now
        out_csv([(*CSV_HEADER, "url") if has_urls else CSV_HEADER])

    def failures(
        self, failures: Sequence[Failure], urls: Sequence[str | None] = (), *, source: str, state: str = "failed"
    ) -> None:
        """Prints failures, and the URL of each; None if the list has another record in its place."""
        self.changed += sum(url is None for url in urls)
        rows = (
            (state, one["name"], one["kind"], one["reason"], one["tries"], source) for one in failure_fields(failures)
        )
        self._rows(rows, [url or "" for url in urls])

    def skipped(self, run: RunStatus) -> None:
        """Prints skipped names."""
        rows = (("skipped", one.name, one.reason, _reason_text(one.reason), "", run.source) for one in run.skipped)
        self._rows(rows, ())

    def _rows(self, rows: Iterable[tuple[object, ...]], urls: Sequence[str]) -> None:
        for row, url in itertools.zip_longest(rows, urls, fillvalue=""):
            out_csv([(*row, url) if self._has_urls else row])


def no_runs(status: Status) -> None:
    """Prints that no run has listed anything."""
    owner = status.owner
    running = owner and f"pid {owner.pid} on {owner.host} lists its source; nothing is committed yet"
    out(f"{status.path}: {running or 'no run has listed anything yet'}")


def run_status(status: Status, run: RunStatus) -> None:
    """Prints one run of a journal with its failures."""
    total, owner = run.total, status.owner
    state = f"complete since {local_time(run.completed)}" if run.completed else "not complete"
    out(f"{run.source} into {status.path}: {state}")
    if owner:
        out(f"  running as pid {owner.pid} on {owner.host} since {local_time(owner.since)}")
    elif not run.completed:
        out("  not running; run the same command again to resume")
    out(f"  {total.written:,} written ({size_text(total.bytes)}), {total.listed:,} listed, {total.skipped:,} skipped")
    if run.skipped_by:
        out("  skipped: " + ", ".join(f"{count:,} {_reason_text(reason)}" for reason, count in run.skipped_by.items()))
    if run.kept:
        out(f"  {run.kept:,} of those written were already there from an earlier session")
    if run.deferred:
        out(f"  {count_text(run.deferred)} to be retried later")
    sessions = "1 session" if run.sessions == 1 else f"{run.sessions:,} sessions"
    out(f"  started {local_time(run.started)}, {sessions}")
    if history := rate_history(run.samples):
        out(f"  objects per second: {history}")
    if run.until_reboot:
        out("  some objects are only in the page cache; they are copied again after a reboot")
    failures_of_run(run)


def failures_of_run(run: RunStatus) -> None:
    """Prints how many objects of a run have failed, and the first of them."""
    failed, part = run.total.failed, run.options.get("part")
    if failed:
        where = f" in part {part}" if part else ""
        out(f"  {count_text(failed)} failed{where}; run the same command again to retry")
        lines_out(FailureLines().of(run.failures))
        if 0 < len(run.failures) < failed:
            out(f"  ... and {failed - len(run.failures):,} more: --failures all")


def parts_as_text(status: Status) -> None:
    """Prints how far the parts of a job are, and their sums."""
    source = status.runs[0].source if status.runs else "a job"
    done = [run.completed for run in status.runs if run.completed]
    state = f"complete since {local_time(max(done))}" if status.complete else "not complete"
    out(f"{source} into {status.path}, {len(status.parts):,} parts: {state}")
    for name, text in STATES.items():
        indexes = [part.index for part in status.parts if part.state == name]
        if indexes:
            out(f"  {len(indexes):,} {text}" + (f": {ranges(indexes)}" if name != "complete" else ""))
    if different := status.difference:
        out(f"  {in_flags(str(different))}".replace("\n", "\n  "))
    for part in status.parts:
        if owner := part.owner:
            out(f"  part {part.index}: pid {owner.pid} on {owner.host} since {local_time(owner.since)}")
    total = sum_of_runs(status)
    size = size_text(total["bytes"])
    out(f"  {total['written']:,} written ({size}), {total['listed']:,} listed, {total['skipped']:,} skipped")
    if total["failed"]:
        out(f"  {count_text(total['failed'])} failed")


def sum_of_runs(status: Status) -> dict[str, int]:
    """Returns the counts of all runs, added up."""
    return {name: sum(getattr(run.total, name) for run in status.runs) for name in COUNT_NAMES}


def ranges(indexes: Sequence[int]) -> str:
    """Returns ascending numbers as text such as `0-3, 7`."""
    found: list[list[int]] = []
    for index in indexes:
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def rate_history(samples: Sequence[Sample]) -> str:
    """Returns the rate over time as a row of bars with its peak, or an empty string if there is too little to draw.

    A pause between sessions takes at most one bar, because the samples do not record the end of a session.
    """
    steps = [
        ((late.at - early.at).total_seconds(), late.objects - early.objects)
        for early, late in itertools.pairwise(samples)
        if late.at > early.at
    ]
    if len(steps) < 2:
        return ""
    per_bar = -(-len(steps) // BARS_MAX)
    rates = []
    for first in range(0, len(steps), per_bar):
        some = steps[first : first + per_bar]
        rates.append(max(0.0, sum(objects for _, objects in some) / sum(seconds for seconds, _ in some)))
    peak = max(rates)
    bars = BARS if has_utf8() else BARS_ASCII
    drawn = "".join(bars[round(rate / peak * (len(bars) - 1))] if peak else bars[0] for rate in rates)
    return f"{drawn}  peak {peak:,.0f}/s"
