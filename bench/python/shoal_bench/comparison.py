"""Two results of one job side by side: what differs, and whether the trials can tell. Not here: a single result.

What is compared first are ratios to the base row: both rows ran in turn on one machine, so that they hold on others,
too. Rates are compared as well, but two machines, or one at two times, differ in them anyway.
"""

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from shoal import ConfigError
from shoal_bench.results import AGREE, SCHEMA, Results

MOST = 6  # rows that a sentence names


@dataclass(frozen=True)
class Change:
    """One figure of both results.

    Attributes:
        first: The median in the first.
        second: That in the second.
        times: The second as a multiple of the first.
        within: Whether trials of both overlap, so that the difference says nothing; None: one trial has no spread.
    """

    first: float
    second: float
    times: float
    within: bool | None


@dataclass(frozen=True)
class Pair:
    """One contestant in both; its objects a second, and how many times as fast as the base it is."""

    key: str
    title: str
    rate: Change
    ratio: Change

    @property
    def agrees(self) -> bool:
        """Whether the ratios differ by at most 10 % of the smaller one."""
        return max(self.ratio.times, 1 / self.ratio.times) <= 1 + AGREE


@dataclass(frozen=True)
class Comparison:
    """Two results of one job.

    Attributes:
        job: The job.
        base: The key of the row that ratios are formed with.
        pairs: Contestants with figures in both, in the order of the first.
        only: Keys that have figures in one of them alone, and in which: 1 or 2.
        conditions: What differs in settings, machine and versions, and the value in each.
    """

    job: str
    base: str
    pairs: list[Pair]
    only: dict[str, int]
    conditions: dict[str, tuple[str, str]]

    @property
    def apart(self) -> list[Pair]:
        """The rows in which the two ratios differ by more than 10 %."""
        return [pair for pair in self.pairs if not pair.agrees]

    @property
    def verdict(self) -> str:
        """`agree`; `noisy`, where they should agree and do not; or, where conditions differ, `within` or `differ`.

        `within`: no ratio differs by more than 10 % and by more than its own trials do.
        """
        if not self.apart:
            return "agree"
        if self.conditions.keys() <= {"trials"}:
            return "noisy"
        return "within" if all(pair.ratio.within for pair in self.apart) else "differ"

    def in_words(self) -> str:
        """Returns what the comparison says, in a few sentences."""
        apart, others = self.apart, len(self.pairs) - 1
        if others < 1:
            return "No ratio is in both: there is only the base."
        if not apart:
            return f"The ratios agree within {AGREE:.0%}: all {others} of them."
        found = f"{len(apart)} of {others} ratios differ by more than {AGREE:.0%}"
        if self.verdict == "noisy":
            return (
                f"{found} ({_titles(apart)}), although machine, settings and versions are the same: the machine is too "
                "noisy for these rows, or a program has changed without its version. Run it with more trials, and "
                "with nothing else running."
            )
        parts = []
        for within, words in (
            (False, "by more than the trials of either do"),
            (True, "but the trials of both overlap, so that nothing can be said"),
            (None, "and one trial cannot say whether by chance"),
        ):
            some = [pair for pair in apart if pair.ratio.within is within]
            if some:
                parts.append(f"{_titles(some)}: {words}")
        return f"{found}. {'; '.join(parts)}."

    def parts(self) -> dict[str, Any]:
        """Returns everything, for JSON."""
        found: dict[str, Any] = {"schema": SCHEMA, "type": "comparison", "job": self.job, "base": self.base}
        found |= {"verdict": self.verdict, "in_words": self.in_words()}
        found["conditions"] = {what: list(values) for what, values in self.conditions.items()}
        found["rows"] = [asdict(pair) | {"agrees": pair.agrees} for pair in self.pairs]
        return found | {"only": self.only}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Returns the head and the lines of a table."""
        lines = []
        for pair in self.pairs:
            rate, ratio = pair.rate, pair.ratio
            cells = [pair.title, f"{rate.first:,.0f}", f"{rate.second:,.0f}", f"{rate.times:.2f}", _mark(rate)]
            base = ["base", "", "", ""]
            ratios = [_times(ratio.first), _times(ratio.second), f"{ratio.times:.2f}", _mark(ratio)]
            lines.append([*cells, *(base if pair.key == self.base else ratios)])
        return [self.job, "files/s: A", "B", "B / A", "", "ratio: A", "B", "B / A", ""], lines

    def notes(self) -> list[str]:
        """Returns what the comparison says, and what differs beside the figures."""
        notes = [self.in_words()]
        notes += [f"differs: {what}: {first} / {second}" for what, (first, second) in self.conditions.items()]
        for number, name in ((1, "A"), (2, "B")):
            keys = [key for key, which in self.only.items() if which == number]
            notes += [f"figures in {name} only: {', '.join(keys)}"] if keys else []
        said = "ratio: how many times as fast as the base, in turn with it. ~ : the trials of both overlap, the "
        return [*notes, f"{said}difference says nothing. ? : one trial, no spread is known."]


def compare(first: Results, second: Results) -> Comparison:
    """Lays two results of the same job side by side.

    Args:
        first: The earlier one, or that of the one machine.
        second: What is compared with it.

    Returns:
        The contestants of both, and what differed beside them.

    Raises:
        ConfigError: They are of different jobs, or no contestant has figures in both.

    Example:
        >>> results = shoal_bench.run("save", count=20, trials=2, only=["limit", "sequential"])
        >>> shoal_bench.compare(results, results).verdict
        'agree'
    """
    if first.job != second.job:
        raise ConfigError(f"the jobs differ: {first.job!r} and {second.job!r}", hint="compare two results of one job")
    ran = [{row.key for row in one.rows if row.trials} for one in (first, second)]
    both = [row.key for row in first.rows if row.key in ran[0] & ran[1]]
    if not both:
        raise ConfigError(f"no contestant of {first.job} has figures in both")
    base = next((one.base for one in (first, second) if one.base in both), both[0])
    pairs = []
    for key in both:
        rate = _change(*([trial.rate for trial in one.row(key).trials] for one in (first, second)))
        ratio = _change(*(one.ratios(key, base) for one in (first, second)))
        pairs.append(Pair(key, first.row(key).title, rate, ratio))
    only = {key: number for number, keys in ((1, ran[0] - ran[1]), (2, ran[1] - ran[0])) for key in sorted(keys)}
    return Comparison(first.job, base, pairs, only, _conditions(first, second))


def _change(first: list[float], second: list[float]) -> Change:
    """Compares the medians of two rows' rates or ratios; a row without a ratio to the base counts as equal to it."""
    one, other = statistics.median(first or [1.0]), statistics.median(second or [1.0])
    known = min(len(first), len(second)) > 1
    overlap = known and min(first) <= max(second) and min(second) <= max(first)
    return Change(one, other, other / one, overlap if known else None)


def _conditions(first: Results, second: Results) -> dict[str, tuple[str, str]]:
    """Returns what differs in settings and machine."""
    found = {}
    for mine, theirs in ((first.settings, second.settings), (first.machine, second.machine)):
        for what in [*mine, *(name for name in theirs if name not in mine)]:
            pair = (str(mine.get(what, "none")), str(theirs.get(what, "none")))
            if pair[0] != pair[1]:
                found[what] = pair
    return found


def _titles(pairs: list[Pair]) -> str:
    some = ", ".join(pair.title for pair in pairs[:MOST])
    return some + (f" and {len(pairs) - MOST} more" if len(pairs) > MOST else "")


def _mark(change: Change) -> str:
    return {True: "~", False: "", None: "?"}[change.within]


def _times(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio >= 0.1 else f"{ratio:.4f} x"
