"""Memory stays flat: it does not depend on how many objects there are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import shoal

MEBIBYTE = 1 << 20


# The peak of a process begins with that of the one that started it, and this one holds what the tests have imported:
# so a small one stands in between.
LAUNCHER = """
import os, subprocess, sys
run = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(run.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
"""


def peak_rss(count: int) -> int:
    """Peak resident memory in bytes of a whole `shoal copy` of so many objects."""
    with shoal.serve(synthetic=f"{count}:100") as server:
        command = [sys.executable, "-m", "shoal", "copy", server.url, "null:", "--json"]
        launched = subprocess.run([sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, text=True)
    report, last = launched.stdout.splitlines()
    code, peak = map(int, last.split())
    assert code == 0
    assert json.loads(report)["written"] == count
    return peak


def test_memory_does_not_grow_with_the_number_of_objects() -> None:
    few, many = peak_rss(50_000), peak_rss(500_000)
    assert many < few * 1.2, f"{few / MEBIBYTE:.0f} MiB for 50,000 objects, {many / MEBIBYTE:.0f} MiB for 500,000"
    assert many < 120 * MEBIBYTE


@pytest.mark.slow(minutes=3)
def test_five_million_objects_need_no_more_memory_than_a_hundred_thousand() -> None:
    few, many = peak_rss(100_000), peak_rss(5_000_000)
    assert many < few * 1.2, f"{few / MEBIBYTE:.1f} MiB for 100,000 objects, {many / MEBIBYTE:.1f} MiB for 5,000,000"
    assert many < 120 * MEBIBYTE
