"""Random changes of every kind, and after each batch an exact copy: it is equal, whatever came before.

A change is one function of `MOVES`. shoal never deletes, so the test deletes at the destination what the source has
lost, as a user would. That changes files which have other names there, so such worlds need `--overwrite always`; worlds
without deletions do not. A failure shows what was done.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import rsync
from conftest import Command
from every_kind import (
    ACCESS,
    ACCESS_ACL,
    DEFAULT,
    DEFAULT_ACL,
    GROUP,
    MIB,
    NARROW_ACL,
    TIMES,
    USER,
    build,
    describe,
    differences,
    stamp,
)

CHANGES = 300
BATCHES = 10
NAMES = ["plain", "ü", " two ", "raw\udcff", "new\nline", "-x", "l" * 200]
TARGETS = ["nowhere", ".", "..", "../outside/file", "/dev/null", "files/0", "\udcff", "x/" * 300]
FILE_MODES = (0o644, 0o600, 0o444, 0o755, 0o4755, 0o2711, 0o1666, 0o000)
FOLDER_MODES = (0o755, 0o700, 0o555, 0o2775, 0o1777, 0o711)
SIZES = (0, 1, 100, 4_096, 70_000, 300_000)
ATTRIBUTES = ("user.one", "user.two", "user.ü", "user.raw\udcff")


class NothingError(Exception):
    """There is nothing that this could be done to."""


def is_kind(path: Path, *kinds: Callable[[int], bool]) -> bool:
    return any(kind(path.lstat().st_mode) for kind in kinds)


def has_holes(path: Path) -> bool:
    return path.stat().st_blocks * 512 < path.stat().st_size


class World:
    """A source, and what has been done to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.c = root, random.Random(f"exact {seed}")
        self.told: list[str] = []
        self.made = 0

    def all(self, *kinds: Callable[[int], bool]) -> list[Path]:
        """Every path that is one of these kinds, but those that are too long to be moved about."""
        found = [Path(folder) / one for folder, below, files in os.walk(self.root) for one in below + files]
        return sorted(path for path in found if len(str(path)) < 2_000 and is_kind(path, *kinds))

    def one(self, *kinds: Callable[[int], bool], test: Callable[[Path], bool] = lambda _: True) -> Path:
        found = [path for path in self.all(*kinds) if test(path)]
        if not found:
            raise NothingError
        return self.c.choice(found)

    def folder(self) -> Path:
        return self.c.choice([self.root, *self.all(stat.S_ISDIR)])

    def new(self) -> Path:
        """A path that nothing has."""
        self.made += 1
        return self.folder() / f"{self.c.choice(NAMES)}{self.made}"

    def data(self) -> bytes:
        return self.c.randbytes(self.c.choice(SIZES))

    def change(self, deletes: bool) -> None:
        """Makes one change."""
        moves = MOVES | (DELETIONS if deletes else {})
        name = self.c.choice(list(moves))
        try:
            path = moves[name](self)
        except NothingError:
            return
        self.told.append(f"{name}: {os.fsencode(path.relative_to(self.root))!r}")


Move = Callable[[World], Path]
FILE, FOLDER, LINK = stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK


def edit(w: World) -> Path:
    path = w.one(FILE)
    path.write_bytes(w.data())
    return path


def edit_unseen(w: World) -> Path:
    """Neither size nor time tells it."""
    path = w.one(FILE, test=lambda path: 0 < path.stat().st_size < MIB)
    told, data = path.stat(), path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    return path


def append(w: World) -> Path:
    path = w.one(FILE)
    with path.open("ab") as file:
        file.write(w.data())
    return path


def replace(w: World) -> Path:
    path = w.one(FILE)
    other = path.with_name("moving")
    other.write_bytes(w.data())
    return other.rename(path)


def add_file(w: World) -> Path:
    path = w.new()
    path.write_bytes(w.data())
    return path


def add_link(w: World) -> Path:
    path = w.new()
    path.symlink_to(w.c.choice(TARGETS))
    return path


def add_folder(w: World) -> Path:
    path = w.new()
    path.mkdir()
    return path


def chmod(w: World) -> Path:
    path = w.one(FILE, FOLDER)
    path.chmod(w.c.choice(FOLDER_MODES if path.is_dir() else FILE_MODES))
    return path


def chown(w: World) -> Path:
    path = w.one(FILE, FOLDER, LINK)
    os.chown(path, w.c.choice([0, USER]), w.c.choice([0, GROUP]), follow_symlinks=False)
    return path


def set_attribute(w: World) -> Path:
    path = w.one(FILE, FOLDER)
    try:
        os.setxattr(path, w.c.choice(ATTRIBUTES), w.c.randbytes(w.c.choice([0, 1, 30, 700])))
    except OSError:  # some file systems have room for 4 kB of them
        raise NothingError from None
    return path


def remove_attribute(w: World) -> Path:
    path = w.one(FILE, FOLDER, test=lambda path: any(name.startswith("user.") for name in os.listxattr(path)))
    os.removexattr(path, w.c.choice([name for name in os.listxattr(path) if name.startswith("user.")]))
    return path


def set_acl(w: World) -> Path:
    path = w.one(FILE, FOLDER)
    os.setxattr(path, ACCESS, w.c.choice([ACCESS_ACL, NARROW_ACL]))
    return path


def remove_acl(w: World) -> Path:
    path = w.one(FILE, FOLDER, test=lambda path: ACCESS in os.listxattr(path))
    os.removexattr(path, ACCESS)
    return path


def set_default_acl(w: World) -> Path:
    path = w.one(FOLDER)
    if DEFAULT in os.listxattr(path):
        os.removexattr(path, DEFAULT)
    else:
        os.setxattr(path, DEFAULT, DEFAULT_ACL)
    return path


def touch(w: World) -> Path:
    path = w.one(FILE, FOLDER, LINK)
    stamp(path, w.c.choice(TIMES) + w.c.randrange(1_000_000))
    return path


def hard_link(w: World) -> Path:
    path, target = w.one(FILE), w.new()
    target.hardlink_to(path)
    return target


def unshare(w: World) -> Path:
    """A name of several becomes a file of its own, with the same bytes and the same time. A copy has no holes."""
    path = w.one(FILE, test=lambda path: path.stat().st_nlink > 1 and not has_holes(path))
    other = path.with_name("moving")
    shutil.copy2(path, other)
    return other.rename(path)


def join(w: World) -> Path:
    """A file becomes another name of another one."""
    path, target = w.one(FILE), w.one(FILE)
    if path.samefile(target):
        raise NothingError
    target.unlink()
    target.hardlink_to(path)
    return target


def retarget(w: World) -> Path:
    path = w.one(LINK)
    path.unlink()
    path.symlink_to(w.c.choice(TARGETS))
    return path


def file_becomes_link(w: World) -> Path:
    path = w.one(FILE)
    path.unlink()
    path.symlink_to(w.c.choice(TARGETS))
    return path


def link_becomes_file(w: World) -> Path:
    path = w.one(LINK)
    path.unlink()
    path.write_bytes(w.data())
    return path


def empty_becomes_other(w: World) -> Path:
    path = w.one(FOLDER, test=lambda path: not any(path.iterdir()))
    path.rmdir()
    if w.c.random() < 0.5:
        path.symlink_to(w.c.choice(TARGETS))
    else:
        path.write_bytes(w.data())
    return path


def make_sparse(w: World) -> Path:
    path = w.one(FILE)
    with path.open("r+b") as file:
        file.truncate(w.c.choice([0, 4_096]))
        file.truncate(w.c.choice([100, 50_000, 3 * MIB]))
        if w.c.random() < 0.5:
            file.seek(w.c.choice([0, 8_192, 40_000]))
            file.write(b"island")
    return path


def shorten(w: World) -> Path:
    path = w.one(FILE)
    os.truncate(path, path.stat().st_size // 2)
    return path


MOVES: dict[str, Move] = {
    move.__name__: move
    for move in (
        *(edit, edit_unseen, append, replace, add_file, add_link, add_folder, chmod, chown, set_attribute),
        *(remove_attribute, set_acl, remove_acl, set_default_acl, touch, hard_link, unshare, join, retarget),
        *(file_becomes_link, link_becomes_file, empty_becomes_other, make_sparse, shorten),
    )
}


def delete(w: World) -> Path:
    path = w.one(FILE, LINK)
    path.unlink()
    return path


def delete_folder(w: World) -> Path:
    path = w.one(FOLDER, test=lambda path: len(list(path.rglob("*"))) < 10)
    shutil.rmtree(path)
    return path


def rename(w: World) -> Path:
    path, target = w.one(FILE, LINK, FOLDER, test=lambda path: len(str(path)) < 500), w.new()
    if target.is_relative_to(path):
        raise NothingError
    return path.rename(target)


def becomes_folder(w: World) -> Path:
    path = w.one(FILE, LINK)
    path.unlink()
    path.mkdir()
    (path / "inner").write_bytes(w.data())
    return path


def folder_becomes_other(w: World) -> Path:
    path = w.one(FOLDER, test=lambda path: 0 < len(list(path.rglob("*"))) < 10)
    shutil.rmtree(path)
    path.write_bytes(w.data())
    return path


DELETIONS: dict[str, Move] = {
    move.__name__: move for move in (delete, delete_folder, rename, becomes_folder, folder_becomes_other)
}


def mirror(source: Path, out: Path) -> None:
    """Deletes at the destination what the source has lost.

    An empty directory that has become something else is left to shoal, unless something in it was deleted here. If a
    file loses a name, all its names are deleted: the others would count as files that another program has changed.
    """
    emptied, changed = set(), set()
    for folder, below, files in os.walk(out, topdown=False):
        for path in (Path(folder, name) for name in below + files):
            name = path.relative_to(out)
            if name.parts[0] == ".shoal" or len(str(path)) > 2_000:
                continue
            is_there, is_folder = os.path.lexists(source / name), is_kind(path, FOLDER)
            is_same = is_there and is_folder == is_kind(source / name, FOLDER)
            if is_same or (is_there and is_folder and path not in emptied and not any(path.iterdir())):
                continue
            changed.add(path.lstat().st_ino)
            shutil.rmtree(path) if is_folder else path.unlink()
            emptied.add(Path(folder))
    for folder, _, names in os.walk(out):
        for path in (Path(folder, name) for name in names):
            if path.lstat().st_ino in changed:
                path.unlink()


def tick(directory: Path) -> None:
    """Waits until the clock that stamps files has moved, so that a change after this has another time."""
    probe = directory / "clock"
    probe.touch()
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.touch()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners, and files that may not be read")
@pytest.mark.parametrize(
    ("seed", "deletes"),
    [
        *[(1, True), (2, False)],
        *[pytest.param(seed, seed % 2 == 0, marks=pytest.mark.slow) for seed in range(100, 120)],
    ],
)
def test_an_exact_copy_is_equal_after_random_changes_of_every_kind(
    shoal: Command, tmp_path: Path, seed: int, deletes: bool
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    build(source)
    (source / "sparse/large").unlink()  # it takes half of the time
    world = World(source, seed)
    try:
        for batch in range(BATCHES + 1):
            for _ in range(CHANGES // BATCHES if batch else 0):
                world.change(deletes)
            if deletes and batch:
                mirror(source, out)
            tick(tmp_path)
            world.told.append(f"-- copy {batch}")
            done = shoal.run("copy", "--exact", source, out, *(["--overwrite", "always"] if deletes else []))
            assert done.returncode == 0, done.stderr
            assert differences(describe(source), describe(out)) == []
            assert list((out / ".shoal/tmp").iterdir()) == []
        assert rsync.lines(source, out) == []
    except AssertionError as error:
        error.add_note("\n".join(world.told))
        raise
