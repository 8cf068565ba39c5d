"""What came of a contest: rows, their trials, how they compare; and all of it as a file, written and read again.

A file is checked against the types of these classes (`schema` says them as a JSON Schema), because a report is made of
whatever a file says. A file of another version is refused, not guessed at. Not here: how results are shown
(`figures.py`), and two of them side by side (`comparison.py`).
"""

import json
import math
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from shoal import ConfigError

SCHEMA = 1  # a new one where an old reader would be wrong, not where a key is added
LARGEST = 256 << 20  # bytes of a file; a result has about a hundred thousand
HUGE = 10**18  # above any number of bytes, objects or seconds that there is: such would overflow further on
NOISY = 0.30  # a spread above this says more about the machine than about the row
AGREE = 0.10  # the same bench run twice should give ratios that differ by no more than this part
# The difference of two medians of n trials has a standard deviation of about 1.25 x sqrt(2 / n) of one trial's; twice
# that is not exceeded in 19 of 20 cases.
TWICE = 2 * 1.25 * math.sqrt(2)
MACHINE = ("cores", "processor", "memory", "kernel", "file system", "python", "shoal")  # what a file must say of it

DERIVED = ("rate", "spread", "cpu_per_object", "first", "last")  # properties of a row that a file has, too

Count = Annotated[int, Meta(ge=1, le=HUGE)]
Amount = Annotated[float, Meta(ge=0, le=HUGE)]
Number = Annotated[float, Meta(ge=-HUGE, le=HUGE)]


class Asked(TypedDict):
    """What was asked for; `size` is the mean of the objects' bytes, `trials` the rounds that were run."""

    count: Count
    size: Annotated[int, Meta(ge=0, le=HUGE)]
    trials: Count
    into: str
    durable: bool
    case: str
    cold: bool
    full: NotRequired[bool]


@dataclass(frozen=True)
class Scale:
    """The number of objects for which the table says a time.

    Attributes:
        objects: How many.
        title: What the table calls them.
        author: What the study says of its figures, or why they are missing.
        figures: Whether there are.
        study: Objects of the study, in the unit of its figures; None: as many as `objects`.
        unit: What the table calls a rate.
        unit_objects: The objects a second that are 1 of it.
    """

    objects: Annotated[float, Meta(gt=0, le=HUGE)]
    title: str
    author: str
    figures: bool = True
    study: Number | None = None
    unit: str = "files/s"
    unit_objects: Count = 1


@dataclass(frozen=True)
class Step:
    """From when shoal had a number of workers, in seconds since its start, and the rates measured while it had them.

    A rate of 0 means that nothing was measured.
    """

    seconds: Amount
    workers: Count
    objects_per_second: Amount
    bytes_per_second: Amount


@dataclass(frozen=True)
class Trial:
    """One run of one contestant; times in seconds, memory in bytes.

    `start` is its process's time beside its own, `first` and `last` when the first and the last object were complete;
    None where nothing is written. `path` is how shoal came to its workers, where it found their number itself; results
    of an older shoal have none.
    """

    round: Count
    objects: Count
    seconds: Annotated[float, Meta(ge=1e-9, le=HUGE)]
    cpu: Amount
    rss: Annotated[int, Meta(ge=0, le=HUGE)]
    workers: Annotated[int, Meta(ge=-HUGE, le=HUGE)] | None = None
    start: Number = 0.0
    first: Amount | None = None
    last: Amount | None = None
    path: tuple[Step, ...] = ()

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
    published: Number | None = None
    note: str = ""
    missing: str | None = None
    trials: list[Trial] = field(default_factory=list)
    failed: str | None = None
    may_fail: bool = False
    python2: Number | None = None

    @property
    def rate(self) -> float:
        """Objects a second, the median of the trials; 0 without trials."""
        return _median(trial.rate for trial in self.trials) or 0.0

    @property
    def spread(self) -> float:
        """Difference between the fastest and the slowest trial, as a part of the median."""
        rates = [trial.rate for trial in self.trials]
        return (max(rates) - min(rates)) / self.rate if rates else 0.0

    @property
    def cpu_per_object(self) -> float:
        """Seconds of processor time for an object, the median of the trials."""
        return _median(trial.cpu / trial.objects for trial in self.trials) or 0.0

    @property
    def rss(self) -> int:
        """Bytes of memory at the peak, the largest of the trials."""
        return max((trial.rss for trial in self.trials), default=0)

    @property
    def workers(self) -> int | None:
        """Objects worked on at once, of the last trial."""
        return self.trials[-1].workers if self.trials else None

    @property
    def path(self) -> tuple[Step, ...]:
        """How it came to them, in order of time; empty where it did not find their number itself."""
        return self.trials[-1].path if self.trials else ()

    @property
    def start(self) -> float:
        """Seconds of its process beside its own time, the median of the trials."""
        return _median(trial.start for trial in self.trials) or 0.0

    @property
    def seconds(self) -> float:
        """Seconds of a trial, the median."""
        return _median(trial.seconds for trial in self.trials) or 0.0

    @property
    def first(self) -> float | None:
        """Seconds until the first object of a trial was complete, the median; None: it cannot be seen."""
        return _median(trial.first for trial in self.trials)

    @property
    def last(self) -> float | None:
        """Seconds until the last one was, the median."""
        return _median(trial.last for trial in self.trials)


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
    settings: Asked
    machine: dict[str, str]
    rows: Annotated[list[Row], Meta(min_length=1)]
    base: str
    scale: Scale
    checked: str
    when: str = ""

    def row(self, key: str) -> Row:
        """Returns a row by its key.

        Raises:
            KeyError: There is no such row.
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
        """The titles of rows with a ratio to the base that may change by more than 10 % if all is run again."""
        doubts = {row.title: self.doubt(row.key, self.base) for row in self.rows if row.trials}
        return [title for title, doubt in doubts.items() if doubt is not None and doubt > AGREE]

    @property
    def noisy(self) -> list[str]:
        """The titles of rows with trials that differ by more than 30 %."""
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
        rows = []
        for row in self.rows:
            found = asdict(row) | {name: getattr(row, name) for name in DERIVED}
            found["faster_than"] = {other.key: self.ratio(row.key, other.key) for other in ran} if row.trials else {}
            rows.append(found)
        parts: dict[str, Any] = {"schema": SCHEMA, "job": self.job, "settings": self.settings, "machine": self.machine}
        parts |= {"scale": asdict(self.scale), "checked": self.checked, "when": self.when}
        parts |= {"base": self.base, "noisy": self.noisy, "unsteady": self.unsteady, "failed": self.failed}
        return parts | {"rows": rows}


@dataclass
class Collection:
    """The contests of several jobs.

    Attributes:
        results: What came of them.
        failed: Jobs that ended with an error, and the error.
    """

    results: list[Results]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether no job, and no row that should not, has failed."""
        return not self.failed and not any(one.failed for one in self.results)

    def to_json(self) -> str:
        """Returns all of them as JSON; `load` reads it."""
        parts = {"schema": SCHEMA, "results": [one.parts() for one in self.results], "failed": self.failed}
        return json.dumps(parts, indent=1)


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def schema() -> dict[str, Any]:
    """Returns the form of several contests, as a JSON Schema; a file of one is one of its `results`."""
    return msgspec.json.schema(Collection)


def load(path: str | os.PathLike[str]) -> Collection:
    """Reads what `--results` has written, or `shoal bench all`.

    Args:
        path: The file.

    Returns:
        The contests in it; one, or those of all jobs.

    Raises:
        ConfigError: It cannot be read, is not a result, or is of a version that this shoal does not know.
    """
    name = str(path)
    none = f"{name!r} is not a result of shoal bench"
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{none}: it has more than {LARGEST:,} bytes")
        found = msgspec.json.decode(data)
    except OSError as error:
        raise ConfigError(f"{name!r} cannot be read: {error.strerror or error}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(f"{none}: not JSON: {error}") from error
    if not isinstance(found, dict) or "schema" not in found:
        raise ConfigError(f"{none}: it has no schema", hint="give what --results has written")
    if found["schema"] != SCHEMA or isinstance(found["schema"], bool):
        newer = isinstance(found["schema"], int) and found["schema"] > SCHEMA
        raise ConfigError(
            f"{name!r} has schema {found['schema']!r}, this shoal reads {SCHEMA}",
            hint="read it with the shoal that wrote it, " + ("or a newer one" if newer else "or measure again"),
        )
    try:
        return decoded(found)
    except ValueError as error:
        raise ConfigError(f"{none}: {error}") from error


def decoded(found: dict[str, Any]) -> Collection:
    """Returns the contests of a document.

    Raises:
        ValueError: It has another form.
    """
    try:
        collection = msgspec.convert(found if "results" in found else {"results": [found]}, Collection)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    for one in collection.results:
        keys = [row.key for row in one.rows]
        if missing := [what for what in MACHINE if what not in one.machine]:
            raise ValueError(f"machine has no {missing[0]!r}")
        if len(set(keys)) < len(keys):
            raise ValueError("two rows have one key")
        if one.base not in keys:
            raise ValueError(f"there is no row {one.base!r}, the base")
    return collection
