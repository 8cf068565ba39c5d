"""Judges what a session has left at the destination, from what is at the source. Shares nothing with the engine.

Two things are known of each path at the destination: what was there before the session, and which run has written it,
its *owner*: the user, if anything else has changed it since. After a whole pass there must be what the source has now.
After one that was interrupted and continued, what the source has had since it began is as good (docs/commands.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import forked
import shoal as package
from destination import balanced
from hostile.oracle import Outcome, assert_balanced, left_over
from random_copies.plan import PASSES, Session
from random_copies.trees import Entry, Version, look
from random_copies.world import World
from random_worlds import assert_ended, is_killed

USER = -1
UNCLEAR = -2  # another name of this inode was replaced, which stamps it: the user's file then looks like the run's
NO_FILES = ("filtered", "looping-link", "directory")  # reasons; all others are of files


@dataclass
class Run:
    """What is known of the run of one source, since its last pass began."""

    has_begun: bool = False  # something of it may be committed
    is_complete: bool = False  # its last session has said so
    is_update: bool = False  # the pass is, or may be, an update
    is_doubtful: bool = False  # a new pass was interrupted before it was seen to do anything: it may not have begun
    is_timed: bool = True  # each session has kept times
    versions: dict[str, set[Version]] = field(default_factory=dict)  # of each file, in any session
    names: set[str] = field(default_factory=set)  # what was certainly listed, if the pass is complete
    touched: set[str] = field(default_factory=set)  # what others have changed at the destination
    blocked: set[str] = field(default_factory=set)  # what something at the destination was in the way of


class Judge:
    """Follows a world: `prepare` before each session, `check` after it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[str, Entry] = {}
        self.away: dict[str, tuple[object, ...]] = {}
        self.owners: dict[str, int] = {}
        self.runs = [Run() for _ in world.sources]

    def outside(self) -> dict[str, tuple[object, ...]]:
        """What links at the destination lead to: no session may change it."""
        tops = [path for path in self.world.out.parent.glob("away*") if path.is_dir()]
        return {f"{top}/{name}": one.lasting for top in tops for name, one in look(top).items()}

    def prepare(self) -> None:
        """Looks at what was changed since the last session."""
        now = look(self.world.out)
        if self.world.is_lost:
            self.owners, self.runs = {}, [Run() for _ in self.runs]
        for name in {*self.seen, *now}:
            old, new = self.seen.get(name), now.get(name)
            if old != new and not (old and new and old.kind == "directory" and old.lasting == new.lasting):
                self.owners[name] = USER
                for run in self.runs:
                    run.touched.add(name)
        self.seen, self.away = now, self.outside()

    def check(self, session: Session, outcome: Outcome) -> None:
        """Checks what a session said and left."""
        assert_ended(outcome)
        assert outcome.code in (0, 1) or (is_killed(outcome) and session.kill), outcome
        assert self.outside() == self.away, "it has written where a link leads"
        after = look(self.world.out)
        wanted = self.world.wanted(session)
        both = {name for name in {*self.seen, *after} if name in self.seen and name in after}
        changed = ({*self.seen, *after} - both) | {n for n in both if self.seen[n].lasting != after[n].lasting}
        if "--dry-run" in session.options:
            assert not changed, f"a dry run has changed {changed}"
            return
        Verdict(self, session, outcome, after, wanted.files, wanted.modes, wanted.gone, changed).check()
        for name in changed:
            self.owners[name] = session.source
            for number, run in enumerate(self.runs):
                if number != session.source:
                    run.touched.add(name)
        for name in both - changed:
            if after[name].kind == "file" and after[name].ctime != self.seen[name].ctime:
                self.owners[name] = session.source if self.owners.get(name, USER) == session.source else UNCLEAR
        self.seen = after


@dataclass
class Verdict:
    """One session, and what its source and its destination have."""

    judge: Judge
    session: Session
    outcome: Outcome
    after: Mapping[str, Entry]
    files: Mapping[str, Entry]
    modes: Mapping[str, int]
    gone: Set[str]
    changed: Set[str]

    def check(self) -> None:
        """Checks everything, and notes what has become of the run."""
        self.check_changes()
        if self.outcome.code >= 0:
            left = left_over(self.judge.world.out)
            assert not left, f"temporary files stay: {left}"
        run, session = self.judge.runs[self.session.source], self.session
        has_ended = self.outcome.code in (0, 1)
        is_pass = session.resume in PASSES or (not run.has_begun and session.resume != "--retry-failed")
        if is_pass and (has_ended or self.changed or not run.has_begun):
            run = self.judge.runs[session.source] = Run(names=set(self.files))
            run.has_begun = has_ended or bool(self.changed) or bool(self.judge.seen)
        elif is_pass:
            run.is_doubtful = True
        run.is_update |= session.resume == "--update"
        run.is_timed &= "--no-keep-times" not in session.options
        for name, one in self.files.items():
            run.versions.setdefault(name, set()).add(one.version)
        run.blocked |= {name for name in self.files if self.is_blocked(name)}
        listed = self.check_report(run, is_pass=is_pass) if has_ended else False
        if not has_ended and self.outcome.stdout:  # it was stopped when all was committed, but for what comes last
            run.is_complete |= bool(self.outcome.last.get("complete"))
        run.names = set(self.files) if listed else run.names & set(self.files)
        run.is_doubtful &= not listed

    def check_changes(self) -> None:
        """Checks all that the session has changed: whatever its exit code, only what the source has may be written."""
        wrong, resume, mask = [], self.session.resume, ~forked.umask()
        may_chmod = resume == "--update" or (resume not in PASSES and self.judge.runs[self.session.source].is_update)
        for name in sorted(self.changed):
            old, new, source = self.judge.seen.get(name), self.after.get(name), self.files.get(name)
            if new is None:
                wrong.append(f"{name!r} was removed")
            elif new.kind == "directory" and name in self.modes and (old is None or old.kind == "directory"):
                right = (self.modes[name] & 0o777 | 0o700) & mask
                if new.mode & 0o777 not in (right, right & old.mode if old else right):
                    wrong.append(f"directory {name!r} has {new.mode:o}, the source {self.modes[name]:o}")
                elif old is not None and not may_chmod:
                    wrong.append(f"directory {name!r} has {new.mode:o}, and had {old.mode:o}")
            elif source is None or new.kind != source.kind:
                wrong.append(f"{name!r} is none of the source's")
            elif old is not None and self.is_foreign(name) is True and "always" not in self.session.options:
                wrong.append(f"{name!r} is not this run's, and was replaced")
            elif new.data != source.data and not (self.outcome.code < 0 and source.data.startswith(new.data)):
                wrong.append(f"{name!r} has {len(new.data)} bytes, not the {len(source.data)} of the source")
            elif new.mode & ~source.version.mode:
                wrong.append(f"{name!r} has the permissions {new.mode:o}, the source {source.mode:o}")
        assert not wrong, f"wrong after exit {self.outcome.code}: {wrong}"

    def is_foreign(self, name: str) -> bool | None:
        """Whether what had this name before is another's than this run's; None if that is unclear."""
        owner = self.judge.owners.get(name, USER)
        return None if owner == UNCLEAR else name in self.judge.seen and owner != self.session.source

    def is_blocked(self, name: str) -> bool:
        """Whether something at the destination is a reason for a failure."""
        seen = self.judge.seen
        above = [seen.get("/".join(name.split("/")[:n])) for n in range(1, name.count("/") + 1)]
        if any(one is not None and one.kind != "directory" for one in above):
            return True
        old, source = seen.get(name), self.files.get(name)
        if old is None or source is None:
            return old is not None and old.kind != "directory"  # or an empty directory of the source
        if old.kind == "directory":  # an empty one of the run may be replaced; whether it is that is not known here
            return True
        if old.kind != source.kind:
            return self.is_foreign(name) is not False
        return self.is_foreign(name) is not False and "always" not in self.session.options and old.data != source.data

    def check_report(self, run: Run, *, is_pass: bool) -> bool:
        """Checks a session that ended by itself. Returns whether it has listed everything."""
        report, session, files = self.outcome.report, self.session, self.files
        assert_balanced(report)
        if session.resume == "--retry-failed" and not report["total"]["listed"]:  # what has listed nothing is no run
            assert not report["complete"], report
            return False
        status = self.status(report)
        failed = {failure.name: failure.kind for failure in status.failures}
        is_all = report["complete"] and not failed and not report["total"]["unfinished"]
        assert (self.outcome.code == 0) == is_all, report
        assert len(failed) == report["failed"], (failed, report)
        assert report["complete"] or session.resume == "--retry-failed", report
        # A plain run that was complete, or may have been, only retries; what was listed before must be there.
        is_again = run.is_complete or run.is_doubtful or report["completed_before"] is not None
        is_listed = is_pass or session.resume == "--relist" or (session.resume == "plain" and not is_again)
        # Whether it asks again for what has failed; else failures of this pass stay, also where their reason has gone.
        retries = session.resume == "--retry-failed" or (session.resume == "plain" and run.is_complete)
        reasons = run.blocked if not is_pass and (run.is_doubtful or not retries) else set()
        run.is_complete = report["complete"]
        if not report["complete"]:
            return False
        edited = {one.name for one in status.skipped if one.reason == "edited"}
        wrong = []
        for name in sorted(files if is_listed else run.names & files.keys()):
            if name in failed:
                # What was listed as a file is not retried as a link.
                is_other = len({version.kind for version in run.versions.get(name, ())}) > 1
                has_reason = self.is_blocked(name) or name in reasons or is_other
                wrong += [] if has_reason else [f"{name!r} failed without a reason: {failed[name]}"]
            elif name in edited:
                # The user's change of a copy stays while the source is as it was when that was made.
                is_theirs = self.is_foreign(name) is not False and name not in self.changed
                as_it_was = files[name].version in run.versions.get(name, set()) and "always" not in session.options
                wrong += [] if is_theirs and as_it_was else [f"{name!r} counts as edited without a reason"]
            elif is_pass or name not in run.touched or name in self.changed:
                wrong += self.faults(name, run.versions[name] if not is_pass else {files[name].version}, run)
        assert not wrong, f"exit {self.outcome.code}, {len(failed)} failures, and not named: {wrong}"
        if is_pass:
            self.check_pass(status, failed)
        return is_listed

    def faults(self, name: str, versions: set[Version], run: Run) -> list[str]:
        """What is wrong with the copy of a file, which must be one of these versions of it."""
        copy = self.after.get(name)
        if copy is None or copy.kind not in {version.kind for version in versions}:
            return [f"{name!r} is missing"]
        mode, time = copy.mode, copy.mtime
        versions = {version for version in versions if (version.kind, version.data) == (copy.kind, copy.data)}
        if not versions:
            return [f"{name!r} has other bytes than the source"]
        if name not in self.changed and self.is_foreign(name) is not False:
            return []  # the user's file with these bytes: it stays as it is
        if not any(version.mode == mode for version in versions):
            return [f"{name!r} has the permissions {mode:o}, the source {self.files[name].mode:o}"]
        if run.is_timed and not any((version.mode, version.mtime) == (mode, time) for version in versions):
            return [f"{name!r} has the time {time}, the source {self.files[name].mtime}"]
        return []

    def check_pass(self, status: package.RunStatus, failed: Mapping[str, str]) -> None:
        """Checks what holds after a whole pass: counts, directories, what `verify` says."""
        known = {*self.files, *self.modes, *self.gone}
        assert failed.keys() <= known, f"failures that are not in the source: {failed.keys() - known}"
        assert {failed.get(name) for name in self.gone} <= {"vanished"}, f"not failed: {self.gone}"
        if failed.keys() <= {*self.files, *self.gone}:
            others = sum(status.skipped_by.get(reason, 0) for reason in NO_FILES)
            assert status.total.listed - others == len(self.files) + len(self.gone), status
        wrong = []
        for name, mode in self.modes.items():
            copy, right = self.after.get(name), (mode & 0o777 | 0o700) & ~forked.umask()
            if copy is None or copy.kind != "directory":
                wrong += [f"directory {name!r} is missing"] if not self.is_blocked(f"{name}/") else []
            elif copy.mode & 0o777 & ~right and self.session.resume == "--update" and self.is_foreign(name) is False:
                wrong.append(f"directory {name!r} has {copy.mode:o}, the source {mode:o}")
        assert not wrong, wrong
        self.check_verify()

    def status(self, report: Mapping[str, Any]) -> package.RunStatus:
        """The run as its journal has it, which must agree with the report."""
        world, number = self.judge.world, self.session.source
        told = package.status(world.journal(number) or world.out, failures=None, skipped=None)
        [run] = [run for run in told.runs if run.source == f"files:{world.sources[number]}"]
        counts = {
            key: report["total"][key] for key in ("listed", "written", "skipped", "failed", "unfinished", "bytes")
        }
        assert {key: getattr(run.total, key) for key in counts} == counts, (run, report)
        assert balanced(run.total), run
        assert (run.completed is not None) == report["complete"], (run, report)
        return run

    def check_verify(self) -> None:
        """Compares what `shoal verify` says with what is there."""
        world, lines = self.judge.world, []
        files = {name: one for name, one in self.files.items() if one.kind == "file"}
        for name, one in sorted(files.items()):
            shown = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
            mark = "\\" if shown != name else ""
            lines.append(f"{mark}{hashlib.sha256(one.data).hexdigest()}  {shown}\n")
        manifest = world.out.with_name("SHA256SUMS")
        manifest.write_text("".join(lines), "utf-8", "surrogateescape")
        said = world.shoal.run("verify", str(world.out), str(manifest), "--links", "skip", "--json", limit=60)
        told = [(one["state"], one["name"]) for one in map(json.loads, said.stdout.splitlines()[:-1])]
        # It cannot look below what is no directory.
        found = {("missing" if state == "unreadable" else state, name) for state, name in told if state != "extra"}
        wrong = set()
        for name, one in files.items():
            copy = self.after.get(name)
            if copy is None or copy.kind != "file":
                wrong.add(("missing", name))
            elif copy.data != one.data:
                wrong.add(("different", name))
        assert found == wrong, (said.stdout, wrong)
        assert said.code == bool(wrong), said


def play(world: World) -> None:
    """Runs all sessions, and then updates that nothing interrupts: at last everything is there or has a reason."""
    judge = Judge(world)
    sources = sorted({session.source for session in world.plan.sessions})
    last = {session.source: session.filters for session in world.plan.sessions}
    ends = [Session(n, "--update", (*given,), last[n]) for given in ((), ("--overwrite", "always")) for n in sources]
    for session in (*world.plan.sessions, *ends, Session(sources[-1], "plain", (), last[sources[-1]])):
        world.change(session)
        judge.prepare()
        judge.check(session, world.run(session))
