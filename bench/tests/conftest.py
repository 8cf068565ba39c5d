"""Fixtures: the real command and service, and results of the lab that were not measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from click.testing import CliRunner

import shoal as package
from shoal_bench import Results, Row, Trial
from shoal_bench.cli import command as lab_command
from shoal_bench.results import Scale

# A script that starts the tests in its background hands down an ignored SIGINT, which the lab rightly keeps ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The longest any one command of these tests may take, on two slow cores with others at work.
PATIENCE = 60


class Command:
    """Runs `shoal` as a user does."""

    argv: tuple[str, ...] = (sys.executable, "-m", "shoal")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"FORCE_COLOR", "NO_COLOR"} and not name.lower().endswith("_proxy")
        }

    def run(self, *arguments: str | Path, timeout: float = PATIENCE, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line to its end; `extra` goes into its environment."""
        return subprocess.run(
            [*self.argv, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment | extra,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *arguments: str | Path, **how: Any) -> subprocess.Popen[str]:
        """Starts a command line; it is killed at the end of the test if it still runs."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [*self.argv, *map(str, arguments)], cwd=self.directory, env=self.environment, text=True, **(streams | how)
        )
        self.started.append(process)
        return process

    def first(self, directory: Path) -> str:
        """What PYTHONPATH must be for the modules in a directory to come before all others."""
        return ":".join(filter(None, (str(directory), self.environment.get("PYTHONPATH"))))

    @staticmethod
    def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        """Returns the last line of the output as JSON."""
        found = json.loads(done.stdout.splitlines()[-1])
        assert isinstance(found, dict)
        return found


class Here(Command):
    """Runs the lab's part of `shoal bench` in this process, for what another process would not show better."""

    def run(self, *arguments: str | Path, timeout: float = PATIENCE, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line that begins with `bench`; what it starts gets the environment, and `extra`."""
        assert arguments[0] == "bench"
        command, *words = map(str, arguments[1:])
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(self.directory):
            for name, value in (self.environment | extra).items():
                patch.setenv(name, value)
            done = CliRunner().invoke(lab_command(command), words, standalone_mode=False)
        if isinstance(done.exception, click.UsageError):
            return subprocess.CompletedProcess(words, 2, done.stdout, done.stderr + done.exception.format_message())
        if isinstance(done.exception, package.ShoalError):
            code = 2 if isinstance(done.exception, package.ConfigError) else 3
            return subprocess.CompletedProcess(words, code, done.stdout, f"{done.stderr}error: {done.exception}\n")
        if done.exception is not None:
            raise done.exception
        return subprocess.CompletedProcess(words, done.return_value, done.stdout, done.stderr)


class Service:
    """Starts list/get services on free ports; they stop at the end of the test."""

    def __init__(self) -> None:
        self.running: list[package.Server] = []

    def __call__(self, directory: Path | None = None, **options: Any) -> package.Server:
        """Starts one, with the options of `shoal.serve`."""
        server = package.serve(directory, **options)
        self.running.append(server)
        return server


class Contest:
    """Makes results of the lab that were not measured: rows of given rates, and what else matters to a test."""

    about: ClassVar[dict[str, str]] = {
        "cores": "2",
        "processor": "some processor",
        "memory": "8 GiB",
        "kernel": "Linux 6",
        "file system": "ext4",
        "python": "3.11",
        "shoal": "0.1.0",
    }

    def __call__(
        self,
        rates: dict[str, list[float]],
        kinds: dict[str, str] | None = None,
        job: str = "save",
        machine: dict[str, str] | None = None,
        **settings: Any,
    ) -> Results:
        """Rates of the trials by key; a row without any has failed. Titles are the keys; the first is the base."""
        rows = []
        for key, trials in rates.items():
            kind = (kinds or {}).get(key, "shoal" if key.startswith("shoal") else "strategy")
            row = Row(key, key, kind, published=0.01 if kind == "strategy" else None)
            row.trials = [Trial(at, 1000, 1000 / rate, 500 / rate, 1 << 20, 2) for at, rate in enumerate(trials, 1)]
            row.failed = None if trials else "it ended with code 7"
            rows.append(row)
        wanted: Any = {"count": 1000, "size": 100, "trials": max(map(len, rates.values())), "into": "files"}
        wanted |= {"durable": False, "case": "", "cold": False}
        scale = Scale(5000, "5,000 files", "The author's: another machine.")
        rows.sort(key=lambda row: -row.rate)
        about = self.about | (machine or {})
        return Results(
            job, wanted | settings, about, rows, next(iter(rates)), scale, "every byte", "2026-01-02T03:04:05+00:00"
        )


@pytest.fixture
def contest() -> Contest:
    """Results of the lab: call it with the rates of each row."""
    return Contest()


def end(started: list[subprocess.Popen[str]]) -> None:
    """Kills those that still run; what they printed is not waited for, since a child of theirs may hold the pipe."""
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what was still to be sent
                    pipe.close()


@pytest.fixture
def shoal(tmp_path: Path) -> Iterator[Command]:
    """The command, run in the test's own directory."""
    command = Command(tmp_path)
    yield command
    end(command.started)


@pytest.fixture
def lab(tmp_path: Path) -> Here:
    """The lab's command in this process, run in the test's own directory."""
    return Here(tmp_path)


@pytest.fixture
def service() -> Iterator[Service]:
    """The service: call it with what is to be served."""
    services = Service()
    yield services
    for server in services.running:
        server.stop()
