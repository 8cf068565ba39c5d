"""The only file that prints: messages on standard error, data on standard output, and nothing that moves a cursor.

Names from a server or a file system go through `_shoal.escape`; all other text has its control characters escaped. Not
here: the summary of a run (`_summary.py`), the fields of JSON (`_fields.py`), rates and times as text
(`shoal._progress`), failing writes to standard output (`_output.py`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from shoal import _shoal
from shoal._errors import ShoalError
from shoal._progress import (
    LINE_EVERY,
    LINE_EVERY_JSON,
    Rates,
    bytes_expected,
    count_text,
    only_waits,
    parts,
    size_text,
    time_text,
    waiting_text,
)
from shoal._source_types import without_secrets
from shoal.cli import _output
from shoal.cli._fields import count_fields, error_fields, report_fields
from shoal.cli._flags import in_flags
from shoal.cli._summary import cause, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.live import Live
    from rich.table import Table

    from shoal._report import NodeProgress, Progress, Report, ServerStats

COLOURS = {"error": "1;31", "hint": "36", "note": "33"}  # SGR: bold red, cyan, yellow


def prepare() -> None:
    """Makes both streams accept any character in any locale, and standard output report failed writes."""
    if sys.stdout is None or isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _output.Output.of(sys.stdout)
    if sys.stderr is not None and hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(errors="backslashreplace")


def finish() -> bool:
    """Flushes both streams, so that the interpreter reports nothing at exit.

    Returns:
        True if standard output accepted everything; otherwise an error has been printed.
    """
    failure = None
    if isinstance(sys.stdout, _output.Output):
        with contextlib.suppress(_output.OutputError):
            sys.stdout.finish()
        failure = sys.stdout.failure
    if failure is not None:
        talk(f"error: cannot write to standard output: {failure.strerror} (errno {failure.errno})")
        talk("hint: the output is not complete: write it to another place, and run the command again")
    _write(sys.stderr, "")
    return failure is None


def is_terminal() -> bool:
    """Returns whether messages go to a terminal, where a line can be redrawn."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def has_colour() -> bool:
    """Returns whether the word before the colon of a message is coloured."""
    wanted = os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")
    return wanted and is_terminal() and "--json" not in sys.argv


def has_utf8(stream: TextIO | None = None) -> bool:
    """Returns whether a stream accepts non-ASCII characters; by default standard output."""
    return "utf" in (getattr(stream or sys.stdout, "encoding", None) or "").lower()


def safe(text: str) -> str:
    """Escapes control characters; line ends stay."""
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
        # Standard error: the terminal is gone. Discard what the stream has buffered, now and at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def out(text: str) -> None:
    """Prints data."""
    _write(sys.stdout, safe(text) + "\n")


def out_rows(rows: Iterable[Iterable[str]]) -> None:
    """Prints rows of data, one per line, with tabs between the values."""
    _write(sys.stdout, "".join("\t".join(map(safe, row)) + "\n" for row in rows))


def out_json(value: dict[str, Any]) -> None:
    """Prints data as one line of JSON, in ASCII."""
    _write(sys.stdout, json_line(value) + "\n")


def json_line(value: dict[str, Any]) -> str:
    """Returns one line of JSON without control characters; JSON itself does not escape DEL."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def talk(text: str) -> None:
    """Prints a message."""
    text = safe(text)
    if has_colour():
        words = rf"(?m)^({'|'.join(COLOURS)}):"
        text = re.sub(words, lambda word: f"\x1b[{COLOURS[word[1]]}m{word[0]}\x1b[0m", text)
    _write(sys.stderr, text + "\n")


def out_csv(rows: Iterable[Iterable[object]]) -> None:
    """Prints rows of data as CSV; a surrogate for a byte that is not UTF-8 is escaped as in JSON."""
    import csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    shown = text.getvalue()
    _write(sys.stdout, safe(shown) if sys.stdout is not None and sys.stdout.isatty() else shown)


def out_manifest_line(name: str, checksum: str) -> None:
    """Prints the checksum of an object in the format of `sha256sum`.

    A name is printed byte for byte, as other programs need it. On a terminal, its control characters are escaped.
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
    """Prints the error that ended a command, also as the last line of JSON."""
    message, hint = in_flags(message), hint and in_flags(hint)
    talk(f"error: {message}" + (f"\nhint: {hint}" if hint else ""))
    if as_json:
        out_json({"type": "error", **error_fields(kind, message, hint)})


def usage_error(message: str, hint: str, *, as_json: bool) -> None:
    """Prints that the command line is wrong."""
    failed("usage", message[:1].lower() + message[1:].rstrip("."), hint, as_json=as_json)


def defect(*, as_json: bool) -> None:
    """Prints an unexpected exception with its traceback."""
    talk(traceback.format_exc().rstrip())
    hint = "please report it with the lines above; run the same command again to resume"
    failed("internal", "this is a bug in shoal", hint, as_json=as_json)


def interrupted(*, as_json: bool) -> None:
    """Ends a command without a run that was stopped by a signal; the exception's text has no information."""
    if as_json:
        out_json({"type": "error", **error_fields("interrupted", "stopped", None)})


def command_failed(error: ShoalError, *, as_json: bool) -> None:
    """Prints why a command failed."""
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
    """Prints what the latest listing left out, a line for each reason."""
    for count, what in (
        (stats.unlistable_names, "file names left out: not UTF-8, or too long"),
        (stats.unreadable_directories, "directories left out: not readable"),
        (stats.vanished_directories, "directories left out: gone each time shoal tried to read them"),
    ):
        if count:
            talk(f"note: {count:,} {what}")


def service_stopped(stats: ServerStats, *, quiet: bool, as_json: bool) -> None:
    """Prints what a service has done."""
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
    """Returns the local time in RFC 3339 format: `2026-11-23T20:19:30.123+01:00`."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def _counts(report: Report) -> str:
    return f"{report.written:,} written, {report.run.failed:,} failed, {report.unfinished:,} unfinished"


def nodes_table(nodes: Iterable[NodeProgress]) -> Table:
    """Returns a line for each node of a cluster."""
    from rich.table import Table

    table = Table("node", "parts", "done", "objects", "bytes", "", box=None, pad_edge=False)
    for node in nodes:
        counts = f"{node.running:,}", f"{node.done:,}", f"{node.written:,}", size_text(node.bytes)
        table.add_row(safe(node.name), *counts, "paused: waiting for the host" if node.paused else "")
    return table


class Display:
    """The messages of one command, while it works and when it ends."""

    def __init__(self, *, as_json: bool, quiet: bool, verbose: bool, log_format: str, progress: str) -> None:
        """Decides what to draw: everything on a terminal, elsewhere only what was asked for."""
        self._as_json = as_json
        self._quiet = quiet
        self._verbose = verbose
        self._json_log = log_format == "json"
        self._stamps = log_format == "text" and not is_terminal()
        self._rates = Rates()
        self._live: Live | None = None
        self._line_every = LINE_EVERY_JSON if self._json_log else LINE_EVERY
        self._next_line = time.monotonic() + self._line_every
        self._waited = False
        draws = progress == "auto" and not self._json_log and is_terminal()
        self.progress: Callable[[Progress], object] | None = None
        if not quiet:
            others = {"auto": self._wait, "plain": self._line}
            self.progress = self._draw if draws else others.get(progress)

    def begins(self, source: str, destination: str | None, doing: str = "copying") -> None:
        """Prints what is about to happen."""
        if self._verbose and not self._quiet:
            what = without_secrets(source)
            self._say("start", f"{doing} {what} to {destination}" if destination else f"reading {what}")

    def unused(self, options: Sequence[str], what: str, text: str) -> None:
        """Prints a note on options that mean nothing for this source or destination."""
        if options and not self._quiet:
            flags = ", ".join(in_flags(f"`{option}`") for option in options)
            means = "mean" if len(options) > 1 else "means"
            self._say("note", f"note: {flags} {means} nothing for this {what} ({without_secrets(text)})")

    def stopping(self) -> None:
        """Prints that a signal has arrived; called in the signal handler."""
        self._close()
        if not self._quiet:
            self._say("stopping", "stopping (press Ctrl-C again to quit now)")

    def finished(self, report: Report, destination: str | None, first: str | None = None) -> None:
        """Prints the summary of a run that has finished.

        Args:
            report: What it has done.
            destination: Where the run wrote to; None for a run that only read.
            first: A line before all others.
        """
        self._close()
        lines = [] if first is None or self._quiet else [first]
        how = {"quiet": self._quiet, "verbose": self._verbose, "ascii_only": not has_utf8(sys.stderr)}
        lines += summary(report, destination, **how)
        if lines:
            self._say("summary", "\n".join(lines), report_fields(report))
        if self._as_json:
            out_json({"type": "report", **report_fields(report)})

    def ended(self, lines: list[str], fields: dict[str, Any]) -> None:
        """Prints the end of a command that has its own summary."""
        self._close()
        if not self._quiet:
            self._say("summary", "\n".join(lines), fields)
        if self._as_json:
            out_json({"type": "report", **fields})

    def failed(self, error: ShoalError) -> None:
        """Prints why a run could not continue, and what it had done."""
        done = f"until then: {_counts(error.report)}" if error.report else None
        self._ends(f"error: {error.message}", done, error.message, error.kind, error.hint, error.report)

    def interrupted(self, report: Report | None, *, resumes: bool = True) -> None:
        """Prints that a run was stopped by a signal, and how to resume it."""
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
            lines += cause(report) if kind == "too-many-failures" else []
            lines += [f"hint: {hint}"] if hint else []
            self._say("error", "\n".join(lines), fields)
        if self._as_json:
            out_json({"type": "error", **fields})

    def _say(self, event: str, text: str, fields: dict[str, Any] | None = None) -> None:
        """Prints a message as text or JSON, with the time before the first line if that was asked for."""
        if self._json_log:
            said = fields if fields is not None else {"message": text}
            _write(sys.stderr, json_line({"type": event, "time": _now(), **said}) + "\n")
        else:
            talk(f"{_now()} {text}" if self._stamps else text)

    def _wait(self, progress: Progress) -> None:
        """Prints that a run is only waiting, so that it does not seem to hang."""
        if not only_waits(progress) or (self._waited and time.monotonic() < self._next_line):
            return
        self._waited, self._next_line = True, time.monotonic() + LINE_EVERY
        self._say("waiting", waiting_text(progress), {"deferred": progress.deferred, "retry_in": progress.retry_in})

    def _line(self, progress: Progress) -> None:
        self._rates.update(progress)
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + self._line_every
        fields = {
            **count_fields(progress.run),
            "committed": progress.committed,
            "resumed_from": progress.before.written,
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
            "bytes_expected": bytes_expected(progress),
            **({"nodes": [vars(node) for node in progress.nodes]} if progress.nodes else {}),
        }
        self._say("progress", ", ".join(parts(progress, self._rates)), fields)

    def _draw(self, progress: Progress) -> None:
        """Redraws the bar, once the total is known, and the text below it."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        self._rates.update(progress)
        rows = Table.grid(expand=True)
        if progress.listing_done and progress.listed:
            rows.add_row(ProgressBar(total=progress.listed, completed=progress.done))
        rows.add_row(Text(", ".join(parts(progress, self._rates))))
        if progress.nodes:
            rows.add_row(nodes_table(progress.nodes))
        self._open().update(rows, refresh=True)

    def _open(self) -> Live:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            # Drawn by the run's own calls, ten per second, without a thread.
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self._live

    def _close(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            try:
                live.stop()
            except OSError:
                # The terminal is gone (SIGHUP): there is nothing to clean up.
                self.progress = None
            except IndexError:
                # A signal arrived while it started: rich undoes a step that was not done, and nothing else.
                live.console.show_cursor()
