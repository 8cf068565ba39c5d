"""The only file that prints: words on standard error, data on standard output, and nothing that moves a cursor.

Whatever a server or a file system named goes through `_shoal.escape`; whatever else is printed has its remaining
control characters escaped. Not here: the words that close a run (`_summary.py`), what JSON has (`_fields.py`), rates
and times in words (`shoal._progress`), a standard output that takes no more (`_output.py`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from shoal import _shoal
from shoal._errors import ShoalError
from shoal._options import without_secrets
from shoal._progress import LINE_EVERY, Rates, count_text, only_waits, parts, size_text, time_text, waiting_text
from shoal.cli import _output
from shoal.cli._fields import count_fields, error_fields, report_fields
from shoal.cli._flags import in_flags
from shoal.cli._summary import summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.live import Live

    from shoal._report import Progress, Report, ServerStats


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


def has_utf8() -> bool:
    """Tells whether standard output takes characters beyond ASCII."""
    return "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()


def safe(text: str) -> str:
    """Escapes what could change how a terminal shows the rest; line ends stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _shoal.escape(char) for char in text)


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


def out_csv(rows: Iterable[Iterable[object]]) -> None:
    """Prints rows of data as CSV; half a character, which stands for a byte that is not text, as JSON has it."""
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    shown = text.getvalue()
    _write(sys.stdout, safe(shown) if sys.stdout is not None and sys.stdout.isatty() else shown)


def out_manifest_line(name: str, checksum: str) -> None:
    """Prints the checksum of an object, in the form that `sha256sum -c` and its like read.

    A name is printed byte for byte, as those programs need it; to a terminal, its control characters are escaped.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        shown = _shoal.escape(name)
        _write(sys.stdout, f"{checksum}  {name}\n" if shown == name else f"\\{checksum}  {shown}\n", flush=False)
        return
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    line = f"{checksum}  {name}\n" if escaped == name else f"\\{checksum}  {escaped}\n"
    if isinstance(sys.stdout, _output.Output):
        sys.stdout.write_bytes(os.fsencode(line))
    else:
        _write(sys.stdout, line, flush=False)


def failed(kind: str, message: str, hint: str | None, *, as_json: bool) -> None:
    """Says what ended a command, on the last line of its JSON too."""
    message, hint = in_flags(message), hint and in_flags(hint)
    talk(f"error: {message}" + (f"\nhint: {hint}" if hint else ""))
    if as_json:
        out_json({"type": "error", **error_fields(kind, message, hint)})


def usage_error(message: str, hint: str, *, as_json: bool) -> None:
    """Says that the command line is wrong."""
    failed("usage", message[:1].lower() + message[1:].rstrip("."), hint, as_json=as_json)


def defect(*, as_json: bool) -> None:
    """Says that an exception came up that should not have, with all that helps to find it."""
    talk(traceback.format_exc().rstrip())
    hint = "report it with the lines above; run the same command again to resume"
    failed("internal", "this is a defect of shoal", hint, as_json=as_json)


def interrupted(*, as_json: bool) -> None:
    """Says that a command that is no run was stopped by a signal; its words would tell nothing new."""
    if as_json:
        out_json({"type": "error", **error_fields("interrupted", "stopped", None)})


def command_failed(error: ShoalError, *, as_json: bool) -> None:
    """Says why a command could not do its work."""
    failed(error.kind, error.message, error.hint, as_json=as_json)


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
        out_json({"type": "report", "ok": True, **vars(stats)})


def _now() -> str:
    """The time, on the user's own clock, as RFC 3339 has it: `2026-11-23T20:19:30.123+01:00`."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _counts(report: Report) -> str:
    return f"{report.written:,} written, {report.run.failed:,} failed, {report.unfinished:,} unfinished"


class Display:
    """What one command says while it works and when it ends."""

    def __init__(self, *, as_json: bool, quiet: bool, verbose: bool, log_format: str, progress: str) -> None:
        """Decides what is drawn: on a terminal everything, elsewhere only what was asked for."""
        self._as_json = as_json
        self._quiet = quiet
        self._verbose = verbose
        self._json_log = log_format == "json"
        self._stamps = log_format == "text" and not is_terminal()
        self._rates = Rates()
        self._live: Live | None = None
        self._next_line = time.monotonic() + LINE_EVERY
        self._waited = False
        draws = progress == "auto" and not self._json_log and is_terminal()
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
            self._say("stopping", "stopping (press Ctrl-C again to quit now)")

    def finished(
        self, report: Report, destination: str | None, first: str | None = None, *, anew: str = "--update"
    ) -> None:
        """Says how a run ended that went to its end.

        Args:
            report: What it has done.
            destination: Where to; None for a run that only read.
            first: A line before all others.
            anew: The flag that makes a run that is complete work again.
        """
        self._close()
        if not self._quiet:
            lines = ([] if first is None else [first]) + summary(report, destination, verbose=self._verbose, anew=anew)
            self._say("summary", "\n".join(lines), report_fields(report))
        if self._as_json:
            out_json({"type": "report", **report_fields(report)})

    def ended(self, lines: list[str], fields: dict[str, Any]) -> None:
        """Says how a command ended that has words of its own."""
        self._close()
        if not self._quiet:
            self._say("summary", "\n".join(lines), fields)
        if self._as_json:
            out_json({"type": "report", **fields})

    def failed(self, error: ShoalError) -> None:
        """Says why a run could not go on, and what it had done."""
        done = f"until then: {_counts(error.report)}" if error.report else None
        self._ends(f"error: {error.message}", done, error.message, error.kind, error.hint, error.report)

    def interrupted(self, report: Report | None, *, resumes: bool = True) -> None:
        """Says that a run was stopped by a signal, and how to go on."""
        hint = "run the same command again to resume" if resumes else None
        first = "stopped"
        if report and report.total.listed:
            first = f"stopped after {time_text(report.seconds)}: {_counts(report)}"
        self._ends(first, None, "stopped", "interrupted", hint, report)

    def _ends(
        self, first: str, done: str | None, message: str, kind: str, hint: str | None, report: Report | None
    ) -> None:
        self._close()
        message, hint = in_flags(message), hint and in_flags(hint)
        fields = {**error_fields(kind, message, hint), **(report_fields(report) if report else {})}
        if self._json_log or not (self._quiet and kind == "interrupted"):
            lines = [in_flags(first)]
            lines += [done] if done and report and report.total.listed else []
            lines += [f"hint: {hint}"] if hint else []
            self._say("error", "\n".join(lines), fields)
        if self._as_json:
            out_json({"type": "error", **fields})

    def _say(self, event: str, text: str, fields: dict[str, Any] | None = None) -> None:
        """Says something: a line of JSON, or words, with the time before the first line where that was asked for."""
        if self._json_log:
            said = fields if fields is not None else {"message": text}
            _write(sys.stderr, json_line({"type": event, "time": _now(), **said}) + "\n")
        else:
            talk(f"{_now()} {text}" if self._stamps else text)

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
