"""A look at what a run has left: its files, and its counts."""

from __future__ import annotations

import os
from pathlib import Path

import shoal as package


def files(directory: Path) -> dict[bytes, bytes]:
    """All files below a directory but the journal's, with their bytes."""
    found = {}
    for at, directories, names in os.walk(directory):
        if Path(at) == directory and ".shoal" in directories:
            directories.remove(".shoal")
        for path in (Path(at, name) for name in names):
            found[os.fsencode(path.relative_to(directory))] = path.read_bytes()
    return found


def balanced(counts: package.Counts | package.Report) -> bool:
    """Whether nothing was lost from the count."""
    return counts.listed == counts.written + counts.skipped + counts.failed + counts.unfinished
