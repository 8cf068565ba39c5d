"""What the command prints, word for word, as last reviewed: `__snapshots__/test_snapshots/` has a file for each output.

A change of words fails here and is seen in the diff of those files, which `--snapshot-update` rewrites. Whether the
words are true is for the other tests of each command. The command lines are in `snapshots/`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from conftest import Command, Service
from servers.fixtures import MakeServer, fault_server
from snapshots.errors import ERRORS
from snapshots.place import Case, Place
from snapshots.runs import ENDS, HELP, STATES

__all__ = ["fault_server"]


class TextFile(SingleFileSnapshotExtension):
    """A text file for each output."""

    _write_mode = WriteMode.TEXT
    file_extension = _file_extension = "txt"  # the second name is that of syrupy 4


@pytest.fixture
def place(shoal: Command, service: Service, fault_server: MakeServer) -> Place:
    return Place(shoal, service, fault_server)


@pytest.fixture
def reviewed(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def printed(place: Place, case: Case) -> str:
    return place.run(case) if isinstance(case, str) else case(place)


@pytest.mark.parametrize("name", HELP)
def test_help_is_as_reviewed(place: Place, reviewed: SnapshotAssertion, name: str) -> None:
    assert printed(place, HELP[name]) == reviewed


@pytest.mark.parametrize("name", ENDS)
def test_end_is_as_reviewed(place: Place, reviewed: SnapshotAssertion, name: str) -> None:
    assert printed(place, ENDS[name]) == reviewed


@pytest.mark.parametrize("name", STATES)
def test_status_is_as_reviewed(place: Place, reviewed: SnapshotAssertion, name: str) -> None:
    assert printed(place, STATES[name]) == reviewed


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_as_reviewed(place: Place, reviewed: SnapshotAssertion, name: str) -> None:
    assert printed(place, ERRORS[name]) == reviewed


def test_every_file_has_its_command_line(pytestconfig: pytest.Config) -> None:
    # syrupy tells of unused files only where all tests of this file run, and not in every way of running them.
    kept = {path.stem for path in Path(__file__).parent.glob("__snapshots__/test_snapshots/*")}
    wanted = {
        f"test_{group}_is_as_reviewed[{name}]"
        for group, cases in {"help": HELP, "end": ENDS, "status": STATES, "error": ERRORS}.items()
        for name in cases
    }
    stale = set() if pytestconfig.getoption("update_snapshots") else kept - wanted
    assert stale == set(), "remove them with --snapshot-update"
