"""What tar archives hold besides files: no link, device or pipe is made, and nothing is written through one."""

from __future__ import annotations

import os
import stat

import pytest

from hostile.archives.case import COLLIDES, UNSUPPORTED, Expected, either, refused, unpacked
from hostile.archives.judge import Unzip
from hostile.archives.streams import zstd
from hostile.archives.tars import (
    CHARACTER,
    DEVICE,
    DIRECTORY,
    END,
    FIFO,
    HARD_LINK,
    LONG_LINK,
    SYMBOLIC_LINK,
    Member,
    build,
    long_name,
    octal,
    pax,
    plain,
)
from hostile.oracle import assert_same_tree
from trees import tree

GOOD = {"good-1": b"good 1", "sub/good-2": b"good 2"}
FILE = "x.tar"
KINDS = {
    "symbolic-link": SYMBOLIC_LINK,
    "character-device": CHARACTER,
    "block-device": DEVICE,
    "fifo": FIFO,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [b"../around/precious", b"/etc/passwd", b"good-1", b""])
def test_links_and_devices_are_left_out_and_counted(unzip: Unzip, kind: str, target: bytes) -> None:
    numbers = {"major": octal(1, 8), "minor": octal(3, 8)}
    special = Member(b"special", type=KINDS[kind], link=target, fields=numbers, mode=0o6777)
    outcome = unzip.case(either(kind, build([special, *plain(GOOD)]), Expected(GOOD, skipped=1), file=FILE))
    assert any("skipped" in note for note in outcome.report["notes"]), outcome.report


@pytest.mark.parametrize("target", [b"../around/precious", b"/etc/passwd", b"good-1", b"", b"../" * 2000, b"special"])
def test_a_hard_link_that_leads_to_no_file_before_it_is_a_failure(unzip: Unzip, target: bytes) -> None:
    special = Member(b"special", type=HARD_LINK, link=target, mode=0o6777)
    unzip.case(either("hard", build([special, *plain(GOOD)]), Expected(GOOD, {"special": UNSUPPORTED}), file=FILE))


@pytest.mark.parametrize("form", ["tar", "tar.zst"])
def test_a_hard_link_becomes_a_file_of_its_own(unzip: Unzip, form: str) -> None:
    links = [Member(b"copy", type=HARD_LINK, link=b"good-1"), Member(b"sub/copy", type=HARD_LINK, link=b"./copy")]
    archive = build([*plain(GOOD), *links])
    expected = GOOD | {"copy": b"good 1", "sub/copy": b"good 1"}
    unzip.case(unpacked("hard", zstd(archive) if form == "tar.zst" else archive, expected, file=f"x.{form}"))
    assert all((unzip.out / name).stat().st_nlink == 1 for name in expected)


@pytest.mark.parametrize("form", ["tar", "tar.zst"])
def test_hard_links_to_one_large_file_are_refused_before_anything_is_written(unzip: Unzip, form: str) -> None:
    large = Member(b"large", os.urandom(1 << 20))
    archive = build([large, *(Member(b"%d" % number, type=HARD_LINK, link=b"large") for number in range(200))])
    data = zstd(archive) if form == "tar.zst" else archive
    unzip.case(refused("bomb", data, said=["--max-ratio"], file=f"x.{form}"))


def test_100_000_hard_links_cost_little_memory(unzip: Unzip) -> None:
    links = b"".join(Member(b"a/%06d" % number, type=HARD_LINK, link=b"good-1").block() for number in range(100_000))
    [path] = unzip.put({"x.tar.zst": zstd(build(plain(GOOD), end=b"") + links + END)})
    outcome = unzip.run([path], seconds=4.0, test=True)
    assert (outcome.code, outcome.report["written"]) == (0, 100_002), outcome


@pytest.mark.parametrize("kind", [HARD_LINK, SYMBOLIC_LINK])
@pytest.mark.parametrize("target", [b"../around", b"/tmp", b".", b"..", b"sub", b"link"])
def test_nothing_is_written_through_a_link_of_the_archive(unzip: Unzip, kind: bytes, target: bytes) -> None:
    members = [Member(b"link", type=kind, link=target), Member(b"link/planted", b"planted"), *plain(GOOD)]
    arrives = Expected(GOOD | {"link/planted": b"planted"}, {"link": UNSUPPORTED})
    fails = Expected(GOOD, {"link/planted": COLLIDES}, skipped=1)
    unzip.case(either("through", build(members), arrives if kind == HARD_LINK else fails, file=FILE))


@pytest.mark.parametrize("kind", [HARD_LINK, SYMBOLIC_LINK])
def test_a_file_with_the_name_of_a_link_does_not_change_what_it_points_to(unzip: Unzip, kind: bytes) -> None:
    members = [
        Member(b"same", type=kind, link=b"../around/precious"),
        Member(b"same", b"overwritten"),
        *plain(GOOD),
    ]
    arrives = Expected(GOOD | {"same": b"overwritten"}, {"same": UNSUPPORTED})
    fails = Expected(GOOD, {"same": COLLIDES}, skipped=1)
    unzip.case(either("same", build(members), arrives if kind == HARD_LINK else fails, file=FILE))


def test_nothing_is_written_through_chained_links(unzip: Unzip) -> None:
    # CVE-2025-4517 and its kin: each link alone stays inside.
    deep = b"d" * 200
    members = [
        Member(b"a", type=SYMBOLIC_LINK, link=b"."),
        Member(b"a/b", type=SYMBOLIC_LINK, link=b".."),
        long_name(deep, kind=LONG_LINK),
        Member(b"c", type=SYMBOLIC_LINK, link=b"a/b/around"),
        Member(b"hard", type=HARD_LINK, link=b"c/precious"),
        Member(b"c/precious", b"overwritten"),
        *plain(GOOD),
    ]
    fails = Expected(GOOD, {"c/precious": COLLIDES, "hard": UNSUPPORTED}, skipped=3)
    unzip.case(either("chained", build(members), fails, file=FILE))


def test_a_link_whose_target_comes_in_an_extended_header_leads_nowhere_else(unzip: Unzip) -> None:
    members = [
        pax({b"linkpath": b"../" * 2000 + b"etc/passwd"}),
        Member(b"one", type=SYMBOLIC_LINK),
        long_name(b"/etc/passwd" * 1000, kind=LONG_LINK),
        Member(b"two", type=HARD_LINK),
        *plain(GOOD),
    ]
    unzip.case(either("linkpath", build(members), Expected(GOOD, {"two": UNSUPPORTED}, skipped=1), file=FILE))


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o7777, 0o777, 0o666, 0, 0o111, 0o100755])
def test_a_mode_gives_permissions_within_the_umask_and_no_special_bit(unzip: Unzip, mode: int) -> None:
    members = [Member(b"x", b"#!", mode=mode), *plain(GOOD)]
    unzip.case(either("mode", build(members), Expected(GOOD | {"x": b"#!"}), file=FILE))
    umask = os.umask(0)
    os.umask(umask)
    given = stat.S_IMODE((unzip.out / "x").stat().st_mode)
    assert given == (mode & 0o777 or 0o666) & ~umask, f"{given:o}"


def test_owners_and_attributes_are_not_taken(unzip: Unzip) -> None:
    members = [
        pax({b"uid": b"12345", b"gid": b"12345", b"SCHILY.xattr.user.planted": b"x", b"SCHILY.acl.access": b"u::rwx"}),
        Member(b"x", b"x", fields={"uid": octal(12345, 8), "gid": octal(12345, 8), "user": b"nobody"}),
        *plain(GOOD),
    ]
    unzip.case(either("owner", build(members), Expected(GOOD | {"x": b"x"}), file=FILE))
    told = (unzip.out / "x").stat()
    assert (told.st_uid, told.st_gid) == (os.getuid(), os.getgid())
    assert os.listxattr(unzip.out / "x") == []


def test_a_link_in_the_destination_is_not_followed(unzip: Unzip) -> None:
    out = unzip.out
    out.mkdir()
    (out / "link").symlink_to(unzip.around)
    (out / "loop").symlink_to("loop")
    planted = {"link": os.fsencode(unzip.around), "loop": b"loop"}
    names = ["link/x", "link/precious", "link/new/x", "loop/x"]
    members = [Member(name.encode(), b"hostile") for name in names]
    folders = [Member(b"link/made/", type=DIRECTORY)]
    outcome = unzip.run(unzip.put({FILE: build([*members, *folders, *plain(GOOD)])}))
    assert_same_tree(tree(out), GOOD | planted)
    assert {failure["name"].rstrip("/") for failure in outcome.report["failures"]} == {*names, "link/made"}, outcome
    kinds = {"unsafe-name", "name-conflict", "exists", "denied"}
    assert {failure["kind"] for failure in outcome.report["failures"]} <= kinds, outcome
