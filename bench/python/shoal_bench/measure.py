"""Runs one command and looks at what it took. Not here: what it wrote (`verify.py`), which contestant is next."""

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import RunError

TIMEOUT = 1800.0  # seconds; the slowest strategy needs a few


@dataclass(frozen=True)
class Measured:
    """What one run took.

    Attributes:
        seconds: Its time: what the program says of its own work, where it does (starting an interpreter is not the
            job), else the time of the process; with a sync, that too.
        cpu: Seconds of processor time, user and system, of the process and all its children.
        rss: Bytes of memory at the peak of its largest process.
        code: Its exit code.
        printed: What it printed.
        said: The line of JSON it ended with, if it did.
        start: Seconds of the process beside its own time: interpreters, virtual machines.
        began: The moment at which its time began, in seconds since 1970: what it has written bears such moments, too.
    """

    seconds: float
    cpu: float
    rss: int
    code: int
    printed: str
    said: dict[str, Any]
    start: float = 0.0
    began: float = 0.0


# A process counts the memory of the one that started it as its own peak until it runs its own program. The lab, with
# all the names, is large; so something small (9 MiB, the least that a row can show) starts each command, and says what
# it took on its standard error's last line.
LAUNCHER = """
import json, os, sys, time
moment, began = time.time(), time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - began
code = os.waitstatus_to_exitcode(status)
took = [seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, code, moment]
os.write(2, b"\\n" + json.dumps(took).encode())
"""


def run(command: list[str], sync: Path | None) -> Measured:
    """Runs a command to its end; with `sync`, what it wrote there is made durable inside its time.

    Raises:
        RunError: It could not be started.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
        with subprocess.Popen(
            launcher, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                process.wait(TIMEOUT)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        printed, talk = _read(out), _read(err)
        ended = os.fstat(out.fileno()).st_mtime  # what a program says, it says when its time is over
    talk, _, took = talk.rpartition("\n")
    if process.returncode != 0:
        raise RunError(f"{command[0]} could not be started: {took}")
    whole, cpu, rss, code, moment = json.loads(took)
    said = _last_json(printed)
    seconds = float(said.get("seconds", whole))
    start = whole - seconds
    # Of the time beside its own, a part comes before that and a part after: interpreters take a while to end, too.
    began = moment + max(0.0, min(start, ended - seconds - moment)) if "seconds" in said else moment
    if sync is not None:
        before = time.perf_counter()
        sync_file_system(sync)
        seconds += time.perf_counter() - before
    return Measured(seconds, cpu, rss, code, printed if code == 0 else (talk or printed), said, start, began)


def sync_file_system(path: Path) -> None:
    """Makes all that was written to a file system durable."""
    subprocess.run(["sync", "-f", str(path)], check=True, timeout=TIMEOUT)


def touch_memory(size: int) -> None:
    """Writes once to so many bytes of memory, or half of what is free, and gives them back.

    What is written next to files then takes memory that the machine has at hand. A guest that has to ask its host for
    each page first took 0.35 to 0.5 ms for 240 kB, and 0.06 ms afterwards: the first contestant paid for all.
    """
    pages = min(size, os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE // 2) // mmap.PAGESIZE
    if pages > 0:
        with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory, memoryview(memory) as view:
            view[:: mmap.PAGESIZE] = bytes(pages)


def _read(file: Any) -> str:
    file.seek(0)
    data: bytes = file.read()
    return data.decode("utf-8", "replace")


def _last_json(printed: str) -> dict[str, Any]:
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return found if isinstance(found, dict) else {}
    return {}
