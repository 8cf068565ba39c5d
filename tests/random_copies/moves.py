"""What changes between two sessions, each kind by its name: `SOURCE` at the source, `DESTINATION` at the destination.

Left out is what no run can tell (docs/commands.md, ARCHITECTURE.md): a directory below the source that is replaced by
one with files of equal sizes and times, files that are written through a mapping, directories that are moved at the
destination. What is done there after a kill waits (`world.py`).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from random_copies.trees import ANCHOR, FOLDER_MODES, MODES, TIMES, any_name, any_size, put

Test = Callable[[Path], bool]


class NothingError(Exception):
    """There is nothing that this could be done to."""


def is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@dataclass
class Ground:
    """Where a change is made: below `root`, and by what chance. `other` is the source for one at the destination."""

    root: Path
    other: Path
    c: random.Random

    def paths(self, root: Path, test: Test) -> list[Path]:
        """All that pass a test, but the anchor and what is shoal's own."""
        found = [Path(folder) / one for folder, below, files in os.walk(root) for one in below + files]
        return sorted(p for p in found if p.relative_to(root).parts[0] not in (".shoal", ANCHOR) and test(p))

    def one(self, test: Test = is_file) -> Path:
        """Any of them."""
        if found := self.paths(self.root, test):
            return self.c.choice(found)
        raise NothingError

    def new(self) -> Path:
        """A path that nothing has, in a directory that is made."""
        path = self.root / any_name(self.c, self.c.randrange(1_000, 1 << 30))
        if any(not is_folder(up) and os.path.lexists(up) for up in path.parents if up.is_relative_to(self.root)):
            raise NothingError
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


Move = Callable[[Ground], Path]


def edit(g: Ground, *, keeps_size: bool = False, keeps_time: bool = False, renames: bool = False) -> Path:
    """Writes other bytes into a file, or puts another file in its place."""
    path = g.one(lambda path: is_file(path) and path.stat().st_size > 0)
    told, data = path.stat(), path.read_bytes()
    target = path.with_name("moving") if renames else path
    target.write_bytes(bytes([data[0] ^ 1]) + data[1:] if keeps_size else g.c.randbytes(any_size(g.c)))
    target.chmod(told.st_mode)
    if keeps_time:
        os.utime(target, ns=(told.st_atime_ns, told.st_mtime_ns))
    return target.rename(path)


def delete(g: Ground, test: Test = is_file) -> Path:
    path = g.one(test)
    shutil.rmtree(path) if is_folder(path) else path.unlink()
    return path


def add(g: Ground) -> Path:
    path = g.new()
    put(path, g.c)
    return path


def add_folder(g: Ground) -> Path:
    path = g.new()
    path.mkdir()
    for n in range(g.c.randint(0, 4)):
        put(path / f"new{n}.bin", g.c)
    path.chmod(g.c.choice(FOLDER_MODES))
    return path


def chmod(g: Ground, test: Test = is_file) -> Path:
    path = g.one(test)
    path.chmod(g.c.choice(FOLDER_MODES if is_folder(path) else MODES))
    return path


def touch(g: Ground) -> Path:
    path, time = g.one(), g.c.choice(TIMES)
    os.utime(path, None if time is None else (time, time))
    return path


def rename(g: Ground, test: Test = is_file) -> Path:
    path, target = g.one(test), g.new()
    if target.is_relative_to(path):
        raise NothingError
    return path.rename(target)


def hard_link(g: Ground) -> Path:
    path, target = g.one(), g.new()
    target.hardlink_to(path)
    return target


def becomes_other(g: Ground, test: Test) -> Path:
    """A file becomes a directory, or the other way round."""
    path = delete(g, test)
    put(path / "inner.bin" if test is is_file else path, g.c)
    return path


def becomes_link(g: Ground, test: Test) -> Path:
    """Something becomes a link to where it has gone: beside the tree."""
    path, target = g.one(test), g.root.with_name(f"away{g.c.randrange(1 << 30)}")
    path.rename(target)
    path.symlink_to(target)
    return path


def link_again(g: Ground, number: int) -> Path:
    """Sets a link of the beginning to what is alike but for the bytes."""
    path = g.root / f"link{number}"
    if not path.is_symlink():
        raise NothingError
    target = str(path.readlink())
    path.unlink()
    path.symlink_to(target.replace("-v1", "-v2") if "-v1" in target else target.replace("-v2", "-v1"))
    return path


def replace_root(g: Ground) -> Path:
    """Another tree takes the place of the source, and it the other's: equal sizes and times, some other bytes."""
    twin, away = g.root.with_name(f"{g.root.name}-twin"), g.root.with_name("moving")
    g.root.rename(away)
    twin.rename(g.root)
    away.rename(twin)
    return g.root


def own_file(g: Ground, *, is_equal: bool) -> Path:
    """The user's own file where an object will be."""
    names = [path.relative_to(g.other) for path in g.paths(g.other, is_file)]
    free = [name for name in names if not os.path.lexists(g.root / name)]
    path = g.root / (g.c.choice(free) if free else "")
    try:
        put(path, g.c)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):  # none is free, or above it is a file
        raise NothingError from None
    if is_equal:
        path.write_bytes((g.other / path.relative_to(g.root)).read_bytes())
    return path


BOTH: dict[str, Move] = {
    "edited": edit,
    "edited, same size": partial(edit, keeps_size=True),
    "edited, same time": partial(edit, keeps_time=True),
    "edited, same size and time": partial(edit, keeps_size=True, keeps_time=True),
    "replaced by rename": partial(edit, renames=True),
    "replaced by rename, same size and time": partial(edit, keeps_size=True, keeps_time=True, renames=True),
    "deleted": delete,
    "directory deleted": partial(delete, test=is_folder),
    "added": add,
    "directory added": add_folder,
    "chmod": chmod,
    "chmod of a directory": partial(chmod, test=is_folder),
    "touched": touch,
    "renamed": rename,
    "hard link": hard_link,
    "file becomes directory": partial(becomes_other, test=is_file),
    "directory becomes file": partial(becomes_other, test=is_folder),
    "file becomes link": partial(becomes_link, test=is_file),
}
SOURCE: dict[str, Move] = BOTH | {
    "directory renamed": partial(rename, test=is_folder),
    "link of a file set again": partial(link_again, number=0),
    "link of a directory set again": partial(link_again, number=1),
    "root replaced": replace_root,
}
DESTINATION: dict[str, Move] = BOTH | {
    "directory becomes link": partial(becomes_link, test=is_folder),
    "own file where an object will be": partial(own_file, is_equal=False),
    "own file with the object's bytes": partial(own_file, is_equal=True),
    "journal lost": lambda g: g.root,  # `world.py` removes it
}
