"""What a table was measured on."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import shoal


def describe(directory: Path) -> dict[str, str]:
    """Returns cores, memory, kernel, file system and versions, each as text."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(directory),
        "python": platform.python_version(),
        "shoal": shoal.__version__,
        "build": shoal.BUILD_PROFILE,
    }


def in_words(machine: Mapping[str, str]) -> str:
    """Returns one line of it."""
    cores = f"{machine['cores']} cores ({machine['processor']})"
    build = f" ({machine['build']} build)" if "build" in machine else ""
    versions = f"Python {machine['python']}, shoal {machine['shoal']}{build}"
    return ", ".join((cores, machine["memory"], machine["kernel"], machine["file system"], versions))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """Returns the type of the file system a directory is on: of the mounts above it, the nearest."""
    best, kind = "", "unknown file system"
    where = str(directory.resolve())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split(" ")
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind
