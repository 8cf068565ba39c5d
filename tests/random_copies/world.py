"""Runs the world of a plan: sources and a destination on real file systems, the changes, the sessions and their kills.

A kill comes in a system call (strace), or once so many files at the destination have changed, never after a time. Not
here: what is right (`oracle.py`).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from dataclasses import replace
from pathlib import Path

from faults.tracing import traced
from hostile.oracle import Outcome, Shoal
from random_copies.moves import DESTINATION, SOURCE, Ground, NothingError
from random_copies.plan import Move, Plan, Session
from random_copies.trees import Wanted, grow, wanted
from random_worlds import ENDING, PATIENCE, repeat

LEASE = 5.1  # s: so long after a kill, what is changed at the destination counts as the run's own (ARCHITECTURE.md)


class World:
    """A plan that comes true."""

    def __init__(self, plan: Plan, memory: Path, disk: Path) -> None:
        self.plan = plan
        places = [(disk if on_disk else memory) / name for name, on_disk in zip("sd", plan.disks, strict=True)]
        for place in places:
            place.mkdir()
        self.shoal, self.out = Shoal(places[1]), places[1] / "out"
        self.sources = [places[0] / f"source{number}" for number in range(len(plan.counts))]
        for number, root in enumerate(self.sources):
            grow(root, random.Random(f"{plan.seed} {number}"), plan.counts[number])
        self.told: list[str] = []
        if plan.first:
            self.out.mkdir()
        for move in plan.first:
            self.move(move, self.sources[0])
        self.waiting: list[Move] = []  # changes at the destination that must not come so soon after a kill
        self.is_lost = False  # the journals, since the last session
        self.killed_at: float | None = None  # the lease of that session may not have ended yet

    def journal(self, source: int) -> Path | None:
        """The journal of a source, if it is not at the destination."""
        return self.out.with_name(f"journal{source}.db") if self.plan.is_elsewhere[source] else None

    def tick(self) -> None:
        """Waits until the clock that stamps files has moved: what is done next has another time."""
        probe = self.out.with_name("clock")
        probe.touch()
        first = probe.stat().st_ctime_ns
        while probe.stat().st_ctime_ns == first:
            probe.touch()

    def change(self, session: Session) -> None:
        """Does all that comes before a session."""
        if session.waits and self.killed_at is not None:
            while time.time() < self.killed_at + LEASE:
                time.sleep(0.05)
            self.killed_at = None
        self.is_lost, waiting = False, self.waiting
        self.waiting = []
        for move in (*waiting, *session.moves):
            if move.side == "destination" and self.killed_at is not None:
                self.waiting.append(move)
            else:
                self.move(move, self.sources[session.source])
        self.tick()

    def move(self, move: Move, source: Path) -> None:
        """Makes one change."""
        root, kinds = (source, SOURCE) if move.side == "source" else (self.out, DESTINATION)
        try:
            path = kinds[move.kind](Ground(root, source, random.Random(move.seed)))
            self.told.append(f"  {move.side}: {move.kind}: {os.fsencode(path.relative_to(root))!r}")
        except NothingError:
            return
        if move.kind == "journal lost":
            self.is_lost = True
            for path in [*self.out.glob(".shoal/*"), *self.out.parent.glob("journal*")]:
                if path.is_file():
                    path.unlink()

    def wanted(self, session: Session) -> Wanted:
        """What a copy of the source must have."""
        follows = self.plan.follows[session.source]
        return wanted(self.sources[session.source], session.filters, follows=follows)

    def run(self, session: Session) -> Outcome:
        """Runs the command once, and kills it where the session says so."""
        source, journal, kill = self.sources[session.source], self.journal(session.source), session.kill
        command = ["copy", str(source), str(self.out), "--json", "-v", *session.options, *session.filters]
        # A plain one updates a finished copy, and which ones are finished is not known after a kill.
        command += [session.resume if session.resume != "plain" else "--once"]
        command += ["--links", "follow"] if self.plan.follows[session.source] else []
        command += ["--journal", str(journal)] if journal else []
        if kill is not None and kill.call != "files":
            inject = f"{kill.call}:signal={kill.signal.name}:when={kill.nth}"
            self.shoal.within = list(traced(Path(os.devnull), inject))
        elif kill is not None:
            bytes_of_all = sum(len(entry.data) for entry in self.wanted(session).files.values())
            command += ["--limit-rate", str(max(bytes_of_all, 1_000))]  # a second, so that it is seen under way
        before = states(self.out)
        running = self.shoal.start(*command)
        self.shoal.within = []  # `verify` runs without it
        if kill is not None and kill.call == "files":
            while running.process.poll() is None and len(states(self.out) - before) < kill.nth:
                time.sleep(0.002)
            running.process.send_signal(kill.signal)
        outcome = running.wait(ENDING if kill is not None and kill.call == "files" else PATIENCE)
        if outcome.code < 0:
            self.killed_at = time.time()
        elif outcome.code in (0, 1) and not outcome.report["dry_run"] and outcome.report["completed_before"] is None:
            self.killed_at = None  # a session ends the lease of the one before, or has waited for that of another run
        self.told.append(f"{' '.join(command[3:])} {kill or ''} -> {outcome.code}: {outcome.stdout[:600]}")
        self.tick()
        return outcome

    def story(self) -> str:
        """What was planned and what has happened, to be read after a failure."""
        told = [re.sub(r"l{20,}", "lll…", line) for line in self.told]
        return "\n".join([str(replace(self.plan, first=(), sessions=())), *told, repeat("copies", self.plan.seed)])


def states(root: Path) -> set[tuple[str, int, int]]:
    """What tells that a file was changed, of each."""
    found = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".shoal"]
        for path in (f"{folder}/{name}" for name in files):
            with contextlib.suppress(FileNotFoundError):  # renamed at this moment
                found.add((path, os.lstat(path).st_ino, os.lstat(path).st_ctime_ns))
    return found
