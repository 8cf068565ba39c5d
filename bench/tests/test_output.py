"""What the lab prints is written, or the command fails; what was measured is kept all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Command, Contest


def into_full(shoal: Command, line: str) -> tuple[int, str]:
    """Runs a command line with a standard output that takes nothing: its exit code, and what it says."""
    with Path("/dev/full").open("w") as stream:
        process = shoal.start(*line.split(), stdout=stream)
        said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize(
    "line",
    [
        "bench --help",
        "bench compare --help",
        "bench copy --list",
        "bench compare results.json results.json",
        "bench compare results.json results.json --json",
    ],
)
def test_a_command_whose_output_cannot_be_written_fails_and_says_so(
    shoal: Command, contest: Contest, line: str
) -> None:
    (shoal.directory / "results.json").write_text(contest({"shoal": [2.0, 2.1], "curl": [1.0, 1.1]}).to_json())
    code, said = into_full(shoal, line)
    assert code == 3, said
    assert said.count("error: cannot write to standard output: No space left on device (errno 28)\nhint: ") == 1
    assert "Traceback" not in said


def test_results_are_kept_when_their_table_cannot_be_printed(shoal: Command) -> None:
    line = "bench records --count 2000 --trials 1 --only shoal --results kept.json --quiet"
    code, said = into_full(shoal, line)
    assert code == 3, said
    assert json.loads((shoal.directory / "kept.json").read_text())
