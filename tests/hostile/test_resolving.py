"""Names of hosts: not resolved, resolved to another address later, or to where no server may lead; rows N15 and S14.

Names are the machine's, so these tests run the command in mounts of its own, with other files in /etc.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer
from waiting import wait_until

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
@pytest.mark.timing
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
    causes = ("files.example:8080", "the host name could not be resolved")
    assert_stopped(outcome, {"unreachable", "connect"}, *causes, within=12)


def test_hosts_of_a_list_that_do_not_exist_fail_their_own_objects_with_the_name_and_the_cause(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.start()
    absent = {f"absent-{number}": f"http://host-{number}.example/{number}" for number in range(20)}
    good = {name: f"http://{server.address}:{server.port}/get/{name}" for name in objects}
    mixed = [one for two in zip(absent.items(), good.items(), strict=True) for one in two]
    urls = shoal_command.directory / "list"
    urls.write_text("".join(f"{name}\t{url}\n" for name, url in mixed))
    privately(shoal_command, "/etc/hosts:127.0.0.1 localhost\n", "/etc/nsswitch.conf:hosts: files\n")
    outcome = shoal_command.copy(str(urls), "--urls", "--max-retries", "0")
    assert_arrived(outcome, objects, dict.fromkeys(absent, "connect"))
    for failure in outcome.report["failures"]:
        host = absent[failure["name"]].split("/")[2]
        assert f"{host}: the host name could not be resolved" in failure["reason"].replace(f"{host}:80", host)
    assert len(server.fetched()) == len(objects), "none is asked for twice"


def test_a_name_server_that_never_answers_ends_the_run_in_time(shoal_command: Shoal) -> None:
    resolving = (
        "/etc/resolv.conf:nameserver 127.0.0.1\noptions timeout:30\n",
        "/etc/nsswitch.conf:hosts: dns\n",
        "deaf",
    )
    privately(shoal_command, *resolving, options=("--mount", "--net"))
    outcome = shoal_command.copy("http://files.example:8080", "--retry-timeout", "2")
    causes = ("files.example:8080", "the host name was not resolved in time")
    assert_stopped(outcome, {"unreachable", "connect", "timeout"}, *causes, within=15)


HOST = "files.example"


class Hosts:
    """The command's own /etc/hosts, in which addresses of `HOST` can be changed while the command runs."""

    def __init__(self, shoal: Shoal, *addresses: str) -> None:
        self.file = shoal.directory / "hosts"
        privately(shoal, f"/etc/hosts:{self.text(*addresses)}", "/etc/nsswitch.conf:hosts: files\n")

    def text(self, *addresses: str) -> str:
        """Returns the file: one size for any addresses, so that a reader never finds it cut."""
        lines = "".join(f"{address} {HOST}\n" for address in addresses)
        return f"{lines:<80}"

    def become(self, *addresses: str) -> None:
        """Changes it in place: another file would not be the one that the command sees."""
        file = os.open(self.file, os.O_WRONLY)
        os.pwrite(file, self.text(*addresses).encode(), 0)
        os.close(file)


def test_a_run_follows_its_name_to_another_address_when_the_first_one_dies(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(400)
    first = fault_server(objects)
    first.go_away(3600, "refuse", after_gets=150)
    first.start()
    hosts = Hosts(shoal_command, first.address)
    with FaultServer(dict(objects), address="127.0.0.2", port=first.port) as second:
        running = shoal_command.start_copy(f"http://{HOST}:{first.port}", "--max-retries", "10")
        wait_until(lambda: len(first.fetched()) >= 150)
        time.sleep(0.3)  # for the client to see that nothing is there any more
        assert second.connections == []
        hosts.become(second.address)
        outcome = running.wait(30)
        assert_arrived(outcome, objects)
        assert 0 < len(second.fetched()) <= 251, "nothing that had arrived is fetched again"
        assert second.listed() == []


def test_a_name_that_cannot_be_resolved_for_a_while_is_waited_for(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    async def answer_and_close(exchange: Exchange) -> None:
        await exchange.answer(200, exchange.body, {"Connection": "close"})
        await exchange.finish()

    objects = numbered(400)
    server = fault_server(objects)
    server.on_objects(answer_and_close)  # so that the name is needed for every one
    server.start()
    hosts = Hosts(shoal_command, server.address)
    options = ("--max-retries", "10", "--limit-rate", "20kB")
    running = shoal_command.start_copy(f"http://{HOST}:{server.port}", *options)
    wait_until(lambda: len(server.fetched()) >= 20)
    hosts.become()
    time.sleep(0.3)  # for connections that were under way
    before = len(server.connections)
    time.sleep(2)
    assert len(server.connections) == before, "the name was not needed"
    hosts.become(server.address)
    outcome = running.wait(30)
    assert_arrived(outcome, objects)
    assert outcome.report["retries"] > 0


@pytest.mark.parametrize("dead_first", [True, False])
def test_of_several_addresses_a_dead_one_is_passed_over(
    shoal_command: Shoal, fault_server: MakeServer, dead_first: bool
) -> None:
    objects = numbered(20)
    server = fault_server(objects).start()
    addresses = ["127.0.0.2", server.address]
    Hosts(shoal_command, *(addresses if dead_first else reversed(addresses)))
    assert_arrived(shoal_command.copy(f"http://{HOST}:{server.port}", "--max-retries", "0"), objects)
