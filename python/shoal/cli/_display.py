"""The only file that prints: words on standard error, data on standard output, and nothing that moves a cursor.

Whatever a server or a file system named goes through `_shoal.escape`; whatever else is printed has its remaining
control characters escaped. Not here: rates and times in words (`shoal._progress`), a standard output that takes no more
(`_output.py`).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shlex
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, TextIO

from shoal import _shoal
from shoal._errors import ShoalError
from shoal._options import without_secrets
from shoal._progress import LINE_EVERY, Rates, count_text, only_waits, parts, size_text, time_text, waiting_text
from shoal.cli import _output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from rich.live import Live

    from shoal._report import Counts, Failure, Progress, Report, RunStatus, Sample, ServerStats, Status

FAILURES_SHOWN = 5  # in the summary of a run; enough to see what is wrong, few enough to see the rest
FAILURES_IN_JSON = 20  # on one line of the report; the journal has all
BARS = "▁▂▃▄▅▆▇█"
BARS_ASCII = "_.-=+*#"
BARS_MAX = 60  # bars of a rate history: it and its peak fit on a line of 80 characters
COUNT_NAMES = ("listed", "written", "skipped", "failed", "unfinished", "bytes")


def prepare() -> None:
    """Makes both streams take any character, whatever the locale, and standard output tell what it cannot take."""
    if sys.stdout is None or isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _output.Output.of(sys.stdout)
    if sys.stderr is not None and hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(errors="backslashreplace")


def finish() -> bool:
    """Writes out what is left, so that the interpreter finds nothing to complain about at exit.

    Returns:
        Whether standard output took all that was printed; if it did not, the user has been told.
    """
    failure = None
    if isinstance(sys.stdout, _output.Output):
        with contextlib.suppress(_output.OutputError):
            sys.stdout.finish()
        failure = sys.stdout.failure
    if failure is not None:
        talk(f"error: cannot write to standard output: {failure.strerror} (errno {failure.errno})")
        talk("hint: what was printed is not complete: print it to another place, and run the command again")
    _write(sys.stderr, "")
    return failure is None


def is_terminal() -> bool:
    """Tells whether what is said goes to a terminal, where a line may be drawn over."""
    return sys.stderr is not None and sys.stderr.isatty()


def safe(text: str) -> str:
    """Escapes what could change how a terminal shows the rest; line ends stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _shoal.escape(char) for char in text)


def shown_name(name: str) -> str:
    """Returns a name from a stranger as it is shown: escaped and in quotes."""
    return f'"{_shoal.escape(name)}"'


def _write(stream: TextIO | None, text: str, *, flush: bool = True) -> None:
    if stream is None or stream.closed:
        return
    try:
        stream.write(text)
        if flush:
            stream.flush()
    except OSError:
        # Standard error: the terminal is gone. What the stream still holds goes nowhere, now and at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def out(text: str) -> None:
    """Prints data."""
    _write(sys.stdout, safe(text) + "\n")


def out_rows(rows: Iterable[Iterable[str]]) -> None:
    """Prints rows of data, a line each, with tabs between the values."""
    _write(sys.stdout, "".join("\t".join(map(safe, row)) + "\n" for row in rows))


def out_json(value: dict[str, Any]) -> None:
    """Prints data as one line of JSON, in ASCII."""
    _write(sys.stdout, json_line(value) + "\n")


def json_line(value: dict[str, Any]) -> str:
    """Returns one line of JSON that no terminal minds: JSON itself would let DEL through."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def talk(text: str) -> None:
    """Says something to the user."""
    _write(sys.stderr, safe(text) + "\n")


def usage_error(message: str, help_command: str, *, as_json: bool) -> None:
    """Says that the command line is wrong."""
    message = message[:1].lower() + message[1:].rstrip(".")
    hint = f"{help_command} lists the options"
    if as_json:
        out_json({"type": "error", "kind": "usage", "message": message, "hint": hint})
    talk(f"error: {message}\nhint: {hint}")


def defect() -> None:
    """Says that an exception came up that should not have, with all that helps to find it."""
    talk(traceback.format_exc().rstrip())
    talk("error: this is a defect of shoal\nhint: report it with the lines above; the same command goes on")


def count_fields(counts: Counts | Report) -> dict[str, int]:
    """Returns counts as JSON has them."""
    return {name: getattr(counts, name) for name in COUNT_NAMES}


def failure_fields(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """Returns failures as JSON has them."""
    return [{"name": one.name, "kind": one.kind, "reason": one.reason, "tries": one.tries} for one in failures]


def report_fields(report: Report) -> dict[str, Any]:
    """Returns a report as JSON has it."""
    return {
        "ok": report.ok,
        **count_fields(report),
        "run": count_fields(report.run),
        "total": count_fields(report.total),
        "seconds": round(report.seconds, 6),
        "retries": report.retries,
        "unverified": report.unverified,
        "wasted": report.wasted,
        "duplicates": report.duplicates,
        "complete": report.complete,
        "completed_before": report.completed_before and report.completed_before.isoformat(),
        "resumed_from": report.resumed_from,
        "workers": report.workers,
        "workers_reason": report.workers_reason,
        "durability": report.durability,
        "publish": report.publish,
        "paused": round(report.paused, 3),
        "failures": failure_fields(report.failures[:FAILURES_IN_JSON]),
        "notes": list(report.notes),
    }


def failure_lines(failures: Iterable[Failure], *, whole: bool = True) -> list[str]:
    """Returns one line for each failure, and below it the others of its reason (a traceback); `whole`: these too."""
    lines = []
    for one in failures:
        why, *where = one.reason.splitlines() or [""]
        lines.append(f"  {shown_name(one.name)}: {why}" + (f" (after {one.tries} tries)" if one.tries > 1 else ""))
        lines += [f"    {line}" for line in where] if whole else []
    return lines


def manifest_line(name: str, size: int, checksum: str, *, as_json: bool) -> None:
    """Prints the checksum of an object, in the form that `sha256sum -c` and its like read."""
    if as_json:
        out_json({"type": "object", "name": name, "size": size, "checksum": checksum})
        return
    shown = _shoal.escape(name)
    _write(sys.stdout, f"{checksum}  {name}\n" if shown == name else f"\\{checksum}  {shown}\n", flush=False)


def summary(report: Report, destination: str | None, *, verbose: bool) -> list[str]:
    """Returns the few lines that close a run; without a destination, one that only read."""
    lines = []
    if report.completed_before and not report.listed:
        when = local_time(report.completed_before)
        lines.append(
            f"complete, {count_text(report.total.written)}, {when}; the source was not looked at again: --update does"
        )
    else:
        seconds = max(report.seconds, 1e-6)
        verb = "wrote" if destination else "read"
        lines.append(
            f"{verb} {count_text(report.written)}, {size_text(report.bytes)}, in {time_text(report.seconds)}: "
            f"{report.written / seconds:,.0f}/s, {size_text(report.bytes / seconds)}/s"
        )
        if report.resumed_from:
            lines.append(
                f"continued after {count_text(report.resumed_from)} of earlier runs; {report.total.written:,} in all"
            )
        lines.append(f"workers: {report.workers} ({report.workers_reason})")
        if destination:
            lines.append(f"durability: {report.durability}")
        if destination and verbose:
            lines.append(f"published: {report.publish}")
    lines += _other_counts(report)
    lines += [f"note: {note}" for note in report.notes]
    if _shoal.BUILD_PROFILE == "debug":
        lines.append("note: this is a debug build of the engine; its speed says nothing")
    if report.failed:
        lines.append(f"{count_text(report.failed)} failed" + (":" if report.failures else ""))
        lines += failure_lines(report.failures if verbose else report.failures[:FAILURES_SHOWN], whole=verbose)
        if destination not in (None, "null:"):
            where = shlex.quote(destination)
            lines.append(f"hint: shoal status {where} --failures all lists them; the same command tries them again")
            if any(failure.kind == "archive" for failure in report.failures):
                lines.append("hint: the entries of an archive that could not be read at all are found with --update")
    return lines


def _other_counts(report: Report) -> list[str]:
    """One line for what is neither written nor failed, if there is any."""
    said = []
    if report.skipped:
        said.append(
            f"{report.skipped:,} skipped" + (f" ({report.duplicates:,} duplicates)" if report.duplicates else "")
        )
    if report.unfinished:
        said.append(f"{report.unfinished:,} unfinished")
    if report.unverified:
        said.append(f"{report.unverified:,} of unknown length, not verified")
    if report.wasted:
        said.append(f"{size_text(report.wasted)} received in vain")
    if report.retries:
        said.append(f"{report.retries:,} {'retry' if report.retries == 1 else 'retries'}")
    if report.paused >= 1:
        said.append(f"paused for {time_text(report.paused)}: the host did not answer")
    return [", ".join(said)] if said else []


def command_failed(error: ShoalError, *, as_json: bool) -> None:
    """Says why a command other than `copy` could not do its work."""
    talk(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
    if as_json:
        out_json({"type": "error", "kind": error.kind, "message": error.message, "hint": error.hint})


def service_started(url: str, what: str, *, quiet: bool, as_json: bool) -> None:
    """Prints the URL of a service, the first line of its output."""
    if as_json:
        out_json({"type": "serving", "url": url})
    else:
        out(url)
    if not quiet:
        talk(f"serving {what}; Ctrl-C stops")


def service_left_out(stats: ServerStats, said: tuple[int, int, int], *, quiet: bool) -> tuple[int, int, int]:
    """Says what the latest listing had to leave out, where that is not what was said last; returns what is said now."""
    now = (stats.unlistable_names, stats.unreadable_directories, stats.vanished_directories)
    if not quiet and now != said:
        left_out_notes(stats)
    return now


def left_out_notes(stats: ServerStats) -> None:
    """Says what the latest listing lacks, a line for each reason."""
    for count, what in (
        (stats.unlistable_names, "file names left out: not UTF-8, or too long"),
        (stats.unreadable_directories, "directories left out: not readable"),
        (stats.vanished_directories, "directories left out: gone whenever they were to be read"),
    ):
        if count:
            talk(f"note: {count:,} {what}")


def service_stopped(stats: ServerStats, *, quiet: bool, as_json: bool) -> None:
    """Says what a service has done."""
    if not quiet:
        talk(f"answered {count_text(stats.requests, 'request')}, {size_text(stats.bytes)}")
        left_out_notes(stats)
        for count, what in (
            (stats.not_files, "entries left out: links, devices, pipes or sockets"),
            (stats.lost_log_lines, "lines of the access log lost"),
        ):
            if count:
                talk(f"note: {count:,} {what}")
    if as_json:
        out_json({"type": "served", **vars(stats)})


def failures_as_text(failures: Iterable[Failure]) -> None:
    """Prints failures, a line each."""
    for line in failure_lines(failures):
        out(line)


def failures_as_json(failures: Iterable[Failure]) -> None:
    """Prints failures, an object each."""
    for fields in failure_fields(failures):
        out_json({"type": "failure", **fields})


def skipped_fields(run: RunStatus) -> list[dict[str, str]]:
    """Returns what was left out without being asked for as JSON has it."""
    return [{"name": one.name, "reason": one.reason} for one in run.skipped]


def skipped_as_text(run: RunStatus, *, counted_only: bool) -> None:
    """Prints the names that were read of what was left out; `counted_only`: of the others there are no names."""
    for one in run.skipped:
        out(f"  {shown_name(one.name)}: skipped, {_reason_text(one.reason)}")
    if run.skipped_more and (run.skipped or counted_only):
        out(f"  ... and {run.skipped_more:,} more" + (", without their names" if counted_only else ": --skipped all"))


def skipped_as_json(run: RunStatus) -> None:
    """Prints the names that were read of what was left out, an object each."""
    for fields in skipped_fields(run):
        out_json({"type": "skipped", **fields})


def _reason_text(reason: str) -> str:
    return reason.replace("-", " ")


def status_as_json(status: Status, *, with_names: bool) -> None:
    """Prints what a journal says as one line of JSON, `with_names` of what was left out."""
    owner = status.owner
    out_json(
        {
            "type": "status",
            "path": status.path,
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


def run_status(status: Status, run: RunStatus) -> None:
    """Prints one run of a journal, with the failures that were read."""
    total, owner = run.total, status.owner
    state = f"complete since {local_time(run.completed)}" if run.completed else "not complete"
    out(f"{run.source} into {status.path}: {state}")
    if owner:
        out(f"  pid {owner.pid} on {owner.host} works on it since {local_time(owner.since)}")
    elif not run.completed:
        out("  nobody works on it; the same command goes on")
    out(f"  {total.written:,} written ({size_text(total.bytes)}), {total.listed:,} listed, {total.skipped:,} skipped")
    if run.skipped_by:
        out("  skipped: " + ", ".join(f"{count:,} {_reason_text(reason)}" for reason, count in run.skipped_by.items()))
    if run.kept:
        out(f"  {run.kept:,} of those written were there from an earlier session")
    if run.deferred:
        out(f"  {count_text(run.deferred)} to be tried later")
    sessions = "1 session" if run.sessions == 1 else f"{run.sessions:,} sessions"
    out(f"  begun {local_time(run.started)}, {sessions}")
    if history := rate_history(run.samples):
        out(f"  objects a second: {history}")
    if run.until_reboot:
        out("  some of it is in the page cache only: after a reboot it is done again")
    if total.failed:
        out(f"  {count_text(total.failed)} failed; the same command tries again")
        failures_as_text(run.failures)
        if 0 < len(run.failures) < total.failed:
            out(f"  ... and {total.failed - len(run.failures):,} more: --failures all")


def local_time(moment: datetime) -> str:
    """Returns a moment on the user's own clock."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def rate_history(samples: Sequence[Sample]) -> str:
    """Returns the rate over time as a row of bars with its peak; empty when there is too little to draw.

    Pauses between sessions take up one bar at most, as the samples do not say when a session ended.
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
    bars = BARS if "utf" in (getattr(sys.stdout, "encoding", None) or "").lower() else BARS_ASCII
    drawn = "".join(bars[round(rate / peak * (len(bars) - 1))] if peak else bars[0] for rate in rates)
    return f"{drawn}  peak {peak:,.0f}/s"


class Display:
    """What one command says while it works and when it ends."""

    def __init__(self, *, as_json: bool, quiet: bool, verbose: bool, log_format: str, progress: str) -> None:
        """Decides what is drawn: on a terminal everything, elsewhere only what was asked for."""
        self._as_json = as_json
        self._quiet = quiet
        self._verbose = verbose
        self._json_log = log_format == "json"
        self._rates = Rates()
        self._live: Live | None = None
        self._next_line = time.monotonic() + LINE_EVERY
        self._waited = False
        draws = progress == "auto" and not self._json_log and sys.stderr is not None and sys.stderr.isatty()
        self.progress: Callable[[Progress], object] | None = None
        if not quiet:
            others = {"auto": self._wait, "plain": self._line}
            self.progress = self._draw if draws else others.get(progress)

    def begins(self, source: str, destination: str | None, doing: str = "copying") -> None:
        """Says what is about to happen."""
        if self._verbose and not self._quiet:
            what = without_secrets(source)
            self._say("start", f"{doing} {what} to {destination}" if destination else f"reading {what}")

    def stopping(self) -> None:
        """Says that a signal has come; called inside the signal's handler."""
        self._close()
        if not self._quiet:
            self._say("stopping", "stopping; once more ends it at once")

    def finished(self, report: Report, destination: str | None, first: str | None = None) -> None:
        """Says how a run ended that went to its end; `first`: in a line before all others."""
        self._close()
        if not self._quiet:
            lines = ([] if first is None else [first]) + summary(report, destination, verbose=self._verbose)
            self._say("summary", "\n".join(lines), report_fields(report))
        if self._as_json:
            out_json({"type": "report", **report_fields(report)})

    def failed(self, error: ShoalError) -> None:
        """Says why a run could not go on, and what it had done."""
        self._ends("error", error.message, error.kind, error.hint, error.report)

    def interrupted(self, report: Report | None, *, resumes: bool = True) -> None:
        """Says that a run was stopped by a signal, and how to go on."""
        hint = "the same command goes on from here" if resumes else None
        self._ends("stopped", "stopped", "interrupted", hint, report)

    def _ends(self, word: str, message: str, kind: str, hint: str | None, report: Report | None) -> None:
        self._close()
        fields = {"kind": kind, "message": message, "hint": hint, **(report_fields(report) if report else {})}
        if self._json_log:
            self._say("error", message, fields)
        elif kind != "interrupted":
            talk(f"error: {message}")
        if not self._json_log and not (self._quiet and kind == "interrupted"):
            if report and report.total.listed:
                done = f"{report.written:,} written, {report.run.failed:,} failed, {report.unfinished:,} unfinished"
                talk(
                    f"{word} after {time_text(report.seconds)}: {done}" if word == "stopped" else f"until then: {done}"
                )
            elif word == "stopped":
                talk(word)
            if hint:
                talk(f"hint: {hint}")
        if self._as_json:
            out_json({"type": "error", **fields})

    def _say(self, event: str, text: str, fields: dict[str, Any] | None = None) -> None:
        if self._json_log:
            said = fields if fields is not None else {"message": text}
            _write(sys.stderr, json_line({"type": event, "time": round(time.time(), 3), **said}) + "\n")
        else:
            talk(text)

    def _wait(self, progress: Progress) -> None:
        """Says that a run only waits, which could be taken for one that hangs."""
        if not only_waits(progress) or (self._waited and time.monotonic() < self._next_line):
            return
        self._waited, self._next_line = True, time.monotonic() + LINE_EVERY
        self._say("waiting", waiting_text(progress), {"deferred": progress.deferred, "retry_in": progress.retry_in})

    def _line(self, progress: Progress) -> None:
        self._rates.update(progress)
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_EVERY
        fields = {
            **count_fields(progress.run),
            "seconds": round(progress.seconds, 3),
            "listing_done": progress.listing_done,
            "objects_per_second": round(self._rates.objects, 1),
            "bytes_per_second": round(self._rates.bytes, 1),
            "in_flight": progress.in_flight,
            "workers": progress.workers,
            "retries": progress.retries,
            "deferred": progress.deferred,
            "retry_in": progress.retry_in,
            "paused": progress.paused,
            "seconds_left": self._rates.seconds_left(progress),
        }
        self._say("progress", ", ".join(parts(progress, self._rates)), fields)

    def _draw(self, progress: Progress) -> None:
        """Draws the bar, once the total is known, and the words below it, over the last ones."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self._rates.update(progress)
        rows = Table.grid(expand=True)
        if progress.listing_done and progress.listed:
            rows.add_row(ProgressBar(total=progress.listed, completed=progress.done))
        rows.add_row(Text(", ".join(parts(progress, self._rates))))
        self._open().update(rows, refresh=True)

    def _open(self) -> Live:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            # Drawn by the run's own calls, ten a second: no thread of its own.
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self._live

    def _close(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            try:
                live.stop()
            except OSError:
                # The terminal went away (SIGHUP): there is nothing left to tidy.
                self.progress = None
            except IndexError:
                # A signal came in the midst of its start: rich takes back a step that was not made, and does no more.
                live.console.show_cursor()
