"""Rows of one program at several numbers of workers, which make a curve. Not here: measuring them, drawing them.

A row of a sweep has a key such as `threads@8`, or `combo@2x10` for two processes with ten threads each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.bench.results import Results, Row

KEY = re.compile(r"(.+)@(\d{1,6})(?:x(\d{1,6}))?")
FEWEST = 2  # points of a curve


@dataclass(frozen=True, order=True)
class Point:
    """Threads in each worker (0: it has none of its own), and workers; in the order in which they are drawn."""

    threads: int
    workers: int

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"{self.workers}x{self.threads}" if self.threads else str(self.workers)


@dataclass(frozen=True)
class Curve:
    """One program.

    Attributes:
        key: That of its rows, without the number.
        title: What it is called.
        kind: As of a row.
        rows: Those that have figures, by their point.
    """

    key: str
    title: str
    kind: str
    rows: dict[Point, Row]

    @property
    def best(self) -> tuple[Point, Row]:
        """The fastest point."""
        return max(self.rows.items(), key=lambda one: one[1].rate)


def curves(results: Results) -> list[Curve]:
    """Returns the curves of a result, the highest first; none, where it is no sweep."""
    families: dict[str, dict[Point, Row]] = {}
    for row in results.rows:
        parts = KEY.fullmatch(row.key)
        if parts and row.trials:
            families.setdefault(parts[1], {})[Point(int(parts[3] or 0), int(parts[2]))] = row
    found = []
    for key, rows in families.items():
        if len(rows) >= FEWEST:
            first = next(iter(rows.values()))
            found.append(Curve(key, first.title.partition(" @ ")[0], first.kind, dict(sorted(rows.items()))))
    return sorted(found, key=lambda curve: -curve.best[1].rate)
