"""Points and curves: rows of one program at several numbers of workers. Not here: measuring (`scans.py`).

A row of a sweep has a key such as `threads@8`, or `combo@2x10` for two processes with ten threads each.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from shoal import ConfigError
from shoal_bench.results import Results, Row, Step

MOST = 1000  # workers, as the strategies have it
POINTS = 64  # points of a curve: more are a mistake in writing
FEWEST = 2  # points that make a curve
KEY = re.compile(r"(.+)@(\d{1,6})(?:x(\d{1,6}))?")


@dataclass(frozen=True)
class Point:
    """Workers, and threads in each of them where it is a point of a grid."""

    workers: int
    threads: int | None = None

    def __str__(self) -> str:
        """As it is written on the command line."""
        return str(self.workers) if self.threads is None else f"{self.workers}x{self.threads}"

    def __lt__(self, other: Point) -> bool:
        """Those of a grid come after the others."""
        return self._place < other._place

    @property
    def _place(self) -> tuple[bool, int, int]:
        return self.threads is not None, self.workers, self.threads or 0

    @property
    def one(self) -> Point:
        """The point with one worker, with which it is compared."""
        return Point(1, None if self.threads is None else 1)


def points(text: str) -> tuple[Point, ...]:
    """Reads points such as "1..64" (which doubles: 1, 2, 4, ... 64), "1,2,8" or "2x10"; one worker is always added.

    Raises:
        ConfigError: It is something else.
    """
    found: set[Point] = set()
    for part in text.split(","):
        first, cross, second = part.strip().partition("x")
        if cross:
            found |= {Point(workers, threads) for workers in _numbers(first) for threads in _numbers(second)}
        else:
            found |= {Point(workers) for workers in _numbers(first)}
    found |= {point.one for point in found}
    if len(found) > POINTS:
        raise ConfigError(f"--workers has {len(found)} points, the most is {POINTS}: {text!r}")
    return tuple(sorted(found))


def _numbers(text: str) -> list[int]:
    ends = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text.strip())
    if ends is None:
        raise ConfigError(
            f"--workers is not a list of numbers: {text.strip()!r}",
            hint="write 8, or 1,2,4, or 1..64 for 1, 2, 4, ... 64, or 2x10 for 2 processes with 10 threads each",
        )
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= first <= last <= MOST:
        raise ConfigError(f"--workers is not a range within 1 to {MOST:,}: {text.strip()!r}")
    found = [first]
    while found[-1] * 2 <= last:
        found.append(found[-1] * 2)
    return found if found[-1] == last else [*found, last]


@dataclass(frozen=True)
class Spot:
    """One measured point of a curve: where it is, None for the program's own number, and its row."""

    point: Point | None
    row: Row


@dataclass(frozen=True)
class Curve:
    """One program at one size, over the points.

    Attributes:
        key: That of its rows, without the number.
        title: What it is called.
        kind: As of a row.
        results: The contest that it was measured in.
        spots: Its points, in their order; one at least.
    """

    key: str
    title: str
    kind: str
    results: Results
    spots: tuple[Spot, ...]

    @property
    def best(self) -> Spot:
        """The fastest point; one without figures, if none has any."""
        return max(self.spots, key=lambda spot: spot.row.rate)

    @property
    def rows(self) -> dict[Point, Row]:
        """Those that have figures, by their point."""
        return {spot.point: spot.row for spot in self.spots if spot.point is not None and spot.row.trials}

    @property
    def path(self) -> list[Step]:
        """How the program came to its own number of workers: the steps that were measured; often empty."""
        own = [step for spot in self.spots if spot.point is None for step in spot.row.path]
        return [step for step in own if step.objects_per_second > 0]

    def ratio(self, spot: Spot) -> float | None:
        """Returns how many times as fast a point is as one worker: the median over the rounds, pair by pair."""
        if not spot.row.trials:
            return None
        first = self.rows.get(Point(1) if spot.point is None else spot.point.one)
        return self.results.ratio(spot.row.key, first.key) if first else None

    def as_json(self) -> dict[str, Any]:
        """Returns it for a plot: everything of a point in one place."""
        best, settings = self.best, self.results.settings
        found: dict[str, Any] = {"family": self.key, "title": self.title, "kind": self.kind}
        found |= {"size": settings["size"], "count": settings["count"]}
        found["best"] = str(best.point) if best.row.trials and best.point is not None else None
        found["path"] = [asdict(step) for step in self.path]
        return found | {"points": [self._point(spot) for spot in self.spots]}

    def _point(self, spot: Spot) -> dict[str, Any]:
        row, point = spot.row, spot.point
        found: dict[str, Any] = {"point": None, "workers": None, "threads": None}
        if point is not None:
            found = {"point": str(point), "workers": point.workers, "threads": point.threads}
        found |= {"row": row.key, "rate": row.rate, "rates": [trial.rate for trial in row.trials]}
        found |= {"spread": row.spread, "ratio": self.ratio(spot)}
        return found | {"failed": row.failed, "missing": row.missing}


def every(results: Results) -> list[Curve]:
    """Returns the curve of each program of a result; of one that had its own number, a single spot."""
    families: dict[str, list[Spot]] = {}
    for row in results.rows:
        parts = KEY.fullmatch(row.key)
        key, point = (parts[1], Point(int(parts[2]), int(parts[3]) if parts[3] else None)) if parts else (row.key, None)
        families.setdefault(key, []).append(Spot(point, row))
    found = []
    for key, spots in families.items():
        spots.sort(key=lambda spot: (spot.point is not None, spot.point))
        row = spots[0].row
        title = row.title if spots[0].point is None else row.title.rpartition(" @ ")[0] or row.title
        found.append(Curve(key, title, row.kind, results, tuple(spots)))
    return found


def curves(results: Results) -> list[Curve]:
    """Returns the curves of a result that can be drawn, the highest first; an empty list if it is not a sweep."""
    return sorted((one for one in every(results) if len(one.rows) >= FEWEST), key=lambda one: -one.best.row.rate)
