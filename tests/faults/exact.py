"""A small tree of links, hard links, attributes and holes, for tests that disturb its exact copy.

Not here: every kind of file that there is, and how two trees are compared (`every_kind.py`). Nothing in this tree
blocks a reader, and every name is text.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from every_kind import (
    ACCESS,
    ACCESS_ACL,
    CAPABILITY,
    DEFAULT,
    DEFAULT_ACL,
    GROUP,
    NET_BIND,
    TIMES,
    USER,
    describe,
    differences,
    put,
    sparse,
    stamp,
)

TARGETS = ("../0/0", "nowhere", "..", "/etc/hostname", "../shared", "a/" * 100)
FILE_MODES, DIRECTORY_MODES = (0o4755, 0o2711, 0o640, 0o444), (0o2750, 0o1777, 0o755)
SMALL, LARGE = 1_000, 300_000  # bytes: whole in memory, and in pieces through a temporary file
IS_ROOT = os.geteuid() == 0


def add_every_kind(root: Path, count: int = 12) -> None:
    """Adds `count` of each kind to a directory, and gives everything that it then holds a time of its own."""
    chance = random.Random(2)
    for number in range(count):
        size = LARGE if number == 1 else SMALL
        attributed(put(root / f"attributes/{number}", chance.randbytes(size)), number)
        (root / f"attributes/below/{number}").mkdir(parents=True)
        attributed(root / f"attributes/below/{number}", number)
        first = put(root / f"shared/{number}", chance.randbytes(size))
        (root / "shared/below").mkdir(exist_ok=True)
        for other in (f"shared/below/{number}", f"shared-{number}"):
            (root / other).hardlink_to(first)
        if number % 4 == 0:
            attributed(first, number)
        (root / "links").mkdir(exist_ok=True)
        (root / f"links/{number}").symlink_to(TARGETS[number % len(TARGETS)])
        if IS_ROOT:
            os.chown(root / f"links/{number}", USER, GROUP, follow_symlinks=False)
        if number % 3 == 0:
            sparse(root / f"holes/{number}", LARGE, (64 << 10, 192 << 10)[: number % 2 + 1])
    for number, path in enumerate(sorted([root, *root.rglob("*")])):
        stamp(path, TIMES[number % len(TIMES)] + number * 1_000_000_007)


def attributed(path: Path, number: int) -> None:
    """Gives a file or directory extended attributes, and one in a few bits, an ACL, and an owner if this is root."""
    if IS_ROOT and number % 2 == 0:
        os.chown(path, USER, GROUP)
    modes = DIRECTORY_MODES if path.is_dir() else FILE_MODES
    path.chmod(modes[number % len(modes)])
    os.setxattr(path, "user.number", f"{number}".encode())
    if number % 2:
        os.setxattr(path, "user.long", random.Random(number).randbytes(700))
    if number % 3 == 1:
        os.setxattr(path, ACCESS, ACCESS_ACL)
        if path.is_dir():
            os.setxattr(path, DEFAULT, DEFAULT_ACL)
    if IS_ROOT and number % 4 == 2:
        os.setxattr(path, "trusted.number", f"{number}".encode())
    if IS_ROOT and number % 4 == 0 and path.is_file():
        os.setxattr(path, CAPABILITY, NET_BIND)


def assert_equal(source: Path, out: Path) -> None:
    """Fails unless all that an exact copy keeps is the same: bytes, kinds, links, attributes, times and holes."""
    found = differences(describe(source), describe(out))
    assert found == [], "\n".join(found)
