"""Random lists of URLs, copied by runs that are killed, resumed and retried, against an oracle (`url_lists.py`).

It looks for a run that reports success and is wrong. Each record must be at the destination with the bytes of its URL,
or be named with its line among the failures, and must have a cause for that. The seed is the parameter of the test.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import random
import re
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import shoal as package
from destination import balanced
from servers.ports import bound_socket
from servers.url_server import Answer, UrlServer
from trees import tree
from url_lists import BAD_LINES, TEMPLATES, Maker, UrlList, Wanted

if TYPE_CHECKING:
    from conftest import Command

pytestmark = pytest.mark.disk

FAST = 10
SEEDS = [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, 10 * FAST))]
TROUBLES = ["flaky", "failing", "throttled", "missing", "closing", "absent", "changing", "slow"]
CONFLICTS = {"name-conflict", "repeated"}


class Host(UrlServer):
    """A host with some trouble until it is healed. Its bytes change with `epoch`, if that is its trouble."""

    def __init__(self, number: int, trouble: str, seed: int, *, port: int = 0) -> None:
        super().__init__(f"127.0.0.{number + 1}", port=port)
        self.number, self.trouble, self.seed, self.epoch = number, trouble, seed, 0
        self.seen: Counter[str] = Counter()

    def body(self, target: str, epoch: int) -> bytes:
        """What the object of a target is, or was."""
        chance = random.Random(f"{self.number} {target} {epoch}")
        size = chance.choice([0, 10, 500, 2_000, 20_000, 300_000 if chance.random() < 0.1 else 0])
        return chance.randbytes(16 + size)  # and not the target: it may have a token, and temporary files are searched

    def bodies(self, target: str) -> list[bytes]:
        """All that it has ever been."""
        return [self.body(target, epoch) for epoch in range(self.epoch + 1)]

    def is_bad(self) -> bool:
        """Whether objects may fail before the host is healed: it can be away for those that it would have sent."""
        return self.trouble not in {"well", "slow", "changing"}

    def odd(self, target: str) -> float:
        """A number from 0 to 1 that tells targets apart."""
        return random.Random(f"{self.seed} {target}").random()

    def answer(self, path: str) -> Answer:
        """The object, or the trouble."""
        self.seen[path] += 1
        healthy = Answer(self.body(path, self.epoch))
        whole = len(healthy.body) + 60
        troubles = {
            "failing": Answer(b"failed", 500),
            "throttled": Answer(b"slower", 503, {"Retry-After": "1"} if self.odd(path) < 0.2 else {}),
            "missing": Answer(b"no such object", 404),
            "closing": Answer(healthy.body, cut=int(self.odd(f"{path}{self.seen[path]}") * whole)),
        }
        if self.trouble == "flaky":
            is_bad = self.odd(path) < 0.5 and self.seen[path] <= 1 + self.number % 2
            return list(troubles.values())[int(self.odd(f"kind {path}") * 4)] if is_bad else healthy
        return troubles.get(self.trouble, healthy)


class World:
    """The hosts of a run."""

    def __init__(self, stack: contextlib.ExitStack, chance: random.Random, seed: int) -> None:
        self.stack, self.seed = stack, seed
        troubles = ["well", *(chance.choice(["well", *TROUBLES]) for _ in range(chance.randint(1, 5)))]
        chance.shuffle(troubles)
        self.hosts: list[Host] = []
        self.absent: dict[int, Any] = {}
        for number, trouble in enumerate(troubles):
            host = Host(number, trouble, seed)
            if trouble == "absent":
                host._server.server_close()  # its port refuses connections, and is given to no other
                self.absent[number] = stack.enter_context(
                    bound_socket(host._server.server_port, f"127.0.0.{number + 1}")
                )
            else:
                stack.enter_context(host)
            self.hosts.append(host)

    def authorities(self) -> list[str]:
        """The host of each URL; that of the first has a name, in some case."""
        port = self.hosts[0].authority.split(":")[1]
        return [f"LocalHost:{port}", *(host.authority for host in self.hosts[1:])]

    def requests(self) -> int:
        """How many there were."""
        return sum(len(host.requests) for host in self.hosts)

    def heal(self) -> None:
        """Makes all hosts well."""
        for host in self.hosts:
            host.trouble, host.delay = "changing" if host.trouble == "changing" else "well", 0
        for number, sock in self.absent.items():
            sock.close()
            port = int(self.hosts[number].authority.split(":")[1])
            self.hosts[number] = self.stack.enter_context(Host(number, "well", self.seed, port=port))
        self.absent.clear()

    def change(self) -> None:
        """Changes the objects of hosts that do so."""
        for host in self.hosts:
            host.epoch += host.trouble == "changing"

    def bodies(self, wanted: Wanted) -> list[bytes]:
        """The bytes that an object may have."""
        assert wanted.record.host is not None
        return self.hosts[wanted.record.host].bodies(wanted.record.target)


class Model:
    """One job: its list, its hosts, its destination, and all lists that there were."""

    def __init__(self, stack: contextlib.ExitStack, shoal: Command, seed: int) -> None:
        self.shoal, self.seed, self.chance = shoal, seed, random.Random(seed)
        chance = self.chance
        self.secret = f"hunter{seed:09}"
        self.world = World(stack, chance, seed)
        self.out = shoal.directory / "out"
        form = chance.choice(["txt", "txt", *BAD_LINES])
        self.maker = Maker(chance, self.world.authorities(), form, self.secret)
        records = self.maker.records(chance.choice([1, 30, 200, 200, 1_500]), chance.choice([0, 0.1, 0.5]))
        is_named = form == "txt" or chance.random() < 0.5
        self.list = UrlList(shoal.directory / f"list.{form}", records, chance, is_named)
        self.list.write()
        for host in self.world.hosts:
            host.delay = min(0.02, 1 / len(records)) if host.trouble == "slow" else 0
        self.template = chance.choice([TEMPLATES[0], *TEMPLATES])
        self.sink = chance.choice(["directory", "directory", "parquet"])
        self.parts = chance.choice([1, 1, 1, 2, 3])
        self.fixed = [
            "--name",
            self.template,
            "--url-field",
            "link",
            *(["--name-field", "file"] * (is_named and form != "txt")),
        ]
        if form == "txt":
            self.fixed = ["--name", self.template]
        self.fixed += ["--shard-size", "200kB"] if self.sink == "parquet" else []
        self.old: list[Wanted] = []
        self.kills = 0
        self.is_updated = False  # what is unchanged counts as skipped
        self.log: list[str] = []

    def command(self, part: int, *more: str) -> list[str]:
        """A command line of the job; how fast it is differs from run to run."""
        chance = self.chance
        out = f"parquet:{self.out}" if self.sink == "parquet" else str(self.out)
        speed = [
            "--workers",
            chance.choice(["auto", "1", "3", "32"]),
            "--per-host",
            chance.choice(["1", "2", "6", "40"]),
        ]
        speed += [
            "--pipeline",
            chance.choice(["auto", "auto", "off", "5"]),
            "--memory",
            chance.choice(["8MiB", "256MiB"]),
        ]
        retries = ["--max-retries", chance.choice(["0", "1", "3"]), "--retry-timeout", chance.choice(["0.3", "1"])]
        parts = ["--part", f"{part}/{self.parts}"] if self.parts > 1 else []
        return [
            "copy",
            "--urls",
            str(self.list.path),
            out,
            *self.fixed,
            *speed,
            *retries,
            *parts,
            "-v",
            "--json",
            *more,
        ]

    def kill(self) -> None:
        """Starts all parts at once, and kills them at some moment."""
        processes = [self.shoal.start(*self.command(part)) for part in range(self.parts)]
        target = self.world.requests() + self.chance.randint(0, len(self.list.records))
        deadline = time.monotonic() + self.chance.choice([0.3, 1, 2])
        pause = self.chance.choice([0, 0, 0.1, 0.6])
        while self.world.requests() < target and time.monotonic() < deadline:
            if all(process.poll() is not None for process in processes):
                break
            time.sleep(0.002)
        time.sleep(pause)
        for process in processes:
            process.kill()
        for process in processes:
            self.keeps_secrets("".join(process.communicate()))
        self.kills += 1
        self.log.append(f"kill at {self.world.requests()}")

    def run(self, *more: str) -> list[int]:
        """Runs each part to its end, and checks what it says of itself. Returns the exit codes."""
        codes = []
        for part in range(self.parts):
            # If bodies were cut off before, each of these objects takes a quarter of a second more; with one worker,
            # one after the other.
            done = self.shoal.run(*self.command(part, *more), timeout=600)
            self.keeps_secrets(done.stdout + done.stderr)
            codes.append(done.returncode)
            self.log.append(f"{' '.join(done.args[-2:])} -> {done.returncode}: {done.stdout.splitlines()[-1][:500]}")
            assert done.returncode in (0, 1, 3), done.stderr
            if done.returncode == 3:
                assert "run the same command again" in done.stderr, done.stderr
                continue
            report = json.loads(done.stdout.splitlines()[-1])
            for counts in (report["run"], report["total"]):
                added = sum(counts[name] for name in ("written", "skipped", "failed", "unfinished"))
                assert counts["listed"] == added, counts
            total = report["total"]
            is_all = report["complete"] and not total["failed"] and not total["unfinished"]
            assert (done.returncode == 0) == is_all, report
        return codes

    def keeps_secrets(self, output: str = "") -> None:
        """Checks that no user, password or token is in what was printed, nor in the journal."""
        journal = b"".join(path.read_bytes() for path in (self.out / ".shoal").rglob("*") if path.is_file())
        logins = [f"u{number}:{self.secret}" for number in range(3)] + [f"a b:{self.secret}"]
        codes = [base64.b64encode(login.encode()).decode() for login in logins]
        for secret in [self.secret, *codes]:
            assert secret not in output
            assert secret.encode() not in journal

    def may_change(self) -> None:
        """Sometimes changes the list between two runs; not for Parquet files, which are never written again."""
        if self.sink != "parquet" and self.chance.random() < 0.2:
            self.old += self.wanted()
            self.log.append(f"list: {self.list.change(self.maker)}")

    def story(self) -> str:
        """What has happened."""
        hosts = [f"{host.authority} {host.trouble}" for host in self.world.hosts]
        return "\n".join([f"seed {self.seed}: {self.sink}, {self.parts} parts, {self.fixed}, {hosts}", *self.log])

    def wanted(self) -> list[Wanted]:
        return self.list.wanted(self.template, is_row=self.sink == "parquet")

    def status(self) -> tuple[package.RunStatus, ...]:
        runs = package.status(self.out, failures=None).runs
        assert len(runs) == self.parts
        return runs

    # What must be so at the end of a run.

    def check(self, codes: list[int], *, healed: bool, is_relisted: bool = False) -> None:
        """Checks counts, failures, names and bytes. `is_relisted`: after another list, without an update."""
        runs = self.status()
        assert all(balanced(run.total) for run in runs)
        wanted = self.wanted()
        total = Counter[str]()
        for run in runs:
            total.update(
                {name: getattr(run.total, name) for name in ("listed", "written", "skipped", "failed", "unfinished")}
            )
        failed: dict[int, package.Failure] = {}
        for failure in (failure for run in runs for failure in run.failures):
            found = re.search(rf'in "{re.escape(self.list.path.name)}:(\d+)": ', failure.reason)
            assert found, failure
            line = int(found[1])
            assert line not in failed or is_relisted, failure
            failed[line] = failure
        assert total["unfinished"] == 0
        assert (set(codes) == {0}) == (total["failed"] == 0)
        if is_relisted:
            # What was committed of records that are gone still counts, and what failed of them, until an update.
            left = {line for line, failure in failed.items() if failure.kind == "changed"}
            wanted = [one for one in wanted if one.line not in left]
        else:
            assert total["failed"] == len(failed)
            assert total["listed"] == len(wanted), (total, len(wanted))
            assert set(failed) <= {one.line for one in wanted}
        if healed:
            assert all(run.completed for run in runs)
        arrived = [one for one in wanted if one.line not in failed]
        self.check_failures(wanted, failed, healed=healed)
        self.check_contents(arrived, total)

    def check_failures(self, wanted: list[Wanted], failed: dict[int, package.Failure], *, healed: bool) -> None:
        """Checks that what cannot be fetched has failed, and all else only for a cause that it had."""
        arrived = {one.name for one in wanted if one.line not in failed}
        names = Counter(one.name for one in wanted)
        old = {one.name for one in self.old}
        for one in wanted:
            failure = failed.get(one.line)
            if one.name is None:
                assert failure is not None, f"it cannot have arrived: {one}"
            if failure is None:
                continue
            assert failure.name == one.failure, (failure, one)
            if one.name is None:
                continue
            host = self.world.hosts[one.record.host or 0]
            if failure.kind in CONFLICTS:
                is_taken = names[one.name] > 1 and one.name in arrived
                if self.sink != "parquet":
                    is_taken |= one.name in old or any(name and self.excludes(name, one.name) for name in arrived | old)
                    is_taken |= host.epoch > 0 and self.kills > 0  # by its own bytes, from before they changed
                assert is_taken, f"nothing has its name: {failure} {one}"
            else:
                assert not healed, f"it could be fetched: {failure} {one}"
                assert host.is_bad(), f"its host was well: {failure} {one}"

    @staticmethod
    def excludes(name: str, other: str) -> bool:
        """Whether one is a directory for the other."""
        return name.startswith(f"{other}/") or other.startswith(f"{name}/")

    def check_contents(self, arrived: list[Wanted], total: Counter[str]) -> None:
        """Checks that everything that has arrived is there, and nothing else."""
        found = self.found()
        by_name: defaultdict[str, list[Wanted]] = defaultdict(list)
        for one in arrived:
            assert one.name is not None
            by_name[one.name].append(one)
        for name, ones in by_name.items():
            assert found[name], f"nothing has the name of {ones}"
            for one in ones:
                bodies = self.world.bodies(one)
                there = [data for data in found[name] if data in bodies]
                assert there, f"its bytes are others: {one}, {[data[:80] for data in found[name]]}"
                if self.sink == "directory":
                    assert len(there) == len(found[name]) == 1
        twice = sum(len(ones) - 1 for ones in by_name.values())
        if not self.is_updated and not self.old:
            assert total["skipped"] <= (0 if self.sink == "parquet" else twice)
        if self.old:
            known = by_name.keys() | {one.name for one in self.old} | {one.name for one in self.wanted()}
            assert found.keys() <= known, found.keys() - known
            return
        if self.sink == "parquet":
            assert found.keys() == by_name.keys()
            for name, ones in by_name.items():
                # Of one URL, a later session knows that its row is there.
                least = 1 if self.template == "{hash}" else len(ones)
                assert least <= len(found[name]) <= len(ones), (name, len(found[name]), ones)
            return
        # A kill leaves the beginning of an object, also of one that fails later.
        torn = {one.name for one in self.wanted()} if self.kills else set()
        assert found.keys() - by_name.keys() <= torn
        assert self.kills or all(len(found[name]) <= len(ones) for name, ones in by_name.items())

    def found(self) -> defaultdict[str, list[bytes]]:
        """All objects at the destination: Parquet files can hold several of one name."""
        found: defaultdict[str, list[bytes]] = defaultdict(list)
        if self.sink == "parquet":
            if list(self.out.glob("*.parquet")):
                with duckdb.connect() as connection:
                    rows = connection.sql(f"select name, data from '{self.out}/*.parquet'").fetchall()
                for name, data in rows:
                    found[name].append(data)
            return found
        for path, data in tree(self.out).items():
            found[path].append(data)
        return found

    def check_requests(self) -> None:
        """Checks that each request was for a record, and had the password of that record."""
        allowed: defaultdict[tuple[int, str], set[str | None]] = defaultdict(set)
        for one in itertools.chain(self.old, self.wanted()):
            record = one.record
            if record.host is not None and one.name is not None:
                code = None if record.login is None else "Basic " + base64.b64encode(record.login.encode()).decode()
                allowed[record.host, record.target].add(code)
        for host in self.world.hosts:
            for target, headers in host.requests:
                assert headers.get("Authorization") in allowed[host.number, target], target


def play(model: Model) -> None:
    """Runs the job, with kills and changes, until nothing is left to do."""
    chance = model.chance
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        model.kill()
        if chance.random() < 0.3:
            model.world.change()
        model.may_change()
    codes = model.run(*(["--relist"] if model.old and chance.random() < 0.5 else []))
    if 3 not in codes and not model.old:
        model.check(codes, healed=False)
    model.may_change()
    is_changed = bool(model.old)
    model.world.heal()
    if chance.random() < 0.5:
        model.run("--retry-failed")
    codes = model.run(*(["--relist"] if is_changed else []))
    if set(codes) != {0}:
        codes = model.run()  # what failed in earlier sessions is retried once the listing has ended
    model.check(codes, healed=True, is_relisted=is_changed)
    if is_changed:
        model.is_updated = True
        codes = model.run("--update")
        model.check(codes, healed=True)
    model.check_requests()
    assert model.run() == codes
    model.check(codes, healed=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_record_arrives_or_is_a_failure_with_its_line(shoal: Command, seed: int) -> None:
    with contextlib.ExitStack() as stack:
        model = Model(stack, shoal, seed)
        try:
            play(model)
        except Exception as error:
            error.add_note(model.story())
            raise
