"""Objects of an S3 store: which of them, with which key, and what becomes of those that cannot be had.

Not here: lists that lie (`hostile/test_s3_lists.py`), odd keys (`test_s3_odd_keys.py`), credentials that change
(`test_s3_credentials.py`), real stores (`test_s3_stores.py`).
"""

from __future__ import annotations

import gzip
import hashlib
import random
import time
import zlib
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import duckdb
import pytest

import shoal as package
from conftest import Command
from faults.runs import committed
from hostile.oracle import numbered
from s3_copies import failed, flags, rows, source
from servers import faults
from servers.fixtures import MakeStore
from servers.s3_store import OLD, About, checksum, failing, share
from trees import tree
from url_copies import copy

pytestmark = pytest.mark.usefixtures("aws")  # before the command takes its environment

OBJECTS = numbered(250, prefix="p/plain")
NAMES = {name.removeprefix("p/"): data for name, data in OBJECTS.items()}


def reflected(polynomial: int, bits: int, data: bytes) -> int:
    """Returns a CRC for a polynomial that is written backwards, as slowly as it is defined."""
    full = (1 << bits) - 1
    crc = full
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ full


def checksums(data: bytes) -> dict[str, dict[str, str]]:
    """Returns the header of each kind of checksum."""
    return {
        "crc32": checksum("crc32", zlib.crc32(data)),
        "crc32c": checksum("crc32c", reflected(0x82F63B78, 32, data)),
        "crc64nvme": checksum("crc64nvme", reflected(0x9A6C9329AC4BC9B5, 64, data), 8),
        "sha256": checksum("sha256", hashlib.sha256(data).digest()),
    }


# Which objects


def test_a_prefix_is_copied_by_signed_requests(shoal: Command, tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS | {"p2/other": b"x", "other": b"x"}, page_size=100)
    done = shoal.run("copy", "s3://bucket/p", "out", *flags(store), "--json")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == NAMES
    assert sorted(store.fetched()) == sorted(OBJECTS)
    assert store.refusals == []
    itself, first, *others = [request for request in store.requests if request.is_list]
    assert itself.target == "/bucket?encoding-type=url&list-type=2&max-keys=1&prefix=p"
    assert first.target == "/bucket?encoding-type=url&list-type=2&prefix=p%2F"
    assert [sorted(request.query) for request in others] == [
        ["continuation-token", "encoding-type", "list-type", "prefix"]
    ] * 2
    assert set(store.headers_of("x-amz-content-sha256")) == {"UNSIGNED-PAYLOAD"}
    objects = [request for request in store.requests if not request.is_list]
    assert {request.headers["x-amz-checksum-mode"] for request in objects} == {"ENABLED"}
    assert not any("x-amz-request-payer" in request.headers for request in store.requests)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ["a.json", "p", "p/a.json", "p/d/b.json", "p/d/c.txt", "p2", "q/one"]),
        ("p/", ["a.json", "d/b.json", "d/c.txt"]),
        ("p/d", ["b.json", "c.txt"]),
        ("p2", ["p2"]),
        ("q/one", ["one"]),
        ("p/**/*.json", ["a.json", "d/b.json"]),
        ("*.json", ["a.json"]),
    ],
)
def test_a_path_is_a_prefix_or_a_key(tmp_path: Path, s3_store: MakeStore, path: str, expected: list[str]) -> None:
    keys = ["a.json", "p", "p/a.json", "p/d/b.json", "p/d/c.txt", "p2", "q/one"]
    store = s3_store({key: key.encode() for key in keys})
    report = package.copy(source(store, path), f"parquet:{tmp_path}/out")
    found = rows(tmp_path / "out")
    assert sorted(found) == expected
    assert report.written == len(expected)
    assert all(data.decode().endswith(name) for name, data in found.items())


def test_an_address_of_an_object_and_of_others_below_it_is_refused(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store({"p": b"itself", "p/a": b"below"})
    with pytest.raises(package.ConfigError, match="this is an object, and there are objects below it") as caught:
        package.copy(source(store, "p"), tmp_path / "out")
    assert caught.value.hint == "write s3://bucket/p/ for what is below it, or 's3://bucket/[p]' for the object"
    assert package.copy(source(store, "[p]"), f"parquet:{tmp_path}/rows").written == 1
    assert rows(tmp_path / "rows") == {"p": b"itself"}


def test_a_prefix_can_be_copied_by_users_who_may_list_only_what_is_below_it(
    tmp_path: Path, s3_store: MakeStore
) -> None:
    store = s3_store(OBJECTS)
    store.on(lambda request: request.query.get("prefix") == "p", failing(403, "AccessDenied"))
    assert package.copy(source(store, "p"), tmp_path / "out").written == 250


@pytest.mark.parametrize("path", ["missing", "missing/", "p/**/*.xml"])
def test_a_path_with_nothing_below_it_is_an_error(tmp_path: Path, s3_store: MakeStore, path: str) -> None:
    store = s3_store({"p/a.json": b"x", "missing2": b"x"})
    with pytest.raises(package.NothingMatchedError):
        package.copy(source(store, path), tmp_path / "out")
    assert store.fetched() == [key for key in store.fetched() if key == "missing"]  # a look whether it is an object
    assert tree(tmp_path / "out") == {}


def test_a_listing_has_sizes_and_times_and_asks_for_no_object(s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=100)
    listed = list(package.list_objects(source(store, "p")))
    assert {one.name: one.size for one in listed} == {name: len(data) for name, data in NAMES.items()}
    assert {one.last_modified for one in listed} == {datetime.fromtimestamp(OLD, UTC)}
    assert store.fetched() == []
    assert len(store.listed()) == 1 + 3


def test_the_requester_pays_if_told_so_and_else_is_refused(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, requester_pays=True)
    with pytest.raises(package.CredentialsError):
        package.copy(source(store, "p"), tmp_path / "out")
    store.requests.clear()
    assert package.copy(source(store, "p", requester_pays=True), tmp_path / "out").written == 250
    assert set(store.headers_of("x-amz-request-payer")) == {"requester"}


# What the store does


def test_connections_of_100_answers_cost_no_attempt(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS | numbered(750, prefix="p/more"), closes_after=100)
    report = package.copy(source(store, "p"), tmp_path / "out", workers=2)
    assert (report.written, report.failed, report.retries) == (1_000, 0, 0)
    assert len(store.connections) >= 10
    assert tree(tmp_path / "out") == {key.removeprefix("p/"): data for key, data in store.objects.items()}


@pytest.mark.parametrize("code", [("SlowDown", 503), ("InternalError", 500), ("RequestTimeout", 400)], ids=str)
def test_what_is_refused_is_asked_again(tmp_path: Path, s3_store: MakeStore, code: tuple[str, int]) -> None:
    store = s3_store(OBJECTS)
    store.on(share(0.3), failing(code[1], code[0]))
    report = package.copy(source(store, "p", max_retries=20), tmp_path / "out")
    assert (report.written, report.failed) == (250, 0)
    assert report.retries > 20
    assert tree(tmp_path / "out") == NAMES


def test_bodies_that_break_off_are_completed(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS | {"p/large": bytes(range(256)) * 4_000})
    store.on_objects(faults.cut_body(50, "rst"), times=3)
    store.on_object("p/large", faults.cut_body(700_000, "fin"), times=1)
    report = package.copy(source(store, "p"), tmp_path / "out", workers=2)
    assert (report.written, report.failed) == (251, 0)
    assert tree(tmp_path / "out") == NAMES | {"large": bytes(range(256)) * 4_000}


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_hours_apart_costs_no_object(tmp_path: Path, s3_store: MakeStore, hours: int) -> None:
    store = s3_store(OBJECTS, clock=hours * 3600.0)
    report = package.copy(source(store, "p"), tmp_path / "out", workers=4)
    assert (report.written, report.failed) == (250, 0)
    assert set(store.refusals) == {"RequestTimeTooSkewed"}
    assert len(store.refusals) <= 2, "each request after the first answer is signed for the other clock"


def test_stored_encodings_are_not_taken_off(tmp_path: Path, s3_store: MakeStore) -> None:
    packed = gzip.compress(b"text" * 100)
    stored = {"gzip": (packed, "gzip"), "deflate": (zlib.compress(b"text"), "deflate"), "none": (b"text", "gzip")}
    store = s3_store({key: data for key, (data, _) in stored.items()})
    store.about = {key: About(headers={"Content-Encoding": coding}) for key, (_, coding) in stored.items()}
    assert package.copy(source(store), tmp_path / "out").written == 3
    assert tree(tmp_path / "out") == store.objects
    assert not {"gzip", "deflate", "br"} & set(" ".join(filter(None, store.headers_of("accept-encoding"))).split(", "))


# Objects that fail


def test_each_failure_has_its_kind_and_costs_the_others_nothing(tmp_path: Path, s3_store: MakeStore) -> None:
    odd = dict.fromkeys(
        ["archived", "deep", "restored", "forbidden", "vanished", "short", "a", "a/b", "../up"], b"12345"
    )
    store = s3_store(OBJECTS | {f"p/{name}": data for name, data in odd.items()})
    store.about |= {"p/archived": About(storage_class="GLACIER"), "p/deep": About(storage_class="DEEP_ARCHIVE")}
    store.about |= {"p/restored": About(storage_class="GLACIER", restored=True), "p/short": About(size=6)}
    store.forbidden = {"p/forbidden"}
    store.on_object("p/vanished", failing(404, "NoSuchKey"))
    report = copy(source(store, "p"), tmp_path / "out")
    found = failed(report)
    conflict = {name: found.pop(name) for name in ("a", "a/b") if name in found}
    assert list(conflict.values()) == ["name-conflict"]
    assert found == {
        "archived": "archived",
        "deep": "archived",
        "forbidden": "forbidden",
        "vanished": "vanished",
        "short": "integrity",
        "../up": "unsafe-name",
    }
    assert report.written == 252
    assert tree(tmp_path / "out").items() > NAMES.items()
    assert len(store.asked("p/../up")) == 0
    assert {len(store.asked(f"p/{name}")) for name in ("archived", "forbidden", "vanished")} <= {0, 1}


@pytest.mark.parametrize("refusals", [0, 3])
def test_an_object_is_checked_against_the_listing_also_when_it_is_tried_again(
    shoal: Command, s3_store: MakeStore, refusals: int
) -> None:
    store = s3_store({"short": b"12345", "ok": b"ok"}, about={"short": About(size=6)})
    store.on_object("short", failing(503, "SlowDown"), times=refusals)
    command = ["copy", "s3://bucket", "out", *flags(store)]
    for more in ([], [], ["--retry-failed"], ["--update"]):
        done = shoal.run(*command, *more)
        assert (done.returncode, "the listing says 6" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"ETag": '"new"', "Last-Modified": format_datetime(datetime.fromtimestamp(OLD + 60, UTC), usegmt=True)}, True),
        (
            {"ETag": '"old"', "Last-Modified": format_datetime(datetime.fromtimestamp(OLD - 60, UTC), usegmt=True)},
            False,
        ),
        ({"Last-Modified": format_datetime(datetime.fromtimestamp(OLD + 60, UTC), usegmt=True)}, False),
    ],
    ids=["newer", "older", "a page of a proxy"],
)
def test_only_a_newer_object_may_have_another_size_than_was_listed(
    tmp_path: Path, s3_store: MakeStore, headers: dict[str, str], is_taken: bool
) -> None:
    store = s3_store({"a": b"as it was listed"})
    store.on_object("a", faults.status(200, b"another", headers))
    report = copy(source(store), tmp_path / "out")
    assert (report.written, failed(report)) == ((1, {}) if is_taken else (0, {"a": "integrity"}))


def test_archived_objects_can_be_skipped_without_being_asked_for(tmp_path: Path, s3_store: MakeStore) -> None:
    classes = ["GLACIER", "DEEP_ARCHIVE", "GLACIER_IR", "STANDARD_IA", "INTELLIGENT_TIERING"]
    store = s3_store({key: key.encode() for key in [*classes, "restored"]})
    store.about = {key: About(storage_class=key) for key in classes}
    store.about["restored"] = About(storage_class="GLACIER", restored=True)
    report = package.copy(source(store, archived="skip"), tmp_path / "out")
    assert (report.written, report.skipped, report.failed) == (4, 2, 0)
    assert sorted(store.fetched()) == sorted([*classes[2:], "restored"])
    (run,) = package.status(tmp_path / "out").runs
    assert {one.name: one.reason for one in run.skipped} == dict.fromkeys(classes[:2], "archived")


@pytest.mark.parametrize("kind", ["crc32", "crc32c", "crc64nvme", "sha256"])
def test_a_wrong_checksum_is_asked_for_once_more_and_then_fails(tmp_path: Path, s3_store: MakeStore, kind: str) -> None:
    store = s3_store(dict.fromkeys(["right", "wrong", "once"], b"some bytes"))
    right, wrong = checksums(b"some bytes")[kind], checksums(b"other bytes")[kind]
    store.about = {"right": About(headers=right), "wrong": About(headers=wrong), "once": About(headers=right)}
    store.on_object("once", faults.status(200, b"some bytes", wrong), times=1)
    report = copy(source(store), tmp_path / "out")
    assert (failed(report), report.written) == ({"wrong": "integrity"}, 2)
    assert tree(tmp_path / "out") == dict.fromkeys(["right", "once"], b"some bytes")
    assert [len(store.asked(key)) for key in ("right", "once", "wrong")] == [1, 2, 2]


def test_checksums_of_parts_and_unknown_ones_are_passed_over(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(dict.fromkeys(["parts", "unknown", "garbled"], b"some bytes"))
    composite = {name: f"{text}-2" for name, text in checksums(b"other")["crc32"].items()}
    store.about["parts"] = About(headers=composite | {"x-amz-checksum-type": "COMPOSITE"}, etag="0" * 32 + "-2")
    store.about["unknown"] = About(headers={"x-amz-checksum-xxhash3": "AAAAAAAAAAA="})
    store.about["garbled"] = About(headers={"x-amz-meta-note": "\u00fc", "x-amz-version-id": "null"})
    assert package.copy(source(store), tmp_path / "out").written == 3


# The same call again


def test_an_update_asks_only_for_what_has_changed(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS)
    assert package.copy(source(store, "p"), tmp_path / "out").written == 250
    store.requests.clear()
    assert package.copy(source(store, "p"), tmp_path / "out", resume="update").unchanged == 250
    assert store.fetched() == []
    size = len(OBJECTS["p/plain-0007"])
    store.put("p/plain-0007", b"y" * size)
    store.put("p/plain-0008", b"longer than it was" * 20, modified=OLD)
    store.put("p/plain-0009", b"z" * size, modified=OLD - 3600)
    store.put("p/plain-9999", b"new")
    report = package.copy(source(store, "p"), tmp_path / "out", resume="update")
    assert (report.written, report.unchanged, report.failed) == (4, 247, 0)
    assert sorted(store.fetched()) == [f"p/plain-{number:04}" for number in (7, 8, 9, 9999)]
    assert tree(tmp_path / "out") == {key.removeprefix("p/"): data for key, data in store.objects.items()}


def test_the_same_call_again_asks_for_no_object(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS)
    assert package.copy(source(store, "p"), tmp_path / "out").written == 250
    store.requests.clear()
    assert package.copy(source(store, "p"), tmp_path / "out").ok
    assert store.fetched() == []


@pytest.mark.slow(minutes=6)
@pytest.mark.timeout(900)
def test_a_copy_killed_30_times_has_each_object_once(tmp_path: Path, shoal: Command, s3_store: MakeStore) -> None:
    objects = {f"{number % 7}/{number:06}": b"%d" % number for number in range(300_000)}
    store = s3_store(objects, closes_after=100)
    store.on(share(0.001), failing(503, "SlowDown"))
    command = ["copy", f"s3://{store.bucket}", "parquet:out", *flags(store), "--json"]
    chance = random.Random()
    done = []
    for _ in range(30):
        running = shoal.start(*command)
        time.sleep(chance.uniform(0.3, 2.5))
        running.kill()
        running.wait()
        done.append(committed(tmp_path / "out"))
        store.requests.clear()
        store.received.clear()
    last = shoal.run(*command, timeout=600)
    assert last.returncode == 0, last.stderr
    assert done == sorted(done), "what is done stays done"
    assert shoal.last_json(last)["written"] == 300_000 - done[-1]
    with duckdb.connect() as connection:
        right = "name = (data::varchar::int % 7) || '/' || lpad(data::varchar, 6, '0')"
        found = connection.sql(
            f"select count(*), count(distinct name), count(*) filter ({right}) from '{tmp_path}/out/*.parquet'"
        ).fetchone()
    assert found == (300_000, 300_000, 300_000)
