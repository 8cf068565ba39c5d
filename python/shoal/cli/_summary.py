"""The summary of a run: one line for what was done and how fast, one for failures; more with `--verbose`.

Not here: printing (`_display.py`), the same as JSON (`_fields.py`), rates and times in words (`shoal._progress`).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._progress import count_text, path_text, size_text, time_text
from shoal.cli._fields import FAILURES_SHOWN
from shoal.cli._flags import in_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from shoal._report import Failure, Report

# Notes about speed, or about normal events: only --verbose shows them. All others are about trust or loss and are
# always shown, also those that a later version adds. A test looks for each of these in the engine.
ONLY_VERBOSE = (
    "pipelining is off: ",
    "pipelining was not used: ",
    " objects came encoded as ",
    " of the objects were already at the destination, ",
    " worker threads could be started: ",
    'durability is "file" here, not "batch": ',
    '".shoal" was skipped: ',
    "the listing has changed before the point where the run stopped: ",
)


EDITED = " changed at the destination, and not at the source"  # in the engine's note
ALIKE_SHOWN = 3  # failures in a row with the same reason; JSON and CSV have all of them


def shown_name(name: str) -> str:
    """Returns a name as it is shown: escaped and in quotes."""
    return f'"{_shoal.escape(name)}"'


def failure_text(one: Failure) -> str:
    """Returns one failure as one line, without further lines of its reason (a traceback)."""
    why = in_flags(one.reason.partition("\n")[0])
    return f"{shown_name(one.name)}: {why}" + (f" (after {one.tries} attempts)" if one.tries > 1 else "")


class FailureLines:
    """Failures as lines, in any number of batches. A reason that repeats in a row is not repeated."""

    def __init__(self) -> None:
        """No failure has come yet."""
        self._reason, self._times = "", 0

    def of(self, failures: Iterable[Failure]) -> Iterator[str]:
        """Yields one line for each failure, followed by further lines of its reason if that is another one."""
        for one in failures:
            reason = re.sub('^in "[^"]*": ', "", one.reason)  # the line of a list
            self._times = self._times + 1 if reason == self._reason else 1
            self._reason = reason
            if self._times <= ALIKE_SHOWN:
                yield f"  {failure_text(one)}"
                yield from (f"    {line}" for line in one.reason.splitlines()[1:])
            else:
                yield f"  {shown_name(one.name)}: the same"


def cause(report: Report | None) -> list[str]:
    """Returns the first failure if it has more lines than one: the traceback of a function, which ended a run."""
    lines = list(FailureLines().of(report.failures[:1])) if report else []
    return lines if len(lines) > 1 else []


def summary(
    report: Report, destination: str | None, *, quiet: bool, verbose: bool, ascii_only: bool = False
) -> list[str]:
    """Returns the summary of a run, line by line.

    Args:
        report: What the run has done.
        destination: Where the run wrote to; None for a run that only read.
        quiet: Return only what went wrong, and that nothing was done.
        verbose: Add how it was done.
        ascii_only: Use no other characters, because they cannot be shown.
    """
    lines = [] if quiet and not report.not_listed else [_done(report, destination)]
    if verbose and not quiet:
        lines += _how(report, destination, ascii_only=ascii_only)
    if quiet:  # a copy that differs is told by a nightly job, too
        lines += [f"note: {in_flags(note)}" for note in report.notes if report.edited and EDITED in note]
    else:
        lines += [f"note: {in_flags(note)}" for note in report.notes if verbose or not _only_verbose(note)]
        if _shoal.BUILD_PROFILE == "debug":
            lines.append("note: this is a debug build of the engine; its speed says nothing")
    if report.failed:
        lines.append(_failed(report, destination, verbose=verbose or quiet))
        lines += FailureLines().of(report.failures[:FAILURES_SHOWN]) if verbose or quiet else []
    return lines


def _only_verbose(note: str) -> bool:
    return any(part in note for part in ONLY_VERBOSE)


def _done(report: Report, destination: str | None) -> str:
    """Returns what was done, and how fast."""
    if report.completed_before:
        when, count = local_time(report.completed_before), count_text(report.total.written + report.unchanged)
        return f"nothing to do: complete since {when}, {count}" + (
            f"; {in_flags(report.not_listed)}" if report.not_listed else ""
        )
    if report.dry_run:
        left_out = f"; {_skipped(report)}" if report.skipped else ""
        return f"would copy {count_text(report.written)}{left_out}; nothing was done in this dry run"
    seconds, size = max(report.seconds, 1e-6), report.bytes or 0
    said = (
        f"{'wrote' if destination else 'read'} {count_text(report.written)}, {size_text(size)}, "
        f"in {time_text(report.seconds)}: {report.written / seconds:,.0f}/s, {size_text(size / seconds)}/s"
    )
    others = []
    if report.resumed_from:
        others.append(f"{report.total.written:,} in all, with earlier runs")
    if report.skipped:
        others.append(_skipped(report))
    if report.unfinished:
        others.append(f"{report.unfinished:,} unfinished")
    if report.unverified:
        others.append(f"{report.unverified:,} of unknown length, not verified")
    return "; ".join([said, *others])


def _skipped(report: Report) -> str:
    """Returns how many objects were skipped, and the reasons that matter."""
    counts = ((report.unchanged, "unchanged"), (report.edited, "edited"), (report.duplicates, "duplicates"))
    reasons = ", ".join(f"{count:,} {reason}" for count, reason in counts if count)
    return f"{report.skipped:,} skipped" + (f" ({reasons})" if reasons else "")


def _how(report: Report, destination: str | None, *, ascii_only: bool) -> list[str]:
    """Returns how it was done."""
    lines = [f"workers: {report.workers} ({report.workers_reason})"]
    path = path_text(report.concurrency, ascii_only=ascii_only)
    lines += [f"  path: {path}"] if path else []
    if destination:
        lines += [f"durability: {report.durability}", f"published: {report.publish}"]
    said = []
    if report.retries:
        said.append(f"{report.retries:,} {'retry' if report.retries == 1 else 'retries'}")
    if report.wasted:
        said.append(f"{size_text(report.wasted)} received and discarded")
    if report.paused >= 1:
        said.append(f"paused for {time_text(report.paused)}: the host did not answer")
    return lines + ([", ".join(said)] if said else [])


def _failed(report: Report, destination: str | None, *, verbose: bool) -> str:
    """Returns what failed, and the next command to type."""
    said = f"{count_text(report.failed)} failed"
    if report.failures and not verbose:
        said += f"{', the first' if report.failed > 1 else ':'} {failure_text(report.failures[0])}"
    if destination not in (None, "null:"):
        # The entries of a damaged archive were never listed, so a retry would not find them.
        damaged = any(failure.kind == "archive" for failure in report.failures)
        # Rows of Parquet files are never rewritten.
        new = " and a new directory" if destination.startswith("parquet:") else " with --update"
        again = "the same command" + (new if damaged else "")
        if any(failure.kind == "exists" for failure in report.failures):
            said += "; --overwrite always replaces files that are in the way"
        them = "it" if report.failed == 1 else "them"
        return f"{said}; to see {them}: shoal status {shlex.quote(destination)} --failures all; to retry: {again}"
    return said if verbose or report.failed == 1 else f"{said}; -v shows more"


def local_time(moment: datetime) -> str:
    """Returns a timestamp in the local time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
