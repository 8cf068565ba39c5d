"""Random worlds of copies: whatever changes at both sides, and however runs end and go on, each file arrives or is named.

`random_copies/` has the kinds of changes and the judge. A failure shows the world, and how to repeat it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from random_copies.oracle import Judge, play
from random_copies.plan import KINDS, Plan, Session, plan
from random_copies.world import World
from random_worlds import WORLDS, seeds

FAST = (0, 1, 2, 3)


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on disk, beside the one in memory; removed in any case, since a story repeats it."""
    path = tmp_path_factory.mktemp("copies")
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("seed", seeds(FAST))
def test_each_file_arrives_or_is_named_whatever_changes_and_however_runs_end(
    tmp_path: Path, disk: Path, seed: int
) -> None:
    world = World(plan(seed), tmp_path, disk)
    try:
        play(world)
    except Exception as error:
        error.add_note(world.story())
        raise


def test_the_worlds_have_all_kinds_of_changes() -> None:
    plans = [plan(seed) for seed in WORLDS]
    assert set().union(*(one.kinds for one in plans)) == KINDS
