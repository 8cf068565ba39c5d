"""Fixtures of the hostile tests: a fault server, and the command run against it and on hostile archives."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.archives.judge import unzip
from hostile.oracle import Shoal
from servers.fixtures import fault_server

__all__ = ["fault_server", "shoal_command", "unzip"]


@pytest.fixture
def shoal_command(tmp_path: Path) -> Shoal:
    """Runs the real command; the destination is `out` below a directory of the test's own."""
    return Shoal(tmp_path)
