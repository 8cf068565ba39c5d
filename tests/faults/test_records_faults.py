"""A disk that cannot read a part of a file of records: an error that says where, and no number made of zeros."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from conftest import Command
from faults.tracing import injected, traced

COUNT = 3_000_000
QUESTIONS = {
    "the first records": ["--head", "3"],
    "sums": ["--count", "--sum", "f0"],
    "groups": ["--sum", "f0", "--by", "f1", "--head", "all"],
    "a table": ["--to", "out.parquet"],
    "bytes in hex": None,
}


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records"
    path.write_bytes(b"".join(struct.pack("<II", 7, number % 5) for number in range(1_000)) * (COUNT // 1_000))
    return path


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_records_that_cannot_be_read_are_an_error_and_never_zeros(
    shoal: Command, tmp_path: Path, records: Path, question: str, nth: int
) -> None:
    asked = QUESTIONS[question]
    command: list[str | Path] = ["records", records, *(["--format", "<II", *asked] if asked is not None else [])]
    right = shoal.run(*command)
    assert right.returncode == 0, right.stderr
    table = tmp_path / "out.parquet"
    table.unlink(missing_ok=True)
    log = tmp_path / "strace"

    failed = shoal.under(*traced(log, f"read,pread64:error=EIO:when={nth}+", records)).run(*command)

    if failed.returncode == 0:  # counted for each thread apart; the first records take one reading
        assert nth > 1
        assert not injected(log) or question == "the first records"
        assert failed.stdout == right.stdout
        return
    assert failed.returncode in (1, 3), (failed.returncode, failed.stderr)
    assert str(records) in failed.stderr, "it says which file"
    assert "input/output error" in failed.stderr, failed.stderr
    assert "Traceback" not in failed.stderr
    assert "panicked" not in failed.stderr
    assert failed.stdout == "" or right.stdout.startswith(failed.stdout), "what is printed is right"
    assert not table.exists(), "no half a table"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "strace"]
