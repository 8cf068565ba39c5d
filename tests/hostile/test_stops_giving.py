"""Services that stop giving objects in the middle of a run: credentials that have expired, a login page for everything.

The run stops with one error, and nothing of it is kept: no page is saved, no failure is written down, so that the
same command goes on once the credentials are renewed. A service of which some objects are refused or are HTML is not
stopped.
"""

from __future__ import annotations

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_stopped, numbered
from servers import faults
from servers.fault_server import Exchange, Fault, FaultServer
from servers.fixtures import MakeServer, with_and_without_echo
from trees import tree

PAGE = b"<html><form action='/login'>Please sign in</form></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
FORBIDDEN = faults.status(403)
LOGIN = faults.status(200, PAGE, HTML)


async def login_with_a_token(exchange: Exchange) -> None:
    """A page that is never the same twice."""
    await exchange.answer(200, b"<html>%d</html>" % len(exchange.server.requests), HTML)


async def login_that_leads_back(exchange: Exchange) -> None:
    """A page as long as the name that was asked for."""
    await exchange.answer(200, b'<a href="/login?next=%s">' % (exchange.request.name or "").encode(), HTML)


async def login_of_unknown_length(exchange: Exchange) -> None:
    """A page in chunks."""
    await exchange.send(exchange.head(200, {"Transfer-Encoding": "chunked", **HTML}) + b"6\r\n<html>\r\n0\r\n\r\n")


WAYS = {
    "403": FORBIDDEN,
    "login page": LOGIN,
    "login page, never the same": login_with_a_token,
    "login page that leads back": login_that_leads_back,
    "login page in chunks": login_of_unknown_length,
    "redirect elsewhere": faults.redirect(302, "http://login.example/"),
}


@with_and_without_echo
@pytest.mark.parametrize("fault", WAYS.values(), ids=WAYS.keys())
def test_a_service_that_stops_giving_objects_stops_the_run_and_nothing_of_it_is_kept(
    shoal_command: Shoal, fault_server: MakeServer, fault: Fault
) -> None:
    objects = numbered(2_500, 50)
    server = fault_server(objects)
    server.on_objects(fault, skip=500)
    server.start()

    stopped = shoal_command.copy(server)

    assert_stopped(stopped, "credentials", "plain-0", "it sent before" if fault is FORBIDDEN else "", manifest=objects)
    assert stopped.error["failed"] == 0, "no failure is written down"
    assert 0 < len(tree(stopped.out)) <= 500, "no page is saved"
    assert len(server.fetched()) < 2_000
    assert stopped.stderr.count("error:") == 1
    assert "run the same command again" in stopped.stderr
    server.heal()
    again = shoal_command.copy(server)
    assert again.code == 0, again
    assert tree(again.out) == objects
    assert again.report["total"]["written"] == len(objects)


@pytest.mark.parametrize("fault", [LOGIN, FORBIDDEN], ids=["login page", "403"])
def test_a_command_that_is_run_again_too_early_saves_no_page(
    shoal_command: Shoal, fault_server: MakeServer, fault: Fault
) -> None:
    objects = numbered(2_000)
    server = fault_server(objects)
    server.on_objects(fault, skip=500)
    server.start()
    assert shoal_command.copy(server).code == 3
    arrived = tree(shoal_command.out)

    again = shoal_command.copy(server, "--keep-going")

    assert tree(again.out) == arrived
    if fault is LOGIN:
        assert_stopped(again, "credentials", "every request with an html page", manifest=objects)
    else:
        # Of a service that has given nothing so far each refusal is a failure of its own, which can be tried again.
        assert again.code == 1
        assert again.report["total"]["written"] + again.report["failed"] == len(objects)


@pytest.mark.parametrize("given", [500, 0], ids=["after some objects", "from the first object on"])
@pytest.mark.parametrize("fault", [LOGIN, FORBIDDEN], ids=["login page", "403"])
def test_an_update_from_a_service_that_stops_giving_objects_replaces_no_file_by_a_page(
    shoal_command: Shoal, fault_server: MakeServer, fault: Fault, given: int
) -> None:
    before = numbered(2_000)
    after = {name: data[::-1] + b"new" for name, data in before.items()}
    server = fault_server(dict(before))
    server.start()
    assert shoal_command.copy(server).code == 0
    server.objects.update(after)
    server.on_objects(fault, skip=given)

    stopped = shoal_command.copy(server, "--update")

    found = tree(stopped.out)
    assert found.keys() == before.keys()
    assert all(data in (before[name], after[name]) for name, data in found.items())
    assert sum(found[name] == after[name] for name in found) <= given
    if fault is LOGIN or given:
        assert_stopped(stopped, "credentials", manifest=found)
    else:
        assert stopped.code == 1
        assert stopped.report["failed"] == len(before)
    server.heal()
    again = shoal_command.copy(server, "--update")
    assert again.code == 0, again
    assert tree(again.out) == after


def refuse_some(server: FaultServer, names: set[str]) -> None:
    server.on(lambda request: request.name in names, FORBIDDEN)


@with_and_without_echo
@pytest.mark.parametrize("some", ["every second", "five hundred in a row", "all but the first"])
def test_a_service_that_refuses_some_objects_is_not_stopped(
    shoal_command: Shoal, fault_server: MakeServer, some: str
) -> None:
    objects = numbered(1_500)
    names = list(objects)
    which = {"every second": names[::2], "five hundred in a row": names[500:1_000], "all but the first": names[1:]}
    refused = set(which[some])
    server = fault_server(objects)
    refuse_some(server, refused)
    server.start()

    done = shoal_command.copy(server)

    assert done.code == 1, done
    assert tree(done.out) == {name: data for name, data in objects.items() if name not in refused}
    assert done.report["failed"] == len(refused)
    assert {failure["kind"] for failure in done.report["failures"]} == {"forbidden"}
    assert len(server.fetched()) < len(objects) * 1.05 + 50, "it is hardly asked for more"


def serve_pages(server: FaultServer, pages: set[str]) -> None:
    """Answers for these objects with their bytes, as HTML."""

    async def page(exchange: Exchange) -> None:
        await exchange.answer(200, exchange.body, HTML)

    server.on(lambda request: request.name in pages and request.name in server.objects, page)
    server.start()


@with_and_without_echo
@pytest.mark.parametrize("some", ["all", "all the same"])
def test_a_service_whose_objects_are_html_is_not_stopped(
    shoal_command: Shoal, fault_server: MakeServer, some: str
) -> None:
    objects = numbered(1_500) if some == "all" else dict.fromkeys(numbered(1_500), PAGE)
    server = fault_server(objects)
    serve_pages(server, set(objects))
    assert_arrived(shoal_command.copy(server), objects)
    assert len(server.fetched()) < len(objects) * 1.05 + 50, "it is hardly asked for more"


@with_and_without_echo
@pytest.mark.parametrize("ending", [".html", ".htm", ".HTML"])
@pytest.mark.parametrize("some", ["every second", "five hundred in a row", "all but the first"])
def test_html_under_a_name_that_says_so_arrives_among_others(
    shoal_command: Shoal, fault_server: MakeServer, some: str, ending: str
) -> None:
    names = list(numbered(1_500))
    which = {"every second": names[::2], "five hundred in a row": names[500:1_000], "all but the first": names[1:]}
    pages = set(which[some])
    objects = {name + ending * (name in pages): data for name, data in numbered(1_500).items()}
    server = fault_server(objects)
    serve_pages(server, {name + ending for name in pages})
    assert_arrived(shoal_command.copy(server), objects)
    assert len(server.fetched()) < len(objects) * 1.05 + 50, "it is hardly asked for more"


@with_and_without_echo
@pytest.mark.parametrize("some", ["one", "every second of the rest", "five hundred in a row", "all but a hundred"])
def test_a_page_in_place_of_an_object_is_a_failure_and_no_file(
    shoal_command: Shoal, fault_server: MakeServer, some: str
) -> None:
    objects = numbered(1_500)
    names = list(objects)
    which = {
        "one": names[750:751],
        "every second of the rest": names[500::2],
        "five hundred in a row": names[500:1_000],
        "all but a hundred": names[100:],
    }
    pages = set(which[some])
    server = fault_server(objects)
    serve_pages(server, pages)

    # One at a time where most are pages: a page that overtakes the first object would be what the service has.
    done = shoal_command.copy(server, *(["--workers", "1"] if some == "all but a hundred" else []))

    assert done.code == 1, done
    assert tree(done.out) == {name: data for name, data in objects.items() if name not in pages}
    assert done.report["failed"] == len(pages)
    for failure in done.report["failures"]:
        assert failure["kind"] == "unexpected-type"
        assert "HTML page" in failure["reason"]
        assert "--expect-type '*'" in failure["reason"], "what to do"
    assert len(server.fetched()) < len(objects) * 1.05 + 50, "it is hardly asked for more"
    accepted = shoal_command.copy(server, "--expect-type", "*", "--retry-failed")
    assert accepted.code == 0, accepted
    assert tree(accepted.out) == objects


def test_with_every_type_expected_all_pages_arrive(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(1_000)
    server = fault_server(objects)
    serve_pages(server, set(list(objects)[500:]))
    assert_arrived(shoal_command.copy(server, "--expect-type", "*"), objects)


def test_refusals_are_doubted_where_a_type_is_expected_too(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(2_000)
    server = fault_server(objects)
    server.on_objects(FORBIDDEN, skip=500)
    server.start()
    assert_stopped(shoal_command.copy(server, "--expect-type", "*"), "credentials", "it sent before", manifest=objects)


def test_credentials_that_expire_in_the_midst_of_a_large_copy_soon_end_it(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(6_000, 20)
    server = fault_server(objects)
    server.on_objects(FORBIDDEN, skip=500)
    server.start()

    stopped = shoal_command.copy(server, "--workers", "auto", "--timeout", "10")

    assert_stopped(stopped, "credentials", "it sent before", manifest=objects)
    assert stopped.error["failed"] == 0
    assert len(server.fetched()) < 2_000
    server.heal()
    again = shoal_command.copy(server, "--workers", "auto", "--timeout", "10", limit=60)
    assert again.code == 0, again
    assert again.report["total"]["written"] == len(objects)
    assert tree(again.out) == objects


def test_pages_that_the_user_expects_are_not_doubted(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    server.on_objects(LOGIN, skip=100)
    server.start()
    done = shoal_command.copy(server, "--expect-type", "*/*")
    assert done.code == 0
    assert list(tree(done.out).values()).count(PAGE) == 200
