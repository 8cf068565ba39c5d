"""What a job gives its contest: who takes part, on what, and what must come of it. Not here: any job (`jobs/`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from shoal_bench.contestants import Contestant, Task
    from shoal_bench.measure import Measured
    from shoal_bench.settings import Settings


@dataclass(frozen=True)
class Scale:
    """The number of objects for which the table says a time.

    Attributes:
        objects: How many.
        title: What the table calls them.
        author: What the study says of its figures, or why there are none.
        figures: Whether there are.
        study: Objects of the study, in the unit of its figures; None: as many as `objects`.
        unit: What the table calls a rate.
        unit_objects: The objects a second that are 1 of it.
    """

    objects: float
    title: str
    author: str
    figures: bool = True
    study: float | None = None
    unit: str = "files/s"
    unit_objects: int = 1


class Arena(Protocol):
    """What the contestants of one contest meet, from its first run to its last."""

    @property
    def count(self) -> int:
        """Objects of the fastest contestants."""

    @property
    def size(self) -> float:
        """Bytes of an object, the mean."""

    @property
    def checked(self) -> str:
        """What the table says of how the results were checked."""

    @property
    def scale(self) -> Scale:
        """What the table says times for."""

    @property
    def proves(self) -> bool:
        """Whether contents are checked in the round that does not count, so that there is one before every contest."""

    def task(self, one: Contestant, number: int, scratch: Path) -> AbstractContextManager[Task]:
        """Makes what one run in a round needs, which is there while it runs."""

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:
        """Returns what is wrong with what a run has done; None: nothing."""


class Job(Protocol):
    """What a module of `jobs/` has."""

    @property
    def COUNT(self) -> int:  # noqa: N802 (a constant of the module)
        """Objects by default."""

    @property
    def SIZE(self) -> int | None:  # noqa: N802
        """Bytes of each by default; None: the job makes objects of its own size."""

    def contestants(self) -> list[Contestant]:
        """Returns every contestant, in the order in which they take turns."""

    def check(self, settings: Settings) -> None:
        """Raises ConfigError for what the job does not know."""

    def arena(self, settings: Settings, place: Path) -> AbstractContextManager[Arena]:
        """Prepares a contest that may write below `place`."""
