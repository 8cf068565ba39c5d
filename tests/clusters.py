"""A real Ray cluster on this machine: a head and two nodes of one processor each. Tests without Ray are skipped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install --group tests")

LONG = 3 * PATIENCE


class Nodes:
    """The cluster."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.others = [self.cluster.add_node(num_cpus=1) for _ in range(2)]
        self.cluster.wait_for_nodes()

    def environment(self, directory: Path) -> dict[str, str]:
        return {**os.environ, "RAY_ADDRESS": self.cluster.address, "PYTHONPATH": str(directory)}

    def workers(self, of: list[Any] | None = None) -> list[int]:
        """Every process that runs a part now, on any node or on these; those of other clusters are not counted."""
        nodes = [self.cluster.head_node, *self.others] if of is None else of
        raylets = {process.process.pid for node in nodes for process in node.all_processes["raylet"]}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    command = (entry / "cmdline").read_bytes()
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
                if command.startswith(b"ray::shoal part") and parent in raylets:
                    found.append(int(entry.name))
        return found

    def lose(self, what: str, chance: random.Random) -> bool:
        """Kills a worker process or a node that runs a part, without warning. False if there is none now."""
        if what == "worker":
            if not (workers := self.workers()):
                return False
            os.kill(chance.choice(workers), signal.SIGKILL)
            return True
        if not (busy := [node for node in self.others if self.workers([node])]):
            return False
        self.remove(chance.choice(busy))
        return True

    def remove(self, lost: Any) -> None:
        """Kills a node without warning, and adds another."""
        self.others.remove(lost)
        self.cluster.remove_node(lost, allow_graceful=False)
        self.others.append(self.cluster.add_node(num_cpus=1))


class Run:
    """The command line on the cluster."""

    def __init__(self, directory: Path, nodes: Nodes) -> None:
        self.directory, self.nodes = directory, nodes
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "shoal", *arguments, "--cluster", "ray"],
            cwd=self.directory,
            env=self.nodes.environment(self.directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        return self.ended(self.start(*arguments, "--json"), code)

    def ended(self, process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
        """Waits for the end of a command with `--json`, which has printed nothing else, and returns the last line."""
        output, errors = process.communicate(timeout=LONG)
        assert process.returncode == code, errors
        found: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
        return found[-1]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    started = Nodes()
    yield started
    started.cluster.shutdown()


@pytest.fixture
def run(tmp_path: Path, nodes: Nodes) -> Iterator[Run]:
    made = Run(tmp_path, nodes)
    yield made
    made.end()
