"""What came of a contest: rows, their trials, and how they compare.

Not here: how it is printed (`table.py`), drawn (`plot.py`, `page/`), or read from a file again (`stored.py`).
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from shoal_bench.arena import Scale

if TYPE_CHECKING:
    import os

SCHEMA = 1  # of results.schema.json; a new one where an old reader would be wrong, not where a key is added
NOISY = 0.30  # a spread above this says more about the machine than about the row
AGREE = 0.10  # the same bench run twice should give ratios that differ by no more than this part
# The difference of two medians of n trials has a standard deviation of about 1.25 x sqrt(2 / n) of one trial's; twice
# that is not exceeded in 19 of 20 cases.
TWICE = 2 * 1.25 * math.sqrt(2)


@dataclass(frozen=True)
class Trial:
    """One run of one contestant; times in seconds, memory in bytes.

    `start` is its process's time beside its own, `first` and `last` when the first and the last object were complete;
    None where nothing is written.
    """

    round: int
    objects: int
    seconds: float
    cpu: float
    rss: int
    workers: int | None = None
    start: float = 0.0
    first: float | None = None
    last: float | None = None

    @property
    def rate(self) -> float:
        """Objects a second."""
        return self.objects / self.seconds


@dataclass
class Row:
    """One contestant and its trials.

    Attributes:
        key: What `--only` names.
        title: What the table says.
        kind: "shoal", "strategy", "peer" or "limit".
        layout: How its files lie.
        published: The study's seconds for each request, if it is one of its strategies; with Python 3, if it has both.
        note: What a reader must know.
        missing: Why it was not run.
        trials: The rounds that count, in order; none if it failed.
        failed: Why it has no trials although it was run: it ended with an error or a wrong result.
        may_fail: That it fails is what the study found, too.
        python2: The study's seconds for each request with Python 2.
    """

    key: str
    title: str
    kind: str
    layout: str
    published: float | None = None
    note: str = ""
    missing: str | None = None
    trials: list[Trial] = field(default_factory=list)
    failed: str | None = None
    may_fail: bool = False
    python2: float | None = None

    @property
    def rate(self) -> float:
        """Objects a second, the median of the trials; 0 if there is none."""
        return statistics.median(trial.rate for trial in self.trials) if self.trials else 0.0

    @property
    def spread(self) -> float:
        """Difference between the fastest and the slowest trial, as a part of the median."""
        rates = [trial.rate for trial in self.trials]
        return (max(rates) - min(rates)) / self.rate if rates else 0.0

    @property
    def cpu_per_object(self) -> float:
        """Seconds of processor time for an object, the median of the trials."""
        return statistics.median(trial.cpu / trial.objects for trial in self.trials) if self.trials else 0.0

    @property
    def rss(self) -> int:
        """Bytes of memory at the peak, the largest of the trials."""
        return max((trial.rss for trial in self.trials), default=0)

    @property
    def workers(self) -> int | None:
        """Objects worked on at once, of the last trial."""
        return self.trials[-1].workers if self.trials else None

    @property
    def start(self) -> float:
        """Seconds of its process beside its own time, the median of the trials."""
        return statistics.median(trial.start for trial in self.trials) if self.trials else 0.0

    @property
    def seconds(self) -> float:
        """Seconds of a trial, the median."""
        return statistics.median(trial.seconds for trial in self.trials) if self.trials else 0.0

    @property
    def first(self) -> float | None:
        """Seconds until the first object of a trial was complete, the median; None: it cannot be seen."""
        found = [trial.first for trial in self.trials if trial.first is not None]
        return statistics.median(found) if found else None

    @property
    def last(self) -> float | None:
        """Seconds until the last one was, the median."""
        found = [trial.last for trial in self.trials if trial.last is not None]
        return statistics.median(found) if found else None


@dataclass
class Results:
    """A table that was measured.

    Attributes:
        job: The job, such as "copy".
        settings: What was asked for.
        machine: What it ran on.
        rows: The contestants, fastest first, those that failed or could not run at the end.
        base: The key of the row that the others are compared with.
        scale: The number of objects that the table says times for.
        checked: How the results were checked.
        when: The time at which it ended, in UTC, as ISO 8601 has it; empty: not known.
    """

    job: str
    settings: dict[str, Any]
    machine: dict[str, str]
    rows: list[Row]
    base: str
    scale: Scale
    checked: str
    when: str = ""

    def row(self, key: str) -> Row:
        """Returns a row by its key.

        Raises:
            KeyError: There is none.
        """
        for row in self.rows:
            if row.key == key:
                return row
        raise KeyError(key)

    def ratio(self, key: str, other: str) -> float | None:
        """Returns how many times as fast one row is as another: the median over the rounds, pair by pair."""
        pairs = self.ratios(key, other)
        return statistics.median(pairs) if pairs else None

    def ratios(self, key: str, other: str) -> list[float]:
        """Returns how many times as fast one row is as another in each round that both have."""
        mine = {trial.round: trial.rate for trial in self.row(key).trials}
        theirs = {trial.round: trial.rate for trial in self.row(other).trials}
        return [mine[number] / theirs[number] for number in sorted(mine.keys() & theirs.keys())]

    def doubt(self, key: str, other: str) -> float | None:
        """Returns by what part the ratio of two rows may change if all is run again; None: one round cannot tell."""
        pairs = self.ratios(key, other)
        if len(pairs) < 2:
            return None
        return TWICE * statistics.stdev(pairs) / math.sqrt(len(pairs)) / statistics.median(pairs)

    @property
    def unsteady(self) -> list[str]:
        """The titles of rows whose ratio to the base may change by more than 10 % if all is run again."""
        doubts = {row.title: self.doubt(row.key, self.base) for row in self.rows if row.trials}
        return [title for title, doubt in doubts.items() if doubt is not None and doubt > AGREE]

    @property
    def noisy(self) -> list[str]:
        """The titles of rows whose trials differ by more than 30 %."""
        return [row.title for row in self.rows if row.spread > NOISY]

    @property
    def failed(self) -> list[str]:
        """The titles of rows that failed and should not have."""
        return [row.title for row in self.rows if row.failed is not None and not row.may_fail]

    def to_json(self) -> str:
        """Returns everything as JSON, with the version of its form as `schema`; `shoal_bench.load` reads it."""
        return json.dumps(self.parts(), indent=1)

    def parts(self) -> dict[str, Any]:
        """Returns what `to_json` writes."""
        ran = [row for row in self.rows if row.trials]
        rows = [
            {
                **asdict(row),
                "rate": row.rate,
                "spread": row.spread,
                "cpu_per_object": row.cpu_per_object,
                "first": row.first,
                "last": row.last,
                "faster_than": {other.key: self.ratio(row.key, other.key) for other in ran} if row.trials else {},
            }
            for row in self.rows
        ]
        parts: dict[str, Any] = {"schema": SCHEMA, "job": self.job, "settings": self.settings, "machine": self.machine}
        parts |= {"scale": asdict(self.scale), "checked": self.checked, "when": self.when}
        parts |= {"base": self.base, "noisy": self.noisy, "unsteady": self.unsteady, "failed": self.failed}
        return parts | {"rows": rows}

    def table(self) -> str:
        """Returns the table as text, at most 120 columns wide."""
        from shoal_bench.table import text

        return text(self)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the rates as a PNG or an SVG, as the name says; needs Matplotlib.

        Raises:
            shoal.ConfigError: The name ends otherwise, or Matplotlib is not installed.
        """
        from shoal_bench.plot import draw

        draw([self], path)
