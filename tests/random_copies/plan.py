"""A world from its seed: the sources, where all lies, and the sessions with what changes before each, and their kills.

Only what is to be, so a plan costs nothing to make; it is the same each time. Not here: running it (`world.py`).
"""

from __future__ import annotations

import random
import signal
from collections.abc import Collection
from dataclasses import dataclass

from random_copies.moves import DESTINATION, SOURCE
from random_worlds import KILLS

# System calls that a session dies in, and how many a thread makes of each at most.
CALLS = {"openat2": 40, "utimensat": 30, "pwrite64": 50, "fsync": 20, "/^renameat2?$": 6, "mkdirat": 4}
CALLS |= {"fchmod": 4, "unlinkat": 4, "syncfs": 1}
FILTERS = ((), ("--include", "*.bin"), ("--exclude", "*.txt"), ("--exclude", "d1/", "--include", "*.bin"))
PASSES = ("--update", "--restart")
RESUMES = ("plain", *PASSES, "--relist", "--retry-failed")
BEFORE = ("added", "directory added", "own file where an object will be", "own file with the object's bytes")
KINDS = {  # what the worlds together must have
    *(f"source: {kind}" for kind in SOURCE),
    *(f"destination: {kind}" for kind in DESTINATION),
    *(f"{kill.name} by {what}" for kill in KILLS for what in [*CALLS, "files"]),
    *RESUMES,
    *("--dry-run", "--include", "--exclude", "always", "--no-keep-times", "none", "file", "batch"),
    *("links", "second source", "journal elsewhere", "source on disk", "destination on disk", "wait for a lease"),
}


@dataclass(frozen=True)
class Move:
    """A change between two sessions. `side` is source (that of the next session) or destination."""

    side: str
    kind: str
    seed: int


@dataclass(frozen=True)
class Kill:
    """A signal in the n-th system call of a kind, or ("files") once the session has changed so many files."""

    signal: signal.Signals
    call: str
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


@dataclass(frozen=True)
class Plan:
    """A world. `follows` (links) and `is_elsewhere` (the journal) are for each source, as `counts` (of files) is."""

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
        has = {"links": any(self.follows), "journal elsewhere": any(self.is_elsewhere)}
        has |= {"source on disk": self.disks[0], "destination on disk": self.disks[1]}
        has |= {"second source": any(one.source for one in self.sessions)}
        has |= {"wait for a lease": any(one.waits for one in self.sessions)}
        found = {what for what, is_so in has.items() if is_so}
        for one in self.sessions:
            found |= {one.resume, *one.options, *one.filters, *(f"{m.side}: {m.kind}" for m in one.moves)}
            found |= {f"{one.kill.signal.name} by {one.kill.call}"} if one.kill else set()
        return found


def moves(c: random.Random, side: str, kinds: Collection[str], most: int) -> list[Move]:
    """Some changes at one side. A lost journal changes what all others would do, so it is rare."""
    chosen = c.choices(list(kinds), k=c.randint(0, most))
    return [Move(side, kind, c.randrange(1 << 30)) for kind in chosen if kind != "journal lost" or c.random() < 0.4]


def options(c: random.Random, kill: Kill | None) -> list[str]:
    """Options that may be others in each session."""
    durability = "batch" if kill and kill.call == "syncfs" else c.choice(["batch", "none", "none", "file"])
    found = ["--durability", durability, "--workers", c.choice(["1", "3", "auto"])]
    found += ["--overwrite", "always"] if c.random() < 0.2 else []
    return found + (["--no-keep-times"] if c.random() < 0.1 else [])


def kill(c: random.Random) -> Kill:
    """A kill, by any event."""
    if c.random() < 0.3:
        return Kill(c.choice(KILLS), "files", c.choice([1, 1, 2, 3, 5, 10, 20, 40]))
    call = c.choice(list(CALLS))
    return Kill(c.choice(KILLS), call, min(c.randint(1, CALLS[call]), c.randint(1, CALLS[call])))


def plan(seed: int) -> Plan:
    """Makes the world of a seed."""
    c = random.Random(f"copies {seed}")
    sources = range(2 if c.random() < 0.3 else 1)
    filters = [c.choice(FILTERS) if c.random() < 0.3 else () for _ in sources]
    sessions: list[Session] = []
    for number in range(c.choice([2, 3, 4, 5])):
        source = c.choice(sources) if number else 0
        is_first = not any(one.source == source for one in sessions)
        resume = "plain" if is_first else c.choice((*RESUMES, "--update", "--update"))
        killed = kill(c) if c.random() < 0.5 else None
        given = options(c, killed)
        if killed is None and resume in PASSES and c.random() < 0.15:
            filters[source] = c.choice(FILTERS)  # others are refused where the pass goes on
        elif killed is None and c.random() < 0.08:
            given += ["--dry-run"]
        changes = moves(c, "source", SOURCE, 5) + moves(c, "destination", DESTINATION, 4) if number else []
        c.shuffle(changes)
        waits = bool(sessions) and sessions[-1].kill is not None and c.random() < 0.1
        sessions.append(Session(source, resume, tuple(given), filters[source], tuple(changes), killed, waits))
    counts = tuple(c.choice([3, 12, 30, 80, 250]) for _ in sources)
    follows, elsewhere = (tuple(c.random() < 0.3 for _ in sources) for _ in range(2))
    is_synced = any(one.kill and one.kill.call == "syncfs" for one in sessions)  # in memory there is nothing to sync
    disks = (c.random() < 0.25, is_synced or c.random() < 0.3)
    return Plan(seed, counts, follows, elsewhere, disks, tuple(moves(c, "destination", BEFORE, 4)), tuple(sessions))
