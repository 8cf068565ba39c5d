"""The case `tree` of `shoal bench copy`: a directory of this machine, copied into another one beside it.

All programs keep the times and permissions of the files, which are compared with the bytes. Not here: copies from a
service (`jobs/copy.py`).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_bench import verify
from shoal_bench.contestants import WORKERS, Arena, Command, Contestant, Task
from shoal_bench.measure import Measured
from shoal_bench.results import Scale
from shoal_bench.settings import Settings

CASE = "tree"
COUNT, SIZE = 30_000, 10_000
FOLDER = 100  # files in a directory
EPOCH = 1_500_000_000  # time of the first file. Whole seconds: the usual format of tar keeps no more.
NONE = ("--durability", "none")


def _shoal(key: str, what: str, *options: str, **about: Any) -> Contestant:
    def command(task: Task) -> list[str]:
        words = [str(task.tree), str(task.directory), "--json", "--quiet"]
        return [sys.executable, "-m", "shoal", "copy", *words, *options]

    durability: Any = ("none", "never") if "none" in options else ("batch", "only")
    title = f"{what}, durability {durability[0]}"
    return Contestant(key, title, "shoal", command, cases=(CASE,), durable=durability[1], told=WORKERS, **about)


def contestants() -> list[Contestant]:
    """Returns every contestant, in the order in which they take turns."""

    def peer(key: str, title: str, command: Command) -> Contestant:
        return Contestant(key, title, "peer", command, workers=1, programs=(key,), cases=(CASE,))

    def tar(task: Task) -> list[str]:
        line = 'tar -C "$1" -cf - . | tar -C "$2" -xpf -'
        return ["sh", "-c", line, "sh", str(task.tree), str(task.directory)]

    return [
        _shoal("shoal-tree", "shoal copy", *NONE),
        _shoal("shoal-tree-1", "shoal copy --workers 1", *NONE, "--workers", "1", workers=1),
        _shoal("shoal-tree-batch", "shoal copy"),
        peer("cp", "cp -a", lambda task: ["cp", "-a", f"{task.tree}/.", str(task.directory)]),
        peer("rsync", "rsync -a", lambda task: ["rsync", "-a", f"{task.tree}/", str(task.directory)]),
        peer("tar", "tar | tar", tar),
    ]


@dataclass(frozen=True, kw_only=True)
class CopyingTree(Arena):
    """All copy the same directory, from the page cache, each time into an empty one."""

    tree: Path
    names: tuple[str, ...]

    @contextmanager
    def task(self, one: Contestant, number: int, scratch: Path) -> Iterator[Task]:
        """Makes a fresh directory."""
        size = self.count * int(self.size)
        directory = self.fresh(one, number, size)
        yield Task(directory=directory, count=self.count, scratch=scratch, tree=self.tree, size=size, fills=True)

    def fault(self, one: Contestant, task: Task, measured: Measured) -> str | None:  # noqa: ARG002
        """Compares every file: bytes, time and permissions."""
        directory = task.directory or self.place
        if wrong := verify.fault(directory, self.names, int(self.size)):
            return wrong
        for name in self.names:
            want, found = (os.lstat(os.path.join(where, name)) for where in (self.tree, directory))  # noqa: PTH118
            if (want.st_mtime_ns, want.st_mode) != (found.st_mtime_ns, found.st_mode):
                return f"{name} has another time or other permissions"
        return None


@contextmanager
def arena(settings: Settings, place: Path) -> Iterator[CopyingTree]:
    """Makes the directory; what was just written is in the page cache."""
    size, tree = settings.size or SIZE, place / "source"
    names = tuple(f"{number // FOLDER:05d}/object-{number:09d}" for number in range(settings.count))
    for number, name in enumerate(names):
        if number % FOLDER == 0:
            (tree / name).parent.mkdir(parents=True)
        path = os.path.join(tree, name)  # noqa: PTH118  # thirty thousand times: Path costs as much as the file
        with open(path, "xb", buffering=0) as file:  # noqa: PTH123
            file.write(verify.synthetic(name, size))
            os.utime(file.fileno(), (EPOCH + number, EPOCH + number))
    scale = Scale(settings.count, "time", f"A directory of {FOLDER} files in each of its directories.", figures=False)
    checked = "every byte, time and permission compared"
    about: dict[str, Any] = {"scale": scale, "checked": checked, "tree": tree, "names": names}
    yield CopyingTree(place=place, count=settings.count, size=size, **about)
