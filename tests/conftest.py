"""Fixtures: the real command, the real service, scripts in an interpreter of their own; no stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import forked
import places
import shoal as package
from generating import Job
from servers.fixtures import aws, s3_store, url_server

__all__ = ["aws", "s3_store", "url_server"]

# A script that starts the tests in its background hands down an ignored SIGINT, nohup an ignored SIGHUP, and shoal
# rightly keeps them ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["skips", "tenth"]

# The longest any one command of these tests may take, on two slow cores with others at work.
PATIENCE = 60


def pytest_sessionfinish() -> None:
    """Ends the process that forks the commands."""
    forked.stop()


class Command:
    """Runs `shoal` as a user does."""

    argv: tuple[str, ...] = (sys.executable, "-m", "shoal")

    def __init__(self, directory: Path) -> None:
        forked.server()  # before a test counts processes or descriptors
        self.directory = directory
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"FORCE_COLOR", "NO_COLOR"} and not name.lower().endswith("_proxy")
        }

    def run(self, *arguments: str | Path, timeout: float = PATIENCE, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line to its end; `extra` goes into its environment."""
        command = [str(argument) for argument in arguments]
        environment = self.environment | extra
        if self.argv == Command.argv and forked.can(command, environment):
            return forked.run(command, self.directory, environment, timeout)
        return subprocess.run(
            [*self.argv, *command],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *arguments: str | Path, **how: Any) -> subprocess.Popen[str]:
        """Starts a command line, by `python -m shoal`; it is killed at the end of the test if it still runs."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [*self.argv, *map(str, arguments)], cwd=self.directory, env=self.environment, text=True, **(streams | how)
        )
        self.started.append(process)
        return process

    def under(self, *before: str) -> Command:
        """The same, but started by another program: its command line goes before the command's."""
        command = Command(self.directory)
        command.argv = (*before, *Command.argv)
        command.started = self.started
        return command

    @staticmethod
    def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        """Returns the last line of the output as JSON."""
        found = json.loads(done.stdout.splitlines()[-1])
        assert isinstance(found, dict)
        return found


class Service:
    """Starts list/get services on free ports; they stop at the end of the test."""

    def __init__(self) -> None:
        self.running: list[package.Server] = []

    def __call__(self, directory: Path | None = None, **options: Any) -> package.Server:
        """Starts one, with the options of `shoal.serve`."""
        server = package.serve(directory, **options)
        self.running.append(server)
        return server


class Interpreter:
    """Runs a script in an interpreter of its own, so that a fork or a hang stays there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[str]] = []

    def run(
        self, script: str, *arguments: str | Path, timeout: float = PATIENCE, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end; `arguments` are its `sys.argv[1:]`, `extra` goes into its environment."""
        # Python warns of a fork while there are threads, which is what some of the scripts are about.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script)]
        return subprocess.run(
            [*command, *map(str, arguments)],
            cwd=self.directory,
            env=os.environ | extra,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, script: str, *arguments: str | Path) -> subprocess.Popen[str]:
        """Starts it; it is killed at the end of the test if it still runs."""
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def interrupt(
        self, script: str, *arguments: str | Path, after: float = 0.3, within: float = 2
    ) -> tuple[subprocess.Popen[str], str]:
        """Sends SIGINT `after` seconds behind the script's "going" line; it must end by it in `within` seconds.

        Returns the process, which has ended, and what else it printed.
        """
        process = self.start(script, *arguments)
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        time.sleep(after)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=30)
        assert time.monotonic() - began < within
        assert "KeyboardInterrupt" in said
        return process, printed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps tests that mount to one worker: a namespace that another test makes would hold a copy of the mount."""
    for item in items:
        if item.get_closest_marker("mount"):
            item.add_marker(pytest.mark.xdist_group("mounts"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps whether a test has failed, for its directory."""
    report = yield
    item.stash[places.FAILED] = report.failed or item.stash.get(places.FAILED, False)
    return report


@pytest.fixture(scope="session")
def place_in_memory() -> Iterator[Path | None]:
    """The directory of all tests that are not on disk, if there is memory for it."""
    with places.directory_in_memory() as place:
        yield place


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, place_in_memory: Path | None
) -> Iterator[Path]:
    """The test's own directory: in memory unless the test is marked `disk`, and removed unless it fails."""
    test = request.node
    place = None if test.get_closest_marker("disk") else place_in_memory
    path = places.directory_of(test, place or tmp_path_factory.getbasetemp())
    yield path
    if not test.stash.get(places.FAILED, False):
        shutil.rmtree(path, ignore_errors=True)


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
def service() -> Iterator[Service]:
    """The service: call it with what is to be served."""
    services = Service()
    yield services
    for server in services.running:
        server.stop()


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    """An interpreter, run in the test's own directory."""
    interpreter = Interpreter(tmp_path)
    yield interpreter
    end(interpreter.started)


@pytest.fixture
def job(tmp_path: Path, interpreter: Interpreter) -> Iterator[Job]:
    """A function for `shoal.generate`, in the test's own directory; no process of it outlives the test."""
    job = Job(tmp_path, interpreter)
    yield job
    job.end()
