"""What the testers of random worlds share: which worlds are run, how one is repeated, and how any session may end.

Not here: the worlds (`random_faults/`, `random_copies/`).
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Collection
from typing import Any

import pytest

from hostile.oracle import Outcome

COUNT = 200
FIRST = int(os.environ.get("SHOAL_WORLDS_FROM", "0"))  # for other worlds than always
WORLDS = range(FIRST, FIRST + COUNT)
KILLS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
# -15: the signal came when the command had ended its work, or a second one, as -2 is; that ends a process at once.
KILLED = {130, 143, -2, -9, -15}
PATIENCE = 120.0  # s: the longest a session may take on a busy machine
ENDING = 20.0  # s: in which a session that was asked to end must have done so


def seeds(fast: Collection[int]) -> list[Any]:
    """The parameters of a test that runs all worlds; all but the fast ones are slow tests."""
    return [pytest.param(seed, id=f"seed-{seed}-", marks=[] if seed in fast else pytest.mark.slow) for seed in WORLDS]


def repeat(name: str, seed: int) -> str:
    """Says how a world is run again."""
    first = seed - seed % COUNT
    return f"to repeat it: SHOAL_WORLDS_FROM={first} pytest tests/test_random_{name}.py -m '' -k 'seed-{seed}-'"


def any_size(c: random.Random) -> int:
    """How long an object is: mostly small, some above the 64 KiB that are handed on whole."""
    least, most = c.choices([(0, 0), (1, 99), (1_000, 9_000), (9_000, 66_000), (66_000, 300_000)], [1, 8, 10, 3, 1])[0]
    return c.randint(least, most)


def is_killed(outcome: Outcome) -> bool:
    """Whether a session did not end by itself."""
    return outcome.code in KILLED


def assert_ended(outcome: Outcome) -> None:
    """Fails if a session ended as none may."""
    assert "panicked" not in outcome.stderr, outcome.stderr
    assert "Traceback" not in outcome.stderr, outcome.stderr
    assert outcome.code in KILLED | {0, 1, 3}, outcome
    assert outcome.code != 3 or outcome.error["kind"] != "internal", outcome
