"""The journal's own reads and writes fail: one error, nothing is claimed that is not there, and the job goes on.

A failure may be passed over in two cases, each time with nothing lost. Where a disk is full, the ballast is removed and
the whole transaction written again; and the checkpoint when the journal is closed copies what the log has, and keeps.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.jobs import KINDS, Job
from faults.runs import errors
from faults.tracing import injected, traced

SYNCS = "fsync,fdatasync"
# A run of this job makes some 30 of the first calls and 8 of the second; of both, some come from the run's beginning.
MOMENTS = [
    *[("copy", "pwrite64", error, n) for error in ("EIO", "ENOSPC") for n in (1, 2, 3, 5, 8, 13, 20)],
    *[("copy", SYNCS, error, n) for error in ("EIO", "ENOSPC") for n in (1, 2, 3, 4, 5)],
    *[(kind, "pwrite64", "EIO", n) for kind in KINDS for n in (3, 8, 13, 20)],
    *[(kind, SYNCS, "EIO", n) for kind in KINDS for n in (1, 2, 3, 4, 5)],
]
# Two seconds each: the others are run by make test-faults.
ORDINARY = {
    *[("copy", "pwrite64", "EIO", 3), ("copy", "pwrite64", "ENOSPC", 13), ("copy", SYNCS, "EIO", 3)],
    *[("update", SYNCS, "EIO", 3), ("update", SYNCS, "EIO", 5), ("urls", "pwrite64", "EIO", 20)],
    *[("part", SYNCS, "EIO", 3), ("exact", SYNCS, "EIO", 3)],
}
# Of a call that another thread interrupts, the log has two lines; the last argument is on the first.
CALL = re.compile(
    r"(?P<thread>\d+) +(<\.\.\. )?(?P<call>\w+)(\(\d+<(?P<path>[^>]+)>| resumed>)(.*, (?P<last>\d+))?( <|\)| <u|$)"
)


def moments() -> list[object]:
    return [pytest.param(*moment, marks=[] if moment in ORDINARY else [pytest.mark.slow]) for moment in MOMENTS]


def assert_all_that_failed_was_written_again(calls: str, journal: Path) -> None:
    """Fails if what a failed call covered was not written anew: a sync that is only repeated proves nothing."""
    names = (str(journal), f"{journal}-wal")
    lost, unsynced = ({name: set[int]() for name in names} for _ in range(2))
    begun: dict[str, tuple[str, int]] = {}  # by thread, for calls that end on another line
    for line in calls.splitlines():
        call = CALL.match(line)
        assert call, line
        if call["path"]:
            begun[call["thread"]] = call["path"], int(call["last"] or 0)
        path, last = begun[call["thread"]]
        if "<unfinished" in line:
            continue
        is_write, failed = call["call"] == "pwrite64", "(INJECTED)" in line
        if failed:
            lost[path] |= {last} if is_write else unsynced[path]
        elif is_write:
            lost[path].discard(last)
        elif call["call"] == "ftruncate" and last == 0:
            lost[path].clear()
        unsynced[path] = (unsynced[path] | {last}) if is_write else set()
    database, log = (lost[name] for name in names)
    assert not log, "the log lacks what a failed call covered"
    assert not database or Path(names[1]).stat().st_size > 0, "the log has what could not be copied"


@pytest.mark.parametrize(("kind", "calls", "error", "nth"), moments())
def test_a_journal_that_cannot_be_written_stops_the_run_and_claims_nothing(
    shoal: Command, service: Service, tmp_path: Path, kind: str, calls: str, error: str, nth: int
) -> None:
    job = Job(shoal, service, tmp_path, tmp_path / "out", kind)
    log, files = tmp_path / "strace", (job.journal, job.journal.with_name("journal.db-wal"))
    fails = traced(log, f"{calls}:error={error}:when={nth}", *files, also=f"pwrite64,ftruncate,{SYNCS}")

    failed = shoal.under(*fails).run(*job.slowly(), "--workers", "2", "--json")

    assert injected(log) > 0, "the test is about a call that is made"  # in each thread once
    if failed.returncode == 0:
        assert_all_that_failed_was_written_again(log.read_text(), job.journal)
    else:
        assert failed.returncode == 3, failed.stderr
        assert shoal.last_json(failed)["kind"] in {"journal", "destination-full", "destination-failed"}
        assert len(errors(failed.stderr)) == 1, failed.stderr
        assert str(job.out) in failed.stderr, "it says where"
        assert "Traceback" not in failed.stderr, failed.stderr
    job.assert_nothing_is_claimed_or_lost()
    job.assert_resumes()
