"""Listings that lie, loop, change or break: row N13."""

from __future__ import annotations

import json

import pytest

import shoal as package
from hostile.oracle import LIBRARIES, Shoal, assert_arrived, assert_balanced, assert_stopped, numbered
from servers import faults
from servers.fault_server import Exchange, Fault
from servers.fixtures import MakeServer
from trees import tree
from waiting import wait_until

LOOP_LIMIT = 200  # requests: a loop of a few pages is found long before; a listing that is believed goes on for ever
# Long enough that what came before the broken page is committed: a batch closes after 0.5 s.
PATIENCE = ["--max-retries", "10", "--retry-timeout", "3"]
MEMORY = (
    400 << 20
) - LIBRARIES  # bytes: a page of 64 MiB, kept once as text and once as names, fits; an endless one does not


# Markers


@pytest.mark.parametrize("end", ["{}", '{"NextMarker": ""}', '{"NextMarker": null}', '{"NextFile": ""}'])
def test_a_missing_or_empty_marker_ends_the_listing(shoal_command: Shoal, fault_server: MakeServer, end: str) -> None:
    objects = numbered(10)
    server = fault_server(objects)
    server.on_list(faults.page(list(objects), **json.loads(end)))
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    assert server.listed() == [None]


def test_the_marker_may_be_called_next_file(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(30)
    server = fault_server(objects)
    server.page_size, server.next_field = 10, "NextFile"
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    assert server.listed() == [None, "page-1", "page-2"]


def test_fields_paths_and_parameters_can_be_named(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server({})
    pages = {"/all": {"keys": list(objects)[:10], "more": "x y&z"}, "/all?from=x%20y%26z": {"keys": list(objects)[10:]}}

    async def other_service(exchange: Exchange) -> None:
        target = exchange.request.target.replace("+", "%20")
        path, _, name = target.rpartition("/")
        page = pages.get(target)
        known = page is not None or (path == "/v1/one" and name in objects)
        body = json.dumps(page).encode() if page else objects.get(name, b"")
        await exchange.answer(200 if known else 404, body, {"Content-Type": "application/json"})

    server.on_any(other_service)
    server.start()
    options = ["--list-path", "/all", "--get-path", "/v1/one/{name}", "--names-field", "keys"]
    outcome = shoal_command.copy(server, *options, "--next-field", "more", "--marker-param", "from")
    assert_arrived(outcome, objects)


@pytest.mark.parametrize("marker", ["a&b=c", "a b+c%2f", "日本\n", "x" * 4000, "/../..?#"])
def test_a_marker_comes_back_exactly_as_it_was_given(
    shoal_command: Shoal, fault_server: MakeServer, marker: str
) -> None:
    objects = numbered(10)
    names = list(objects)
    server = fault_server(objects)
    server.on(lambda request: request.is_list and request.token is None, faults.page(names[:5], marker))
    server.on(lambda request: request.is_list and request.token == marker, faults.page(names[5:]))
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


# Loops


def test_the_same_marker_for_ever_is_found_out(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.on_list(faults.page(list(objects)[:10], "again"), times=1)
    server.on_list(faults.page(list(objects)[10:], "again"))
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "loops", manifest=objects)
    assert len(server.listed()) < LOOP_LIMIT


def test_a_page_that_names_itself_as_the_next_is_found_out_whatever_it_holds(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(5000)
    names = list(objects)
    server = fault_server(objects)

    async def another_page_each_time(exchange: Exchange) -> None:
        at = 10 * len(server.listed())
        await faults.page(names[at : at + 10], "again")(exchange)

    server.on_list(another_page_each_time)
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "loops", manifest=objects)
    assert len(server.listed()) < LOOP_LIMIT


def test_the_same_page_for_ever_under_new_markers_is_found_out(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(10)
    server = fault_server(objects)

    async def always(exchange: Exchange) -> None:
        await faults.page(list(objects), f"marker-{len(server.requests)}")(exchange)

    server.on_list(always)
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "list", manifest=objects)
    assert len(server.listed()) < LOOP_LIMIT


@pytest.mark.parametrize("length", [2, 3, 7])
def test_a_ring_of_pages_is_found_out(shoal_command: Shoal, fault_server: MakeServer, length: int) -> None:
    objects = numbered(10 * length)
    names = list(objects)
    server = fault_server(objects)

    async def ring(exchange: Exchange) -> None:
        at = int(exchange.request.token or 0)
        await faults.page(names[10 * at : 10 * at + 10], str((at + 1) % length))(exchange)

    server.on_list(ring)
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "list", manifest=objects)
    assert len(server.listed()) < LOOP_LIMIT


def test_a_few_empty_pages_are_no_loop(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(10)
    server = fault_server(objects)

    async def late(exchange: Exchange) -> None:
        at = int(exchange.request.token or 0)
        await faults.page(list(objects) if at == 5 else [], None if at == 5 else str(at + 1))(exchange)

    server.on_list(late)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


def test_empty_pages_for_ever_come_to_an_end(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({})

    async def empty(exchange: Exchange) -> None:
        await faults.page([], str(int(exchange.request.token or 0) + 1))(exchange)

    server.on_list(empty)
    server.start()
    # Pages are counted, and not the time: on a machine that has other work, 10,000 may take minutes.
    assert_stopped(shoal_command.copy(server, limit=600), "listing", "10000 empty pages", within=600)
    assert len(server.listed()) == 10_000


# Names that come twice, disorder, names that go


def test_names_that_come_twice_are_skipped_the_second_time(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(30)
    names = list(objects)
    server = fault_server(objects)
    server.on_list(faults.page([*names[:15], *names[:5]], "page-1"), page=0)
    server.on_list(faults.page([*names[10:], names[29]]), page=1)
    server.start()
    outcome = shoal_command.copy(server, "--workers", "1")
    assert_arrived(outcome, objects, skipped=11)  # 5 within the first page, 5 across pages, 1 within the second
    assert outcome.report["duplicates"] == 11


def test_names_in_no_order_all_arrive(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(50)
    server = fault_server(objects)
    server.page_size = 7
    server.names = sorted(objects, key=lambda name: name[::-1])
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


def test_objects_gone_since_the_listing_are_failures_called_vanished(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.names = [*objects, "gone-1", "gone-2"]
    server.start()
    assert_arrived(shoal_command.copy(server), objects, {"gone-1": "vanished", "gone-2": "vanished"})
    assert len(server.asked("gone-1")) == 1


def test_with_ignore_vanished_they_are_skipped(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    server.names = ["gone-1", *objects, "gone-2"]
    server.start()
    assert_arrived(shoal_command.copy(server, "--ignore-vanished"), objects, skipped=2)


def test_what_vanished_or_was_met_before_is_listed_with_its_reason(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(20)
    server = fault_server(objects)
    first, *_, last = objects
    server.names = ["gone-1", *objects, first, "gone-2", last, "gone.tmp"]
    server.start()
    assert_arrived(shoal_command.copy(server, "--ignore-vanished", "--exclude", "*.tmp"), objects, skipped=5)
    (run,) = package.status(shoal_command.out).runs
    expected = [("gone-1", "vanished"), ("gone-2", "vanished"), (first, "duplicate"), (last, "duplicate")]
    assert sorted((one.name, one.reason) for one in run.skipped) == sorted(expected)
    assert run.skipped_by == {"filtered": 1, "duplicate": 2, "vanished": 2}


def test_an_empty_listing_is_a_finished_job(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({}).start()
    assert_arrived(shoal_command.copy(server), {})


# Pages that are none


BAD_PAGES = {
    "empty": b"",
    "html": b"<html>please log in</html>",
    "cut off": b'{"FileNames": ["a", "b',
    "something behind": b'{"FileNames": []} {"FileNames": []}',
    "an array": b'["a", "b"]',
    "no names field": b'{"Names": ["a"]}',
    "names null": b'{"FileNames": null}',
    "names a string": b'{"FileNames": "a"}',
    "a name a fraction": b'{"FileNames": ["a", 7.5]}',
    "a name an array": b'{"FileNames": ["a", ["b"]]}',
    "marker a list": b'{"FileNames": ["a"], "NextMarker": ["x"]}',
    "not UTF-8": b'{"FileNames": ["\xff\xfe"]}',
    "deep": b'{"FileNames": ' + b"[" * 200_000,
}


@pytest.mark.parametrize("body", BAD_PAGES.values(), ids=BAD_PAGES.keys())
def test_a_page_that_is_not_a_page_is_an_error_of_the_listing(
    shoal_command: Shoal, fault_server: MakeServer, body: bytes
) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.status(200, body, {"Content-Type": "application/json"}))
    server.start()
    outcome = shoal_command.copy(server)
    assert_stopped(outcome, "listing", "/list", manifest={"a": b"1"})
    assert tree(outcome.out) == {}


def test_what_a_service_could_not_list_stays_a_failure_until_all_is_listed_anew(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"a": b"1"})
    page = b'{"FileNames": ["a"], "LeftOut": {"Directories": 2}}'
    server.on_list(faults.status(200, page))
    server.start()
    lost = "2 directories that the service could not list"
    outcome = shoal_command.copy(server, "--include", "a*")
    assert_arrived(outcome, {"a": b"1"}, {lost: "read-failed"})
    for _ in range(2):
        tried = shoal_command.copy(server, "--include", "a*", "--retry-failed", "--ignore-vanished")
        assert (tried.code, tried.report["failed"], tried.report["failures"][0]["kind"]) == (1, 1, "read-failed"), tried
    assert server.fetched() == ["a"], "what stands for directories is asked for by no name"
    server.heal()
    mended = shoal_command.copy(server, "--include", "a*", "--update")
    assert (mended.code, tree(mended.out)) == (0, {"a": b"1"}), mended


def test_a_missing_names_field_is_named_in_the_message(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.status(200, b'{"Names": ["a"]}'))
    server.start()
    assert_stopped(shoal_command.copy(server), "listing", "FileNames")


def test_half_a_surrogate_pair_in_a_name_stops_nothing_but_itself(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.status(200, b'{"FileNames": ["\\ud800", "a"]}'))
    server.start()
    outcome = shoal_command.copy(server)
    # JSON does not say what such a name is: it is refused, alone or with its page.
    if outcome.code == 3:
        assert_stopped(outcome, "listing", "/list")
    else:
        assert outcome.code == 1, outcome
        assert_balanced(outcome.report)
        assert tree(outcome.out) == {"a": b"1"}


@pytest.mark.parametrize("announced", [True, False])
def test_a_page_above_64_mib_is_refused_without_keeping_it(
    shoal_command: Shoal, fault_server: MakeServer, announced: bool
) -> None:
    server = fault_server({})
    length = b"Content-Length: %d\r\n" % (1 << 40) if announced else b"Transfer-Encoding: chunked\r\n"
    start = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"
    filler = b'"some/name/of/an/object",' * 40_000
    sent: list[int] = []
    beginning = b'{"FileNames": ['
    pieces = (beginning, filler) if announced else (faults.chunk(beginning), faults.chunk(filler))
    server.on_list(faults.endless(start + pieces[0], pieces[1], sent=sent))
    server.start()
    outcome = shoal_command.copy(server)
    assert_stopped(outcome, "listing", "64 MiB", "/list")
    assert outcome.peak < MEMORY
    assert sum(sent) < 80 << 20  # bytes: the limit and what the kernel's buffers take


@pytest.mark.parametrize(
    ("fault", "kind", "cause"),
    [
        (faults.status(404), "listing", "404"),
        (faults.status(403), ("listing", "forbidden", "credentials"), "403"),
        (faults.status(401), "credentials", "401"),
        (faults.redirect(302, "http://127.0.0.1:9/list"), "listing", "302"),
        (faults.status(204, b""), "listing", "204"),
    ],
    ids=["404", "403", "401", "302", "204"],
)
def test_a_listing_that_is_refused_ends_the_run_at_once(
    shoal_command: Shoal, fault_server: MakeServer, fault: Fault, kind: str | tuple[str, ...], cause: str
) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(fault)
    server.start()
    assert_stopped(shoal_command.copy(server), kind, cause, "/list", within=5)
    assert len(server.requests) == 1


# Later pages, and going on where it stopped


def test_a_server_error_on_a_later_page_is_tried_again(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(50)
    server = fault_server(objects)
    server.page_size = 10
    server.on_list(faults.status(503), page=3, times=1)
    server.on_list(faults.status(500), page=4, times=2)
    server.start()
    assert_arrived(shoal_command.copy(server), objects)
    assert [server.listed().count(f"page-{number}") for number in (1, 2, 3, 4)] == [1, 1, 2, 3]


def test_objects_are_listed_with_the_patience_of_a_run(fault_server: MakeServer) -> None:
    objects = numbered(50)
    server = fault_server(objects)
    server.page_size = 10
    server.on_list(faults.status(500), page=2, times=5)
    server.on_list(faults.status(500), page=3)
    server.start()
    listing = package.list_objects(package.list_get(server.url, retry_timeout=1))
    with pytest.raises(package.RunError, match=r"could not fetch the listing: .* \(after \d+ attempts in "):
        list(listing)
    server.heal()
    assert len(set(package.list_objects(server.url))) == 50


def test_a_page_that_stays_broken_stops_the_run_and_the_next_run_goes_on_there(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(500)
    server = fault_server(objects)
    server.page_size = 100
    server.on_list(faults.status(500), page=3)
    server.start()
    first = shoal_command.copy(server, *PATIENCE)
    assert_stopped(first, ("listing", "unreachable", "server-error"), "500", "page 4", manifest=objects)
    (run,) = shoal_command.run("status", shoal_command.out, "--json").last["runs"]
    assert run["listed"] == run["written"] + run["skipped"] + run["failed"] + run["unfinished"], run
    assert run["completed"] is None
    before = len(server.requests)

    server.heal()
    second = shoal_command.copy(server, *PATIENCE)
    assert second.code == 0, second
    assert tree(second.out) == objects
    assert_balanced(second.report)
    total = second.report["total"]
    assert (total["listed"], total["written"], total["failed"]) == (500, 500, 0), second
    asked_again = server.requests[before:]
    assert next(request for request in asked_again if request.is_list).token == "page-3"
    fetched = sum(request.name is not None for request in asked_again)
    assert (fetched, second.report["resumed_from"]) == (200, 300)


def test_a_page_that_shrank_meanwhile_is_done_again_as_it_is_now(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    server.page_size = 150
    names = list(objects)
    stuck = names[250]
    server.on_object(stuck, faults.cut_head(0, "hold"))
    server.start()
    running = shoal_command.start_copy(server, "--timeout", "60")
    wait_until(lambda: len(server.fetched()) >= 280)
    running.interrupt()
    assert running.wait(10).code == 130
    assert all(objects[name] == data for name, data in tree(shoal_command.out).items())

    server.heal()
    gone = set(names[155:300:3])
    server.names = [name for name in names if name not in gone]
    outcome = shoal_command.copy(server, "--timeout", "60")
    assert outcome.code == 0, outcome
    assert_balanced(outcome.report)
    assert outcome.report["total"]["failed"] == 0, outcome
    found = tree(outcome.out)
    assert all(objects[name] == data for name, data in found.items())
    assert set(server.names) <= found.keys()


def test_a_marker_that_is_refused_on_resume_names_relist_which_then_helps(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(300)
    server = fault_server(objects)
    server.page_size = 100
    server.on_list(faults.status(500), page=2)
    server.start()
    first = shoal_command.copy(server, *PATIENCE)
    assert_stopped(first, ("listing", "unreachable", "server-error"), "500", "page 3", manifest=objects)

    server.heal()
    server.on_list(faults.status(410), page=2, times=1)
    refused = shoal_command.copy(server, *PATIENCE)
    assert_stopped(refused, "cursor-refused", "410", manifest=objects)
    assert "relist" in refused.stderr

    before = len(server.fetched())
    outcome = shoal_command.copy(server, *PATIENCE, "--relist")
    assert outcome.code == 0, outcome
    assert tree(outcome.out) == objects
    assert_balanced(outcome.report)
    assert len(server.fetched()) - before == 100  # the two pages that were committed are known by their hash
