"""Waits for what another thread or process brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], limit: float = 20.0) -> None:
    """Waits until something holds; fails after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
