"""The fields of JSON and CSV output: reports, counts, failures. Not here: text (`_summary.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.cli._flags import in_flags

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal._report import Counts, Failure, Report

FAILURES_SHOWN = 20  # at most so many of a run; the journal has all
COUNT_NAMES = ("listed", "written", "skipped", "failed", "unfinished", "bytes")


def count_fields(counts: Counts) -> dict[str, int | None]:
    """Returns counts for JSON."""
    return {name: getattr(counts, name) for name in COUNT_NAMES}


def failure_fields(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """Returns failures for JSON."""
    return [
        {
            "name": one.name,
            "archive": one.archive,
            "kind": one.kind,
            "reason": in_flags(one.reason),
            "tries": one.tries,
        }
        for one in failures
    ]


def report_fields(report: Report) -> dict[str, Any]:
    """Returns a report for JSON."""
    return report.to_dict() | {
        "not_listed": report.not_listed and in_flags(report.not_listed),
        "failures": failure_fields(report.failures[:FAILURES_SHOWN]),
        "notes": [in_flags(note) for note in report.notes],
    }


def error_fields(kind: str, message: str, hint: str | None) -> dict[str, Any]:
    """Returns the error that ended a command for JSON."""
    return {"kind": kind, "message": message, "hint": hint}
