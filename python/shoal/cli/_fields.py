"""The fields of JSON and CSV output: reports, counts, failures. Not here: text (`_summary.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.cli._flags import in_flags

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal._report import Counts, Failure, Report, Step

FAILURES_IN_JSON = 20  # at most so many in the report; the journal has all
COUNT_NAMES = ("listed", "written", "skipped", "failed", "unfinished", "bytes")


def count_fields(counts: Counts | Report) -> dict[str, int | None]:
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


def step_fields(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Returns the path of the workers for JSON."""
    return [
        {
            "seconds": round(one.seconds, 3),
            "workers": one.workers,
            "objects_per_second": round(one.objects_per_second, 3),
            "bytes_per_second": round(one.bytes_per_second, 3),
        }
        for one in steps
    ]


def report_fields(report: Report) -> dict[str, Any]:
    """Returns a report for JSON."""
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
        "unchanged": report.unchanged,
        "dry_run": report.dry_run,
        "complete": report.complete,
        "completed_before": report.completed_before and report.completed_before.isoformat(),
        "resumed_from": report.resumed_from,
        "workers": report.workers,
        "workers_reason": report.workers_reason,
        "concurrency": step_fields(report.concurrency),
        "durability": report.durability,
        "publish": report.publish,
        "paused": round(report.paused, 3),
        "failures": failure_fields(report.failures[:FAILURES_IN_JSON]),
        "notes": [in_flags(note) for note in report.notes],
    }


def error_fields(kind: str, message: str, hint: str | None) -> dict[str, Any]:
    """Returns the error that ended a command for JSON."""
    return {"kind": kind, "message": message, "hint": hint}
