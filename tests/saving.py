"""What the tests of `shoal.save` share: items, and a look at what was saved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import shoal as package


def files(directory: Path) -> dict[bytes, bytes]:
    """All files below a directory but the journal's, with their bytes."""
    root = os.fsencode(directory)
    found = {}
    for at, directories, names in os.walk(root):
        if at == root and b".shoal" in directories:
            directories.remove(b".shoal")
        for name in names:
            path = os.path.join(at, name)  # noqa: PTH118  # bytes
            found[os.path.relpath(path, root)] = Path(os.fsdecode(path)).read_bytes()
    return found


def balanced(report: package.Report) -> bool:
    """Whether nothing was lost from the count."""
    return report.listed == report.written + report.skipped + report.failed + report.unfinished


def numbered(count: int) -> Iterator[tuple[str, bytes]]:
    """Small items."""
    return ((f"{n:06}", b"%d" % n) for n in range(count))
