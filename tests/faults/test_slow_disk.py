"""A copy from a network onto a disk that stands still for a while: that is not the server's fault; row D11."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.tracing import traced, tracee

TOTAL = 120_000_000  # bytes
BUDGET = "16MiB"
# Far below what is copied, which a program that reads on while the disk stands still would hold.
MEMORY = 64 << 20  # bytes: the interpreter, the budget, and what the lanes have of their own


def peak_until_end(run: subprocess.Popen[str]) -> int:
    """Waits for a traced command; returns the most memory it had, in bytes."""
    status, peak = Path(f"/proc/{tracee(run)}/status"), 0
    end = time.monotonic() + 120
    while run.poll() is None:
        assert time.monotonic() < end, "it hangs"
        try:
            _, found, rest = status.read_text().partition("VmHWM:")
        except (FileNotFoundError, ProcessLookupError):
            continue
        peak = max(peak, int(rest.split()[0]) << 10) if found else peak
        time.sleep(0.02)
    return peak


WRITE = ("write:delay_enter=5s:when=40", "batch")
BARRIER = ("syncfs:delay_enter=5s:when=1", "batch")
EACH = ("fsync,fdatasync:delay_enter=5s:when=10", "file")
# Where requests are sent ahead, some of those behind a large body are sent twice: small ones show that none else is.
SMALL, LARGE = (20_000, "auto"), (2_000_000, "off")


@pytest.mark.parametrize(
    ("stalls", "durability", "size", "pipeline"),
    [
        pytest.param(*WRITE, *SMALL, id="write, small"),
        pytest.param(*BARRIER, *LARGE, id="barrier, large"),
        pytest.param(*EACH, *SMALL, id="sync of each file, small"),
        pytest.param(*WRITE, *LARGE, id="write, large", marks=pytest.mark.slow),
        pytest.param(*BARRIER, *SMALL, id="barrier, small", marks=pytest.mark.slow),
        pytest.param(*EACH, *LARGE, id="sync of each file, large", marks=pytest.mark.slow),
    ],
)
def test_while_the_disk_stands_still_no_request_times_out_and_memory_stays_flat(
    shoal: Command, service: Service, tmp_path: Path, stalls: str, durability: str, size: int, pipeline: str
) -> None:
    count = TOTAL // size
    log, accesses = tmp_path / "strace", tmp_path / "accesses"
    server = service(synthetic=f"{count}:{size}", access_log=accesses)
    # Several batches, and not so fast that all of it has arrived when the disk stands still. It does so for longer than
    # the timeout, which is long enough for a machine that is busy.
    limits = ("--timeout", "3", "--memory", BUDGET, "--limit-rate", "30MB")
    options = (*limits, "--pipeline", pipeline, "--durability", durability, "--json")

    run = shoal.under(*traced(log, stalls)).start("copy", server.url, "out", *options)
    peak = peak_until_end(run)
    printed, said = run.communicate()

    assert run.returncode == 0, said
    assert "(DELAYED)" in log.read_text()
    report = Command.last_json(subprocess.CompletedProcess([], 0, printed, said))
    assert (report["written"], report["failed"], report["retries"], report["wasted"]) == (count, 0, 0, 0), report
    for number in range(count):
        name = f"object-{number:09}"
        line = f"{name}\n".encode()
        assert (tmp_path / "out" / name).read_bytes() == (line * (size // len(line) + 1))[:size]
    server.stop()
    asked = [line for line in accesses.read_text().splitlines() if "/get/" in line]
    assert len(asked) == count, "nothing was asked for again"
    assert peak < MEMORY
