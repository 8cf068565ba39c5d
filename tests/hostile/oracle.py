"""Runs the real command and judges what it left behind. Shares nothing with the engine.

`Shoal` runs, `Outcome` is what came of it, `assert_arrived` holds for every run that ended with exit code 0 or 1 and
`assert_stopped` for one that could not go on.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
from forked import Forked
from servers.fault_server import FaultServer
from trees import tree

# Quick limits for a loopback service; a test names its own after them, and the last one given counts.
# verbose: stderr names every failure of the report, not only the first five.
# durability none: what is durable when has tests elsewhere, and syncs would be most of the time here.
DEFAULTS = shlex.split(
    "--json --verbose --timeout 1 --connect-timeout 1 --max-retries 2 --retry-timeout 20 --durability none --workers 4"
)
# Bytes of libraries that a started process holds beyond a forked one, which has only what it uses of them.
LIBRARIES = 16 << 20
SHOWN_MAX = 200  # characters of a name that a message shows
INVISIBLE = {"Cf", "Zl", "Zp"}  # Unicode categories: format (bidi, zero width, tags), line and paragraph separators
REPORT_FAILURES = 20  # how many failures the report itself carries


@dataclass
class Outcome:
    """One finished run of the command."""

    command: list[str]
    code: int
    stdout: str
    stderr: str
    seconds: float
    out: Path
    used: float | None = None  # seconds of processor time; known of what ran without a tracer or the like
    memory: int | None = None  # bytes of resident memory at most; known as `used` is

    @property
    def processor(self) -> float:
        """Seconds of processor time; fails if they are not known."""
        assert self.used is not None, "started by another program, which would be measured too"
        return self.used

    @property
    def peak(self) -> int:
        """Bytes of resident memory at most; fails if they are not known."""
        assert self.memory is not None, "started by another program, which would be measured too"
        return self.memory

    @property
    def last(self) -> dict[str, Any]:
        """The last line of stdout: a report or an error."""
        lines = self.stdout.splitlines()
        assert lines, f"nothing on stdout: {self}"
        value = json.loads(lines[-1])
        assert isinstance(value, dict), self
        return value

    @property
    def report(self) -> dict[str, Any]:
        """The report; fails if there is none."""
        assert self.last.get("type") == "report", self
        return self.last

    @property
    def error(self) -> dict[str, Any]:
        """The error that ended the run; fails if there is none."""
        assert self.last.get("type") == "error", self
        return self.last


@dataclass
class Running:
    """A command under way."""

    process: subprocess.Popen[bytes] | Forked
    started: float
    out: Path
    logs: tuple[Path, Path]

    def interrupt(self) -> None:
        """Sends what Ctrl-C sends."""
        self.process.send_signal(signal.SIGINT)

    def wait(self, limit: float) -> Outcome:
        """Waits for the end; kills it and fails after `limit` seconds."""
        late = False
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
            self.process.kill()
            code = self.process.wait()
        seconds = time.monotonic() - self.started
        stdout, stderr = (log.read_text("utf-8", "surrogateescape") for log in self.logs)
        command = [str(part) for part in self.process.args] if isinstance(self.process.args, list) else []
        used = (self.process.processor, self.process.peak) if isinstance(self.process, Forked) else (None, None)
        outcome = Outcome(command, code, stdout, stderr, seconds, self.out, *used)
        assert not late, f"still running after {limit} s: {outcome}"
        return outcome


class Shoal:
    """The command, run in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        forked.server()  # before a test counts processes or descriptors
        self.directory = directory
        self.out = directory / "out"
        self.runs = 0
        self.within: list[str] = []  # a command that runs another one, such as a tracer

    def start(self, *arguments: str | Path) -> Running:
        """Starts the command with these arguments: by a fork, or with `within` by that program."""
        self.runs += 1
        logs = (self.directory / f"stdout-{self.runs}", self.directory / f"stderr-{self.runs}")
        # A proxy of the machine that runs the tests has nothing to do with a service on loopback.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        command = [str(argument) for argument in arguments]
        process: subprocess.Popen[bytes] | Forked
        with logs[0].open("wb") as stdout, logs[1].open("wb") as stderr:
            if not self.within and forked.can(command, environment):
                process = Forked(command, self.directory, environment, stdout, stderr)
            else:
                process = subprocess.Popen(
                    [*self.within, sys.executable, "-m", "shoal", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=environment,
                    cwd=self.directory,
                )
        return Running(process, time.monotonic(), self.out, logs)

    def start_copy(self, source: FaultServer | str, *options: str) -> Running:
        """Starts `copy` from the source into `out`."""
        url = source if isinstance(source, str) else source.url
        return self.start("copy", url, self.out, *DEFAULTS, *options)

    def copy(self, source: FaultServer | str, *options: str, limit: float = 30.0) -> Outcome:
        """Runs `copy` from the source into `out`."""
        return self.start_copy(source, *options).wait(limit)

    def run(self, *arguments: str | Path, limit: float = 30.0) -> Outcome:
        """Runs any command."""
        return self.start(*arguments).wait(limit)


def shown(name: str) -> str:
    """Returns a name as messages show it: control and invisible characters escaped, cut when long."""
    text = ""
    for character in name:
        code = ord(character)
        named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
        if named:
            text += named
        elif 0xDC80 <= code <= 0xDCFF:
            text += f"\\x{code - 0xDC00:02x}"
        elif code < 0x20 or 0x7F <= code <= 0x9F:
            text += f"\\x{code:02x}"
        else:
            text += f"\\u{{{code:x}}}" if unicodedata.category(character) in INVISIBLE else character
    return text


def is_name(text: str, name: str) -> bool:
    """Whether text in a report stands for this name: raw, or as messages show it."""
    return text in (name, shown(name)) or (len(name) > SHOWN_MAX and text.startswith(shown(name)[:SHOWN_MAX]))


def left_over(root: Path) -> list[Path]:
    """Returns the temporary files in a destination."""
    return [path for path in (root / ".shoal" / "tmp").rglob("*") if not path.is_dir()]


def assert_same_tree(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    """Fails unless both have the same names with the same bytes; says which differ, without showing the bytes."""
    missing = sorted(expected.keys() - found.keys())[:10]
    extra = sorted(found.keys() - expected.keys())[:10]
    wrong = [
        f"{name!r}: {len(found[name])} bytes, not {len(expected[name])}, or other ones"
        for name in sorted(expected.keys() & found.keys())
        if found[name] != expected[name]
    ][:10]
    differing = [*missing, *extra, *wrong]
    assert not differing, f"missing: {missing!r}; not expected: {extra!r}; wrong bytes: {wrong}"


def assert_balanced(report: Mapping[str, Any]) -> None:
    """Fails unless the counts of this run and of all runs add up."""
    for counts in (report["run"], report["total"]):
        parts = counts["written"] + counts["skipped"] + counts["failed"] + counts["unfinished"]
        assert counts["listed"] == parts, report
    assert report["failed"] == report["total"]["failed"], report
    if report["failed"] or report["total"]["unfinished"]:
        assert not report["ok"], report


def assert_quiet_bytes(text: str) -> None:
    """Fails if output has a character that could move a terminal's cursor or reorder its text."""
    bad = {hex(ord(c)) for c in text if c != "\n" and unicodedata.category(c) in INVISIBLE | {"Cc", "Cs"}}
    assert not bad, f"raw characters {sorted(bad)} in the output: {text!r}"


def assert_arrived(
    outcome: Outcome,
    objects: Mapping[str, bytes],
    failed: Mapping[str, str | Collection[str]] | None = None,
    *,
    skipped: int = 0,
) -> None:
    """Fails unless exactly these objects arrived, and exactly those failed, each with one of the kinds given for it."""
    failed = failed or {}
    assert outcome.code == (1 if failed else 0), outcome
    report = outcome.report
    assert_same_tree(tree(outcome.out), objects)
    assert left_over(outcome.out) == []
    assert_balanced(report)
    got = {key: report[key] for key in ("written", "failed", "skipped", "unfinished", "bytes")}
    size = sum(map(len, objects.values()))
    wanted = {"written": len(objects), "failed": len(failed), "skipped": skipped, "unfinished": 0, "bytes": size}
    assert got == wanted, outcome
    assert len(report["failures"]) == min(len(failed), REPORT_FAILURES), outcome
    for failure in report["failures"]:
        name = next((name for name in failed if is_name(failure["name"], name)), None)
        assert name is not None, f"failed, and should not have: {failure}"
        kinds = failed[name]
        assert failure["kind"] in ({kinds} if isinstance(kinds, str) else set(kinds)), failure
        assert failure["reason"], failure
        assert shown(name)[:SHOWN_MAX] in outcome.stderr, f"no message names {name!r}: {outcome}"
    assert_quiet_bytes(outcome.stdout)
    assert_quiet_bytes(outcome.stderr)
    assert "panicked" not in outcome.stderr, outcome
    assert "Traceback" not in outcome.stderr, outcome


def assert_stopped(
    outcome: Outcome,
    kinds: str | Collection[str],
    *causes: str,
    manifest: Mapping[str, bytes] | None = None,
    within: float = 15.0,
) -> None:
    """Fails unless the run stopped with exit code 3, an error of one of these kinds and a message with every cause.

    What had arrived by then is compared with `manifest`.
    """
    assert outcome.code == 3, outcome
    assert outcome.error["kind"] in ({kinds} if isinstance(kinds, str) else set(kinds)), outcome
    for cause in causes:
        assert cause.lower() in outcome.stderr.lower(), f"no {cause!r} in the message: {outcome}"
        assert cause.lower() in str(outcome.error["message"]).lower(), f"no {cause!r} in the error: {outcome}"
    assert outcome.seconds < within, outcome
    if "listed" in outcome.error:
        assert_balanced(outcome.error)
    manifest = manifest or {}
    for name, data in tree(outcome.out).items():
        assert manifest.get(name) == data, f"{name!r} has wrong bytes"
    assert_quiet_bytes(outcome.stdout)
    assert_quiet_bytes(outcome.stderr)
    assert "panicked" not in outcome.stderr, outcome
    assert "Traceback" not in outcome.stderr, outcome


def numbered(count: int, size: int = 100, prefix: str = "plain") -> dict[str, bytes]:
    """Returns objects whose bytes differ from each other: a number and then a run of that number's low byte."""
    return {
        f"{prefix}-{number:04}": (b"%06d " % number + bytes([number % 251]) * size)[:size] for number in range(count)
    }
