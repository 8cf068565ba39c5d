"""Killed inside the renames and removals of large objects, every kind of job resumes to the right bytes.

Objects of 300 kB go through a temporary file. `test_kill_sweep.py` has the moments of small ones.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import shoal as package
from conftest import Command, Service
from faults.runs import committed, make_source
from faults.tracing import traced
from trees import tree

pytestmark = pytest.mark.disk


SMALL, LARGE = 300, 60
RENAMES = "/^renameat2?$"
JOBS = ("service", "files", "unzip", "save")
# Counted for each thread apart: lanes share the objects.
MOMENTS = [(job, *moment) for job in JOBS for moment in [(RENAMES, 2), ("unlinkat", 1)]]
# Five seconds for each: these are run by make test-faults.
MORE_MOMENTS = [(RENAMES, 1), (RENAMES, 9), ("unlinkat", 2), ("fsync", 3), ("syncfs", 2)]
MORE = [(job, *moment) for job in JOBS for moment in MORE_MOMENTS]


def command_of(job: str, service: Service, tmp_path: Path) -> list[str]:
    """Returns the command line of a job into `out`, slow enough for several batches."""
    source, out = tmp_path / "source", str(tmp_path / "out")
    shoal = ["-m", "shoal"]
    slowly = ["--limit-rate", "10MB"]
    if job == "unzip":
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as made:
            for path in sorted(path for path in source.rglob("*") if path.is_file()):
                made.write(path, path.relative_to(source))
        return [*shoal, "unzip", str(tmp_path / "all.zip"), "-d", out, "--limit-rate", "10MB"]
    if job == "save":
        script = tmp_path / "save.py"
        script.write_text(
            "import pathlib, shoal, sys, time\n"
            "def items(source):\n"
            "    for path in sorted(path for path in source.rglob('*') if path.is_file()):\n"
            "        time.sleep(0.003)\n"
            "        yield str(path.relative_to(source)), path.read_bytes()\n"
            "shoal.save(items(pathlib.Path(sys.argv[1])), sys.argv[2], source_id='files')\n"
        )
        return [str(script), str(source), out]
    if job == "files":
        return [*shoal, "copy", str(source), out, *slowly]
    return [*shoal, "copy", service(source, page_size=60).url, out, *slowly]


@pytest.mark.parametrize(
    ("job", "call", "nth"), [*MOMENTS, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)]
)
def test_killed_inside_a_rename_or_removal_every_kind_of_job_resumes(
    service: Service, tmp_path: Path, job: str, call: str, nth: int
) -> None:
    wanted = make_source(tmp_path / "source", SMALL, LARGE)
    destination = tmp_path / "out"
    command: list[str | Path] = [sys.executable, *command_of(job, service, tmp_path)]

    killed = subprocess.run([*traced(tmp_path / "strace", f"{call}:signal=SIGKILL:when={nth}"), *command], timeout=60)

    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), "every job makes this call so often"
    done = committed(destination)
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert {name.encode(): data for name, data in tree(destination).items()} == wanted
    assert committed(destination) == len(wanted) >= done
    assert list((destination / ".shoal" / "tmp").iterdir()) == []


def test_after_a_kill_at_most_one_batch_is_asked_for_again(shoal: Command, service: Service, tmp_path: Path) -> None:
    count, batch = 50_000, 20_000
    log = tmp_path / "accesses"
    server = service(synthetic=f"{count}:50", access_log=log)
    command: list[str | Path] = ["copy", server.url, tmp_path / "out", "--workers", "32"]
    kill = traced(tmp_path / "strace", "syncfs:signal=SIGKILL:when=2")

    killed = shoal.under(*kill).run(*command)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    time.sleep(1)  # the last lines of the log are written a little later
    first = set(re.findall(r"/get/(\S+)", log.read_text()))
    again = shoal.run(*command, "--json")
    server.stop()

    assert again.returncode == 0, again.stderr
    asked = re.findall(r"/get/(\S+)", log.read_text())
    assert len(set(asked)) == count
    twice = len(first) + shoal.last_json(again)["written"] - count
    assert 0 < twice <= batch, "objects that were asked for before the kill and again after it"
    assert len(asked) - count >= twice
    assert package.status(tmp_path / "out").runs[-1].total.written == count
