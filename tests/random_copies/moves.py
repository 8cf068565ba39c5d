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

from random_copies.trees import ANCHOR, FOLDER_MODES, MODES, TIMES, name, put, size


class Nothing(Exception):
    """There is nothing that this could be done to."""


@dataclass
class Ground:
    """Where a move is done: below `root`. `other` is the source for a move at the destination."""

    root: Path
    other: Path
    c: random.Random

    def paths(self, kind: Callable[[Path], bool], root: Path | None = None) -> list[Path]:
        """All of a kind but the anchor and what is shoal's own."""
        root = root or self.root
        found = [Path(folder) / one for folder, below, files in os.walk(root) for one in below + files]
        tops = (path.relative_to(root).parts[0] for path in found)
        return sorted(p for p, top in zip(found, tops, strict=True) if top not in (".shoal", ANCHOR) and kind(p))

    def one(self, kind: Callable[[Path], bool]) -> Path:
        """Any of them."""
        found = self.paths(kind)
        if not found:
            raise Nothing
        return self.c.choice(found)

    def file(self, least: int = 0) -> Path:
        """A file of this size or more."""
        return self.one(lambda path: is_file(path) and path.stat().st_size >= least)

    def new(self) -> Path:
        """A path that nothing has, in a directory that may not exist yet."""
        path = self.root / name(self.c, self.c.randrange(1_000, 1 << 30))
        above = [up for up in path.parents if up.is_relative_to(self.root)]
        if any(up.is_symlink() or (up.exists() and not up.is_dir()) for up in above):
            raise Nothing
        return path


Move = Callable[[Ground], Path]


def is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def edit(g: Ground, *, keeps_size: bool = False, keeps_time: bool = False, renames: bool = False) -> Path:
    """Writes other bytes into a file, or puts another file in its place."""
    path = g.file(least=1)
    told, data = path.stat(), path.read_bytes()
    new = bytes([data[0] ^ 1]) + data[1:] if keeps_size else g.c.randbytes(size(g.c))
    target = path.with_name("moving") if renames else path
    target.write_bytes(new)
    target.chmod(told.st_mode)
    if keeps_time:
        os.utime(target, ns=(told.st_atime_ns, told.st_mtime_ns))
    return target.rename(path)


def delete(g: Ground) -> Path:
    path = g.file()
    path.unlink()
    return path


def delete_folder(g: Ground) -> Path:
    path = g.one(is_folder)
    shutil.rmtree(path)
    return path


def add(g: Ground) -> Path:
    path = g.new()
    put(path, g.c)
    return path


def add_folder(g: Ground) -> Path:
    path = g.new()
    for n in range(g.c.randint(0, 4)):
        put(path / f"new{n}.bin", g.c)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(g.c.choice(FOLDER_MODES))
    return path


def chmod(g: Ground) -> Path:
    path = g.file()
    path.chmod(g.c.choice(MODES))
    return path


def chmod_folder(g: Ground) -> Path:
    path = g.one(is_folder)
    path.chmod(g.c.choice(FOLDER_MODES))
    return path


def touch(g: Ground) -> Path:
    path = g.file()
    time = g.c.choice(TIMES)
    os.utime(path, None if time is None else (time, time))
    return path


def rename(g: Ground, kind: Callable[[Path], bool] = is_file) -> Path:
    path, target = g.one(kind), g.new()
    if target.is_relative_to(path):
        raise Nothing
    target.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(target)


def hard_link(g: Ground) -> Path:
    path, target = g.file(), g.new()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.hardlink_to(path)
    return target


def becomes_folder(g: Ground) -> Path:
    path = delete(g)
    put(path / "inner.bin", g.c)
    return path


def becomes_file(g: Ground) -> Path:
    path = delete_folder(g)
    put(path, g.c)
    return path


def becomes_link(g: Ground, kind: Callable[[Path], bool]) -> Path:
    """Something of the user becomes a link to where it has gone: beside the tree."""
    path = g.one(kind)
    target = g.root.with_name(f"away{g.c.randrange(1 << 30)}")
    shutil.move(path, target)
    path.symlink_to(target)
    return path


def link_again(g: Ground, number: int) -> Path:
    """Sets a link of the beginning to what is alike but for the bytes."""
    path = g.root / f"link{number}"
    if not path.is_symlink():
        raise Nothing
    old, new = ("v1", "v2") if "-v1" in str(path.readlink()) else ("v2", "v1")
    target = str(path.readlink()).replace(f"-{old}", f"-{new}")
    path.unlink()
    path.symlink_to(target)
    return path


def replace_root(g: Ground) -> Path:
    """Another tree takes the source's place, and the other way round: files of equal sizes and times, some other bytes."""
    twin, away = g.root.with_name(f"{g.root.name}-twin"), g.root.with_name("moving")
    g.root.rename(away)
    twin.rename(g.root)
    away.rename(twin)
    return g.root


def at_a_name(g: Ground, *, equal: bool) -> Path:
    """The user's own file where an object will be."""
    objects = g.paths(is_file, g.other)
    free = [path for path in objects if not os.path.lexists(g.root / path.relative_to(g.other))]
    if not free:
        raise Nothing
    source = g.c.choice(free)
    path = g.root / source.relative_to(g.other)
    try:
        put(path, g.c)
    except (FileExistsError, NotADirectoryError):
        raise Nothing from None
    if equal:
        path.write_bytes(source.read_bytes())
    return path


EDITS: dict[str, Move] = {
    "edited": edit,
    "edited, same size": partial(edit, keeps_size=True),
    "edited, same time": partial(edit, keeps_time=True),
    "edited, same size and time": partial(edit, keeps_size=True, keeps_time=True),
    "replaced by rename": partial(edit, renames=True),
    "replaced by rename, same size and time": partial(edit, keeps_size=True, keeps_time=True, renames=True),
    "deleted": delete,
    "directory deleted": delete_folder,
    "added": add,
    "directory added": add_folder,
    "chmod": chmod,
    "chmod of a directory": chmod_folder,
    "touched": touch,
    "renamed": rename,
    "hard link": hard_link,
    "file becomes directory": becomes_folder,
    "directory becomes file": becomes_file,
    "file becomes link": partial(becomes_link, kind=is_file),
}
SOURCE: dict[str, Move] = EDITS | {
    "directory renamed": partial(rename, kind=is_folder),
    "link of a file set again": partial(link_again, number=0),
    "link of a directory set again": partial(link_again, number=1),
    "root replaced": replace_root,
}
DESTINATION: dict[str, Move] = EDITS | {
    "directory becomes link": partial(becomes_link, kind=is_folder),
    "own file where an object will be": partial(at_a_name, equal=False),
    "own file with the object's bytes": partial(at_a_name, equal=True),
    "journal lost": lambda g: g.root,  # `world.py` removes it
}
