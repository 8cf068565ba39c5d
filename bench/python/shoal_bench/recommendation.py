"""What to use on this machine, in plain words and with the figures that say so. Not here: the figures (`results.py`).

A row is ahead of another only if it is by more than another run may change (`Results.doubt`); otherwise they are said
to be equal within the noise, whichever is shown above. Limits are nothing to use; and rows that do something else than
the rest, such as those that are handed tables, are named aside.
"""

import re
from dataclasses import dataclass, field

from shoal_bench import words
from shoal_bench.results import Results, Row
from shoal_bench.words import micros

CLEAR = 0.03  # a lead below this does not count, however steady
ALONE = 0.30  # what one round must show to be called a lead: it has no spread
DEARER = 1.5  # from this factor on, processor time is worth a sentence
SHORT = 0.2  # seconds of a trial below which the figures are of starting rather than of the job
NEAR = 1.15  # a limit by no more than this above leaves little to be gained
SHOWN = 3  # rows that a sentence names

TABLES = "for data that come as tables"
JAVA = "in Java, where its threads keep the contents"
WHOLE = "which never looks at a record"
# Rows that do something else than the rest of the job, and what.
ASIDE: dict[str, dict[str, str]] = {
    "save": {
        f"shoal-save-{form}{suffix}": TABLES for form in ("numpy", "arrow") for suffix in ("", "-batch")
    },
    "read": {
        "processes": "if the contents may stay in the processes that read them",
        **{f"java-{threads}": JAVA for threads in (2, 8, 64)},
    },
    "unzip": {"shoal-giant": "of the largest archive alone"},
    "records": {
        **dict.fromkeys(("os-read-1m", "readinto-8k", "readinto-32k", "readinto-1m", "cat"), WHOLE),
        "shoal-columns": "for columns as arrays, without a loop over the records",
        "polars": "on columns that are in memory already",
    },
}  # fmt: skip


@dataclass
class Recommendation:
    """What a result says to do.

    Attributes:
        headline: What to use.
        reasons: The figures that say so.
        caveats: Why to believe it less, and what else to know.
    """

    headline: str
    reasons: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)


def recommend(results: Results) -> Recommendation:
    """Returns what to use on this machine for a job, and why."""
    ran = sorted((row for row in results.rows if row.trials), key=lambda row: -row.rate)
    rows = [row for row in ran if row.kind != "limit" and not _aside(results, row)]
    if not rows:
        return Recommendation("Nothing to recommend: no way to do the job has figures.", [], _caveats(results, ran))
    judge = _Judge(results)
    said = judge.choice(rows)
    said.reasons += judge.without_shoal(rows)
    said.reasons += judge.more_workers(rows)
    said.reasons += judge.limit([row for row in ran if row.kind == "limit"], rows[0])
    for what in dict.fromkeys(filter(None, (_aside(results, row) for row in ran))):
        some = [row for row in ran if _aside(results, row) == what and judge.ahead(row, rows[0])]
        if some:
            least = f"at least {judge.times(some[-1], rows[0])}" if len(some) > 1 else judge.times(some[0], rows[0])
            said.reasons.append(f"Something else: {_names(some)}, {what}: {least} as {rows[0].title}.")
    said.caveats += _caveats(results, ran)
    return said


def _aside(results: Results, row: Row) -> str:
    """Returns what a row does that the others do not; also for a program at another number of workers."""
    known = ASIDE.get(results.job, {})
    family = row.key.partition("@")[0]
    return known.get(family) or known.get(f"{family}-2") or ""


class _Judge:
    """Compares rows of one result."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.noun = words.of(results.job, results.settings["case"]).noun

    def ahead(self, one: Row, other: Row) -> bool:
        """Whether one row is faster than another by more than chance."""
        ratio = self.results.ratio(one.key, other.key)
        if ratio is None:
            return False
        doubt = self.results.doubt(one.key, other.key)
        return ratio > 1 + (ALONE if doubt is None else max(CLEAR, doubt))

    def times(self, one: Row, other: Row) -> str:
        """How many times as fast it is, in words."""
        ratio = self.results.ratio(one.key, other.key) or one.rate / other.rate
        return f"{_number(ratio)} times as fast"

    def rate(self, row: Row) -> str:
        """Its objects a second, in words."""
        return f"{_number(row.rate)} {self.noun} a second"

    def both(self, one: Row, other: Row) -> str:
        """The rates of two rows, and the rounds' ratios, which say how sure the lead is."""
        pairs = self.results.ratios(one.key, other.key)
        found = f"{one.title} does {self.rate(one)}, {other.title} {_number(other.rate)}"
        if len(pairs) < 2:
            return f"{found}."
        return f"{found}; from round to round {_number(min(pairs))} to {_number(max(pairs))} times as many."

    def choice(self, rows: list[Row]) -> Recommendation:
        """Says which of the rows, fastest first, to use."""
        best = rows[0]
        if len(rows) == 1:
            return Recommendation(f"{best.title} alone was measured: {self.rate(best)}.")
        equal = [row for row in rows[1:] if not self.ahead(best, row)]
        ours = next((row for row in rows if row.kind == "shoal"), None)
        others = next((row for row in rows if row.kind != "shoal"), None)
        rival, why = (
            (others, ", the fastest way without shoal.")
            if best.kind == "shoal"
            else (ours, ": shoal is not the best choice here.")
        )
        if rival is None:  # all are shoal's, or none is
            rival, why = rows[1], "."
        use = f"On this machine use {best.title}"
        if rival in equal:
            names = rival.title if ours and others else _names(equal)
            said = Recommendation(
                f"{use} or {names}, because they are equal within the noise: choose by what else you need."
            )
        else:
            said = Recommendation(f"{use}, because it is {self.times(best, rival)} as {rival.title}{why}")
        said.reasons = [self.both(best, rival), *self.processor(best, rival)]
        same = [row for row in equal if row.kind == best.kind == "shoal"]
        if same and others is not None:
            said.reasons.append(f"{_names(same)} cannot be told from it.")
        return said

    def processor(self, one: Row, other: Row) -> list[str]:
        """Says what they cost in processor time, where that differs much."""
        mine, theirs = one.cpu_per_object, other.cpu_per_object
        if min(mine, theirs) <= 0 or max(mine / theirs, theirs / mine) < DEARER:
            return []
        (less, cheap), (more, dear) = sorted([(mine, one.title), (theirs, other.title)])
        return [
            f"{dear} takes {_number(more / less)} times the processor time of {cheap} ({micros(more)} and "
            f"{micros(less)} microseconds for each), which counts where something else runs."
        ]

    def without_shoal(self, rows: list[Row]) -> list[str]:
        """Names the best plain Python, and the best program."""
        found = []
        python = [row for row in rows if row.kind == "strategy"]
        if len(python) > 1:
            best, last = python[0], python[-1]
            equal = [row for row in python[1:] if not self.ahead(best, row)]
            also = f"; {_names(equal)} cannot be told from it" if equal else ""
            slowest = f", {self.times(best, last)} as {last.title}, the slowest" if last not in equal else ""
            found.append(f"Of the study's strategies, {best.title}: {self.rate(best)}{slowest}{also}.")
        programs = [row for row in rows if row.kind == "peer"]
        if programs:
            found.append(f"Of the programs that were there, {programs[0].title}: {self.rate(programs[0])}.")
        return found

    def more_workers(self, rows: list[Row]) -> list[str]:
        """Says where more workers made it slower."""
        families: dict[str, list[tuple[int, Row]]] = {}
        for row in rows:
            parts = re.fullmatch(r"(.+)[-@](\d{1,6})", row.key)
            if parts:
                families.setdefault(parts[1], []).append((int(parts[2]), row))
        found = []
        for members in families.values():
            members.sort(key=lambda member: member[0])
            best = max((row for _, row in members), key=lambda row: row.rate)
            most = members[-1][1]
            if most is not best and self.ahead(best, most):
                found.append(f"More workers do not help: {best.title} is {self.times(best, most)} as {most.title}.")
        return found

    def limit(self, limits: list[Row], best: Row) -> list[str]:
        """Says how far the machine itself is."""
        if not limits or limits[0].rate <= best.rate:
            return []
        top = limits[0]
        left = "so that little is left to gain" if top.rate / best.rate < NEAR else "which is what could be gained"
        return [f"The limit measured here ({top.title}) is {self.times(top, best)} as {best.title}, {left}."]


def _caveats(results: Results, ran: list[Row]) -> list[str]:
    """Says why to believe it less."""
    found = []
    rounds = max((len(row.trials) for row in ran), default=0)
    if rounds == 1:
        found.append("There was one trial only, so the spread is unknown. Take --trials 5 or more.")
    unsteady, others = set(results.unsteady), max(len(ran) - 1, 1)
    if unsteady:
        many = _names([row for row in ran if row.title in unsteady])
        found.append(
            f"This machine is too noisy for {len(unsteady)} of {others} ratios ({many}): another run may change them "
            "by more than 10 %. Take more --trials, with nothing else running."
        )
    if results.noisy:
        found.append(f"Trials differ by more than 30 %, believe them less: {', '.join(results.noisy)}.")
    short = [row for row in ran if row.seconds < SHORT]
    if short:
        found.append(
            f"Trials of less than {SHORT} s ({_names(short)}): they say more about beginning than about the job. Take "
            "a larger --count."
        )
    return found


def _names(rows: list[Row]) -> str:
    some = [row.title for row in rows[:SHOWN]]
    if len(rows) > SHOWN:
        return f"{', '.join(some)} and {len(rows) - SHOWN} more"
    return " and ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)


def _number(value: float) -> str:
    """As many digits as anyone would say."""
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"
