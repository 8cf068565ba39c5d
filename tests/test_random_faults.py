"""Random worlds of faulty services and hosts: whatever happens, each object arrives right or is a named failure.

`random_faults/` has the kinds of faults and the judge. A failure shows the world, and how to repeat it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from random_faults.kinds import EVERY
from random_faults.oracle import play
from random_faults.plan import plan
from random_faults.world import World
from random_worlds import WORLDS, seeds

FAST = (56, 155, 165, 171)


@pytest.mark.parametrize("seed", seeds(FAST))
def test_each_object_arrives_or_is_a_failure_whatever_a_service_does(tmp_path: Path, seed: int) -> None:
    world = World(plan(seed), tmp_path)
    try:
        play(world)
    except Exception as error:
        error.add_note(world.story())
        raise


def test_the_worlds_have_all_kinds_of_faults() -> None:
    plans = [plan(seed) for seed in WORLDS]
    assert set().union(*(one.kinds for one in plans)) == set(EVERY)
