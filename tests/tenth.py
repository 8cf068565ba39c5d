"""A tenth of the slow tests, which `make test-tenth` runs: in ten days `.ci/run` has run them all.

SHOAL_TENTH: which, 0 to 9; tests are divided by a hash of their names. SHOAL_TENTH_UNTIL: by when, in seconds since
1970, all must be over. Tests that might take longer do not begin, and are named.
"""

from __future__ import annotations

import os
import re
import time
import zlib

import pytest


def in_tenth(name: str, tenth: int) -> bool:
    """Whether a test is in this tenth; among several workers its name ends with its group."""
    return zlib.crc32(re.sub(r"@\w+$", "", name).encode()) % 10 == tenth


def minutes(item: pytest.Item) -> float:
    """Returns how long a slow test may take."""
    marker = item.get_closest_marker("slow")
    return float(marker.kwargs.get("minutes", 1)) if marker else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is in another tenth."""
    if chosen := os.environ.get("SHOAL_TENTH"):
        config.hook.pytest_deselected(items=[item for item in items if not in_tenth(item.nodeid, int(chosen))])
        items[:] = [item for item in items if in_tenth(item.nodeid, int(chosen))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begins no test that would not be over in time."""
    until = float(os.environ.get("SHOAL_TENTH_UNTIL", "inf"))
    if time.time() + 60 * minutes(item) > until:
        pytest.skip(f"not reached in time: {item.nodeid}")
