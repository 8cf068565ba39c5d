"""Judges what a session has left at the destination, from what the services have sent. Shares nothing with the engine.

Nothing wrong may be under a final name, whatever the exit code. What no client can tell (`Kind.effect`) is tolerated
for its objects alone, and only where shoal could not see it in time: the session was killed, something else happened on
that connection, or it came when the session ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

import duckdb

import shoal as package
from destination import balanced
from hostile.oracle import assert_balanced
from random_faults.kinds import EVERY, POISON
from random_faults.plan import Session
from random_faults.world import HEALED, HEALTHY, ROUNDS, Answered, Ran, World
from random_worlds import assert_ended
from servers.conversation import Request
from trees import tree

TWICE = {"page: same names twice", "page: marker loop"}  # names that are listed twice are two rows (docs/parquet.md)
SWAPS = ("foreign", "replayed")
# Kinds after which a connection goes on as before.
HARMLESS = (HEALTHY, "stall shortly", "stall for long", "drip", "two segments", "chunked", "gzip", "interim answers")
TOO_LATE = 0.5  # s before the end of a session: what arrives then may be too late


def contents(world: World) -> dict[str, list[bytes]]:
    """All objects at the destination."""
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    if not world.plan.is_parquet:
        return {name: [data] for name, data in tree(world.out).items()}
    if list(world.out.glob("*.parquet")):
        with duckdb.connect() as connection:
            rows = connection.sql(f"select name, data from '{world.out}/*.parquet'").fetchall()
        for name, data in rows:
            found[name].append(data)
    return found


def behind(world: World, one: Answered) -> list[Request]:
    """The requests after this one on its connection, answered or not."""
    same = [r for r in world.servers[one.host].received if r.connection == one.request.connection]
    return same[next(at for at, request in enumerate(same) if request is one.request) + 1 :]


def is_unseen(world: World, one: Answered) -> bool:
    """Whether shoal could not see in time what came behind this answer, or may not have."""
    ran = next(ran for ran in world.ran if one.began <= ran.ended)
    rest = behind(world, one)
    answers = [other for other in world.answers if any(other.request is request for request in rest)]
    is_disturbed = any(other.kind not in HARMLESS and effect(other) not in SWAPS for other in answers)
    is_late = len(answers) < len(rest) or any(not a.ended or a.ended > ran.ended - TOO_LATE for a in [one, *answers])
    return ran.is_killed or is_disturbed or is_late


def effect(one: Answered) -> str:
    """What no client can tell of this answer."""
    return EVERY[one.kind].effect if one.kind != HEALTHY else ""


def is_excused(world: World, name: str, data: bytes) -> bool:
    """Whether no client could have told that these bytes are not the object's."""
    is_cut = any(version.startswith(data) for version in world.objects.versions[name])
    is_other = data == POISON or b'{"FileNames": ' in data
    is_other |= any(data in versions for versions in world.objects.versions.values())
    for one in world.answers:
        what = effect(one)
        if is_cut and one.request.name == name and (what == "unverified" or (what == "late" and is_unseen(world, one))):
            return True
        misled = [request for request in behind(world, one) if request.name == name] if what in SWAPS else []
        if what == "replayed" and world.plan.echo == "always":
            misled = [request for request in misled if request.id is None]
        if is_other and misled and is_unseen(world, one):
            return True
    return False


def check(world: World, ran: Ran) -> None:
    """Checks what a session said and left."""
    outcome, plan = ran.outcome, world.plan
    assert_ended(outcome)
    found = contents(world)
    assert found.keys() <= plan.sizes.keys(), f"not listed: {sorted(found.keys() - plan.sizes.keys())}"
    doubled = sorted(name for name, rows in found.items() if len(rows) > 1)
    assert not doubled or TWICE & plan.kinds, f"twice at the destination: {doubled}"
    was_killed = any(other.is_killed for other in world.ran)
    failed = {failure.name: failure for run in runs(world) for failure in run.failures}
    is_done = outcome.code in (0, 1) and outcome.report["complete"] and not outcome.report["total"]["unfinished"]
    wrong = []
    for name, data in ((name, data) for name, rows in found.items() for data in rows):
        right = world.objects.versions[name]
        # A kill leaves the beginning of a file, until it is fetched again; and rows that the next session withdraws.
        is_torn = was_killed and not plan.is_parquet and (not is_done or name in failed) and right[-1].startswith(data)
        is_left = plan.is_parquet and outcome.code not in (0, 1) and name in failed
        if data not in right and not (is_torn or is_left or is_excused(world, name, data)):
            told = failed[name].kind if name in failed else "no failure"
            wrong.append(f"{name!r}: {len(data)} bytes, not {len(right[0])}, and {told}")
    assert not wrong, f"wrong bytes after exit {outcome.code}: {wrong}"
    if outcome.code in (0, 1):
        check_report(world, ran, found.keys(), failed)


def runs(world: World) -> tuple[package.RunStatus, ...]:
    """The runs in the journal, if there is one."""
    return package.status(world.out, failures=None).runs if (world.out / ".shoal").exists() else ()


def check_report(world: World, ran: Ran, found: Set[str], failed: dict[str, package.Failure]) -> None:
    """Checks that everything has arrived, or is a failure, or was skipped for a reason."""
    report, plan = ran.outcome.report, world.plan
    assert_balanced(report)
    assert all(balanced(run.total) for run in runs(world))
    is_all = report["complete"] and not failed and not report["total"]["unfinished"]
    assert (ran.outcome.code == 0) == is_all, report
    if not report["total"]["unfinished"] and report["complete"]:
        gone = (
            {answer.request.name for answer in world.answers if answer.kind in ("404", "410")}
            if "--ignore-vanished" in plan.options
            else set()
        )
        missing = plan.sizes.keys() - found - failed.keys() - gone
        assert not missing, f"exit {ran.outcome.code}, and neither here nor failures: {sorted(missing)}"
        if not TWICE & plan.kinds:
            assert report["total"]["listed"] == len(plan.sizes), report
            assert report["total"]["skipped"] <= len(gone) or world.is_updated, report
    if ran.outcome.code == 0 and plan.is_parquet and not TWICE & plan.kinds:
        verified = world.shoal.run("verify", f"parquet:{world.out}")
        assert verified.code == 0, verified


def is_stuck(world: World) -> bool:
    """Whether all that failed are records of a list whose name is taken by what a killed session left.

    It was an older version, or something that no client could tell: the new one is then another object (`--update`).
    """
    failed = [failure for run in runs(world) for failure in run.failures]
    if not failed or world.plan.form is None or world.plan.is_parquet or not any(ran.is_killed for ran in world.ran):
        return False
    found = contents(world)
    return all(
        failure.kind == "name-conflict"
        and any(
            data in world.objects.versions[name][:-1] or is_excused(world, name, data) for data in found.get(name, [])
        )
        for failure in failed
        for name in [failure.name]
    )


def play(world: World) -> None:
    """Runs all sessions, then heals the services and repeats the command until all has arrived."""
    with world.started():
        for session in world.plan.sessions:
            check(world, world.run(session))
        world.heal()
        for number in range(ROUNDS):
            ran = world.run(Session(("--retry-failed",) if number % 2 else ()), *HEALED)
            check(world, ran)
            if ran.outcome.code == 0:
                break
            if any(failure.kind == "out-of-order" for run in runs(world) for failure in run.failures):
                check(world, world.run(Session(("--restart",)), *HEALED))
            elif is_stuck(world):
                world.is_updated = True
                check(world, world.run(Session(("--update",)), *HEALED))
        last = world.run(Session(), *HEALED)
        check(world, last)
        assert last.outcome.code == 0, f"all is well, and it still does not end well: {last.outcome}"
