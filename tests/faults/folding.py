"""File systems that lack something: `folding.py STORE MOUNTPOINT [plain]`. Runs until it is unmounted.

The first does not tell names apart by case, as on macOS and Windows: a name keeps the case in which it was made, and
`CASE` finds `case`. A plain one has files and directories and nothing else, as FAT: it refuses links of both kinds,
owners, permissions and attributes.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import Any

import mfusepy


class Folding(mfusepy.Operations):  # type: ignore[misc]  # it has no types
    """Passes everything on to the files below STORE."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def at(self, path: str) -> str:
        """Where a path is stored."""
        place = str(self.store)
        for part in path.strip("/").split("/"):
            present = os.listdir(place) if os.path.isdir(place) else []
            place += "/" + next((name for name in present if name.lower() == part.lower()), part)
        return place

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = os.fstat(fh) if fh is not None else os.lstat(self.at(path))
        keys = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_atime", "st_mtime", "st_ctime")
        return {key: getattr(status, key) for key in keys}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self.at(path))]

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        # Looked up before: the kernel asks for a name once, and may have cached that CASE was not there.
        return os.open(self.at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(self.at(path), flags & ~os.O_EXCL & ~os.O_CREAT)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(fh if fh is not None else self.at(path), length)

    def flush(self, path: str, fh: int) -> None:
        pass

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        os.fsync(fh)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self.at(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self.at(path))

    def unlink(self, path: str) -> None:
        os.unlink(self.at(path))

    def link(self, target: str, source: str) -> None:
        os.link(self.at(source), self.at(target))

    def rename(self, old: str, new: str, flags: int = 0) -> None:
        if flags:
            raise mfusepy.FuseOSError(errno.EINVAL)
        os.rename(self.at(old), self.at(new))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self.at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self.at(path), uid, gid)

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> None:
        os.utime(self.at(path), times)

    def statfs(self, path: str) -> dict[str, int]:
        status = os.statvfs(self.at(path))
        keys = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize", "f_namemax")
        return {key: getattr(status, key) for key in keys}


class Plain(Folding):
    """The same with files and directories alone, and times in nanoseconds. Names differ in case."""

    use_ns = True

    def at(self, path: str) -> str:
        return f"{self.store}{path}"

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        status = os.fstat(fh) if fh is not None else os.lstat(self.at(path))
        times = {f"st_{key}": getattr(status, f"st_{key}_ns") for key in ("atime", "mtime", "ctime")}
        return super().getattr(path, fh) | times

    def utimens(self, path: str, times: Any = None) -> None:
        os.utime(self.at(path), ns=times or (time.time_ns(),) * 2)

    def refuse(self, *_: object) -> None:
        raise mfusepy.FuseOSError(errno.EPERM)

    symlink = link = chmod = chown = refuse  # type: ignore[assignment]


if __name__ == "__main__":
    system = Plain if "plain" in sys.argv else Folding
    mfusepy.FUSE(system(Path(sys.argv[1])), sys.argv[2], foreground=True, nothreads=True)
