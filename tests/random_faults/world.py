"""Runs the world of a plan: services on loopback with the faults, sessions that are killed and resumed, at last healed.

`World` keeps what `oracle.py` needs to judge it: each answer in the order of its connection, each session with its
times, all versions of each object. Not here: what is right.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from hostile.oracle import Outcome, Shoal
from random_faults.kinds import EVERY, is_for
from random_faults.plan import Plan, Session
from random_worlds import ENDING, PATIENCE, is_killed, repeat
from servers.conversation import Request
from servers.fault_server import Exchange, Fault, FaultServer

HEALED = ("--timeout", "10", "--connect-timeout", "10", "--max-retries", "5", "--retry-timeout", "60")
ROUNDS = 6  # of the same command and --retry-failed in turn, until all has arrived
HEALTHY = "well"


@dataclass
class Answered:
    """One answer, and when it began and ended."""

    host: int
    request: Request
    kind: str
    began: float
    ended: float = 0.0

    @property
    def connection(self) -> tuple[int, int]:
        """The connection it was on."""
        return self.host, self.request.connection


@dataclass
class Ran:
    """One session that has ended."""

    session: Session
    outcome: Outcome
    began: float
    ended: float

    @property
    def is_killed(self) -> bool:
        """Whether it did not end by itself."""
        return is_killed(self.outcome)


class Objects(dict[str, bytes]):
    """The objects of a service, with all versions that each has had."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        super().__init__(contents)
        self.versions = defaultdict(list, {name: [data] for name, data in contents.items()})

    def __setitem__(self, name: str, data: bytes) -> None:
        super().__setitem__(name, data)
        if data not in self.versions[name]:
            self.versions[name].append(data)


class World:
    """A plan that comes true. `answers` are in the order of their ends, on each connection in that of the bytes."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan, self.shoal = plan, Shoal(directory)
        self.out = self.shoal.out
        chances = {name: random.Random(f"{plan.seed} {name}") for name in plan.sizes}
        self.objects = Objects({name: chances[name].randbytes(size) for name, size in plan.sizes.items()})
        self.answers: list[Answered] = []
        self.ran: list[Ran] = []
        self.is_updated = False  # what is unchanged counts as skipped
        self.servers = [self.server(number) for number in range(plan.hosts)]

    def server(self, number: int) -> FaultServer:
        """Makes the service of a host, not yet started."""
        plan = self.plan
        server = FaultServer(self.objects, page_size=plan.page_size, address=f"127.0.0.{number + 1}")
        server.names = list(plan.sizes)
        server.echo = plan.echo == "always"
        if plan.echo == "sometimes":
            server.echo = lambda request: [request.id or ""] * (zlib.crc32((request.id or "").encode()) % 3 > 0)
        for one in plan.troubles:
            fault = self.noted(number, one.kind, EVERY[one.kind].make(random.Random(one.seed)))
            server.on(partial(is_for, one.where), fault, times=one.times)
        server.on_any(self.noted(number, HEALTHY, Exchange.healthy))
        return server

    def noted(self, host: int, kind: str, fault: Fault) -> Fault:
        """The fault, which is noted."""

        async def answer(exchange: Exchange) -> None:
            answered = Answered(host, exchange.request, kind, time.monotonic())
            self.answers.append(answered)
            try:
                await fault(exchange)
            finally:
                answered.ended = time.monotonic()

        return answer

    def heal(self) -> None:
        """Ends all faults."""
        for number, server in enumerate(self.servers):
            server.heal()
            server.on_any(self.noted(number, HEALTHY, Exchange.healthy))

    def source(self) -> list[str]:
        """The source, as a command names it; writes the list, if it is one."""
        plan = self.plan
        if plan.form is None:
            return [self.servers[0].url]
        path = self.shoal.directory / f"list.{plan.form}"
        rows = [
            (name, f"{self.servers[number % plan.hosts].url}/get/{quote(name)}")
            for number, name in enumerate(plan.sizes)
        ]
        if plan.form == "jsonl":
            lines = [json.dumps({"file": name, "link": url}) for name, url in rows]
        elif plan.form == "csv":
            lines = ["file,link", *(f'"{name}",{url}' for name, url in rows)]
        else:
            lines = [f"{name}\t{url}" for name, url in rows]
        path.write_text("".join(f"{line}\n" for line in lines))
        return ["--urls", str(path)]

    def requests(self) -> int:
        """How many the services have seen."""
        return sum(len(server.received) for server in self.servers)

    def run(self, session: Session, *more: str) -> Ran:
        """Runs the command once, and kills it where the session says so."""
        destination = f"parquet:{self.out}" if self.plan.is_parquet else str(self.out)
        command = ["copy", *self.source(), destination, "--json", "-v", *self.plan.options, *more, *session.flags]
        target, began = self.requests() + session.after, time.monotonic()
        running = self.shoal.start(*command)
        limit = PATIENCE
        if session.kill is not None:
            while self.requests() < target and running.process.poll() is None and time.monotonic() < began + PATIENCE:
                time.sleep(0.002)
            running.process.send_signal(session.kill)
            limit = ENDING
        outcome = running.wait(limit)
        self.ran.append(Ran(session, outcome, began, time.monotonic()))
        return self.ran[-1]

    def started(self) -> contextlib.ExitStack:
        """Starts the services; they stop at the end of the stack."""
        stack = contextlib.ExitStack()
        for server in self.servers:
            stack.enter_context(server)
        return stack

    def story(self) -> str:
        """What was planned and what has happened, to be read after a failure."""
        lines = [str(self.plan)]
        for ran in self.ran:
            last = (ran.outcome.stdout.splitlines() or [""])[-1]
            flags = " ".join(ran.session.flags)
            lines.append(f"{flags or 'run'} -> {ran.outcome.code} in {ran.ended - ran.began:.1f} s: {last[:600]}")
            lines += [
                f"    {answer.kind}: {answer.request.target} on {answer.connection} at {answer.began - ran.began:.3f}"
                for answer in self.answers
                if ran.began <= answer.began <= ran.ended and answer.kind != HEALTHY
            ]
        return "\n".join([*lines, repeat("faults", self.plan.seed)])
