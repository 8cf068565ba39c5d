"""Datasets that an interrupted copy into `parquet:` has left: what must hold before and after it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conftest import Command
from faults.runs import committed
from test_parquet_withdrawn import assert_rows_are, rows

# Small files, and row groups that are full soon: several commits and published files in each second.
SMALL = ("--shard-size", "300kB", "--memory", "8MiB")


def objects(wanted: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """The same with the names as text, as rows have them."""
    return {name.decode(): data for name, data in wanted.items()}


def assert_published_rows_are_right(out: Path, wanted: Mapping[str, bytes]) -> int:
    """Fails if a published row is wrong, or there twice; returns what the journal says is committed."""
    found = rows(out) if any(out.glob("*.parquet")) else []
    assert len(dict(found)) == len(found), "no name is there twice"
    assert [name for name, data in found if wanted.get(name) != data] == []
    return committed(out)


def assert_resumes(shoal: Command, out: Path, wanted: Mapping[str, bytes], *command: str | Path) -> None:
    """Runs the command again; fails unless each row is there once and right, and what was committed is not fetched."""
    done = committed(out)
    again = shoal.run(*command, "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["written"] == len(wanted) - done, "committed rows are kept, and nothing is left out"
    assert_rows_are(shoal, out, wanted)
