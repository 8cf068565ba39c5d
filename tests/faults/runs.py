"""A job of small and large objects for tests to interrupt, and what must hold before and after it is resumed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import shoal as package
from conftest import Command
from trees import tree_of_raw_names
from waiting import wait_until

SMALL, LARGE = 2_000, 20
RATE = "4MB"  # a second: the job takes two seconds, and so several batches


def make_source(directory: Path, small: int = SMALL, large: int = LARGE) -> dict[bytes, bytes]:
    """Makes files of 1 kB in ten directories, and files of 300 kB, which go through a temporary file."""
    chance = random.Random(1)
    contents = {f"{number % 10}/{number}": chance.randbytes(1_000) for number in range(small)}
    contents |= {f"large/{number}": chance.randbytes(300_000) for number in range(large)}
    for name, data in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {name.encode(): data for name, data in contents.items()}


def errors(said: str) -> list[str]:
    """The errors of a command among what it said."""
    return [line for line in said.splitlines() if line.startswith("error:")]


def committed(destination: Path) -> int:
    """How many objects the journal says are done; 0 where there is no run in it yet."""
    if not (destination / ".shoal" / "journal.db").exists():
        return 0
    runs = package.status(destination).runs
    return runs[-1].total.written if runs else 0


def wait_for_commit(destination: Path, after: int = 0) -> None:
    """Waits until the journal has more objects than `after`."""
    wait_until(lambda: committed(destination) > after, 60)


def assert_no_entry_without_its_file(destination: Path, wanted: dict[bytes, bytes]) -> int:
    """Fails if the journal counts more objects than are whole; returns its count."""
    found = tree_of_raw_names(destination) if destination.exists() else {}
    whole = sum(wanted.get(name) == data for name, data in found.items())
    done = committed(destination)
    assert done <= whole, f"the journal says {done:,} are done, {whole:,} are whole"
    return done


def assert_resumes(
    shoal: Command, destination: Path, wanted: dict[bytes, bytes], *command: str | Path
) -> dict[str, Any]:
    """Runs the command again; fails unless it completes the job and fetches what the journal does not have, no more."""
    done = committed(destination)
    again = shoal.run(*command, "--json")
    assert again.returncode == 0, again.stderr
    report = shoal.last_json(again)
    assert report["written"] == len(wanted) - done, "what is committed is not fetched again, and nothing is left out"
    assert tree_of_raw_names(destination) == wanted
    assert list((destination / ".shoal" / "tmp").iterdir()) == []
    return report
