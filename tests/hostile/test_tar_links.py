"""What tar archives hold besides files: links, devices and pipes are left out, and nothing is written through them."""

from __future__ import annotations

import os
import stat

import pytest

from hostile.archives.case import COLLIDES, Expected, either
from hostile.archives.judge import Unzip
from hostile.archives.tars import (
    CHARACTER,
    DEVICE,
    DIRECTORY,
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
from hostile.oracle import assert_same_tree, tree

GOOD = {"good-1": b"good 1", "sub/good-2": b"good 2"}
FILE = "x.tar"
KINDS = {
    "hard-link": HARD_LINK,
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
    assert any("left out" in note for note in outcome.report["notes"]), outcome.report


@pytest.mark.parametrize("kind", [HARD_LINK, SYMBOLIC_LINK])
@pytest.mark.parametrize("target", [b"../around", b"/tmp", b".", b"..", b"sub", b"link"])
def test_nothing_is_written_through_a_link_of_the_archive(unzip: Unzip, kind: bytes, target: bytes) -> None:
    members = [Member(b"link", type=kind, link=target), Member(b"link/planted", b"planted"), *plain(GOOD)]
    arrives = Expected(GOOD | {"link/planted": b"planted"}, skipped=1)
    fails = Expected(GOOD, {"link/planted": COLLIDES}, skipped=1)
    unzip.case(either("through", build(members), arrives, fails, file=FILE))


@pytest.mark.parametrize("kind", [HARD_LINK, SYMBOLIC_LINK])
def test_a_file_with_the_name_of_a_link_does_not_change_what_it_points_to(unzip: Unzip, kind: bytes) -> None:
    members = [
        Member(b"same", type=kind, link=b"../around/precious"),
        Member(b"same", b"overwritten"),
        *plain(GOOD),
    ]
    arrives = Expected(GOOD | {"same": b"overwritten"}, skipped=1)
    fails = Expected(GOOD, {"same": COLLIDES}, skipped=1)
    unzip.case(either("same", build(members), arrives, fails, file=FILE))


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
    arrives = Expected(GOOD | {"c/precious": b"overwritten"}, skipped=4)
    fails = Expected(GOOD, {"c/precious": COLLIDES}, skipped=4)
    unzip.case(either("chained", build(members), arrives, fails, file=FILE))


def test_a_link_whose_target_comes_in_an_extended_header_is_left_out(unzip: Unzip) -> None:
    members = [
        pax({b"linkpath": b"../" * 2000 + b"etc/passwd"}),
        Member(b"one", type=SYMBOLIC_LINK),
        long_name(b"/etc/passwd" * 1000, kind=LONG_LINK),
        Member(b"two", type=HARD_LINK),
        *plain(GOOD),
    ]
    unzip.case(either("linkpath", build(members), Expected(GOOD, skipped=2), file=FILE))


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o7777, 0o777, 0o666, 0, 0o111, 0o100755])
def test_a_mode_gives_the_right_to_execute_and_nothing_else(unzip: Unzip, mode: int) -> None:
    members = [Member(b"x", b"#!", mode=mode), *plain(GOOD)]
    unzip.case(either("mode", build(members), Expected(GOOD | {"x": b"#!"}), file=FILE))
    umask = os.umask(0)
    os.umask(umask)
    given = stat.S_IMODE((unzip.out / "x").stat().st_mode)
    assert given == (0o777 if mode & 0o100 else 0o666) & ~umask, f"{given:o}"


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
