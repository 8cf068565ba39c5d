"""Limits of memory and of processes for a command, by control groups of either version."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

# Where each version has them, and how it calls the limit and what was reached.
PLACES = {
    "memory": [("memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"), ("", "memory.max", "memory.peak")],
    "pids": [("pids", "pids.max", "pids.peak"), ("", "pids.max", "pids.peak")],
}


class Group:
    """A control group with one limit, below the one this process is in."""

    def __init__(self, controller: str, limit: int) -> None:
        self.path, self.peak_file = made(controller, limit)

    def command(self) -> tuple[str, ...]:
        """Returns the beginning of a command line that runs its command in the group."""
        return ("/bin/sh", "-c", f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"', "sh")

    def peak(self) -> int | None:
        """The most that was used, where the kernel keeps it."""
        file = self.path / self.peak_file
        return int(file.read_text()) if file.exists() else None

    def remove(self) -> None:
        """Removes it; a process that has just ended is in it for a moment."""
        end = time.monotonic() + 10
        while self.path.exists() and time.monotonic() < end:
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.02)


def made(controller: str, limit: int) -> tuple[Path, str]:
    """Makes a group; skips the test where that is not possible."""
    for folder, limit_file, peak_file in PLACES[controller]:
        path = Path("/sys/fs/cgroup") / folder / f"shoal-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / limit_file).write_text(str(limit))
            with contextlib.suppress(OSError):  # without swap there is none to limit
                (path / "memory.swap.max").write_text("0")
        except OSError:
            path.rmdir()
            continue
        return path, peak_file
    pytest.skip(f"needs a control group of its own for {controller} (root, and /sys/fs/cgroup writable)")
