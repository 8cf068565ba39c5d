"""Runs programs without the rights of root: as another user if root runs the tests, else as the one who does.

`OrdinaryUser` has a directory of its own, since those of the tests are closed to others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import every_kind
from conftest import Command, end

USER, GROUPS = 12345, (12345, 12346)  # no account has to have these numbers
BECOME: tuple[str, ...] = (
    *("setpriv", f"--reuid={USER}", f"--regid={GROUPS[0]}", "--groups", ",".join(map(str, GROUPS))),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
)
NEEDS = "needs an installation that other users can read"


@cache
def works() -> bool:
    """Whether another user can run the command here; whoever is not root needs no other one."""
    if os.geteuid() != 0:
        return True
    if shutil.which("setpriv") is None:
        return False
    return subprocess.run([*BECOME, sys.executable, "-c", "import shoal"], capture_output=True, cwd="/").returncode == 0


class OrdinaryUser:
    """A user without any rights.

    Attributes:
        home: A directory that belongs to the user.
        before: The beginning of a command line that is run as the user.
        shoal: The command, run by the user at home.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.before: tuple[str, ...] = BECOME if os.geteuid() == 0 else ()
        self.shoal = Command(home).under(*self.before) if self.before else Command(home)
        self.shoal.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if self.before:
            os.chown(home, USER, GROUPS[0])

    def python(self, file: str, *arguments: str | Path) -> None:
        """Runs a Python program."""
        command = [*self.before, sys.executable, file, *map(str, arguments)]
        subprocess.run(command, check=True, cwd=self.home, env=self.shoal.environment, timeout=60)

    def build(self, root: Path, *options: str) -> Path:
        """Builds a tree of every kind."""
        self.python(every_kind.__file__, root, *options)
        return root


@contextlib.contextmanager
def ordinary_user(memory: Path | None) -> Iterator[OrdinaryUser]:
    """Makes a user with a directory, which is removed; skips the test if there can be none."""
    if not works():
        pytest.skip(NEEDS)
    home = Path(tempfile.mkdtemp(prefix="shoal-user-", dir=memory and memory.parent))
    try:
        user = OrdinaryUser(home)
        yield user
        end(user.shoal.started)
    finally:
        open_up(home)
        shutil.rmtree(home)


def open_up(root: Path) -> None:
    """Lets a user remove what has odd permissions."""
    if os.geteuid() != 0:
        for folder, below, _ in os.walk(root):
            for name in below:
                if not Path(folder, name).is_symlink():
                    Path(folder, name).chmod(0o700)
