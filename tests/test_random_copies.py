"""Random worlds of copies: whatever changes at both sides, and however runs end, each file arrives or is named.

`random_copies/` has the kinds of changes and the judge. A failure shows the world, and how to repeat it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from random_copies.oracle import Judge, play
from random_copies.plan import KINDS, Plan, Session, plan
from random_copies.trees import ANCHOR
from random_copies.world import World
from random_worlds import WORLDS, seeds

FAST = (26, 65, 108, 111)


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
    assert set().union(*(one.kinds for one in plans)) >= KINDS


def turn(path: Path) -> None:
    """Turns the first bit of a file, and leaves its time as it was."""
    told, data = path.stat(), path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda out: None, None),
        (lambda out: (out / ANCHOR).unlink(), "is missing"),
        (lambda out: turn(out / ANCHOR), "has 10 bytes, not the 10"),
        (lambda out: (out / ANCHOR).chmod(0o777), "has the permissions 777"),
        (lambda out: (out / ANCHOR).chmod(0o400), "has the permissions 400"),
        (lambda out: os.utime(out / ANCHOR, (1, 1)), "has the time"),
        (lambda out: (out / "foreign").touch(), "'foreign' is none of the source's"),
        (lambda out: turn(out / "mine"), "'mine' is none of the source's"),
        (lambda out: (out / "mine").unlink(), "'mine' was removed"),
        (lambda out: (out / ".shoal/tmp/.shoal-1.tmp").touch(), "temporary files stay"),
    ],
)
def test_the_judge_notices_a_missing_a_changed_and_a_foreign_file(
    tmp_path: Path, disk: Path, spoil: Callable[[Path], None], said: str | None
) -> None:
    session = Session()
    world = World(Plan(0, (5,), (False,), (False,), (False, False), (), (session,)), tmp_path, disk)
    world.out.mkdir()
    (world.out / "mine").write_text("the user's")
    judge = Judge(world)
    judge.prepare()
    outcome = world.run(session)
    spoil(world.out)
    if said is None:
        judge.check(session, outcome)
    else:
        with pytest.raises(AssertionError, match=said):
            judge.check(session, outcome)
