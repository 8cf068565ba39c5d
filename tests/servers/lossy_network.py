"""A network of a test's own in which packets are lost: only loopback, and a rule of nftables that drops some of them.

The network lasts as long as the process that holds it, so a test that is killed leaves nothing behind. Servers and
clients are started in it by `within`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Self

import pytest

# Packets are dropped as they arrive, so requests, answers and acknowledgements alike.
RULES = """
table inet loss {
    chain arriving {
        type filter hook input priority 0
        numgen random mod 100 < PERCENT counter drop
    }
}
"""


@cache
def unavailable() -> str:
    """Says why no network can lose packets here; nothing if one can."""
    missing = [program for program in ("unshare", "nsenter", "ip", "nft") if shutil.which(program) is None]
    if missing:
        return f"needs {', '.join(missing)} (scripts/install_test_tools.sh)"
    tried = subprocess.run(
        ["unshare", "--net", "nft", "--check", "--file", "-"],
        input=RULES.replace("PERCENT", "1"),
        capture_output=True,
        text=True,
    )
    return "" if tried.returncode == 0 else f"no network with loss can be made here: {tried.stderr.strip()}"


class LossyNetwork:
    """The network. A context manager; it loses nothing until `lose` is called."""

    def __init__(self) -> None:
        if why := unavailable():
            pytest.skip(why)
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])

    def __enter__(self) -> Self:
        ours = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._holder.pid}/ns/net").readlink() == ours:  # it has not yet left our network
            time.sleep(0.005)
        # 1,500 bytes as on a wire: loopback's own 65,536 would put most objects into one packet.
        self._run("ip", "link", "set", "lo", "mtu", "1500", "up")
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.wait()

    @property
    def within(self) -> list[str]:
        """The beginning of a command line that runs its command in this network."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def lose(self, percent: int) -> None:
        """From now on drops each arriving packet with this probability."""
        self._run("nft", "--file", "-", text=RULES.replace("PERCENT", str(percent)))

    def lost(self) -> int:
        """How many packets have been dropped."""
        found = re.search(r"counter packets (\d+)", self._run("nft", "list", "ruleset"))
        return int(found[1]) if found else 0

    def _run(self, *command: str, text: str = "") -> str:
        line = [*self.within, *command]
        return subprocess.run(line, input=text, check=True, capture_output=True, text=True).stdout
