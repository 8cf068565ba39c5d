"""System calls of a running command that fail, wait or kill: strace makes them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest


@cache
def unavailable() -> str:
    """Says why no process can be traced here; nothing if it can."""
    if shutil.which("strace") is None:
        return "needs strace (scripts/install_test_tools.sh)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip()}"


def traced(log: Path, inject: str, *paths: Path, also: str = "") -> tuple[str, ...]:
    """Returns the beginning of a command line that has these calls tampered with, on these files alone.

    `inject` is what strace takes: `syncfs:error=EIO:when=2`; calls are counted for each thread apart. The log has these
    calls and the ones in `also`, with the paths of their files.
    """
    if why := unavailable():
        pytest.skip(why)
    calls = inject.split(":")[0]
    only = [argument for path in paths for argument in ("-P", str(path))]
    return (
        "strace",
        "-f",
        "-qq",
        "-y",
        "-o",
        str(log),
        *only,
        "-e",
        f"trace={calls},{also}".rstrip(","),
        "-e",
        f"inject={inject}",
    )


def injected(log: Path) -> int:
    """How many calls were tampered with."""
    return log.read_text().count("(INJECTED)") if log.exists() else 0


def tracee(tracer: subprocess.Popen[str]) -> int:
    """Returns the process that strace started."""
    children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for child in children.read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child in which strace tries a call
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(sys.executable.encode()):
                    return int(child)
        time.sleep(0.01)
    raise AssertionError("strace started nothing")
