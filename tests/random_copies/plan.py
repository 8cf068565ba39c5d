"""A world from its seed: the sources, where all lies, and the sessions with what changes before each, and their kills.

Only what is to be, so a plan costs nothing to make; it is the same each time. Not here: running it (`world.py`).
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

from random_copies.moves import DESTINATION, SOURCE
from random_worlds import KILLS

# System calls that a session dies in, and how many it makes of each at most; counted for each thread apart.
CALLS = {
    "openat2": 60,
    "utimensat": 60,
    "pwrite64": 50,
    "fsync": 20,
    "/^renameat2?$": 20,
    "mkdirat": 4,
    "fchmod": 10,
    "unlinkat": 4,
    "syncfs": 3,
}
FILTERS = (
    ("--include", "*.bin"),
    ("--exclude", "*.txt"),
    ("--exclude", "d1/"),
    ("--include", "*.bin", "--exclude", "e/"),
)
PLACES = ("source", "destination")
BEFORE = ("added", "directory added", "own file where an object will be", "own file with the object's bytes")
RESUMES = ("plain", "--update", "--restart", "--relist", "--retry-failed")
KINDS = {  # all that the worlds together must have
    *(f"source: {kind}" for kind in SOURCE),
    *(f"destination: {kind}" for kind in DESTINATION),
    *RESUMES,
    *("--dry-run", "--follow-links", "--include", "--exclude", "other filters", "second source"),
    *("--overwrite always", "--no-keep-times", "--durability none", "--durability file", "--durability batch"),
    *("journal elsewhere", "source on disk", "source in memory", "destination on disk", "destination in memory"),
    *(f"kill: {kill.name} by {what}" for kill in KILLS for what in [*CALLS, "files"]),
    "a wait for the end of a lease",
}


@dataclass(frozen=True)
class Move:
    """A change between two sessions. `source` is that of the next session."""

    is_source: bool
    kind: str
    seed: int


@dataclass(frozen=True)
class Kill:
    """A signal in the n-th system call of a kind, or once the session has changed so many files."""

    signal: signal.Signals
    call: str | None
    nth: int


@dataclass(frozen=True)
class Session:
    """One run of the command, after some changes. `waits`: for the end of a lease, which a kill leaves."""

    source: int = 0
    resume: str = "plain"
    options: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    kill: Kill | None = None
    waits: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Its part of the command line, without the filters."""
        return (() if self.resume == "plain" else (self.resume,)) + self.options


@dataclass(frozen=True)
class Plan:
    """A world. `follows` and `is_elsewhere` (of the journal) are for each source."""

    seed: int
    counts: tuple[int, ...]
    follows: tuple[bool, ...]
    is_elsewhere: tuple[bool, ...]
    disks: tuple[bool, bool]  # whether the sources and the destination are on disk
    first: tuple[Move, ...]  # at the destination, before anything
    sessions: tuple[Session, ...]

    @property
    def kinds(self) -> set[str]:
        """All that is in it."""
        found = {f"{what} {'on disk' if d else 'in memory'}" for what, d in zip(PLACES, self.disks, strict=True)}
        found |= {"--follow-links"} if any(self.follows) else set()
        found |= {"journal elsewhere"} if any(self.is_elsewhere) else set()
        filters: dict[int, tuple[str, ...]] = {}
        for one in self.sessions:
            moves = (*self.first, *one.moves) if one is self.sessions[0] else one.moves
            found |= {f"{'source' if move.is_source else 'destination'}: {move.kind}" for move in moves}
            found |= {one.resume, *one.filters[::2]}
            found |= {" ".join(one.options[at : at + 2]) for at in range(len(one.options))} | set(one.options)
            found |= {"other filters"} if filters.setdefault(one.source, one.filters) != one.filters else set()
            found |= {"second source"} if one.source else set()
            found |= {f"kill: {one.kill.signal.name} by {one.kill.call or 'files'}"} if one.kill else set()
            found |= {"a wait for the end of a lease"} if one.waits else set()
        return found & KINDS

    def __str__(self) -> str:
        """All that matters when it is looked at, but for the sessions."""
        places = [f"{what} {'on disk' if disk else 'in memory'}" for what, disk in zip(PLACES, self.disks, strict=True)]
        return f"seed {self.seed}: {self.counts} files, {', '.join(places)}, journals elsewhere {self.is_elsewhere}"


def moves(c: random.Random, kinds: dict[str, object], most: int, *, is_source: bool) -> list[Move]:
    """Some changes at one side."""
    chosen = c.choices(list(kinds), k=c.randint(0, most))
    # It changes what the other moves would do, so it is rare.
    chosen = [kind for kind in chosen if kind != "journal lost" or c.random() < 0.4]
    return [Move(is_source, kind, c.randrange(1 << 30)) for kind in chosen]


def options(c: random.Random) -> tuple[str, ...]:
    """Options that may be others in each session."""
    found = ["--durability", c.choice(["batch", "none", "none", "file"])]
    found += ["--workers", c.choice(["1", "3", "auto"])]
    found += ["--overwrite", "always"] if c.random() < 0.2 else []
    found += ["--no-keep-times"] if c.random() < 0.1 else []
    return tuple(found)


def kill(c: random.Random) -> Kill:
    """A kill, by any event."""
    if c.random() < 0.3:
        return Kill(c.choice(KILLS), None, c.choice([1, 1, 2, 3, 5, 10, 20, 40]))
    call = c.choice(list(CALLS))
    return Kill(c.choice(KILLS), call, min(c.randint(1, CALLS[call]), c.randint(1, CALLS[call])))


def plan(seed: int) -> Plan:
    """Makes the world of a seed."""
    c = random.Random(f"copies {seed}")
    sources = 2 if c.random() < 0.3 else 1
    filters = [c.choice(FILTERS) if c.random() < 0.25 else () for _ in range(sources)]
    follows = tuple(c.random() < 0.3 for _ in range(sources))
    sessions: list[Session] = []
    for number in range(c.choice([2, 3, 4, 5])):
        source = c.randrange(sources) if number else 0
        is_first = not any(one.source == source for one in sessions)
        resume = "plain" if is_first else c.choice((*RESUMES, "--update", "--update"))
        killed = kill(c) if c.random() < 0.5 else None
        given = options(c)
        if killed is None and resume in ("--update", "--restart") and c.random() < 0.15:
            filters[source] = c.choice(((), *FILTERS))  # others are refused where the pass goes on
        elif killed is None and c.random() < 0.08:
            given += ("--dry-run",)
        changes: list[Move] = []
        if number:
            changes += moves(c, SOURCE, 5, is_source=True) + moves(c, DESTINATION, 4, is_source=False)
            c.shuffle(changes)
        waits = bool(sessions) and sessions[-1].kill is not None and c.random() < 0.1
        sessions.append(Session(source, resume, given, filters[source], tuple(changes), killed, waits))
    first = moves(c, dict.fromkeys(BEFORE), 4, is_source=False)
    disks = (c.random() < 0.25, c.random() < 0.35)
    elsewhere = tuple(c.random() < 0.3 for _ in range(sources))
    counts = tuple(c.choice([3, 12, 30, 80, 250]) for _ in range(sources))
    return Plan(seed, counts, follows, elsewhere, disks, tuple(first), tuple(sessions))
