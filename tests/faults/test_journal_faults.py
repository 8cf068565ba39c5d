"""The journal's own reads and writes fail: one error, nothing is claimed that is not there, and the job goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command, Service
from faults.runs import RATE, assert_no_entry_without_its_file, assert_resumes, errors, make_source
from faults.tracing import injected, traced

# A run of this job makes some 30 of the first calls and 8 of the second; of both, some come from the run's beginning.
MOMENTS = [
    *[("pwrite64", error, n) for error in ("EIO", "ENOSPC") for n in (1, 2, 3, 5, 8, 13, 20)],
    *[("fsync,fdatasync", error, n) for error in ("EIO", "ENOSPC") for n in (1, 2, 3, 4)],
]
# Five seconds each: the others are run by make test-faults.
ORDINARY = {("pwrite64", "EIO", 3), ("pwrite64", "ENOSPC", 13), ("fsync,fdatasync", "EIO", 3)}


def moments() -> list[object]:
    slow = [pytest.mark.slow]
    return [pytest.param(*moment, marks=[] if moment in ORDINARY else slow) for moment in MOMENTS]


@pytest.mark.parametrize(("calls", "error", "nth"), moments())
def test_a_journal_that_cannot_be_written_stops_the_run_and_claims_nothing(
    shoal: Command, service: Service, tmp_path: Path, calls: str, error: str, nth: int
) -> None:
    wanted = make_source(tmp_path / "source", small=1_000, large=10)
    log, destination = tmp_path / "strace", tmp_path / "out"
    journal = destination / ".shoal" / "journal.db"
    command: list[str | Path] = ["copy", service(tmp_path / "source").url, destination, "--limit-rate", RATE]
    fails = traced(log, f"{calls}:error={error}:when={nth}", journal, journal.with_name("journal.db-wal"))

    failed = shoal.under(*fails).run(*command, "--json")

    assert injected(log) > 0, "the test is about a call that is made"  # in each thread once
    assert failed.returncode in (0, 3), failed.stderr
    if failed.returncode == 3:
        assert shoal.last_json(failed)["kind"] in {"journal", "destination-full", "destination-failed"}
        assert len(errors(failed.stderr)) == 1, failed.stderr
        assert str(destination) in failed.stderr, "it says where"
        assert "Traceback" not in failed.stderr, failed.stderr
    assert_no_entry_without_its_file(destination, wanted)
    assert_resumes(shoal, destination, wanted, *command)
