"""Lists of an S3 store that lie, break or go in circles: nothing is lost without a word, and nothing wrong is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shoal as package
from faults.runs import committed, wait_for_commit
from hostile.oracle import Outcome, Shoal, assert_arrived, assert_balanced, assert_stopped, numbered
from s3_copies import failed, flags, rows, source
from servers import faults, s3_lists
from servers.fault_server import Fault
from servers.fixtures import MakeStore
from servers.s3_lists import spoiled
from servers.s3_store import (
    START,
    XML,
    S3Store,
    error,
    failing,
    in_order,
    later,
    later_as_minio,
    later_as_seaweedfs,
    token_behind,
)
from trees import tree
from url_copies import copy
from waiting import wait_until

OBJECTS = numbered(250)
ENTITIES = (
    f'{START}<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]><ListBucketResult>&b;</ListBucketResult>'
)
# Pages that are none: each is asked for again, and is never an end.
BROKEN: dict[str, Fault] = {
    "cut behind the last object": spoiled(lambda xml: xml.removesuffix(b"</ListBucketResult>")),
    "cut in the last tag": spoiled(lambda xml: xml[:-1]),
    "cut in an object": spoiled(lambda xml: xml[:-200]),
    "cut behind its first bytes": spoiled(lambda xml: xml[:20]),
    "HTML": faults.status(200, b"<html><body>Please sign in</body></html>", {"Content-Type": "text/html"}),
    "an error": faults.status(200, error(200, "InternalError")[1], XML),
    "another document": faults.status(200, f"{START}<ListAllMyBucketsResult></ListAllMyBucketsResult>".encode(), XML),
    "nothing": faults.status(200, b"", XML),
    "no word on the end": spoiled(lambda xml: xml.replace(b"IsTruncated", b"IsLong")),
    "entities": faults.status(200, ENTITIES.encode(), XML),
    "a size that is no number": spoiled(lambda xml: xml.replace(b"<Size>", b"<Size>-", 1)),
    "an object without a key": spoiled(lambda xml: xml.replace(b"Key>", b"Name>", 2)),
}


def ran(shoal: Shoal, store: S3Store, *options: str, path: str = "") -> Outcome:
    """Copies what is below a path of the bucket."""
    return shoal.copy(f"s3://{store.bucket}/{path}", *flags(store), *options)


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_page_is_asked_for_again(shoal_command: Shoal, s3_store: MakeStore, broken: str, page: int) -> None:
    store = s3_store(OBJECTS, page_size=100)
    store.on_list(BROKEN[broken], skip=page, times=2)
    assert_arrived(ran(shoal_command, store), OBJECTS)
    assert len(store.listed()) == 5


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_page_that_stays_broken_stops_the_run_which_is_completed_later(
    shoal_command: Shoal, s3_store: MakeStore, broken: str, page: int
) -> None:
    store = s3_store(OBJECTS, page_size=100)
    store.on_list(BROKEN[broken], skip=page)
    assert_stopped(ran(shoal_command, store), "listing", manifest=OBJECTS)
    assert len(store.listed()) == page + 3
    store.heal()
    outcome = ran(shoal_command, store)
    assert (outcome.code, tree(outcome.out)) == (0, OBJECTS), outcome


WRONG: dict[str, tuple[Fault, str]] = {
    "more, and no token": (s3_lists.with_token(None), ""),
    "the same token again": (s3_lists.with_token(token_behind("plain-0050", b"the same")), ""),
    "a key outside the prefix": (s3_lists.with_keys("q/elsewhere"), "p/"),
    "a key that is the prefix without its slash": (s3_lists.with_keys("p"), "p/"),
    "a key above the prefix": (s3_lists.with_keys("../p/x"), "p/"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_list_that_cannot_be_right_stops_the_run(shoal_command: Shoal, s3_store: MakeStore, wrong: str) -> None:
    fault, prefix = WRONG[wrong]
    objects = {f"{prefix}{name}": data for name, data in OBJECTS.items()}
    store = s3_store(objects, page_size=100)
    store.on_list(fault, skip=1)
    assert_stopped(ran(shoal_command, store, path=prefix), "listing", manifest=OBJECTS)
    assert len(store.listed()) <= 8
    store.heal()
    outcome = ran(shoal_command, store, path=prefix)
    assert (outcome.code, tree(outcome.out)) == (0, OBJECTS), outcome


def test_tokens_in_a_circle_and_endless_empty_pages_stop_the_run(shoal_command: Shoal, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=50)
    tokens = [token_behind(f"plain-00{number}0", b"a circle") for number in range(3)]
    for number in range(60):
        store.on_list(s3_lists.with_token(tokens[number % 3]), times=1)
    assert_stopped(ran(shoal_command, store), "listing", manifest=OBJECTS)
    assert len(store.listed()) < 60
    store.heal()
    store.on_list(s3_lists.empty_once(), skip=1)
    assert_stopped(ran(shoal_command, store), "listing", manifest=OBJECTS)


def test_pages_without_keys_are_no_end(shoal_command: Shoal, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=100)
    store.on_list(s3_lists.empty_once(), times=3)
    store.on_list(s3_lists.empty_once(), skip=1, times=2)
    assert_arrived(ran(shoal_command, store), OBJECTS)
    assert len(store.listed()) == 8


def test_keys_that_come_twice_or_out_of_order_arrive_once(shoal_command: Shoal, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=100, ordered=lambda keys: sorted(keys, key=lambda key: key[::-1]))
    store.on_list(s3_lists.with_keys("plain-0000", "plain-0100"), skip=1, times=1)
    outcome = ran(shoal_command, store)
    assert (outcome.code, outcome.report["written"], outcome.report["failed"]) == (0, 250, 0), outcome
    assert_balanced(outcome.report)
    assert tree(outcome.out) == OBJECTS


ELSEWHERE = {"x-amz-bucket-region": "eu-west-3"}
# How a list is refused for good, the kind of the error, and what it says.
REFUSED: list[tuple[Fault, str, str]] = [
    (failing(403, "SignatureDoesNotMatch"), "credentials", "SignatureDoesNotMatch"),
    (failing(403, "InvalidAccessKeyId"), "credentials", "InvalidAccessKeyId"),
    (failing(403, "AccessDenied"), "credentials", "AccessDenied"),
    (failing(404, "NoSuchBucket"), "listing", "no bucket"),
    (failing(301, "PermanentRedirect", ELSEWHERE), "config", "eu-west-3"),
    (failing(400, "AuthorizationHeaderMalformed", Region="eu-west-3"), "config", "eu-west-3"),
]


@pytest.mark.parametrize(("fault", "kind", "says"), REFUSED, ids=[says for *_, says in REFUSED])
def test_a_refused_list_stops_the_run(
    shoal_command: Shoal, s3_store: MakeStore, fault: Fault, kind: str, says: str
) -> None:
    store = s3_store(OBJECTS)
    store.on_list(fault)
    outcome = ran(shoal_command, store)
    assert (outcome.code, outcome.error["kind"]) == (2 if kind == "config" else 3, kind), outcome
    assert says in outcome.stderr, outcome
    assert len(store.requests) == 1


# Keys as they stand in a list


PLAIN_AND_MARKED = {
    "plain": b"p",
    "tab\t": b"t",
    "line\nend": b"l",
    "a&b<c>\"d'": b"m",
    "\u00fc": b"u",
    "a b": b"s",
    "a+b": b"+",
    "a%25b": b"%",
}


@pytest.mark.parametrize("encoding", ["url", "go", "raw"])
def test_keys_are_read_as_the_answer_says_they_are_written(tmp_path: Path, s3_store: MakeStore, encoding: str) -> None:
    store = s3_store(PLAIN_AND_MARKED, encoding=encoding)
    package.copy(source(store), tmp_path / "out")
    assert tree(tmp_path / "out") == PLAIN_AND_MARKED


@pytest.mark.parametrize(("encoding", "key"), [("go", "a\x01b"), ("go", "a\ufffdb"), ("raw", "a\x01b")])
def test_a_key_that_xml_cannot_say_stops_the_run(
    shoal_command: Shoal, s3_store: MakeStore, encoding: str, key: str
) -> None:
    objects = {"plain": b"p", key: b"odd"}
    store = s3_store(objects, encoding=encoding)
    assert_stopped(ran(shoal_command, store), "listing")
    assert key not in tree(shoal_command.out)
    store.encoding = "url"
    assert_arrived(ran(shoal_command, store), objects)


def test_a_wrong_encoding_loses_nothing_in_silence(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(PLAIN_AND_MARKED, encoding="lie")
    report = copy(source(store), tmp_path / "out")
    found = tree(tmp_path / "out")
    assert found.items() <= PLAIN_AND_MARKED.items()
    assert found.keys() >= PLAIN_AND_MARKED.keys() - {"a+b", "a%25b"}
    assert len(found) + len(failed(report)) == len(PLAIN_AND_MARKED)


# Where a killed run goes on


PLACE = 10_000  # objects from one place where a listing can be resumed to the next
KILLED = ["--json", "--timeout", "60", "--group-rows", "100"]  # commits each partition


def killed(shoal: Shoal, store: S3Store, committed: int) -> Path:
    """Copies into rows until so many objects are committed, and kills that run. Returns where the rows are."""
    running = shoal.start("copy", f"s3://{store.bucket}", f"parquet:{shoal.directory}/rows", *flags(store), *KILLED)
    wait_for_commit(shoal.directory / "rows", committed - 1)
    running.process.kill()
    running.wait(10)
    store.heal()
    store.requests.clear()
    return shoal.directory / "rows"


@pytest.mark.parametrize(
    "behind", [later, later_as_minio, later_as_seaweedfs, lambda keys, _: keys], ids=["S3", "MinIO", "SeaweedFS", "all"]
)
@pytest.mark.parametrize("before", [2, 3])
def test_a_killed_run_loses_nothing(
    shoal_command: Shoal, s3_store: MakeStore, behind: Callable[[list[str], str], list[str]], before: int
) -> None:
    # The place is behind a key that ends with a slash, or behind one that is a prefix of the next.
    keys = [f"{n:04}{rest}" for n in range(3_000) for rest in ("", "/", "/b", "/b/c")]
    objects = {key: key.encode() for key in [*map(str, range(before)), *keys]}
    assert in_order(objects)[PLACE - 1][4:] == ("/" if before == 2 else "")
    store = s3_store(objects, later=behind)
    store.on_object(in_order(objects)[11_950], faults.cut_head(0, "hold"))
    place = killed(shoal_command, store, 10_800)
    again = shoal_command.run("copy", f"s3://{store.bucket}", f"parquet:{place}", *flags(store), *KILLED)
    assert again.code == 0, again.stderr
    assert rows(place) == objects
    entered = ["start-after" in request.query for request in store.requests if request.is_list]
    assert entered[0], "not listed from the start"
    assert sum(entered) == 1, "by tokens from then on"
    if behind is later:
        assert len(entered) == 3, "what was done is not listed again"


def test_a_run_killed_behind_its_last_object_is_completed(shoal_command: Shoal, s3_store: MakeStore) -> None:
    objects = {f"{number:05}": b"%d" % number for number in range(PLACE)}
    store = s3_store(objects)
    store.on_list(s3_lists.with_token(token_behind("99999")), skip=9, times=1)
    store.on_list(faults.raw(b"", then="hold"), skip=9)
    place = killed(shoal_command, store, PLACE)
    again = shoal_command.run("copy", f"s3://{store.bucket}", f"parquet:{place}", *flags(store), *KILLED)
    assert again.code == 0, again.stderr
    assert rows(place) == objects
    assert store.fetched() == []


def test_a_run_is_resumed_although_all_keys_that_it_listed_last_were_removed(
    shoal_command: Shoal, s3_store: MakeStore
) -> None:
    objects = {f"{number:05}": b"%d" % number for number in range(PLACE + 500)}
    store = s3_store(objects)
    store.on_list(faults.raw(b"", then="hold"), skip=11)
    held = f"{PLACE + 450:05}"
    store.on_object(held, faults.cut_head(0, "hold"))
    place = killed(shoal_command, store, PLACE)
    for name in sorted(objects)[PLACE - 20 : PLACE]:
        store.remove(name)
    again = shoal_command.run("copy", f"s3://{store.bucket}", f"parquet:{place}", *flags(store), *KILLED)
    assert again.code == 0, again.stderr
    assert rows(place) == objects


def test_a_bucket_that_is_empty_when_a_run_is_resumed_is_an_error_and_loses_nothing(
    shoal_command: Shoal, s3_store: MakeStore
) -> None:
    objects = {f"{number:05}": b"%d" % number for number in range(PLACE + 500)}
    store = s3_store(objects)
    store.on_object(f"{PLACE + 450:05}", faults.cut_head(0, "hold"))
    place = killed(shoal_command, store, PLACE)
    for name in objects:
        store.remove(name)
    command = ["copy", f"s3://{store.bucket}", f"parquet:{place}", *flags(store), *KILLED]
    empty = shoal_command.run(*command)
    assert (empty.code, "nothing is there any more" in empty.stderr) == (3, True), empty
    for name, data in objects.items():
        store.put(name, data)
    assert shoal_command.run(*command).code == 0
    assert rows(place) == objects


def test_a_change_between_two_runs_loses_nothing(shoal_command: Shoal, s3_store: MakeStore) -> None:
    objects = numbered(1_000)
    store = s3_store(objects, page_size=50)
    held = sorted(objects)[620]
    store.on_object(held, faults.cut_head(0, "hold"))
    running = shoal_command.start_copy(f"s3://{store.bucket}", *flags(store), "--timeout", "60")
    wait_until(lambda: len(store.fetched()) >= 600 and committed(shoal_command.out) > 300)
    running.process.kill()
    running.wait(10)
    store.heal()
    # What was listed last may be gone, too.
    for name in sorted(objects)[290:640:10]:
        store.remove(name)
        del objects[name]
    store.put("plain-0800a", b"new")
    outcome = ran(shoal_command, store)
    assert outcome.code == 0 or {failure["kind"] for failure in outcome.report["failures"]} == {"vanished"}, outcome
    assert_balanced(outcome.report)
    found = tree(outcome.out)
    assert found.items() >= (objects | {"plain-0800a": b"new"}).items()
