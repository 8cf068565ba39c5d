"""Families: a program at any number of workers. `threads-2`, `threads-8` and `threads-64` are the family `threads`.

Not here: how each is told its number, which the contestant says itself (`contestants.py`, `jobs/`); the numbers
(`curve.py`).
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shoal import ConfigError
from shoal_bench import contest, jobs
from shoal_bench.contestants import Task
from shoal_bench.curve import Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal_bench.contestants import Contestant
    from shoal_bench.settings import Settings

NUMBER = re.compile(r"\d+(?= threads)|(?<=pool of )\d+|\d+(?= at once)")  # of workers, in a title


@dataclass(frozen=True)
class Family:
    """One program, at any number of workers.

    Attributes:
        key: What `--only` names: a contestant's key without its number.
        title: What the table says.
        contestant: One of those it is taken from.
    """

    key: str
    title: str
    contestant: Contestant

    @property
    def grid(self) -> bool:
        """It knows threads in each worker, too."""
        return self.contestant.told is not None and self.contestant.told.inner != ""

    def at(self, point: Point | None) -> Contestant:
        """Returns the contestant for a point; None: with its own number."""
        one = self.contestant
        if point is None:
            return replace(one, key=self.key, title=self.title)
        return replace(
            one,
            key=f"{self.key}@{point}",
            title=f"{self.title} @ {point}",
            command=lambda task: one.command_at(task, point.workers, point.threads),
            workers=point.workers,
            published=None,  # the study's figure is for its own number
        )


def families(contestants: Sequence[Contestant], given: tuple[Point, ...]) -> list[Family]:
    """Returns the programs among contestants that can be at one of the points, each once."""
    grid_only = all(point.threads is not None for point in given)
    found: dict[tuple[str, ...], Family] = {}
    with tempfile.TemporaryDirectory() as scratch:
        nowhere = Path(scratch)
        task = Task(
            directory=nowhere,
            count=1,
            scratch=nowhere,
            url="http://localhost",
            names=("one",),
            archives=nowhere,
            file=nowhere,
        )
        for one in contestants:
            if one.told is None or (grid_only and not one.told.inner):
                continue
            # Those that differ by their number alone are one program.
            plain = tuple(one.command_at(task, 1))
            # Of those, the one whose own is above 1 says best what it is.
            if plain not in found or _own(found[plain].contestant) == 1:
                title = one.title if one.told.inner and not grid_only else NUMBER.sub("N", one.title)
                found[plain] = Family(re.sub(r"-\d+$", "", one.key), title, one)
    return list(found.values())


def _own(one: Contestant) -> int | None:
    number = re.search(r"-(\d+)$", one.key)
    return 1 if one.key.endswith("-serial") or (number and number[1] == "1") else one.workers


def chosen(settings: Settings, given: tuple[Point, ...]) -> list[Family]:
    """Returns the families that settings name.

    Raises:
        ConfigError: A key is not known, or none is left.
    """
    if given and settings.strategies:
        raise ConfigError("a strategy of your own takes no number of workers", hint="leave out --workers or --strategy")
    everyone = contest.chosen(replace(settings, only=(), skip=()))
    as_they_are = [Family(one.key, one.title, one) for one in everyone]
    found = families(everyone, given) if given else as_they_are
    of = {one.key: re.sub(r"-\d+$", "", one.key) for one in jobs.named(settings.job).contestants()}
    known = {family.key for family in found}

    def named(keys: tuple[str, ...]) -> set[str]:
        for key in keys:
            if key not in known and of.get(key) not in known:
                why = "takes no such number of workers" if key in of else "is not known"
                raise ConfigError(f"the contestant {key!r} {why}", hint=f"there are {', '.join(sorted(known))}")
        return {key if key in known else of[key] for key in keys}

    only, skip = named(settings.only), named(settings.skip)
    own = {family.key for family in found if family.contestant.own}
    left = [family for family in found if (not only or family.key in only | own) and family.key not in skip]
    if not left:
        raise ConfigError("no contestant is left that takes these workers", hint="see --list")
    return left
