"""Whether the nodes of a Ray cluster see what the driver sees: versions, destination, source, locks.

Asked of each node before anything starts, and by each part before it works. Not here: running the parts (`ray.py`),
what there is at a path (`_cluster.py`).
"""

from __future__ import annotations

import fcntl
import time
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal._cluster import EMPTY, MISSING, Job, facts
from shoal._errors import ConfigError, RunError

if TYPE_CHECKING:
    from pathlib import Path

PROBE_WITHIN = 60.0  # s for all nodes to answer before anything starts
SEEN_WITHIN = 10.0  # s for a file to be seen on another node: network file systems cache names for some seconds


class Sight:
    """What every node must see as the driver does; sent with each task."""

    def __init__(self, job: Job, name: str, text: str) -> None:
        """Takes what this machine sees, and the file that it has left at the destination."""
        self.parts = job.directory / ".shoal" / "parts" if job.directory else None
        self.name, self.text, self.facts, self.source = name, text, facts(), job.source_facts()

    def differs(self, job: Job) -> str | None:
        """Returns what this machine does not see as the driver does."""
        here = facts()
        for program in ("shoal", "Python"):
            if here[program] != self.facts[program]:
                return f"has {program} {here[program]}, and the driver has {self.facts[program]}"
        if self.parts and (why := not_there(self.parts / self.name, self.text)):
            return f'does not see the destination "{self.parts.parent.parent}": {why}'
        for path, found in job.source_facts().items():
            there = self.source[path]
            if found != there and there not in (MISSING, EMPTY):
                return f'does not see the source "{path}" as the driver does: {found}, not {there}'
        return None


class NodeError(RunError):
    """A node does not see what the driver sees. This ends the job."""

    _kind = "node"


def not_there(path: Path, text: str) -> str | None:
    """Waits some seconds for a file of another machine. Returns why it is not seen."""
    until, why = time.monotonic() + SEEN_WITHIN, ""
    while not why or time.monotonic() < until:
        try:
            if path.read_text() == text:
                return None
            why = "it has other contents there"
        except OSError as error:
            why = f"{type(error).__name__}: {error.strerror}"
        time.sleep(0.1)
    return why


def probe(sight: Sight, job: Job) -> tuple[str | None, str, bool]:
    """Looks from a node. Returns what differs, the file that it leaves for the driver, and whether locks fail."""
    own = f"{sight.name}-{ray.get_runtime_context().get_node_id()}"
    if (why := sight.differs(job)) or not sight.parts:
        return why, own, False
    try:
        with (sight.parts / "driver").open("rb+") as file:
            unlocked = is_unlocked(file.fileno())
        (sight.parts / own).write_text(sight.text)
    except OSError as error:
        return f'cannot write to the destination "{job.directory}": {error.strerror}', own, False
    return None, own, unlocked


def is_unlocked(file: int) -> bool:
    """Whether a file that the driver has locked can be locked here as well."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # this file system has no locks
    return True


def check_nodes(job: Job, sight: Sight, nodes: list[dict[str, Any]]) -> None:
    """Checks that every node has this version of shoal and of Python, and sees the same destination and source.

    Raises:
        ConfigError: One does not; the message names it.
    """
    ask = ray.remote(num_cpus=0, max_retries=3)(probe)
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[node["NodeID"]] = ask.options(scheduling_strategy=there, name="shoal probe").remote(sight, job)
    until = time.monotonic() + PROBE_WITHIN
    for node in nodes:
        what = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        try:
            why, left, unlocked = ray.get(asked[node["NodeID"]], timeout=max(0.1, until - time.monotonic()))
        except ray.exceptions.RayError as error:
            if node["NodeID"] not in (one["NodeID"] for one in ray.nodes() if one["Alive"]):
                continue  # it was lost just now: the parts run on the others
            why = str(error).strip().splitlines()[-1]
            raise ConfigError(f"{what} cannot run shoal: {why}", hint="install shoal on every node") from None
        if not why and sight.parts and not_there(sight.parts / left, sight.text):
            why = f'does not see the destination "{job.directory}": what it writes there is not seen here'
        if why:
            hint = "all nodes need the same versions, and must share the destination and the paths of the source"
            raise ConfigError(f"{what} {why}", hint=hint)
        if unlocked and not job.cluster.allow_unlocked:
            raise ConfigError(
                f'{what}: locks of the destination "{job.directory}" do not reach it, so two processes could work on '
                "one part",
                hint="mount it with -o local_lock=none (NFS) or -o flock (Lustre) on all nodes; `allow_unlocked` "
                "continues without locks",
            )
