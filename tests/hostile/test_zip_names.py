"""Names of entries in zip archives: none leaves the destination, none is changed, two of one name are told apart."""

from __future__ import annotations

import stat

import pytest

from hostile.archives import names, zip_names
from hostile.archives.case import DAMAGED, UNSAFE, Case, Expected, either
from hostile.archives.judge import Unzip, empty_directories
from hostile.archives.zips import STORED, UTF8, Entry, build, plain
from trees import tree

GOOD = {"good-1": b"good 1", "sub/good-2": b"good 2"}


def archive(listed: list[str]) -> bytes:
    """Returns an archive of these names, hostile ones first, and the good ones."""
    hostile = [Entry(name.encode(), names.content(name), flags=UTF8) for name in listed]
    return build([*hostile, *plain(GOOD)])


@pytest.mark.parametrize("listed", names.several(names.UNSAFE_FILES))
def test_names_that_would_leave_the_destination_are_recorded_failures(unzip: Unzip, listed: list[str]) -> None:
    failed = names.as_unsafe(listed).failed
    unzip.case(either("unsafe", archive(listed), Expected(GOOD, failed)))


@pytest.mark.parametrize("listed", names.several(names.UNSAFE_FILES))
def test_below_a_directory_for_each_archive_they_leave_neither(unzip: Unzip, listed: list[str]) -> None:
    [path] = unzip.put({"box.zip": archive(listed)})
    outcome = unzip.run([path], "--into-subdirectories")
    found = tree(unzip.out)
    # Behind a prefix "" and "/etc/x" make no absolute name, and ".shoal" is not the first component: refused or below.
    assert all(name.startswith("box/") for name in found), found
    assert {name: found[f"box/{name}"] for name in GOOD} == GOOD, outcome
    allowed = {f"box/{name}" for name in [*GOOD, *(name for name in listed if name.lower().startswith(".shoal"))]}
    assert found.keys() <= allowed, found


@pytest.mark.parametrize("listed", names.several(names.rows("legal")))
def test_odd_names_arrive_under_exactly_these_names(unzip: Unzip, listed: list[str]) -> None:
    end = names.as_legal(listed)
    unzip.case(either("legal", archive(listed), Expected(end.written | GOOD, end.failed)))


@pytest.mark.parametrize("slashes", ["a/", "a//"])
def test_a_name_that_ends_in_a_slash_is_a_directory(unzip: Unzip, slashes: str) -> None:
    made = Expected(GOOD, skipped=1, empty=["a"])
    refused = Expected(GOOD, {slashes: names.ANY})
    entries = [Entry(slashes.encode(), mode=stat.S_IFDIR | 0o755), *plain(GOOD)]
    ends = (made,) if slashes == "a/" else (refused, made)
    unzip.case(either("directory", build(entries), *ends))


@pytest.mark.parametrize("name", ["../up/", "/abs/", "./", "../", "//", "a/../../up/", ".shoal/", ".SHOAL/x/", "\\x/"])
def test_directories_that_would_leave_the_destination_are_not_made(unzip: Unzip, name: str) -> None:
    [path] = unzip.put({"x.zip": build([Entry(name.encode(), mode=stat.S_IFDIR | 0o755), *plain(GOOD)])})
    outcome = unzip.run([path])
    assert tree(unzip.out) == GOOD
    assert empty_directories(unzip.out) == set()
    # "./" is the destination itself, which is there: nothing to make, nothing wrong either.
    assert (outcome.report["failed"] == 1) or name == "./", outcome


def test_a_directory_with_data_is_an_error_or_a_directory(unzip: Unzip) -> None:
    entries = [Entry(b"a/", b"data of a directory", mode=stat.S_IFDIR | 0o755), *plain(GOOD)]
    made, failed = Expected(GOOD, skipped=1, empty=["a"]), Expected(GOOD, {"a/": DAMAGED})
    unzip.case(either("data", build(entries), failed, made))


@pytest.mark.parametrize("name", names.BACKSLASHES)
def test_backslashes_are_refused(unzip: Unzip, name: str) -> None:
    unzip.case(either("refused", archive([name]), Expected(GOOD, {name: UNSAFE})))


@pytest.mark.parametrize("name", names.BACKSLASHES)
def test_backslashes_that_separate_are_judged_like_slashes(unzip: Unzip, name: str) -> None:
    becomes = names.BACKSLASHES[name]
    read = name.replace("\\", "/")
    if becomes is None:
        ends = [Expected(GOOD, {shown: UNSAFE}) for shown in (read, name)]
    else:
        ends = [Expected(GOOD | {becomes: names.content(name)})]
    unzip.case(either("separator", archive([name]), *ends, options=("--backslashes", "separator")))


@pytest.mark.parametrize("name", names.COLLISIONS)
def test_of_two_names_that_cannot_both_be_the_second_fails(unzip: Unzip, name: str) -> None:
    listed, fails = names.COLLISIONS[name]
    contents = [b"" if each.endswith("/") else b"%d" % number for number, each in enumerate(listed)]
    entries = [Entry(each.encode(), data) for each, data in zip(listed, contents, strict=True)]
    end = Expected({listed[0]: b"0", **GOOD}, {fails: names.COLLISION_KINDS})
    unzip.case(either(name, build([*entries, *plain(GOOD)]), end))


def test_names_that_differ_in_case_are_two(unzip: Unzip) -> None:
    objects = {"a": b"small", "A": b"large", "B/x": b"1", "b/x": b"2"}
    unzip.case(either("case", build(plain(objects)), Expected(objects)))


def test_names_that_become_one_are_told_apart(unzip: Unzip) -> None:
    entries = [Entry(b"\x81", b"first"), Entry("ü".encode(), b"second", flags=UTF8)]
    unzip.case(either("decoded", build(entries), Expected({"ü": b"first"}, {"ü": names.COLLISION_KINDS})))


def test_one_name_in_two_archives_is_a_failure_or_a_directory_for_each(unzip: Unzip) -> None:
    paths = unzip.put({"one.zip": build(plain({"a": b"1" * 100})), "two.zip": build(plain({"a": b"2"}))})
    outcome = unzip.run(paths)
    assert (outcome.report["written"], outcome.report["failed"]) == (1, 1), outcome
    assert tree(unzip.out)["a"] in (b"1" * 100, b"2")
    assert {failure["kind"] for failure in outcome.report["failures"]} <= names.COLLISION_KINDS, outcome


def test_a_directory_for_each_archive_keeps_them_apart(unzip: Unzip) -> None:
    paths = unzip.put({"one.zip": build(plain({"a": b"1"})), "two.zip": build(plain({"a": b"2"}))})
    outcome = unzip.run(paths, "--into-subdirectories")
    assert outcome.code == 0, outcome
    assert tree(unzip.out) == {"one/a": b"1", "two/a": b"2"}


@pytest.mark.parametrize("file", ["...zip", ".zip", "..zip", ".shoal.zip", ".SHOAL.zip", "a\nb.zip", "x\x1b[31m.zip"])
def test_the_name_of_an_archive_makes_no_directory_elsewhere(unzip: Unzip, file: str) -> None:
    outcome = unzip.run(unzip.put({file: build(plain({"a": b"1"}))}), "--into-subdirectories")
    found = tree(unzip.out)
    assert len(found) == outcome.report["written"] <= 1, outcome
    assert all(data == b"1" for data in found.values())


@pytest.mark.parametrize("case", zip_names.encodings(), ids=str)
def test_names_in_code_pages_are_utf8_on_disk(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", zip_names.decoded_to_something_unsafe(), ids=str)
def test_names_are_judged_after_they_are_decoded(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", [*zip_names.not_in_their_encoding(), zip_names.unmarked_utf8()], ids=str)
def test_names_that_are_not_in_their_encoding_are_kept_or_refused(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", zip_names.long_names(), ids=str)
def test_names_that_are_too_long_or_too_deep_fail_alone(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


def test_a_depth_that_is_allowed_arrives(unzip: Unzip) -> None:
    name = "d/" * 150 + "x"
    unzip.case(either("deep", build(plain({name: b"deep"})), Expected({name: b"deep"}), options=("--max-depth", "151")))


def test_many_deep_names_cost_no_more_than_their_bytes(unzip: Unzip) -> None:
    # Every entry has 98 directories of its own: 2 million in an archive of 10 MB.
    objects = {f"{number:05}/{'d/' * 98}x": b"" for number in range(20_000)}
    outcome = unzip.run(unzip.put({"x.zip": build(plain(objects, STORED))}), seconds=4.0, test=True)
    assert (outcome.code, outcome.report["written"]) == (0, len(objects)), outcome
