"""Names of hosts: those that cannot be resolved, and those that stand for where no server may lead; rows N15 and S14.

Names are the machine's, so these tests run the command in mounts of its own, with other files in /etc.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_stopped
from servers import faults
from servers.fixtures import MakeServer

WRAPPER = Path(__file__).parent.parent / "servers" / "private_names.py"

pytestmark = [
    pytest.mark.root,
    pytest.mark.mount,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts of its own"),
]


def privately(shoal: Shoal, *what: str, options: tuple[str, ...] = ("--mount",)) -> None:
    """Lets the command run with these files of the system's, given as name and text, or a deaf name server."""
    if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mounts of one's own here (unshare)")
    words = []
    for word in what:
        place, _, text = word.partition(":")
        if text:
            file = shoal.directory / Path(place).name
            file.write_text(text)
            word = f"{file}={place}"
        words.append(word)
    shoal.within = ["unshare", *options, sys.executable, str(WRAPPER), *words, "--"]


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::a9fe:a9fe", "fd00:ec2::254", "0.0.0.0"])
def test_no_server_leads_to_a_name_that_stands_for_where_machines_keep_their_credentials(
    shoal_command: Shoal, fault_server: MakeServer, address: str
) -> None:
    server = fault_server({"plain": b"p"})
    server.names = ["plain", "bait"]
    server.on_object("bait", faults.redirect(302, "http://metadata.example/latest/meta-data/iam"))
    server.start()
    privately(shoal_command, f"/etc/hosts:127.0.0.1 localhost\n{address} metadata.example\n")
    outcome = shoal_command.copy(server, "--allow-host", "metadata.example")
    assert_arrived(outcome, {"plain": b"p"}, {"bait": "bad-answer"})
    (failure,) = outcome.report["failures"]
    assert "inside this machine's own network" in failure["reason"]
    assert outcome.seconds < 5, "no server is asked"


def test_a_name_that_does_not_exist_ends_the_run_with_the_name_and_the_cause(shoal_command: Shoal) -> None:
    privately(shoal_command, "/etc/hosts:127.0.0.1 localhost\n", "/etc/nsswitch.conf:hosts: files\n")
    outcome = shoal_command.copy("http://files.example:8080", "--retry-timeout", "2")
    causes = ("files.example:8080", "the name could not be resolved")
    assert_stopped(outcome, {"unreachable", "connect"}, *causes, within=12)


def test_a_name_server_that_never_answers_ends_the_run_in_time(shoal_command: Shoal) -> None:
    resolving = (
        "/etc/resolv.conf:nameserver 127.0.0.1\noptions timeout:30\n",
        "/etc/nsswitch.conf:hosts: dns\n",
        "deaf",
    )
    privately(shoal_command, *resolving, options=("--mount", "--net"))
    outcome = shoal_command.copy("http://files.example:8080", "--retry-timeout", "2")
    causes = ("files.example:8080", "the name was not resolved in time")
    assert_stopped(outcome, {"unreachable", "connect", "timeout"}, *causes, within=15)
