"""Which tests may be skipped on which machine. With SHOAL_KNOWN_SKIPS, as in `.ci/run`, any other skip fails the run.

A test says why it is skipped. That is expected if this machine lacks what it needs: a program, or the rights of root.
Without this list, rows of the fault matrix would vanish with no more than a notice.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess

import pytest

from servers import s3_real

SWITCH = "SHOAL_KNOWN_SKIPS"
# What an outside program is called in the reasons of tests that need it.
PROGRAMS = {
    "fish": "fish",
    "fusermount3": "no FUSE here",
    "gofakes3": "needs gofakes3",
    "ip": "needs .*\\bip\\b",
    "mkfs.btrfs": "needs mkfs.btrfs",
    "mkfs.ext4": "needs mkfs.ext4",
    "mkfs.xfs": "needs mkfs.xfs",
    "nginx": "needs nginx",
    "nft": "needs .*\\bnft\\b",
    "rsync": "needs rsync",
    "strace": "needs strace|strace is not installed",
    "unzip": "needs unzip",
    "versitygw": "needs versitygw",
    "weed": "needs weed",
    "zsh": "zsh is not installed",
}
# What a test needs of the system, as its reason begins; root in a container of its own may have none of it.
RIGHTS = (
    "needs (root|a control group|a file system in memory)",
    "no .* here",
    "no network with loss can be made here",
    "strace may not trace here",
    "this kernel has no ",
    "the hard limit of open files is small",
)


def may_mount() -> bool:
    """Whether this is a root that has its rights."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def expected() -> list[str]:
    """Returns patterns of the reasons that this machine gives."""
    import ordinary_user  # which needs conftest.py, and that needs this

    known = ["not a format of Python's tarfile", "not reached in time: "]
    if importlib.util.find_spec("torch") is None:
        known += ["PyTorch is not installed: make test-torch", "torch is not installed"]
    if os.geteuid() == 0:
        known.append("root can read every directory")
    if not may_mount():
        known.extend(RIGHTS)
    if not ordinary_user.works():
        known.append(ordinary_user.NEEDS)
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin:{s3_real.TOOLS}:{s3_real.TOOLS}/venv/bin"
    return known + [reason for program, reason in PROGRAMS.items() if shutil.which(program, path=path) is None]


def unexpected(reasons: list[str]) -> list[str]:
    """Returns those reasons for which this machine lacks nothing."""
    known = expected()
    return [reason for reason in reasons if not any(re.match(pattern, reason) for pattern in known)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test was skipped that this machine could run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get(SWITCH) or reporter is None:  # a worker has none: its tests are judged where they are printed
        return
    skipped = {str(report.longrepr[2]).removeprefix("Skipped: ") for report in reporter.stats.get("skipped", [])}
    if new := unexpected(sorted(skipped)):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        reporter.section("tests were skipped that this machine can run", sep="=", red=True)
        for reason in new:
            reporter.line(f"{SWITCH}: {reason}")
        reporter.line("hint: give the tests what they need, or say in tests/skips.py which machine may skip them")
