"""Cookies that services set: they come back to their host, to no other, and are stored nowhere."""

from __future__ import annotations

from hostile.oracle import Shoal, assert_arrived, numbered
from servers.conversation import Request
from servers.fault_server import Exchange
from servers.fixtures import MakeServer, with_and_without_echo


def cookie(request: Request) -> str | None:
    """The header `Cookie` of a request."""
    return {name.lower(): value for name, value in request.headers.items()}.get("cookie")


@with_and_without_echo
def test_a_service_that_redirects_until_its_cookie_comes_back_is_copied(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)

    async def checks(exchange: Exchange) -> None:
        if cookie(exchange.request) == "seen=hunter2":
            return await exchange.healthy()
        headers = {"Location": exchange.request.target, "Set-Cookie": "seen=hunter2; Path=/; HttpOnly"}
        return await exchange.answer(302, b"", headers)

    server.on_any(checks)
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects)
    assert len(server.requests) == len(objects) + 2, "one redirect, and the listing"
    stored = [path for path in (shoal_command.out / ".shoal").rglob("*") if path.is_file()]
    assert not any(b"hunter2" in path.read_bytes() for path in stored)
    assert "hunter2" not in outcome.stdout + outcome.stderr


def test_a_cookie_is_sent_to_no_other_host(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server, other = fault_server(objects), fault_server(objects)
    other.address = "127.0.0.1"
    other.start()

    async def leads_away(exchange: Exchange) -> None:
        host = f"http://localhost:{other.port}"
        await exchange.answer(302, b"", {"Location": host + exchange.request.target, "Set-Cookie": "a=hunter2"})

    server.on_objects(leads_away)
    server.start()
    assert_arrived(shoal_command.copy(server, "--allow-host", f"localhost:{other.port}"), objects)
    assert len(other.requests) == len(objects)
    assert {cookie(request) for request in other.requests} == {None}
    assert cookie(server.requests[-1]) == "a=hunter2", "its own host gets it back"


def test_a_cookie_of_the_user_is_the_only_one_that_is_sent(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server(objects)

    async def sets(exchange: Exchange) -> None:
        await exchange.answer(200, exchange.body, {"Set-Cookie": "a=1"})

    server.on_objects(sets)
    server.start()
    assert_arrived(shoal_command.copy(server, "--header", "Cookie: mine=1"), objects)
    assert {cookie(request) for request in server.requests} == {"mine=1"}
