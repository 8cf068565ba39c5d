"""A tree as it is on disk (`look`), as a copy of it must be (`wanted`), and as a world begins (`grow`).

Not here: how a tree changes (`moves.py`).
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import forked
from random_worlds import any_size as usual_size

ANCHOR = "anchor.bin"  # a file that all filters select and no change meets: an empty source is an error
FOLDERS = ["", "", "d0", "d1", "d1/e", "with space", "d1/e/ü/deep", os.fsdecode(b"raw\xff")]
STEMS = ["f{n}", "f{n}", "f{n}", "-f{n}", ".f{n}", "ü {n}", "[*?]{n}", "a\nb{n}", "back\\{n}", "%41{n}", "'\"{n}"]
STEMS += [os.fsdecode(b"\xfe{n}"), "l" * 240 + "{n}"]
SUFFIXES = [".bin", ".bin", ".txt", ""]
# 64 KiB are handed on whole, more in pieces; read in blocks of the same size, up to 1 MiB at once.
EDGES = [at + by for at in (4096, 65_536, 131_072, 1 << 20) for by in (-1, 0, 1)]
MODES = (0o644, 0o644, 0o600, 0o755, 0o640, 0o4755)
FOLDER_MODES = (0o755, 0o755, 0o700, 0o750, 0o2775)
# Seconds: none, which is now; old, with an odd fraction; before 1970; later than now.
TIMES = (None, 1_000_000_000, 1_234_567_890.123456789, -86_400.5, 4_000_000_000)


class Version(NamedTuple):
    """What is copied of a file or link. A link has no permissions."""

    kind: str
    data: bytes
    mode: int
    mtime: int


@dataclass(frozen=True)
class Entry:
    """What is at one path. `data` is the bytes of a file, the target of a link."""

    kind: str  # file, directory or link
    data: bytes
    mode: int
    mtime: int
    inode: int
    ctime: int

    @property
    def version(self) -> Version:
        """What is copied of it."""
        return Version(self.kind, self.data, self.mode & 0o777 & ~forked.umask(), self.mtime)

    @property
    def lasting(self) -> tuple[object, ...]:
        """What only changes if something is done to it. A directory's time changes with what is in it."""
        return self.kind, self.data, self.mode, 0 if self.kind == "directory" else self.mtime, self.inode


def entry(path: Path, *, follows: bool = False) -> Entry:
    """Looks at one path."""
    told = path.stat(follow_symlinks=follows)
    kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}[stat.S_IFMT(told.st_mode)]
    data = path.read_bytes() if kind == "file" else os.fsencode(path.readlink()) if kind == "link" else b""
    mode = 0 if kind == "link" else stat.S_IMODE(told.st_mode)
    return Entry(kind, data, mode, told.st_mtime_ns, told.st_ino, told.st_ctime_ns)


def look(root: Path) -> dict[str, Entry]:
    """Everything below a directory but shoal's own."""
    found = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == root and ".shoal" in folders:
            folders.remove(".shoal")
        for name in folders + files:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = entry(path)
    return found


def selects(filters: tuple[str, ...], name: str, *, is_directory: bool = False) -> bool:
    """Whether filters as of the command line select a file, or an empty directory. Patterns are `*.bin` or `d1/`."""
    parts = name.split("/")
    folders = parts if is_directory else parts[:-1]
    pairs = list(zip(filters[::2], filters[1::2], strict=True))
    includes = [pattern for option, pattern in pairs if option == "--include"]
    excludes = [pattern for option, pattern in pairs if option == "--exclude"]
    is_excluded = any(p[:-1] in folders if p[-1] == "/" else any(n.endswith(p[1:]) for n in parts) for p in excludes)
    return not is_excluded and (not includes or any(name.endswith(pattern[1:]) for pattern in includes))


@dataclass(frozen=True)
class Wanted:
    """What a copy must have.

    Attributes:
        files: Files, and links where they are copied.
        modes: The permissions of their directories, and of all that the filters select.
        gone: Links that are followed and lead to nothing.
    """

    files: dict[str, Entry]
    modes: dict[str, int]
    gone: set[str]


def wanted(root: Path, filters: tuple[str, ...], *, follows: bool) -> Wanted:
    """Looks at a source."""
    files: dict[str, Entry] = {}
    gone: set[str] = set()
    modes: dict[str, int] = {}
    needed: set[str] = set()

    def walk(folder: Path, name: str, above: set[tuple[int, int]]) -> None:
        told = folder.stat()
        if (told.st_dev, told.st_ino) in above:  # a link that leads to where it is
            return
        modes[name] = stat.S_IMODE(told.st_mode)
        if name and selects(filters, name, is_directory=True):
            needed.add(f"{name}/")
        for child in folder.iterdir():
            below = f"{name}/{child.name}".lstrip("/")
            is_link = child.is_symlink()
            if child.is_dir() and (follows or not is_link):
                walk(child, below, above | {(told.st_dev, told.st_ino)})
            elif not selects(filters, below):
                continue
            elif is_link and follows and not child.exists():
                gone.add(below)
            else:
                files[below] = entry(child, follows=follows)
                needed.add(below)

    walk(root, "", set())
    directories = {name[:at] for name in needed for at, letter in enumerate(name) if letter == "/"}
    return Wanted(files, {name: mode for name, mode in modes.items() if name in directories}, gone)


def any_size(c: random.Random) -> int:
    """How long a file is."""
    return c.choice(EDGES) if c.random() < 0.03 else usual_size(c)


def put(path: Path, c: random.Random) -> None:
    """Writes a new file with any permissions and time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789" if path.name == ANCHOR else c.randbytes(any_size(c)))
    path.chmod(c.choice(MODES))
    if (time := c.choice(TIMES)) is not None:
        os.utime(path, (time, time))


def any_name(c: random.Random, n: int) -> str:
    """A path that no other number has."""
    return f"{c.choice(FOLDERS)}/{c.choice(STEMS)}{c.choice(SUFFIXES)}".lstrip("/").replace("{n}", str(n))


def grow(root: Path, c: random.Random, count: int) -> None:
    """Makes a source and a twin of it, and what its links lead to, twice. Twins are alike but for some bytes."""
    root.mkdir()
    put(root / ANCHOR, c)
    for n in range(count):
        put(root / any_name(c, n), c)
    for version in ("v1", "v2"):
        for below in ("one.bin", "two/three.txt", "two/four.bin"):
            path = root.with_name(f"{root.name}-{version}") / below
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(c.randbytes(99))
            os.utime(path, (1_000_000_000, 1_000_000_000))
    targets = [f"../{root.name}-v1/one.bin", f"../{root.name}-v1/two", "nowhere", ".", "../" + root.name]
    for number, target in enumerate(targets):
        (root / f"link{number}").symlink_to(target)
    for folder, _, _ in os.walk(root):
        Path(folder).chmod(c.choice(FOLDER_MODES))
    twin = shutil.copytree(root, root.with_name(f"{root.name}-twin"), symlinks=True)
    for path in (path for path in twin.rglob("*") if path.is_file() and path.stat().st_size and c.random() < 0.5):
        told = path.stat()
        path.write_bytes(c.randbytes(told.st_size))
        os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
