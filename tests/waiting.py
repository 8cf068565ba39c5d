"""Waits for what another thread or process brings about."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], object], limit: float = 20.0) -> None:
    """Waits until something holds; fails after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def takes_signals(process: int) -> bool:
    """Whether a command has set up its own handling of signals: Python itself catches SIGINT, but never SIGHUP."""
    status = Path(f"/proc/{process}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGHUP - 1) & 1)
