"""What docs/clusters.md says is so: the scripts of the page, run for every index as a scheduler does."""

from __future__ import annotations

import io
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import shoal as package
from conftest import PATIENCE, Service
from shoal._cluster import Job
from shoal.cli._display import nodes_table
from test_docs import blocks, runs
from trees import tree

pytestmark = pytest.mark.disk

PAGE = Path(__file__).parent.parent / "docs" / "clusters.md"
COUNT = 16

Start = Callable[[int], "subprocess.Popen[str]"]


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


@pytest.fixture
def starts(tmp_path: Path, service: Service, request: pytest.FixtureRequest) -> Start:
    """How the scheduler of the page starts one index."""
    (tmp_path / "src").mkdir()
    for number in range(800):
        (tmp_path / "src" / f"f{number}").write_bytes(f"content of {number}\n".encode() * 40)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "shoal"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m shoal "$@" --limit-rate 100kB\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SOURCE": service(tmp_path / "src", page_size=100).url,
        "DESTINATION": str(tmp_path / "out"),
    }

    (tmp_path / "copy.sh").write_text(block("bash"))  # once: a shell that starts must not read half of it

    def slurm(index: int) -> subprocess.Popen[str]:
        assert f"--array=0-{COUNT - 1}\n" in block("bash")
        own = {"SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": str(COUNT)}
        return subprocess.Popen(
            ["/bin/bash", "copy.sh"], cwd=tmp_path, env=environment | own, text=True, stderr=subprocess.PIPE
        )

    def kubernetes(index: int) -> subprocess.Popen[str]:
        manifest = block("yaml")
        assert f"completions: {COUNT}\n" in manifest
        (script,) = re.findall(r"^ *args: \['(.*)'\]$", manifest, re.MULTILINE)
        return subprocess.Popen(
            ["/bin/sh", "-c", script],
            cwd=tmp_path,
            env=environment | {"JOB_COMPLETION_INDEX": str(index)},
            text=True,
            stderr=subprocess.PIPE,
        )

    started: Start = {"slurm": slurm, "kubernetes": kubernetes}[request.param]
    return started


def check_whole(directory: Path) -> None:
    """Fails unless every file has arrived, by a comparison and by the journals."""
    status = package.status(directory / "out")
    assert status.complete, status.parts
    assert tree(directory / "out") == tree(directory / "src")


@pytest.mark.parametrize("starts", ["slurm", "kubernetes"], indirect=True)
def test_the_script_of_the_page_run_for_every_index_in_turn_copies_everything(tmp_path: Path, starts: Start) -> None:
    for index in range(COUNT):
        assert not (tmp_path / "out").exists() or not package.status(tmp_path / "out").complete
        process = starts(index)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    check_whole(tmp_path)


@pytest.mark.parametrize("starts", ["slurm", "kubernetes"], indirect=True)
def test_the_script_of_the_page_run_in_parallel_and_killed_copies_everything(tmp_path: Path, starts: Start) -> None:
    """Four at a time. Half of the first tries are killed, and a quarter stopped, as when a node fails or is drained."""
    chance = random.Random(5)
    waiting = [(index, 0) for index in range(COUNT)]
    running: list[tuple[int, int, subprocess.Popen[str]]] = []
    kills = 0
    until = time.monotonic() + 2 * PATIENCE
    try:
        while waiting or running:
            assert time.monotonic() < until
            while waiting and len(running) < 4:
                index, tries = waiting.pop(0)
                running.append((index, tries, starts(index)))
            time.sleep(0.1)
            for one in list(running):
                index, tries, process = one
                if tries == 0 and process.poll() is None and chance.random() < 0.2:
                    process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                    process.wait(timeout=PATIENCE)
                    kills += 1
                if process.poll() is not None:
                    running.remove(one)
                    _, errors = process.communicate()
                    # Before Python runs, SIGTERM ends it as any program.
                    ends = (0, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
                    assert process.returncode in ends, errors
                    if process.returncode:
                        waiting.append((index, tries + 1))
    finally:
        for _, _, process in running:
            process.kill()
            process.wait()
    assert kills > 3
    check_whole(tmp_path)


IN_PYTHON = blocks(PAGE)


@pytest.mark.parametrize("example", IN_PYTHON, ids=[f"{at}" for at in range(len(IN_PYTHON))])
def test_an_example_of_the_page_runs(tmp_path: Path, example: str) -> None:
    runs(tmp_path, example, IN_PYTHON)


def job(source: Any, **options: Any) -> Job:
    return Job(package.copy, (source, "out"), {"cluster": "ray", **options})


def test_limits_are_divided_over_the_parts_that_run_at_once() -> None:
    divided = job(package.urls("list.txt", per_host=6, limit_requests=10), limit_rate="9MB")
    notes = divided.share_limits(4)
    assert divided.arguments["limit_rate"] == 2_250_000
    assert (divided.arguments["source"].per_host, divided.arguments["source"].limit_requests) == (1, 2.5)
    assert len(notes) == 2
    assert all("since 4 ran at once" in note for note in notes)
    assert job("src").share_limits(4) == []


def test_a_terminal_shows_a_line_for_each_node_and_which_waits_for_its_host() -> None:
    busy = package.NodeProgress(name="a (1f)", running=1, done=7, written=12_000, bytes=1_200_000, paused=False)
    waiting = package.NodeProgress(name="b\x1b[31m", running=2, done=0, written=0, bytes=0, paused=True)
    console = Console(width=80, file=io.StringIO())
    console.print(nodes_table((busy, waiting)))
    assert isinstance(console.file, io.StringIO)
    head, first, second = console.file.getvalue().splitlines()
    assert head.split() == ["node", "parts", "done", "objects", "bytes"]
    assert first.split() == ["a", "(1f)", "1", "7", "12,000", "1.2", "MB"]
    assert second.endswith("paused: waiting for the host")
    assert "\x1b" not in second


def test_nodes_get_a_list_of_urls_by_its_absolute_path_or_not_at_all() -> None:
    assert job(package.urls("list.txt")).arguments["source"].what == str(Path.cwd() / "list.txt")
    for unseen in (package.urls(["http://127.0.0.1/a"]), package.urls("-")):
        with pytest.raises(package.ConfigError, match="must be a file"):
            job(unseen)


def test_nodes_get_absolute_paths_and_what_is_a_scheme_stays_one() -> None:
    here = Path.cwd()
    assert job(Path("zip:a")).arguments["source"] == job("zip:a").arguments["source"] == f"zip:{here}/a"
    assert job(["zip:a", "b"]).arguments["source"] == (f"{here}/zip:a", f"{here}/b")
    assert job(package.files("zip:a")).arguments["source"].what == f"{here}/zip:a"
    assert job(package.archives("zip:a")).arguments["source"].what == f"zip:{here}/a"
    packed = Job(package.copy, ("src", package.parquet("zip:out")), {"cluster": "ray"})
    assert packed.arguments["destination"].what == str(packed.directory) == f"{here}/zip:out"


def test_parts_of_a_list_of_urls_are_together_what_one_run_is(tmp_path: Path, service: Service) -> None:
    url = service(synthetic="200:50").url
    lines = [f"{url}/get/object-{number:09}" for number in range(200)] + ["file:///etc/passwd", "\x00", "no url"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    reports = [
        package.copy(package.urls(tmp_path / "list.txt"), tmp_path / "out", part=(index, 3), on_error="record")
        for index in range(3)
    ]
    whole = package.copy(package.urls(tmp_path / "list.txt"), tmp_path / "one", on_error="record")
    assert tree(tmp_path / "out") == tree(tmp_path / "one")
    for field in ("listed", "written", "failed"):
        assert sum(getattr(report.total, field) for report in reports) == getattr(whole.total, field)
    assert (whole.total.written, whole.total.failed) == (200, 3)
    assert all(report.written for report in reports)
