"""A forked command behaves like a started one. The other tests rely on it; here each command is started, too."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fork_server
import forked
from forked import Forked
from shoal.cli import COMMANDS
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command, Service

STARTED = (sys.executable, "-m", "shoal")
QUICK = ("--durability", "none", "--workers", "1")
LINES = {
    "copy": ["copy tree out", "copy tree/a.txt none --json", "copy absent out"],
    "read": ["read tree --checksum crc32 --order given", "read tree --json --quiet", "read tree --workers many"],
    "unzip": ["unzip x.zip -d unpacked", "unzip x.zip --test", "unzip tree/a.txt -d bad"],
    "records": ["records index --format <QII", "records index --count --format <QII", "records index --format 9"],
    "status": ["status copied", "status copied --json", "status tree"],
    "verify": ["verify tree/deep LIST", "verify tree index", "verify copied/deep LIST --json"],
    "serve": ["serve absent", "serve tree --port none", "serve --help"],
}


def prepare(directory: Path) -> Path:
    """Makes what the command lines of `LINES` use."""
    (directory / "tree/deep").mkdir(parents=True)
    (directory / "tree/a.txt").write_text("one\n")
    (directory / "tree/deep/\u00fc.txt").write_bytes(bytes(5000))
    (directory / "LIST").write_text(f"{zlib.crc32(bytes(5000)):08x}  \u00fc.txt\n")
    (directory / "index").write_bytes(b"".join(struct.pack("<QII", n, n % 3, n) for n in range(20)))
    with zipfile.ZipFile(directory / "x.zip", "w") as archive:
        archive.write(directory / "tree/a.txt", "inner/a.txt")
    done = subprocess.run([*STARTED, "copy", "tree", "copied", *QUICK], cwd=directory, capture_output=True)
    assert done.returncode == 0, done.stderr
    return directory


def told(done: subprocess.CompletedProcess[str], directory: Path) -> tuple[int, str, str, list[str]]:
    """What came of a run: exit code, both outputs without what is measured, and the files that are there."""
    there = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if ".shoal/" not in str(path))

    def masked(text: str) -> str:
        text = re.sub(r"(workers: \d+) .*", r"\1", text.replace(str(directory), ""))  # the moment decides why
        return re.sub(r"\d[\d.,:]*( ?([kMG]?B|bytes)?/s| m?s\b)?", "N", text)

    return done.returncode, masked(done.stdout), masked(done.stderr), there


def test_every_command_but_those_that_start_interpreters_is_forked() -> None:
    assert set(fork_server.COMMANDS) == set(COMMANDS) - {"generate", "bench", "completion"} == set(LINES)
    assert not forked.can(["generate"], os.environ)
    assert not forked.can(["--version"], os.environ)
    assert forked.can(["copy"], os.environ)
    assert not forked.can(["copy"], os.environ | {"PYTHONUTF8": "0"})


@pytest.mark.parametrize("name", LINES)
def test_a_fork_prints_writes_and_ends_as_what_was_started(tmp_path: Path, shoal: Command, name: str) -> None:
    ends = []
    for place in ("started", "forked"):
        directory = prepare(tmp_path / place)
        shoal.directory = directory
        for line in LINES[name]:
            words = [*line.split(), *(QUICK if line.startswith(("copy tree", "unzip")) else ())]
            environment = shoal.environment | {"COLUMNS": "100"}
            if place == "forked":
                assert forked.can(words, environment)
                done = forked.run(words, directory, environment, 60)
            else:
                done = subprocess.run(
                    [*STARTED, *words],
                    cwd=directory,
                    env=environment,
                    capture_output=True,
                    text=True,
                    stdin=subprocess.DEVNULL,
                )
            ends.append((line, told(done, directory)))
    half = len(ends) // 2
    assert ends[:half] == ends[half:]
    assert {0} < {code for _, (code, *_) in ends}


def state(process: subprocess.Popen[Any] | Forked) -> dict[str, Any]:
    """What the kernel says of a process: its signals, threads, descriptors, directory, session and limits."""
    proc = Path(f"/proc/{process.pid}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    kept = ("SigBlk", "SigIgn", "SigCgt", "ShdPnd", "Umask", "Uid", "CapEff", "Seccomp", "NoNewPrivs")
    places = [re.sub(r"\d+", "N", str(path.readlink())) for path in sorted((proc / "fd").iterdir())]
    return {
        "status": {name: status[name] for name in kept},
        "descriptors": sorted(places),
        "directory": (proc / "cwd").readlink(),
        "limits": (proc / "limits").read_text(),
        "processors": status["Cpus_allowed"],
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_fork_has_the_state_of_what_was_started_and_ends_by_the_same_signals(
    shoal: Command, number: signal.Signals
) -> None:
    (shoal.directory / "tree").mkdir()
    ends = []
    for place in ("started", "forked"):
        words = ["serve", "tree", "--port", "0"]
        with (
            (shoal.directory / f"{place}.out").open("wb") as stdout,
            (shoal.directory / f"{place}.err").open("wb") as stderr,
        ):
            process: subprocess.Popen[bytes] | Forked
            if place == "forked":
                process = Forked(words, shoal.directory, shoal.environment, stdout, stderr)
            else:
                process = subprocess.Popen(
                    [*STARTED, *words],
                    cwd=shoal.directory,
                    env=shoal.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                )
        printed = [shoal.directory / f"{place}.{name}" for name in ("out", "err")]
        wait_until(lambda: all(b"\n" in path.read_bytes() for path in printed))  # noqa: B023  # called before the next round
        assert process.poll() is None
        seen = state(process)
        process.send_signal(number)
        said = process.wait(20), (shoal.directory / f"{place}.err").read_bytes().count(b"\n")
        ends.append((re.sub(place, "DST", repr(seen)), said))
        assert isinstance(process, subprocess.Popen) or (process.processor > 0 and process.peak > 10_000_000)
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
    assert ends[0] == ends[1]
    assert ends[0][1][0] == {signal.SIGINT: 0, signal.SIGTERM: 0, signal.SIGKILL: -9}[number]


def test_a_fork_that_takes_too_long_is_killed(shoal: Command, service: Service) -> None:
    server = service(synthetic="10000:100")
    with pytest.raises(subprocess.TimeoutExpired):
        shoal.run("copy", server.url, "out", *QUICK, "--limit-rate", "10kB", timeout=0.5)
    running = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # other processes end meanwhile
            running.append(path.readlink())
    assert running
    assert shoal.directory.resolve() not in running


def test_what_runs_ends_with_the_server(shoal: Command, service: Service) -> None:
    server = forked.ForkServer()
    shared = forked.server
    forked.server = lambda: server  # type: ignore[assignment]
    try:
        words = ["copy", service(synthetic="10000:100").url, "out", *QUICK, "--limit-rate", "10kB"]
        with Path(os.devnull).open("wb") as nowhere:
            process = Forked(words, shoal.directory, shoal.environment, nowhere, nowhere)
        assert process.poll() is None
    finally:
        forked.server = shared
        server.stop()
    assert process.wait(10) == -signal.SIGKILL
