"""Whether every object is there with every byte, and nothing else; and since when. Not here: their writers."""

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

LINES, COLUMNS = 5000, 10  # of a file of the study of saving


def synthetic(name: str, size: int) -> bytes:
    """Returns the bytes of an object that `shoal serve --synthetic` makes up: name and newline, repeated and cut."""
    period = f"{name}\n".encode()
    return (period * (size // len(period) + 1))[:size]


def tables(count: int) -> Callable[[int], bytes]:
    """Returns what makes the content of a file of the study of saving, fifty times as fast as the study's function.

    Line i of file k has the numbers from k + i on, so that files share all lines but their first and last ones.
    """
    lines = [",".join(str(first + column) for column in range(COLUMNS)) for first in range(count + LINES)]
    return lambda number: "\n".join(lines[number : number + LINES]).encode()


def proof(name: str, data: bytes) -> int:
    """Returns a number that a file's name and content give; contestants that read add it up over all files."""
    return zlib.crc32(data, zlib.crc32(os.fsencode(name)))


def fault(directory: Path, names: Iterable[str], size: int) -> str | None:
    """Returns what is wrong with the files below a directory; None: they are these made-up objects, byte for byte.

    Args:
        directory: Where they were written; `.shoal` in it is shoal's own.
        names: The objects that must be there, each once.
        size: Bytes of each.
    """
    return difference(directory, names, lambda name: synthetic(name, size))


def difference(directory: Path, names: Iterable[str], content: Callable[[str], bytes]) -> str | None:
    """Returns how the files below a directory differ from what `content` makes for these names; None: not at all."""
    missing = set(names)
    for path in files(directory):
        name = os.path.relpath(path, directory)
        if name not in missing:
            return f"{name} should not be there"
        missing.remove(name)
        with open(path, "rb") as file:  # noqa: PTH123  # a hundred thousand times: Path costs as much as the read
            if file.read() != content(name):
                return f"{name} has the wrong bytes"
    return f"{len(missing)} objects are missing, {min(missing)} among them" if missing else None


def hashes(directory: Path, known: Mapping[str, tuple[int, str]]) -> str | None:
    """Returns how the files below a directory differ from these names, sizes and SHA-256; None: not at all."""
    missing = set(known)
    for path in files(directory):
        name = os.path.relpath(path, directory)
        if name not in missing:
            return f"{name} should not be there"
        missing.remove(name)
        with open(path, "rb") as file:  # noqa: PTH123
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if (file.tell(), digest) != known[name]:
                return f"{name} has the wrong bytes"
    return f"{len(missing)} files are missing, {min(missing)} among them" if missing else None


def span(directory: Path) -> tuple[float, float] | None:
    """Returns when the first and the last file below a directory got their last change, in seconds since 1970.

    That is the change of the inode: programs that unpack set the time of the content to what the archive says. None:
    there is no file.
    """
    changed = [
        entry.stat(follow_symlinks=False).st_ctime
        for entry in _entries(directory)
        if entry.is_file(follow_symlinks=False)
    ]
    return (min(changed), max(changed)) if changed else None


def files(directory: Path) -> Iterator[str]:
    """Yields the path of every file below a directory that is not shoal's own."""
    return (entry.path for entry in _entries(directory))


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    stack = [str(directory)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".shoal":
                        stack.append(entry.path)
                else:
                    yield entry
