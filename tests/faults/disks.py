"""Small file systems of a test's own on loop devices, and cutting their power."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from waiting import wait_until

# The program that makes each file system, its arguments, and the least size it takes.
KINDS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], 64 << 20),
    "ext4-without-births": (["mkfs.ext4", "-q", "-F", "-I", "128"], 64 << 20),
    "xfs": (["mkfs.xfs", "-q", "-f"], 320 << 20),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 128 << 20),
}
SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN: _IOR('X', 125, __u32)
WITHOUT_FLUSHING_THE_LOG = 2


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a program that only root's path may have."""
    environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment, timeout=60)


class Disk:
    """A file system on a loop device, mounted at `on`."""

    def __init__(self, kind: str, base: Path) -> None:
        self.kind = kind
        self.on = base / f"disk-{kind}"
        self.image = base / f"{kind}.image"
        self.options = "loop,errors=remount-ro" if kind.startswith("ext4") else "loop"
        maker, size = KINDS[kind]
        if shutil.which(maker[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"needs {maker[0]} (scripts/install_test_tools.sh)")
        self.on.mkdir()
        with self.image.open("wb") as file:
            file.truncate(size)
        made = run(*maker, self.image)
        assert made.returncode == 0, made.stderr
        self.mount(first=True)

    def mount(self, *, first: bool = False) -> None:
        """Mounts it; skips the test where that is not possible at all."""
        done = run("mount", "-o", self.options, self.image, self.on)
        if done.returncode != 0 and first:
            pytest.skip(f"no {self.kind} can be mounted here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr

    def unmount(self) -> None:
        """Unmounts it; a process that has just been killed may hold it for a moment.

        A process of another test that began with a copy of all mounts (`unshare --mount`) holds it, too. Mounted again
        before that process ends, it would be the same file system, with its power still cut.
        """
        end = time.monotonic() + 10
        while (done := run("umount", self.on)).returncode != 0 and time.monotonic() < end:
            time.sleep(0.01)
        if done.returncode != 0:
            run("umount", "-l", self.on)
        assert done.returncode == 0, done.stderr
        wait_until(lambda: run("losetup", "--associated", self.image).stdout == "", 60)

    def cut_power(self) -> None:
        """Cuts the power: what is not on the disk by now is gone, and every further call fails."""
        directory = os.open(self.on, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_LOG))
        finally:
            os.close(directory)

    def restart(self) -> None:
        """Turns it on again after a cut."""
        self.unmount()
        self.mount()

    def turn_read_only(self) -> None:
        """Makes an ext4 find an error in itself, which turns it read-only. (Asked to, a disk in use refuses.)"""
        source = run("findmnt", "-n", "-o", "SOURCE", self.on).stdout.strip()
        trigger = Path("/sys/fs/ext4") / Path(source).name / "trigger_fs_error"
        if not trigger.exists():
            pytest.skip(f"this kernel has no {trigger}")
        trigger.write_text("an error for a test")

    def mend(self) -> None:
        """Repairs it and mounts it again."""
        self.unmount()
        assert run("e2fsck", "-f", "-y", self.image).returncode in (0, 1)
        self.mount()
