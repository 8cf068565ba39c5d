"""A tree with everything that a file system can hold, an exact description of a tree, and what tells two apart.

`build` makes the tree as whoever runs it: root makes more (owners, devices, attributes of the system). `describe` says
all that an exact copy must keep, and `differences` compares two descriptions. As a program, this file builds a tree:
`every_kind.py DIRECTORY`. Not here: what rsync says of two trees (`rsync.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

USER, GROUP = 1234, 5678  # of entries in ACLs, and of files that root makes: nothing has to know them
OTHER_USER = 4321
DEPTH, WIDTH = 16, 249  # 16 directories whose names have 249 bytes: a path of 4,000 with the slashes
# Before 1970, at its begin, with every digit of the nanoseconds, and later than now.
TIMES = (-1_000_000_000_123_456_789, 0, 1_234_567_890_123_456_789, 4_000_000_000_000_000_001)
MIB = 1 << 20
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
CAPABILITY = "security.capability"
NET_BIND = struct.pack("<5I", 0x0200_0001, 1 << 10, 0, 0, 0)  # cap_net_bind_service=ep


def acl(*entries: tuple[int, int, int | None]) -> bytes:
    """The bytes of an ACL as the kernel takes them (linux/posix_acl_xattr.h): tag, permissions, whose."""
    words = [struct.pack("<HHI", tag, bits, 0xFFFF_FFFF if whose is None else whose) for tag, bits, whose in entries]
    return struct.pack("<I", 2) + b"".join(words)


# Tags: 1 owner, 2 a user, 4 the group, 8 another group, 16 the mask (which the permission bits show), 32 all others.
ACCESS_ACL = acl(
    (1, 6, None), (2, 6, USER), (2, 4, OTHER_USER), (4, 4, None), (8, 4, GROUP), (16, 6, None), (32, 0, None)
)
WIDE_ACL = acl((1, 7, None), (2, 6, USER), (4, 4, None), (16, 6, None), (32, 0, None))
NARROW_ACL = acl((1, 7, None), (2, 5, USER), (4, 0, None), (16, 5, None), (32, 0, None))  # the group has less
DEFAULT_ACL = acl((1, 7, None), (2, 7, USER), (4, 5, None), (16, 7, None), (32, 0, None))


@dataclass(frozen=True)
class Entry:
    """What is at one path.

    Attributes:
        kind: file, directory, link; or pipe, socket, device.
        size: Bytes of a file.
        digest: SHA-256 of a file, or why it cannot be read.
        mode: All twelve permission bits; of a link none, since it has none.
        owner: Numbers of the user and the group.
        mtime: Nanoseconds.
        attributes: All extended attributes, ACLs too.
        target: The text of a link.
        group: All names of this file in the tree, if it has several.
        blocks: Of 512 bytes, if they are fewer than the size needs: then the file has holes.
    """

    kind: str
    size: int | None
    digest: str | None
    mode: int | None
    owner: tuple[int, int]
    mtime: int
    attributes: Mapping[str, bytes]
    target: bytes | None
    group: tuple[bytes, ...]
    blocks: int | None


KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
SPECIAL = ("pipe", "socket", "device")  # nothing copies them
ROOT = b"."  # what a description calls the root of its tree


def describe(root: Path, *, special: bool = False) -> dict[bytes, Entry]:
    """Describes a tree: each path below its root but shoal's own, and the root itself.

    Paths may be longer than a system call takes. Pipes, sockets and devices are left out unless asked for.
    """
    seen = list(look(root))
    names: dict[tuple[int, int], list[bytes]] = {}
    for path, told, _ in seen:
        if not stat.S_ISDIR(told.st_mode):
            names.setdefault((told.st_dev, told.st_ino), []).append(path)
    found = {}
    for path, told, content in seen:
        kind, group = KINDS[stat.S_IFMT(told.st_mode)], names.get((told.st_dev, told.st_ino), [])
        if kind in SPECIAL and not special:
            continue
        has_holes = kind == "file" and told.st_blocks * 512 < told.st_size
        found[path] = Entry(
            kind=kind,
            size=told.st_size if kind == "file" else None,
            digest=content.digest,
            mode=None if kind == "link" else stat.S_IMODE(told.st_mode),
            owner=(told.st_uid, told.st_gid),
            mtime=told.st_mtime_ns,
            attributes=content.attributes,
            target=content.target,
            group=tuple(sorted(group)) if len(group) > 1 else (),
            blocks=told.st_blocks if has_holes else None,
        )
    return found


@dataclass(frozen=True)
class Content:
    """What `stat` does not say."""

    digest: str | None
    target: bytes | None
    attributes: Mapping[str, bytes]


def look(root: Path) -> Iterator[tuple[bytes, os.stat_result, Content]]:
    """Looks at everything in a tree by way of open directories, so that no path is too long."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield ROOT, os.fstat(folder), Content(None, None, attributes(f"/proc/self/fd/{folder}", follows=True))
        yield from look_below(folder, b"")
    finally:
        os.close(folder)


def look_below(folder: int, above: bytes) -> Iterator[tuple[bytes, os.stat_result, Content]]:
    """Looks at all that is below an open directory."""
    for name in sorted(os.listdir(folder)):
        path = above + os.fsencode(name)
        if path == b".shoal":
            continue
        way = f"/proc/self/fd/{folder}/{name}"
        told = os.lstat(way)
        if stat.S_ISREG(told.st_mode) and told.st_blocks * 512 < told.st_size:
            told = settled(way)
        target = os.fsencode(os.readlink(name, dir_fd=folder)) if stat.S_ISLNK(told.st_mode) else None
        yield path, told, Content(digest(way) if stat.S_ISREG(told.st_mode) else None, target, attributes(way))
        if stat.S_ISDIR(told.st_mode):
            with contextlib.suppress(PermissionError):  # its own entry says what it permits
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                try:
                    yield from look_below(below, path + b"/")
                finally:
                    os.close(below)


def settled(way: str) -> os.stat_result:
    """Looks at a file with holes once it is on disk: until then, ext4 does not count the blocks with its extents."""
    with contextlib.suppress(PermissionError), Path(way).open("rb") as file:
        os.fsync(file)
    return os.lstat(way)


def digest(way: str) -> str:
    try:
        with Path(way).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError:
        return "unreadable"


def attributes(way: str, *, follows: bool = False) -> dict[str, bytes]:
    """All extended attributes that this process may see."""
    try:
        names = os.listxattr(way, follow_symlinks=follows)
        return {name: os.getxattr(way, name, follow_symlinks=follows) for name in sorted(names)}
    except PermissionError:
        return {}


def differences(wanted: Mapping[bytes, Entry], found: Mapping[bytes, Entry]) -> list[str]:
    """Says what tells the second tree from the first, a line for each path; nothing if they are equal."""
    lines = [f"missing: {shown(path)}" for path in sorted(wanted.keys() - found.keys())]
    lines += [f"not expected: {shown(path)}: {found[path].kind}" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        one, other = wanted[path], found[path]
        apart = [field.name for field in fields(Entry) if getattr(one, field.name) != getattr(other, field.name)]
        if apart == ["blocks"] and are_alike(one, other):
            apart = []
        if apart:
            said = (f"{name} {text(name, one, other)}, found {text(name, other, one)}" for name in apart)
            lines.append(f"{shown(path)}: {'; '.join(said)}")
    return lines


def are_alike(one: Entry, other: Entry) -> bool:
    """Whether the blocks of two files differ by no more than one that a file system may take for the attributes."""
    return bool(one.attributes) and None not in (one.blocks, other.blocks) and abs(one.blocks - other.blocks) <= 8  # type: ignore[operator]


def text(name: str, entry: Entry, other: Entry) -> str:
    """One field of an entry, to be read; of attributes those that the other one has not."""
    value = getattr(entry, name)
    if name == "mode" and value is not None:
        return f"{value:04o}"
    if name == "attributes":
        own = {key: data for key, data in value.items() if other.attributes.get(key) != data}
        return str({key: data if len(data) < 20 else f"{len(data)} bytes" for key, data in own.items()})
    if name == "blocks":
        return f"{value} for {entry.size} bytes"
    if name == "group":
        return f"of {len(value)} names" + "".join(f" {shown(path)}" for path in value[:2])
    return shown(value) if isinstance(value, bytes) else str(value)


def shown(path: bytes) -> str:
    return repr(path if len(path) <= 120 else path[:50] + b"..." + path[-50:])[1:]


def build(root: Path, *, unreadable: bool = False) -> None:
    """Builds the tree. With `unreadable`, an ordinary user cannot read some of it."""
    root.mkdir()
    for part in (files, links, hard_links, holes, extended, modes, special_files, deep):
        part(root)
    if os.geteuid() == 0:
        owners(root / "owners")
        system_attributes(root / "system")
    else:
        groups(root / "groups")
    if unreadable:
        put(root / "unreadable/file", b"x", 0o000)
        put(root / "unreadable/directory/below", b"x")
        (root / "unreadable/directory").chmod(0)
    stamp_directories(root)


def put(path: Path, data: bytes = b"", mode: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if mode is not None:
        path.chmod(mode)
    return path


def stamp(path: Path, time: int) -> None:
    os.utime(path, ns=(time, time), follow_symlinks=False)


def files(root: Path) -> None:
    """Names, sizes, and times of files."""
    chance = random.Random("every kind")
    names = [b"plain", b"raw\xff\xfe", b"new\nline", b"back\\slash", b" two  spaces ", b"-x"]
    for raw in [*names, "ü".encode() * 127, b"n" * 255, b"\xff" * 255]:
        put(root / "names" / os.fsdecode(raw), raw)
    for number, time in enumerate(TIMES):
        stamp(put(root / f"times/{number}", b"x"), time)
    for size in (0, 1, 4095, 4096, 65_536, 65_537, 300_000, 5 * MIB):
        put(root / f"sizes/{size}", chance.randbytes(size))
    put(root / "sizes/zeros", bytes(100_000))  # written, so they have their blocks
    for name in ("empty", "nested/empty", os.fsdecode(b"raw\xff")):
        (root / "directories" / name).mkdir(parents=True)


def links(root: Path) -> None:
    """Symbolic links, some of which lead nowhere, out or in a circle."""
    put(root / "links/file", b"a file")
    (root / "links/directory").mkdir()
    targets = {
        "relative": "file",
        "up": "../sizes/1",
        "absolute": str(root / "links/file"),
        "dangling": "nowhere",
        "to a directory": "directory",
        "to the top": "..",
        "to itself": "to itself",
        "there": "back",
        "back": "there",
        "chain": "chain 2",
        "chain 2": "relative",
        "outside": "../../outside/of/the/tree",
        "outside, absolute": "/dev/null",
        "long": "x/" * 2_000,
        "directory/raw": os.fsdecode(b"\xff\n\xfe"),
        os.fsdecode(b"raw\xff"): "file",
        "l" * 255: "file",
        "odd": "./..//links/./file",
    }
    for number, (name, target) in enumerate(targets.items()):
        (root / "links" / name).symlink_to(target)
        stamp(root / "links" / name, TIMES[number % len(TIMES)] + number)


def hard_links(root: Path) -> None:
    """Groups of names, in several directories: also of a file with holes, and of one that a link leads to."""
    for count in (2, 3, 150):
        first = put(root / f"hard/{count}/first", f"a file with {count} names".encode() * 50, 0o640)
        for number in range(1, count):
            name = root / f"hard/{count}/{number % 7}/{number}"
            name.parent.mkdir(exist_ok=True)
            name.hardlink_to(first)
    stamp(root / "hard/3/first", TIMES[2])
    sparse(root / "hard/sparse", 200_000, (100_000,))
    (root / "sizes/a name of hard-sparse").hardlink_to(root / "hard/sparse")
    (root / "hard/link").symlink_to("3/first")
    (root / "hard/large").hardlink_to(root / f"sizes/{5 * MIB}")


def sparse(path: Path, size: int, islands: tuple[int, ...], length: int = 4096) -> Path:
    """Makes a file of holes with some data in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for at in islands:
            file.seek(at)
            file.write(bytes([at % 255 + 1]) * length)
        file.truncate(size)
    return path


def holes(root: Path) -> None:
    """Files with holes, of every size and at every place."""
    sparse(root / "sparse/small", 40_960, (0, 36_864))
    sparse(root / "sparse/large", 80 * MIB, tuple(range(0, 80 * MIB, 9 * MIB)), 100_000)
    sparse(root / "sparse/hole at the end", 400_000, (0,), 10)
    sparse(root / "sparse/hole at the begin", 400_000, (399_000,), 1_000)
    sparse(root / "sparse/nothing else", MIB, ())
    sparse(root / "sparse/nothing else, small", 100, ())
    sparse(root / "sparse/a hole of one block", 8_198, (0, 8_192))
    sparse(root / "sparse/odd", 1_000_001, (12_345, 70_000, 500_001), 777)


def extended(root: Path) -> None:
    """Attributes of users and ACLs, of files and directories. An ACL changes permissions, so it comes after them."""
    for name in ("file", "directory/file"):
        put(root / "attributes" / name, b"x", 0o600)
    put(root / "attributes/many", b"x" * 100_000)
    for path in (root / "attributes/file", root / "attributes/directory", root / "attributes/many"):
        os.setxattr(path, "user.text", b"a value")
        os.setxattr(path, "user.empty", b"")
        os.setxattr(path, os.fsdecode(b"user.\xffname with spaces"), bytes(range(256)))
    os.setxattr(root / "attributes/many", "user.large", b"l" * 3_000)
    for name, of_file, of_directory in (("access", ACCESS_ACL, WIDE_ACL), ("narrow", NARROW_ACL, NARROW_ACL)):
        os.setxattr(put(root / "acl" / name, b"x", 0o640), ACCESS, of_file)
        (root / "acl" / f"{name} directory").mkdir()
        os.setxattr(root / "acl" / f"{name} directory", ACCESS, of_directory)
    put(root / "acl/default/made before", b"x", 0o644)  # so nothing is inherited: a copy must not inherit it either
    (root / "acl/default/directory made before").mkdir()
    os.setxattr(root / "acl/default", DEFAULT, DEFAULT_ACL)
    put(root / "acl/default/made after", b"x")
    (root / "acl/default/directory made after").mkdir()


def modes(root: Path) -> None:
    """Permissions, also those that are odd."""
    for mode in (0o400, 0o444, 0o600, 0o640, 0o666, 0o755, 0o777, 0o1644, 0o2755, 0o4711, 0o6755):
        put(root / f"modes/file-{mode:04o}", b"x", mode)
    for mode in (0o500, 0o555, 0o700, 0o711, 0o755, 0o1777, 0o2775, 0o3770):
        folder = root / f"modes/directory-{mode:04o}"
        put(folder / "file", b"x", 0o644)
        put(folder / "below/file", b"x", 0o644)
        (root / f"modes/empty-{mode:04o}").mkdir()
        (root / f"modes/empty-{mode:04o}").chmod(mode)
        (folder / "below").chmod(mode)
        folder.chmod(mode)


def special_files(root: Path) -> None:
    """What nothing copies: pipes, sockets, and devices if root makes the tree."""
    (root / "special").mkdir()
    os.mkfifo(root / "special/pipe")
    way = os.open(root / "special", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{way}/socket")  # a path of at most 107 bytes
    os.close(way)
    if os.geteuid() == 0:
        os.mknod(root / "special/device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))


def special_count() -> dict[str, int]:
    """How many of them `build` makes, by the reason for which a copy leaves them out."""
    return {"pipe": 1, "socket": 1} | ({"device": 1} if os.geteuid() == 0 else {})


def deep(root: Path, levels: int = DEPTH) -> bytes:
    """Makes a path of 250 bytes for each level, with a file at its end; returns it."""
    folder, path = os.open(root, os.O_RDONLY), b""
    for level in range(levels):
        name = f"{level:02}-".encode().ljust(WIDTH, b"d")
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder, path = below, path + name + b"/"
    file = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
    os.write(file, b"deep")
    os.close(file)
    os.close(folder)
    return path + b"f"


def owners(root: Path) -> None:
    """Files, links and directories of other users. What root gives away loses its set-id bits, so they come after."""
    for name, owner in {"user": (USER, 0), "group": (0, GROUP), "both": (USER, GROUP)}.items():
        path = put(root / name, b"x" * 1_000)
        (root / f"{name} link").symlink_to(name)
        put(root / f"{name} directory/file", b"x")
        large = put(root / f"{name} large", b"x" * 200_000)
        for one in (path, large, root / f"{name} link", root / f"{name} directory"):
            os.chown(one, *owner, follow_symlinks=False)
        path.chmod(0o6751)
        (root / f"{name} directory").chmod(0o2770)
    (root / "another name of both").hardlink_to(root / "both")


def groups(root: Path) -> None:
    """Files of the other groups of a user, who may give them away."""
    root.mkdir()
    for group in os.getgroups():
        path = put(root / str(group), b"x")
        os.chown(path, -1, group)
        path.chmod(0o2710)
        (root / f"{group} directory").mkdir()
        os.chown(root / f"{group} directory", -1, group)
        (root / f"{group} directory").chmod(0o2750)


def system_attributes(root: Path) -> None:
    """Attributes that only root sets. A change of the owner would take the capability away."""
    program = put(root / "program", b"x", 0o755)
    os.chown(program, USER, GROUP)
    os.setxattr(program, CAPABILITY, NET_BIND)
    os.setxattr(put(root / "trusted", b"x"), "trusted.text", b"a value")
    os.setxattr(root, "trusted.text", b"of a directory")


def stamp_directories(root: Path) -> None:
    """Gives each directory a time of its own; the deepest come first, since the path may be too long for one call."""
    for number, (_, _, _, folder) in enumerate(os.fwalk(root, topdown=False)):
        time = TIMES[number % len(TIMES)] + number * 1_000_003
        os.utime(folder, ns=(time, time))


if __name__ == "__main__":
    build(Path(sys.argv[1]), unreadable="--unreadable" in sys.argv)
