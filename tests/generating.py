"""For the tests of `shoal.generate`: a module with the function, scripts that call it, the processes they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Interpreter

# What every script of these tests begins with. `note` leaves a line in a file that all processes share; `once` is true
# for the first process that asks.
MODULE = """
import os, signal, sys, time
import shoal

def note(file, text):
    with open(file, "a") as out:
        out.write(f"{text}\\n")

def once(file):
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def plain(number):
    return f"content of {number}\\n"
"""

RUN = """
import json, sys, shoal, job
report = shoal.generate(job.make, {ids}, "out", **{options})
print(json.dumps([report.written, report.skipped, report.failed, report.bytes, report.complete]))
for one in report.failures:
    print(json.dumps([one.name, one.kind, one.reason]))
"""


def processes_in(directory: Path) -> list[int]:
    """Every process whose working directory this is: those that a test has started, and theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cwd").readlink() == directory.resolve():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


class Job:
    """A module with a function `make`, and scripts that call `shoal.generate` with it."""

    def __init__(self, directory: Path, interpreter: Interpreter) -> None:
        self.directory = directory
        self.interpreter = interpreter
        self.out = directory / "out"

    def module(self, text: str) -> None:
        (self.directory / "job.py").write_text(MODULE + textwrap.dedent(text))

    @staticmethod
    def script(ids: str, options: dict[str, Any]) -> str:
        given = {"name": "data-{:04d}.csv", "on_error": "record", **options}
        return RUN.format(ids=ids, options=given)

    def run(self, ids: str = "range(20)", **options: Any) -> tuple[list[Any], list[list[str]]]:
        """Runs it: written, skipped, failed, bytes, complete; and the failures."""
        done = self.interpreter.run(self.script(ids, options))
        assert done.returncode == 0, done.stderr
        counts, *failures = map(json.loads, done.stdout.splitlines())
        return counts, failures

    def refused(self, ids: str = "range(20)", **options: Any) -> str:
        """The last words of one that cannot run."""
        done = self.interpreter.run(self.script(ids, options))
        assert done.returncode == 1, done.stdout
        return done.stderr

    def start(self, ids: str, **options: Any) -> subprocess.Popen[str]:
        return self.interpreter.start(self.script(ids, options))

    def lines(self, file: str) -> list[str]:
        path = self.directory / file
        return path.read_text().splitlines() if path.exists() else []

    def contents(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in sorted(self.out.iterdir()) if one.is_file()}

    def end(self) -> None:
        """Kills what was started, and fails if any of its processes outlives that."""
        for process in self.interpreter.started:
            process.kill()
        try:
            wait_until(lambda: not processes_in(self.directory), 10)
        finally:
            for left in processes_in(self.directory):
                os.kill(left, signal.SIGKILL)


def expected(count: int) -> dict[str, str]:
    return {f"data-{number:04}.csv": f"content of {number}\n" for number in range(count)}
