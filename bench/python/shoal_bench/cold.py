"""Brings files into the page cache, or takes them out and looks whether they are. Not here: which (`jobs/`)."""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from shoal import RunError

LEFT = 0.01  # part of a file's pages that may stay: some other process may hold a few
PAGE = mmap.PAGESIZE


def resident(path: Path) -> tuple[int, int]:
    """Returns how many pages of a file are in the page cache, and how many it has.

    Raises:
        OSError: The file cannot be read, or the system does not tell.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return 0, 0
        pages = -(-size // PAGE)
        # A private mapping that could be written, since only that gives ctypes its address; nothing touches its pages.
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
            found = (ctypes.c_ubyte * pages)()
            first = ctypes.c_char.from_buffer(mapped)
            done = ctypes.CDLL(None, use_errno=True).mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), found
            )
            error = ctypes.get_errno()
            del first  # else the mapping cannot be closed
        if done != 0:
            raise OSError(error, os.strerror(error), str(path))
    return sum(one & 1 for one in found), pages


def bring(path: Path) -> None:
    """Reads a file, so that it is in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def drop(paths: Iterable[Path]) -> None:
    """Takes files out of the page cache; what was written to them must be durable before.

    Raises:
        RunError: Some of them are still there.
    """
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        stayed, pages = resident(path)
        if stayed > LEFT * pages:
            raise RunError(
                f"{str(path)!r} stays in the page cache: {stayed} of {pages} pages",
                hint="leave out --cold, or name a directory on a disk with --dir",
            )
