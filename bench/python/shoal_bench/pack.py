"""Packs archives as it is told on its standard input, and says what is in them: one process of the making of a corpus.

The hashes that it prints are of the bytes that went in, made with Python alone: what contestants unpack is compared
with them. Not here: which files, and how many archives (`corpus.py`).
"""

import hashlib
import itertools
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from shoal_bench.verify import synthetic

LEVEL = 6  # of deflate; what zip programs take if they are not told
WHEN = (2020, 1, 1, 0, 0, 0)  # of every entry, so that the same files give the same archive
PIECE = 1 << 20  # bytes


@dataclass(frozen=True)
class Entry:
    """One entry of an archive.

    Attributes:
        name: Its name.
        size: Its bytes; of one file, those the file has when it is packed.
        files: What it is made of: one file; or several, one after the other and over again, up to the size; or none,
            and then it is its name, over and over.
    """

    name: str
    size: int
    files: tuple[str, ...]


def content(entry: Entry) -> Iterator[bytes]:
    """Yields the bytes of an entry in pieces."""
    if not entry.files:
        yield synthetic(entry.name, entry.size)
    elif len(entry.files) == 1:
        with open(entry.files[0], "rb") as file:  # noqa: PTH123  # ten thousand times
            yield file.read()
    else:
        left = entry.size
        for path in itertools.cycle(entry.files):
            with open(path, "rb") as file:  # noqa: PTH123
                while left and (piece := file.read(min(PIECE, left))):
                    left -= len(piece)
                    yield piece
            if not left:
                return


def pack(path: str, entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    """Makes an archive and makes it durable, so that it can be dropped from the page cache; returns what is in it."""
    found = {}
    with open(path, "xb") as file:  # noqa: PTH123
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
            for entry in entries:
                about = zipfile.ZipInfo(entry.name, WHEN)
                about.compress_type = zipfile.ZIP_DEFLATED
                about.external_attr = 0o100644 << 16
                about.file_size = entry.size  # so that one over 2 GiB gets the header that it needs
                size, digest = 0, hashlib.sha256()
                with archive.open(about, "w") as packed:
                    for piece in content(entry):
                        packed.write(piece)
                        digest.update(piece)
                        size += len(piece)
                found[entry.name] = (size, digest.hexdigest())
        file.flush()
        os.fsync(file.fileno())
    return found


def plan(archives: Sequence[tuple[str, Sequence[Entry]]]) -> str:
    """Returns what a process is to read."""
    return json.dumps([(path, [asdict(entry) for entry in entries]) for path, entries in archives])


def main() -> None:
    """Reads a plan, packs it, prints one line of JSON."""
    found: dict[str, tuple[int, str]] = {}
    for path, entries in json.load(sys.stdin):
        found |= pack(path, [Entry(one["name"], one["size"], tuple(one["files"])) for one in entries])
    print(json.dumps(found))
