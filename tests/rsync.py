"""What rsync says of a copy: a line for each thing that it would change. Nothing means that both trees are equal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# Links, holes, ACLs, attributes, owners, times to the nanosecond; contents by checksum. What shoal leaves out is left
# out, too: special files, and its own directory.
OPTIONS = ("-aHAXS", "--no-D", "-c", "--modify-window=-1", "--delete", "--exclude=/.shoal", "--info=nonreg0")


def lines(source: Path, out: Path, *before: str) -> list[str]:
    """What rsync would do to make the second tree like the first. `before` starts it as another user."""
    if shutil.which("rsync") is None:
        pytest.skip("needs rsync (scripts/install_test_tools.sh)")
    told = subprocess.run(
        [*before, "rsync", *OPTIONS, "--dry-run", "-i", f"{source}/", f"{out}/"],
        capture_output=True,
        timeout=60,
        errors="replace",
    )
    assert told.returncode in (0, 23), told.stderr  # 23: something could not be read
    return told.stdout.splitlines()
