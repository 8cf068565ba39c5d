"""Whether every object is there with every byte, and nothing else. Not here: who wrote them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def synthetic(name: str, size: int) -> bytes:
    """Returns the bytes of an object that `shoal serve --synthetic` makes up: name and newline, repeated and cut."""
    period = f"{name}\n".encode()
    return (period * (size // len(period) + 1))[:size]


def fault(directory: Path, names: list[str], size: int, *, partitioned: bool) -> str | None:
    """Returns what is wrong with the files below a directory; None: they are these objects, byte for byte.

    Args:
        directory: Where they were written; `.shoal` in it is shoal's own.
        names: The objects that must be there, each once.
        size: Bytes of each.
        partitioned: Names stand behind three directories that a layout made.
    """
    missing = set(names)
    for path in _files(directory):
        relative = os.path.relpath(path, directory)
        name = relative.split(os.sep, 3)[-1] if partitioned else relative
        if name not in missing:
            return f"{relative} should not be there"
        missing.remove(name)
        with open(path, "rb") as file:  # noqa: PTH123  # a hundred thousand times: Path costs as much as the read
            if file.read() != synthetic(name, size):
                return f"{relative} has the wrong bytes"
    return f"{len(missing)} objects are missing, {min(missing)} among them" if missing else None


def _files(directory: Path) -> Iterator[str]:
    stack = [str(directory)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".shoal":
                        stack.append(entry.path)
                else:
                    yield entry.path
