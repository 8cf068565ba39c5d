"""Packets that are lost, really: slower, and otherwise as if nothing had happened; row N3."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.oracle import Shoal, assert_arrived
from servers.lossy_network import LossyNetwork
from waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a network of its own"),
]


class Lossy:
    """A service behind a network that loses packets when told to."""

    def __init__(self, network: LossyNetwork, directory: Path) -> None:
        self.network = network
        self.directory = directory
        self.url = ""
        self.server: subprocess.Popen[str] | None = None

    def serve(self, small: int, large: int) -> dict[str, bytes]:
        """Serves small objects, which come whole, and large ones, of many packets each; returns them."""
        chance = random.Random(3)
        objects = {f"small-{number}": chance.randbytes(1 + number) for number in range(small)}
        objects |= {f"large-{number}": chance.randbytes(300_000) for number in range(large)}
        self.directory.mkdir()
        for name, data in objects.items():
            (self.directory / name).write_bytes(data)
        command = [*self.network.within, sys.executable, "-m", "shoal", "serve", str(self.directory), "--port", "0"]
        self.server = subprocess.Popen([*command, "--quiet"], stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        self.url = self.server.stdout.readline().strip()
        return objects


@pytest.fixture
def lossy(shoal_command: Shoal) -> Iterator[Lossy]:
    with LossyNetwork() as network:
        shoal_command.within = network.within
        made = Lossy(network, shoal_command.directory / "source")
        yield made
        if made.server:
            made.server.kill()
            made.server.communicate()


# The limits of a user, not the quick ones of these tests: a packet is sent again after 0.2 s, 0.4 s, 0.8 s and so on.
OPTIONS = ["--workers", "16", "--max-retries", "10", "--timeout", "30", "--connect-timeout", "10"]
OPTIONS += ["--retry-timeout", "180"]


@pytest.mark.parametrize("percent", [1, 5])
@pytest.mark.parametrize("pipeline", ["auto", "off"])
def test_where_some_packets_are_lost_everything_arrives_exactly_and_in_time(
    shoal_command: Shoal, lossy: Lossy, percent: int, pipeline: str
) -> None:
    objects = lossy.serve(small=1_000, large=10)
    lossy.network.lose(percent)
    outcome = shoal_command.copy(lossy.url, *OPTIONS, "--pipeline", pipeline, limit=120)
    assert_arrived(outcome, objects)
    assert (" pipelined " in outcome.report["workers_reason"]) == (pipeline == "auto")
    assert lossy.network.lost() > 0


@pytest.mark.slow(minutes=5)
@pytest.mark.parametrize("pipeline", ["auto", "off"])
def test_where_every_third_packet_is_lost_everything_arrives_exactly_and_in_time(
    shoal_command: Shoal, lossy: Lossy, pipeline: str
) -> None:
    objects = lossy.serve(small=300, large=3)
    # Slow enough to be under way when the loss begins: a host that never answered is given up after 10 s, and may not.
    running = shoal_command.start_copy(lossy.url, *OPTIONS, "--pipeline", pipeline, "--limit-rate", "200kB")
    wait_until(lambda: any(shoal_command.out.glob("*-*")))
    lossy.network.lose(30)
    outcome = running.wait(280)
    assert_arrived(outcome, objects)
    assert (" pipelined " in outcome.report["workers_reason"]) == (pipeline == "auto")
    assert lossy.network.lost() > 100
