"""The journal's own reads and writes fail: one error, nothing is claimed that is not there, and the job goes on.

One failure may be passed over: of the checkpoint when the journal is closed, behind the last commit. What it would copy
into the database is in the log, durable, and stays there.
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
    *[("part", SYNCS, "EIO", 3)],
}
CALL = re.compile(r"(?P<thread>\d+) +(<\.\.\. )?(?P<call>\w+)(\(\d+<(?P<path>[^>]+)>| resumed>)(?P<rest>.*)")


def moments() -> list[object]:
    return [pytest.param(*moment, marks=[] if moment in ORDINARY else [pytest.mark.slow]) for moment in MOMENTS]


def assert_all_that_failed_is_in_the_log(calls: str, journal: Path) -> None:
    """Fails if a call that failed covered what was not written and synced before: a sync that is repeated says nothing.

    That is: each failure is of a sync of the log with nothing to sync, or of the database, with the log kept.
    """
    log = f"{journal}-wal"
    unsynced, paths = False, dict[str, str]()
    for line in calls.splitlines():
        call = CALL.match(line)
        assert call, line
        path = paths[call["thread"]] = call["path"] or paths[call["thread"]]
        if "<unfinished" in line or path != log:
            continue
        if "(INJECTED)" in line:
            assert call["call"] != "pwrite64", f"a lost write of the log was passed over: {line}"
            assert not unsynced, f"a lost sync of the log was passed over: {line}"
        unsynced = call["call"] == "pwrite64" or (unsynced and "= 0" not in line)
    assert journal.with_name("journal.db-wal").stat().st_size > 0, "the log has what could not be copied"


@pytest.mark.parametrize(("kind", "calls", "error", "nth"), moments())
def test_a_journal_that_cannot_be_written_stops_the_run_and_claims_nothing(
    shoal: Command, service: Service, tmp_path: Path, kind: str, calls: str, error: str, nth: int
) -> None:
    job = Job(shoal, service, tmp_path, tmp_path / "out", kind)
    log, files = tmp_path / "strace", (job.journal, job.journal.with_name("journal.db-wal"))
    fails = traced(log, f"{calls}:error={error}:when={nth}", *files, also=f"pwrite64,{SYNCS}")

    rate = "700kB" if kind == "part" else "1500kB"
    failed = shoal.under(*fails).run(*job.command, "--limit-rate", rate, "--workers", "2", "--json")

    assert injected(log) > 0, "the test is about a call that is made"  # in each thread once
    if failed.returncode == 0:
        assert_all_that_failed_is_in_the_log(log.read_text(), job.journal)
    else:
        assert failed.returncode == 3, failed.stderr
        assert shoal.last_json(failed)["kind"] in {"journal", "destination-full", "destination-failed"}
        assert len(errors(failed.stderr)) == 1, failed.stderr
        assert str(job.out) in failed.stderr, "it says where"
        assert "Traceback" not in failed.stderr, failed.stderr
    job.assert_nothing_is_claimed_or_lost()
    job.assert_resumes()
