"""Reads a directory into a dictionary: what a run has left there, to be held against what it should have."""

from __future__ import annotations

import os
from pathlib import Path


def tree(root: Path) -> dict[str, bytes]:
    """Returns every file below a directory but shoal's own, name to bytes; a link counts as a file."""
    found = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == root and ".shoal" in folders:
            folders.remove(".shoal")
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in files + links:
            path = Path(folder) / name
            found[str(path.relative_to(root))] = (
                os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            )
    return found


def tree_of_raw_names(root: Path) -> dict[bytes, bytes]:
    """The same with the names as bytes, for names that are no text."""
    return {os.fsencode(name): data for name, data in tree(root).items()}
