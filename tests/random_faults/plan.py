"""A world from its seed: the source, its objects and faults, the command's options, and the sessions with their kills.

Only what is to be, so a plan costs nothing to make; it is the same each time. Not here: running it (`world.py`).
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from typing import Literal

from random_faults.kinds import EVERY, OBJECTS, PAGES
from random_worlds import KILLS, any_size

MOST = 12  # objects with one kind of fault: many retries wait for a quarter of a second, of a resumed body for seconds
SUBTLE = [name for name, kind in OBJECTS.items() if kind.effect or name.endswith("behind, late")]  # seen late, or not
SLOWS = 2  # faults of a world that cost a timeout

Form = Literal["txt", "csv", "jsonl"]
Echo = Literal["always", "never", "sometimes"]


@dataclass(frozen=True)
class Trouble:
    """A fault of an object or of a page: so many times, or until the services are healed."""

    where: str | int
    kind: str
    times: int | None
    seed: int


@dataclass(frozen=True)
class Session:
    """One run of the command, perhaps killed once the services have seen so many requests of it."""

    flags: tuple[str, ...] = ()
    kill: signal.Signals | None = None
    after: int = 0


@dataclass(frozen=True)
class Plan:
    """A world. `form` is that of the list of URLs, or None for a service."""

    seed: int
    form: Form | None
    hosts: int
    sizes: dict[str, int]
    page_size: int
    echo: Echo
    is_parquet: bool
    options: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    sessions: tuple[Session, ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of faults in it."""
        return {trouble.kind for trouble in self.troubles}

    def __str__(self) -> str:
        """All that matters when it is looked at."""
        source = f"list {self.form} of {self.hosts} hosts" if self.form else f"service, {self.page_size} on a page"
        sink = "parquet" if self.is_parquet else "directory"
        lines = [
            f"seed {self.seed}: {source}, {len(self.sizes)} objects, {sink}, ids {self.echo}, {' '.join(self.options)}"
        ]
        lines += [f"  {one.where!r}: {one.kind}, {one.times or 'all'} times" for one in self.troubles]
        return "\n".join([*lines, *(f"  {session}" for session in self.sessions)])


def options(c: random.Random, kinds: set[str], form: str | None, echo: str, *, is_parquet: bool) -> tuple[str, ...]:
    """The options of a command, the same in all sessions."""
    found = ["--workers", c.choice(["auto", "1", "3", "16"]), "--max-retries", c.choice(["0", "1", "3"])]
    found += ["--timeout", "1", "--connect-timeout", "1", "--retry-timeout", c.choice(["1", "3"])]
    # With a number, requests are sent ahead also without ids, and answers that are in another order are believed.
    is_proven = echo == "always" or not any(
        EVERY[kind].effect in ("foreign", "replayed") or kind in ("swapped", "backwards") for kind in kinds
    )
    found += ["--pipeline", c.choice(["auto", "auto", "off", "4" if is_proven else "auto"])]
    found += ["--durability", c.choice(["batch", "file"] if is_parquet else ["none", "none", "batch", "file"])]
    found += ["--shard-size", c.choice(["200kB", "10MB"])] if is_parquet else []
    found += ["--keep-times"] if not is_parquet and c.random() < 0.2 else []
    found += ["--ignore-vanished"] if kinds & {"404", "410"} and c.random() < 0.5 else []
    found += ["--per-host", c.choice(["1", "6", "20"])] if form else []
    found += ["--url-field", "link", "--name-field", "file"] if form in {"csv", "jsonl"} else []
    for kind in sorted(kinds):
        found += EVERY[kind].options
    return tuple(found)


def find_troubles(
    c: random.Random, kinds: list[str], names: list[str], sizes: dict[str, int], pages: int
) -> list[Trouble]:
    """Gives some objects or a page each kind of fault, so that the whole has its share; may change their sizes."""
    found: list[Trouble] = []
    slows = 0
    share = c.choice([0.03, 0.1, 0.3])
    for number, kind in enumerate(kinds):
        most = MOST // 4 if kind.startswith("resumed") else MOST
        count = 1 if kind in PAGES else min(most, 1 + int(len(names) * share / len(kinds) * c.uniform(0.5, 1.5)))
        places = [c.randrange(pages)] if kind in PAGES else c.sample(names, count)
        for where in places:
            if EVERY[kind].is_slow and (slows := slows + 1) > SLOWS and (number or where != places[0]):
                continue
            times = c.choice([1, 1, 2, None]) if not kind.startswith("resumed") else None
            times = 1 if EVERY[kind].is_slow else times
            if kind.startswith("resumed"):  # a small body is not resumed
                sizes[str(where)] = c.randint(66_000, 300_000)
            found.append(Trouble(where, kind, times, c.randrange(1 << 30)))
    if any(EVERY[kind].effect for kind in kinds) and c.random() < 0.9:
        # The run must not end before shoal could see what came late.
        found.insert(0, Trouble(names[-1], "stall for long", None, 0))
    return found


def plan(seed: int) -> Plan:
    """Makes the world of a seed. Its first kind is the seed's in turn, so that all come."""
    c = random.Random(f"world {seed}")
    first = list(EVERY)[seed % len(EVERY)]
    forms: list[Form | None] = [None, None, "txt", "csv", "jsonl"]
    form = None if first in PAGES else c.choice(forms)
    pool = list(OBJECTS if form or (first not in PAGES and c.random() < 0.5) else EVERY)
    # Few kinds: others hide what one does. Many: what they do together.
    kinds = [first, *c.sample(pool, c.choice([0, 0, 0, 1, 2, 5, 12]))]
    kinds += [c.choice(SUBTLE)] if c.random() < 0.4 else []
    names = [
        c.choice(["f{n}", "d{k}/f{n}", "d{k}/e/f{n}.bin", "with space {n}"]).format(n=n, k=n % 3)
        for n in range(c.choice([20, 60, 120, 200, 400]))
    ]
    sizes = {name: any_size(c) for name in names}
    page_size = c.choice([7, 50, 1_000])
    pages = -(-len(names) // page_size)
    echoes: list[Echo] = ["always", "always", "never", "sometimes"]
    echo = c.choice(echoes)
    is_parquet = c.random() < 0.45
    troubles = find_troubles(c, kinds, names, sizes, pages)
    sessions = []
    for number in range(c.choice([1, 1, 2, 3, 4])):
        flags = c.choice([(), (), ("--retry-failed",), ("--relist",)]) if number else ()
        kill = c.choice(KILLS) if c.random() < 0.6 else None
        sessions.append(Session(flags, kill, c.randint(1, len(names) + pages)))
    given = options(c, set(kinds), form, echo, is_parquet=is_parquet)
    hosts = c.choice([1, 2, 4]) if form else 1
    return Plan(seed, form, hosts, sizes, page_size, echo, is_parquet, given, tuple(troubles), tuple(sessions))
