"""Listings in every form of pages: all of it arrives, also after a kill, and if the service has changed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from hostile.oracle import Shoal, assert_arrived, assert_balanced, assert_stopped, numbered
from servers import faults, page_forms
from servers.fault_server import Exchange, FaultServer
from servers.fixtures import MakeServer
from servers.page_forms import PagedListing
from trees import tree
from waiting import wait_until

RESULTS = ["--names-field", "results"]
# Each form, and the options for it.
FORMS = {
    "marker": (
        page_forms.nested_marker,
        ["--names-field", "data[].id", "--next-field", "paging.next.after", "--marker-param", "after"],
    ),
    "url": (page_forms.url("/list"), ["--pages", "url"]),
    "relative-url": (page_forms.url(""), ["--pages", "url", "--next-field", "links.next"]),
    "link": (page_forms.link, ["--pages", "link", "--names-field", "[]"]),
    "header": (
        page_forms.header,
        ["--pages", "header", "--next-field", "X-Next-Page", "--marker-param", "page", "--names-field", "[]"],
    ),
    "number": (page_forms.numbered(1), ["--pages", "number", *RESULTS]),
    "number-from-0": (page_forms.numbered(0), ["--pages", "number", *RESULTS]),
    "number-with-404": (page_forms.numbered(1, missing=True), ["--pages", "number", *RESULTS]),
    "number-as-told": (
        page_forms.numbered(5, parameter="p"),
        ["--pages", "number", "--page-param", "p", "--first-page", "5", *RESULTS],
    ),
    "offset": (page_forms.offset, ["--pages", "offset", *RESULTS]),
    "url-of-a-number": (page_forms.url_of_a_number, ["--pages", "url"]),
    "marker-of-a-number": (
        page_forms.marker_of_a_number,
        ["--next-field", "next_page", "--marker-param", "page"],
    ),
    "offset-of-entries": (page_forms.nested_entries, ["--pages", "offset", "--names-field", "data[].files[].name"]),
    "jsonl": (page_forms.json_lines, ["--pages", "link", "--list-format", "jsonl", "--names-field", "file.name"]),
    "lines": (page_forms.lines, ["--pages", "number", "--list-format", "lines"]),
}
COUNTED = {name for name in FORMS if name.startswith(("number", "offset", "lines")) or "number" in name}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    """The name of a form."""
    name: str = request.param
    return name


@pytest.mark.parametrize("count", [1000, 950])
def test_all_objects_arrive_in_each_form_of_pages(
    shoal_command: Shoal, fault_server: MakeServer, form: str, count: int
) -> None:
    objects = numbered(count)
    server = fault_server(objects)
    answer, options = FORMS[form]
    listing = PagedListing(server, answer)
    server.on_list(listing)
    server.start()
    assert_arrived(shoal_command.copy(server, *options), objects)
    assert len(listing.queries) <= 13, "two pages behind the last one, and one to find out where they begin"
    # Nothing has changed: an update finds that, too.
    outcome = shoal_command.copy(server, *options, "--update")
    assert (outcome.code, outcome.report["written"], outcome.report["unchanged"]) == (0, 0, count), outcome


def test_a_killed_copy_is_completed_although_an_object_was_added_and_one_removed(
    shoal_command: Shoal, fault_server: MakeServer, form: str
) -> None:
    objects = numbered(1000)
    server = fault_server(objects)
    answer, options = FORMS[form]
    server.on_list(PagedListing(server, answer))
    held = sorted(objects)[620]
    server.on_object(held, faults.cut_head(0, "hold"))
    server.start()
    running = shoal_command.start_copy(server, *options, "--timeout", "60")
    wait_until(lambda: len(server.fetched()) >= 600 and sum(1 for _ in shoal_command.out.rglob("*")) > 300)
    running.process.kill()
    running.wait(10)

    server.heal()
    server.on_list(PagedListing(server, answer))
    removed, added = sorted(objects)[150], sorted(objects)[250] + "-added"
    del objects[removed]
    server.objects.pop(removed)
    server.objects[added] = objects[added] = b"new"
    outcome = shoal_command.copy(server, *options)
    assert_balanced(outcome.report)
    found = tree(outcome.out)
    # A marker says where to continue: what was added in front of it is listed by the next update, as ever.
    if form in COUNTED:
        assert outcome.code == 0, outcome
        assert found.keys() >= objects.keys()
    assert outcome.report["total"]["failed"] == 0, outcome
    updated = shoal_command.copy(server, *options, "--update")
    assert updated.code == 0, updated
    found = tree(updated.out)
    found.pop(removed, None)  # it was there when it was copied
    assert found == objects


def test_a_change_between_two_pages_loses_nothing_that_stays(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(950)
    names = sorted(objects)
    for form in ("number", "offset"):
        server = fault_server(objects)
        answer, options = FORMS[form]
        listing = PagedListing(server, answer)
        server.names = names[1:]
        server.start()

        async def inserting(exchange: Exchange, listing: PagedListing = listing, server: FaultServer = server) -> None:
            if len(listing.queries) == 3:
                server.names = names  # one more in front: each page begins one earlier
            await listing(exchange)

        server.on_list(inserting)
        outcome = shoal_command.copy(server, *options)
        assert outcome.code == 0, outcome
        assert any("949 names when the listing began, and 950" in note for note in outcome.report["notes"]), outcome
        assert tree(outcome.out).keys() >= set(names[1:])
        shoal_command.out = shoal_command.out.with_name(f"out-{form}-2")


# What the user has put into the path, and other hosts


def test_parameters_of_the_user_are_sent_with_every_page_and_stored_nowhere(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(1000)
    server = fault_server(objects)
    listing = PagedListing(server, page_forms.url("/list"))
    server.on_list(listing)
    held = sorted(objects)[620]
    server.on_object(held, faults.cut_head(0, "hold"))
    server.start()
    options = ["--pages", "url", "--list-path", "/list?key=hunter2&limit=100"]
    running = shoal_command.start_copy(server, *options, "--timeout", "60")
    wait_until(lambda: len(server.fetched()) >= 600)
    running.process.kill()
    running.wait(10)
    server.heal()
    server.on_list(listing)
    outcome = shoal_command.copy(server, *options)
    assert outcome.code == 0, outcome
    assert tree(outcome.out) == objects
    assert {(query["key"], query["limit"]) for query in listing.queries} == {("hunter2", "100")}
    stored = [path for path in (shoal_command.out / ".shoal").rglob("*") if path.is_file()]
    assert stored
    assert not any(b"hunter2" in path.read_bytes() for path in stored)


def test_a_next_page_on_another_host_is_followed_only_if_it_is_allowed_and_without_headers(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(150)
    server, other = fault_server(objects), fault_server(objects)
    elsewhere = PagedListing(other, page_forms.url("/list"))
    other.on_list(elsewhere)
    other.start()
    server.on_list(PagedListing(server, page_forms.url(f"{other.url}/list")))
    server.start()
    options = ["--pages", "url", "--header", "X-Token: hunter2"]
    refused = shoal_command.copy(server, *options)
    assert_stopped(refused, "listing", "another host")
    assert f"--allow-host 127.0.0.1:{other.port}" in refused.error["hint"]
    assert not other.requests
    outcome = shoal_command.copy(server, *options, "--allow-host", f"127.0.0.1:{other.port}")
    assert_arrived(outcome, objects)
    assert len(elsewhere.queries) == 1
    assert all("x-token" not in {name.lower() for name in request.headers} for request in other.requests)


def test_secrets_that_a_service_puts_into_the_url_of_a_page_are_not_stored(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(1000)
    server, other = fault_server(objects), fault_server(objects)
    other.start()
    names = sorted(objects)
    seen: list[str] = []

    async def list_of(exchange: Exchange) -> None:
        seen.append(exchange.request.target)
        after = exchange.request.target.partition("after=")[2].partition("&")[0]
        page, marker = page_forms.behind(names, after)
        start = f"{other.url if len(seen) % 2 else server.url}/list?key=S3CRETKEY&access_token=hunter2&after={marker}"
        body = {"FileNames": page, "next": start if marker else None}
        await exchange.answer(200, json.dumps(body).encode())

    for one in (server, other):
        one.on_list(list_of)
    held = names[620]
    server.on_object(held, faults.cut_head(0, "hold"))
    server.start()
    options = ["--pages", "url", "--list-path", "/list?key=S3CRETKEY", "--header", "Authorization: Bearer hunter2"]
    options += ["--allow-host", f"127.0.0.1:{other.port}", "--allow-host", f"127.0.0.1:{server.port}"]
    running = shoal_command.start_copy(server, *options, "--timeout", "60")
    wait_until(lambda: len(server.fetched()) >= 600)
    running.process.kill()
    running.wait(10)
    stored = [path for path in (shoal_command.out / ".shoal").rglob("*") if path.is_file()]
    assert not any(secret in path.read_bytes() for path in stored for secret in (b"hunter2", b"S3CRETKEY"))
    server.heal()
    server.on_list(list_of)
    outcome = shoal_command.copy(server, *options)
    assert outcome.code == 0, outcome
    assert tree(outcome.out) == objects
    assert all("key=S3CRETKEY" in target and "hunter2" not in target for target in seen), seen


# Ends that are none


MORE: dict[str, tuple[dict[str, object], dict[str, str], str]] = {
    "has_more (Stripe, Notion)": ({"has_more": True}, {}, "has_more"),
    "hasNextPage (GraphQL)": ({"pageInfo": {"hasNextPage": True, "endCursor": "abc"}}, {}, "pageInfo.endCursor"),
    "isLast (Atlassian)": ({"isLast": False}, {}, "isLast"),
    "last (Spring)": ({"last": False, "totalPages": 7, "number": 0}, {}, "totalPages"),
    "isLastPage (Bitbucket)": ({"isLastPage": False, "nextPageStart": 25}, {}, "nextPageStart"),
    "complete": ({"complete": False}, {}, "complete"),
    "truncated (GitHub)": ({"truncated": True}, {}, "truncated"),
    "incomplete_results (GitHub)": ({"incomplete_results": True}, {}, "incomplete_results"),
    "total": ({"total": 250}, {}, "total"),
    "count (Django)": ({"count": 250}, {}, "count"),
    "totalCount": ({"totalCount": 250, "offset": 0, "limit": 2}, {}, "totalCount"),
    "total_pages": ({"page": 1, "total_pages": 125}, {}, "total_pages"),
    "pages": ({"page": 1, "pages": 125}, {}, "pages"),
    "meta": ({"meta": {"total": 250, "per_page": 2}}, {}, "meta.total"),
    "meta.pagination": ({"meta": {"pagination": {"page": 1, "pageCount": 125}}}, {}, "meta.pagination.pageCount"),
    "hits.total (Elasticsearch)": ({"total": {"value": 10000, "relation": "gte"}}, {}, "total.value"),
    "remaining": ({"remaining": 99}, {}, "remaining"),
    "paging.next (Facebook)": (
        {"paging": {"next": "http://x/list?after=Q"}},
        {},
        "--pages url and --next-field paging.next",
    ),
    "links.next (JSON:API)": ({"links": {"next": "/list?page=2"}}, {}, "--pages url and --next-field links.next"),
    "_links.next.href (HAL)": ({"_links": {"next": {"href": "/list?page=2"}}}, {}, "_links.next.href"),
    "@odata.nextLink": ({"@odata.nextLink": "http://x?$skip=2"}, {}, "@odata.nextLink"),
    "nextPageToken (Google)": ({"nextPageToken": "tok"}, {}, "nextPageToken"),
    "LastEvaluatedKey (DynamoDB)": ({"LastEvaluatedKey": {"k": 1}}, {}, "LastEvaluatedKey"),
    "continue (MediaWiki)": ({"continue": {"cmcontinue": "page|1"}}, {}, "continue.cmcontinue"),
    "next_cursor (Slack)": ({"response_metadata": {"next_cursor": "dXNl"}}, {}, "response_metadata.next_cursor"),
    "offset (Airtable)": ({"offset": "itrX/recY"}, {}, "offset"),
    "pit_id (Elasticsearch)": ({"sort": ["x"], "pit_id": "y"}, {}, "pit_id"),
    "exceededTransferLimit (ArcGIS)": ({"exceededTransferLimit": True}, {}, "exceededTransferLimit"),
    "@odata.count": ({"@odata.count": 1000}, {}, "@odata.count"),
    "metadata.resultset (NOAA)": ({"metadata": {"resultset": {"count": 1000}}}, {}, "metadata.resultset.count"),
    "numberMatched (OGC)": ({"numberMatched": 1000}, {}, "numberMatched"),
    "endOfRecords (GBIF)": ({"endOfRecords": False}, {}, "endOfRecords"),
    "a total with a fraction": ({"total": 1000.0}, {}, "total"),
    "_shards (Elasticsearch)": ({"_shards": {"total": 5, "failed": 2}}, {}, "_shards.failed"),
    "success": ({"success": False}, {}, "success"),
    "status": ({"status": "error"}, {}, "status"),
    "error": ({"error": "backend timeout, partial listing"}, {}, "error"),
    "timed_out": ({"timed_out": True}, {}, "timed_out"),
    "Link next": ({}, {"Link": '<http://x/list?page=2>; rel="next", <http://x/l>; rel="last"'}, "--pages link"),
    "Link last": ({}, {"Link": '<http://x/list?page=9>; rel="last"'}, "--pages number"),
    "X-Next-Page (GitLab)": ({}, {"X-Next-Page": "2"}, "--pages header"),
    "X-Total-Count": ({}, {"X-Total-Count": "250"}, "x-total-count"),
    "X-Total-Pages": ({}, {"X-Total-Pages": "9"}, "x-total-pages"),
    "x-ms-continuation (Azure)": ({}, {"x-ms-continuation": "zzz"}, "--pages header"),
    "Content-Range": ({}, {"Content-Range": "items 0-1/250"}, "content-range"),
}


@pytest.mark.parametrize(("fields", "headers", "names"), MORE.values(), ids=MORE.keys())
def test_a_first_page_that_says_in_some_way_that_there_is_more_is_refused(
    shoal_command: Shoal, fault_server: MakeServer, fields: dict[str, object], headers: dict[str, str], names: str
) -> None:
    objects = numbered(2)
    server = fault_server(objects)
    body = json.dumps({"FileNames": list(objects), **fields}).encode()
    server.on_list(faults.status(200, body, headers))
    server.start()
    outcome = shoal_command.copy(server)
    assert_stopped(outcome, "listing", "this page may not be")
    hint = outcome.error["hint"]
    assert "--pages one" in hint
    assert names in outcome.error["message"] + hint, outcome
    assert not server.fetched(), "refused before the first object"
    assert_arrived(shoal_command.copy(server, "--pages", "one"), objects)


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"has_more": False, "last": True, "total": 2, "count": 2, "pages": 1, "next": None, "error": None}, {}),
        (
            {"limit": 100, "offset": 0, "errors": [], "remaining": 0, "timed_out": False},
            {"X-Total-Count": "2"},
        ),
        ({"user": {"total": 900, "last": False, "pages": 40}, "nextPageToken": ""}, {"X-Next-Page": ""}),
        ({}, {"Link": '</list?page=1>; rel="first", </list?page=1>; rel="last"', "Content-Range": "items 0-1/2"}),
    ],
)
def test_a_first_page_that_is_all_there_is_ends_the_listing(
    shoal_command: Shoal, fault_server: MakeServer, fields: dict[str, object], headers: dict[str, str]
) -> None:
    objects = numbered(2)
    server = fault_server(objects)
    server.on_list(faults.status(200, json.dumps({"FileNames": list(objects), **fields}).encode(), headers))
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


def test_an_end_after_several_pages_that_does_not_fit_is_a_note(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = numbered(4)
    names = list(objects)
    server = fault_server(objects)
    server.on_list(faults.status(200, json.dumps({"FileNames": names[:2], "NextMarker": "page-1"}).encode()), times=1)
    server.on_list(faults.status(200, json.dumps({"FileNames": names[2:], "total": 250}).encode()))
    server.start()
    outcome = shoal_command.copy(server)
    assert_arrived(outcome, objects)
    assert any('"total" says 250, and there are 4 names' in note for note in outcome.report["notes"]), outcome


def of_pages(*pages: object) -> Callable[[Exchange], Awaitable[None]]:
    """Answers numbered pages: each a JSON value, or a status."""

    async def answer(exchange: Exchange) -> None:
        asked = exchange.request.target.partition("page=")[2]
        number = int(asked or 1)
        page = pages[number - 1] if number <= len(pages) else {"data": []}
        if isinstance(page, int):
            return await exchange.answer(page, b"{}")
        return await exchange.answer(200, json.dumps(page).encode())

    return answer


A, B, C = ([f"{letter}-{number}" for number in range(10)] for letter in "abc")


@pytest.mark.parametrize(
    "pages",
    [
        ({"data": A, "total": 100}, 404),
        ({"data": A, "total": 100}, {"data": []}),
        ({"data": A, "total": 100}, {"data": [], "total": 0}),
        ({"data": A, "has_more": True}, {"data": [], "has_more": False}),
        ({"data": A, "total": 100}, {"data": B[:9], "total": 100}, 404),
        ({"data": A}, {"data": B}, {"data": [], "error": "backend timeout"}),
        ({"data": A}, {"data": [], "error": "backend timeout"}),
        # What else a page says hides no error.
        ({"data": A, "total": 30}, {"data": [], "error": "backend timeout", "total": 30, "cursor": "x"}),
        ({"data": A}, {"data": B}, {"data": [], "error": "backend timeout", "total": 30, "cursor": "x"}),
        ({"data": A}, {"data": B[:5], "error": "backend timeout"}, {"data": C}),
        # The service may refuse the parameter.
    ],
)
def test_an_end_against_all_that_earlier_pages_have_said_is_an_error(
    shoal_command: Shoal, fault_server: MakeServer, pages: tuple[object, ...]
) -> None:
    objects = {name: name.encode() for name in A + B + C}
    server = fault_server(objects)
    server.on_list(of_pages(*pages))
    server.start()
    outcome = shoal_command.copy(server, "--pages", "number", "--names-field", "data")
    assert_stopped(outcome, "listing", manifest=objects)


@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("field", ["total", "count"])
def test_a_service_that_refuses_the_parameter_of_the_pages_does_not_end_them(
    shoal_command: Shoal, fault_server: MakeServer, status: int, field: str
) -> None:
    objects = {name: name.encode() for name in A}
    server = fault_server(objects)

    async def refuses(exchange: Exchange) -> None:
        body = json.dumps({"data": A, field: len(A)}).encode()
        await exchange.answer(status if "page=" in exchange.request.target else 200, body)

    server.on_list(refuses)
    server.start()
    outcome = shoal_command.copy(server, "--pages", "number", "--names-field", "data")
    assert_stopped(outcome, "listing", str(status), manifest=objects)


def test_an_empty_page_in_the_middle_is_passed_over(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = {name: name.encode() for name in A + C}
    server = fault_server(objects)
    server.on_list(of_pages({"data": A, "total": 30}, {"data": []}, {"data": C}))
    server.start()
    outcome = shoal_command.copy(server, "--pages", "number", "--names-field", "data")
    assert_arrived(outcome, objects)
    assert any("no names, and the service has said that there are more" in note for note in outcome.report["notes"])
    assert any('"total" says 30, and there are 20 names' in note for note in outcome.report["notes"])


@pytest.mark.parametrize("end", [{"data": []}, 400, 404])
def test_an_empty_page_without_a_total_is_the_end_only_if_another_follows(
    shoal_command: Shoal, fault_server: MakeServer, end: object
) -> None:
    objects = {name: name.encode() for name in A + B + C}
    server = fault_server(objects)
    broken = {"data": [], "message": "internal error"}
    server.on_list(of_pages({"data": A}, {"data": B}, broken, {"data": C}, {"data": []}, end))
    server.start()
    outcome = shoal_command.copy(server, "--pages", "number", "--names-field", "data")
    assert_arrived(outcome, objects)
    assert any("(page 4): the page before it has no names" in note for note in outcome.report["notes"]), outcome


def test_a_page_with_as_many_names_as_its_path_asks_for_is_not_taken_for_all(
    shoal_command: Shoal, fault_server: MakeServer
) -> None:
    objects = numbered(10)
    server = fault_server(objects)
    server.start()
    outcome = shoal_command.copy(server, "--list-path", "/list?kind=x&limit=10")
    assert_stopped(outcome, "listing", 'it has 10 names, as many as "limit" asks for')
    assert "--pages one" in outcome.error["hint"]
    assert not server.fetched(), "refused before the first object"
    assert_arrived(shoal_command.copy(server, "--list-path", "/list?kind=x&limit=11"), objects)


@pytest.mark.parametrize("status", [400, 404, 416, 422])
def test_a_refusal_behind_the_last_page_ends_the_pages_if_the_total_was_reached(
    shoal_command: Shoal, fault_server: MakeServer, status: int
) -> None:
    objects = {name: name.encode() for name in A + B}
    server = fault_server(objects)
    server.on_list(of_pages({"data": A, "total": 20}, {"data": B, "total": 20}, status))
    server.start()
    assert_arrived(shoal_command.copy(server, "--pages", "number", "--names-field", "data"), objects)


def test_a_marker_that_comes_back_with_no_names_ends_a_listing(shoal_command: Shoal, fault_server: MakeServer) -> None:
    objects = {name: name.encode() for name in A}
    server = fault_server(objects)
    server.on_list(faults.status(200, json.dumps({"FileNames": A, "NextMarker": "x"}).encode()), times=1)
    server.on_list(faults.status(200, json.dumps({"FileNames": [], "NextMarker": "x"}).encode()))
    server.start()
    assert_arrived(shoal_command.copy(server), objects)


@pytest.mark.parametrize("end", ["null", "false", '""', "0", "-1", "[]", None])
def test_every_usual_value_for_no_next_page_ends_a_listing(
    shoal_command: Shoal, fault_server: MakeServer, end: str | None
) -> None:
    objects = numbered(4)
    names = list(objects)
    server = fault_server(objects)
    meta = f', "meta": {{"next": {end}}}' if end else ""
    first = json.dumps({"FileNames": names[:2], "meta": {"next": 7}}).encode()
    server.on_list(faults.status(200, first), times=1)
    server.on_list(faults.status(200, f'{{"FileNames": {json.dumps(names[2:])}{meta}}}'.encode()))
    server.start()
    assert_arrived(shoal_command.copy(server, "--next-field", "meta.next"), objects)


@pytest.mark.parametrize(
    ("answer", "options", "cause"),
    [
        (page_forms.numbered(1, parameter="seite"), ["--pages", "number"], 'the parameter "page"'),
        (page_forms.numbered(1), ["--pages", "offset"], 'the parameter "offset"'),
    ],
    ids=["number", "offset"],
)
def test_a_service_that_does_not_know_the_parameter_of_the_pages_is_found_out(
    shoal_command: Shoal,
    fault_server: MakeServer,
    answer: Callable[..., page_forms.Answer],
    options: list[str],
    cause: str,
) -> None:
    objects = numbered(1000)
    server = fault_server(objects)
    server.on_list(PagedListing(server, answer))
    server.start()
    outcome = shoal_command.copy(server, *options, *RESULTS)
    assert_stopped(outcome, "listing", cause, manifest=objects)
    assert "--page-param" in outcome.error["hint"]


def test_a_page_of_lines_that_may_be_cut_or_is_html_is_refused(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.raw(b"HTTP/1.1 200 OK\r\n\r\na\nb", then="fin"), times=1)
    server.start()
    assert_stopped(shoal_command.copy(server, "--list-format", "lines"), "listing", "does not say how long it is")
    server.heal()
    server.on_list(faults.status(200, b"<h1>log in</h1>", {"Content-Type": "text/html"}))
    assert_stopped(shoal_command.copy(server, "--list-format", "lines"), "listing", "HTML")


def test_a_page_may_begin_with_a_byte_order_mark(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"})
    server.on_list(faults.status(200, b'\xef\xbb\xbf{"FileNames": ["a"]}'))
    server.start()
    assert_arrived(shoal_command.copy(server), {"a": b"1"})


def test_options_of_pages_that_do_not_go_together_are_refused(shoal_command: Shoal, fault_server: MakeServer) -> None:
    server = fault_server({"a": b"1"}).start()
    for options, cause in ((["--pages", "header"], "--next-field"), (["--first-page", "1"], "--pages number")):
        outcome = shoal_command.copy(server, *options)
        assert outcome.code == 2, outcome
        assert cause in outcome.stderr
