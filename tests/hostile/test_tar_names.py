"""Names in tar archives, in each of the ways to write one: none leaves the destination, none is changed."""

from __future__ import annotations

import pytest

from hostile.archives import names
from hostile.archives.case import COLLIDES, UNSAFE, Expected, either
from hostile.archives.judge import Unzip, empty_directories
from hostile.archives.tars import DIRECTORY, Member, build, named, plain
from trees import tree

GOOD = {"good-1": b"good 1", "sub/good-2": b"good 2"}
FILE = "x.tar"
# "./a" is how `tar c .` writes "a": to take it off is no harm, since "." leads nowhere.
DOT_SLASH = {"./a": "a"}


def archive(listed: list[str], how: str) -> bytes:
    """Returns an archive of these names, hostile ones first, and the good ones."""
    hostile = [member for name in listed for member in named(name.encode(), names.content(name), how)]
    return build([*hostile, *plain(GOOD)])


def can_be_written(name: str, how: str) -> bool:
    """Whether a name can be written so: only pax holds a NUL, and an empty value there means none."""
    raw = name.encode()
    return {"pax": raw != b"", "gnu": raw != b"" and b"\0" not in raw, "ustar": b"\0" not in raw and len(raw) <= 100}[
        how
    ]


@pytest.mark.parametrize("how", ["pax", "gnu", "ustar"])
@pytest.mark.parametrize("listed", names.several([n for n in names.UNSAFE_FILES if n not in DOT_SLASH]))
def test_names_that_would_leave_the_destination_are_recorded_failures(
    unzip: Unzip, listed: list[str], how: str
) -> None:
    listed = [name for name in listed if can_be_written(name, how)]
    failed = names.as_unsafe(listed).failed
    unzip.case(either("unsafe", archive(listed, how), Expected(GOOD, failed), file=FILE))


@pytest.mark.parametrize("how", ["pax", "gnu", "ustar"])
def test_a_name_that_begins_with_dot_slash_is_refused_or_read_without_it(unzip: Unzip, how: str) -> None:
    taken = Expected(GOOD | {"a": names.content("./a")})
    unzip.case(either("dot", archive(["./a"], how), taken, Expected(GOOD, {"./a": UNSAFE}), file=FILE))


@pytest.mark.parametrize("how", ["pax", "gnu", "ustar"])
@pytest.mark.parametrize("listed", names.several(names.rows("legal")))
def test_odd_names_arrive_under_exactly_these_names(unzip: Unzip, listed: list[str], how: str) -> None:
    listed = [name for name in listed if can_be_written(name, how)]
    end = names.as_legal(listed)
    unzip.case(either("legal", archive(listed, how), Expected(end.written | GOOD, end.failed), file=FILE))


@pytest.mark.parametrize(
    ("prefix", "name"), [(b"..", b"x"), (b"/etc", b"x"), (b"a", b"/etc/x"), (b"a/..", b"../x"), (b".", b"../x")]
)
def test_a_prefix_does_not_hide_where_a_name_leads(unzip: Unzip, prefix: bytes, name: bytes) -> None:
    shown = (prefix + b"/" + name).decode()
    members = [Member(name, b"hostile", fields={"prefix": prefix}), *plain(GOOD)]
    ends = [Expected(GOOD, {each: UNSAFE}) for each in (shown, shown.removeprefix("./"))]
    unzip.case(either("prefix", build(members), *ends, file=FILE))


@pytest.mark.parametrize("name", ["../up/", "/abs/", "../", "/", "//", "a/../../up/", ".shoal/", ".SHOAL/x/", "\\x/"])
def test_directories_that_would_leave_the_destination_are_not_made(unzip: Unzip, name: str) -> None:
    members = [Member(name.encode(), type=DIRECTORY), *plain(GOOD)]
    [path] = unzip.put({FILE: build(members)})
    outcome = unzip.run([path])
    assert tree(unzip.out) == GOOD
    assert empty_directories(unzip.out) == set()
    assert outcome.report["failed"] == 1, outcome


@pytest.mark.parametrize("name", ["./", "."])
def test_the_directory_of_the_archive_itself_is_no_failure(unzip: Unzip, name: str) -> None:
    # Every archive made by `tar c .` begins with it.
    members = [Member(name.encode(), type=DIRECTORY), *plain(GOOD)]
    unzip.case(either("itself", build(members), Expected(GOOD), Expected(GOOD, skipped=1), file=FILE))


def test_directories_are_made_and_counted_as_skipped(unzip: Unzip) -> None:
    members = [
        Member(b"empty/", type=DIRECTORY, mode=0o7777),
        Member(b"closed", type=DIRECTORY, mode=0),
        Member(b"closed/x", b"x"),
        Member(b"old-style/", b""),  # before ustar, a directory was a file whose name ends in a slash
        *plain(GOOD),
    ]
    end = Expected(GOOD | {"closed/x": b"x"}, skipped=3, empty=["empty", "old-style"])
    unzip.case(either("directories", build(members), end, file=FILE))


@pytest.mark.parametrize("name", names.BACKSLASHES)
def test_backslashes_are_refused(unzip: Unzip, name: str) -> None:
    unzip.case(either("refused", archive([name], "pax"), Expected(GOOD, {name: UNSAFE}), file=FILE))


@pytest.mark.parametrize("name", names.BACKSLASHES)
def test_backslashes_that_separate_are_judged_like_slashes(unzip: Unzip, name: str) -> None:
    becomes = names.BACKSLASHES[name]
    if becomes is None:
        ends = [Expected(GOOD, {shown: UNSAFE}) for shown in (name.replace("\\", "/"), name)]
        if name == ".\\x":
            ends.append(Expected(GOOD | {"x": names.content(name)}))  # as "./x"
    else:
        ends = [Expected(GOOD | {becomes: names.content(name)})]
    unzip.case(either("separator", archive([name], "pax"), *ends, options=("--backslashes", "separator"), file=FILE))


@pytest.mark.parametrize("name", names.COLLISIONS)
def test_of_two_names_that_cannot_both_be_the_second_fails(unzip: Unzip, name: str) -> None:
    listed, fails = names.COLLISIONS[name]
    members = [
        Member(each.encode(), b"" if each.endswith("/") else b"%d" % number) for number, each in enumerate(listed)
    ]
    end = Expected({listed[0]: b"0", **GOOD}, {fails: names.COLLISION_KINDS})
    unzip.case(either(name, build([*members, *plain(GOOD)]), end, file=FILE))


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"latin-\xe9", b"\xc0\xae\xc0\xae", b"cut-\xe6\x97", b"\xed\xa0\x80"])
@pytest.mark.parametrize("how", ["gnu", "ustar", "pax"])
def test_names_that_are_not_utf8_are_kept_byte_for_byte_or_refused(unzip: Unzip, raw: bytes, how: str) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    kept = Expected(GOOD | {name: b"data"})
    fails = Expected(GOOD, {name: names.ANY | {"encoding", "archive"}})
    # In pax they break the format, which says UTF-8.
    ends = (kept, fails) if how == "pax" else (kept,)
    unzip.case(either("raw", build([*named(raw, b"data", how), *plain(GOOD)]), *ends, file=FILE))


@pytest.mark.parametrize(
    "raw", [b"n" * 65_535, b"0123456789abcde/" * 4096 + b"x", b"/" * 65_535, b"d/" * 2000 + b"x", b"n" * 5_000_000]
)
@pytest.mark.parametrize("how", ["gnu", "pax"])
def test_names_that_are_too_long_or_too_deep_fail_alone(unzip: Unzip, raw: bytes, how: str) -> None:
    alone = Expected(GOOD, {raw.decode(): names.ANY})
    ended = Expected(refused={"archive", "too-large"})  # a header of megabytes may end the reading
    ends = (alone, ended) if len(raw) > 100_000 else (alone,)
    unzip.case(either("long", build([*named(raw, b"data", how), *plain(GOOD)]), *ends, file=FILE))


@pytest.mark.parametrize("file", ["...tar", ".tar", "..tar", ".shoal.tar", ".tar.gz", "...tar.gz"])
def test_the_name_of_an_archive_makes_no_directory_elsewhere(unzip: Unzip, file: str) -> None:
    outcome = unzip.run(unzip.put({file: build(plain({"a": b"1"}))}), "--into-subdirectories")
    found = tree(unzip.out)
    assert len(found) == outcome.report["written"] <= 1, outcome
    assert all(data == b"1" for data in found.values())


def test_one_name_in_a_zip_and_a_tar_is_a_failure_in_the_second(unzip: Unzip) -> None:
    paths = unzip.put({"1.tar": build(plain({"a": b"1" * 5000})), "2.tar": build(plain({"a": b"2"}))})
    outcome = unzip.run(paths)
    assert (outcome.report["written"], outcome.report["failed"]) == (1, 1), outcome
    assert {failure["kind"] for failure in outcome.report["failures"]} <= COLLIDES | {"exists"}, outcome
