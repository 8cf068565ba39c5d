"""`Watch`: reports a run to `progress=` and to `logging.getLogger("shoal")`, on the caller's thread.

Not here: the messages of the command line (`cli/_display.py`).
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Self, TypeVar

from shoal import _shoal
from shoal._errors import ShoalError, ShoalWarning
from shoal._progress import count_text, drawing, path_text, size_text, time_text
from shoal._report import Report
from shoal._source_types import without_secrets

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from types import TracebackType

    from shoal._options import ProgressOption
    from shoal._report import Progress
    from shoal._source_types import SourceForm


R = TypeVar("R", bound=Report | None)


def logger() -> logging.Logger | None:
    """Returns the logger if the program has set up logging, else None.

    Without handlers, Python itself would print warnings on standard error.
    """
    if (module := sys.modules.get("logging")) is None:  # not imported, so not set up
        return None
    found: logging.Logger = module.getLogger("shoal")
    return found if found.hasHandlers() and found.isEnabledFor(module.WARNING) else None


def shown(source: SourceForm) -> str:
    """Returns a source as text, without secrets."""
    what = source[1]
    if isinstance(what, tuple):
        return count_text(len(what), "path")
    return without_secrets(what) if isinstance(what, str) else repr(what)


class Watch:
    """One run, which calls `progress`. As a context manager, it logs why a run could not continue."""

    def __init__(self, option: ProgressOption, doing: Callable[[], str]) -> None:
        """Logs the start; `doing` is called only if there is a logger."""
        self.progress, self._close = drawing(option)
        self._log = logger()
        self._paused = False
        if self._log is not None:
            self._log.info("%s", doing())
            self._tell, self.progress = self.progress, self._look

    def _look(self, progress: Progress) -> None:
        if progress.paused != self._paused and self._log is not None:
            self._paused = progress.paused
            if progress.paused:
                self._log.warning(
                    "paused: the host does not answer (%s)", count_text(progress.retries, "retried request")
                )
            else:
                self._log.info("the host answers again")
        if self._tell is not None:
            self._tell(progress)

    def ended(self, report: R) -> R:
        """Logs the report of a run, and returns it; None if the run had not started."""
        self._close()
        log, self._log = self._log, None  # once
        if log is not None and report is not None:
            _log_report(log, report)
        if report is not None and report.not_listed and report.completed_before:
            _warn(
                f"nothing was done: complete since {report.completed_before:%Y-%m-%d %H:%M:%S %Z}; {report.not_listed}"
            )
        return report

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Logs the exception of a run, and its report so far."""
        log = self._log
        report = getattr(error, "report", None)
        self.ended(report if isinstance(report, Report) else None)
        if log is not None and error is not None:
            log.error("%s", error.message if isinstance(error, ShoalError) else f"stopped by {type(error).__name__}")


def _warn(message: str) -> None:
    """Warns at the line of the user's program that called this package."""
    # From Python 3.12 on, `warnings` can skip a package itself.
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("shoal."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ShoalWarning, stacklevel=level)


def _log_report(log: logging.Logger, report: Report) -> None:
    for failure in report.failures:
        log.warning('"%s": %s', _shoal.escape(failure.name), failure.reason)
    if len(report.failures) < report.failed:
        log.warning("%s more failed", count_text(report.failed - len(report.failures)))
    for note in report.notes:
        log.info("%s", note)
    if report.not_listed:
        log.warning("nothing was done: %s", report.not_listed)
    path = path_text(report.concurrency, ascii_only=True)  # a handler may be able to write nothing else
    if path is not None:
        log.info("path of the workers: %s", path)
    run = report.run
    log.info(
        "%s: %s (%s) done in %s, %d skipped, %d failed, %d unfinished, %d retried requests, workers: %d (%s)",
        "complete" if report.complete else "not complete",
        count_text(run.written),
        size_text(run.bytes),
        time_text(report.seconds),
        run.skipped,
        run.failed,
        run.unfinished,
        report.retries,
        report.workers,
        report.workers_reason,
    )
