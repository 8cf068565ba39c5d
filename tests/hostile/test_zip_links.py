"""What a zip archive says that its entries are besides files: nothing but files and directories comes into being."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest

from hostile.archives.case import COLLIDES, Expected, either
from hostile.archives.judge import Unzip
from hostile.archives.zips import DEFLATED, Entry, build, described, plain
from hostile.oracle import assert_same_tree
from trees import tree

GOOD = {"good-1": b"good 1", "sub/good-2": b"good 2"}
KINDS = {
    "link": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "character-device": stat.S_IFCHR,
    "block-device": stat.S_IFBLK,
}
STANDS_IN_THE_WAY = {"unsafe-name", "name-conflict", "exists", "denied"}


def link(name: bytes, target: bytes) -> Entry:
    """Returns a symbolic link."""
    return Entry(name, target, mode=stat.S_IFLNK | 0o777)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["stored", "deflated", "described"])
def test_links_and_devices_are_left_out_and_counted(unzip: Unzip, kind: str, form: str) -> None:
    special = Entry(b"special", b"../around/precious", mode=KINDS[kind] | 0o644)
    if form == "deflated":
        special = replace(special, method=DEFLATED)
    if form == "described":
        special = described(special)
    outcome = unzip.case(either(kind, build([special, *plain(GOOD)]), Expected(GOOD, skipped=1)))
    assert any("skipped" in note for note in outcome.report["notes"]), outcome.report


@pytest.mark.parametrize("target", [b"../around", b"/tmp", b".", b"..", b"sub", b"link", b""])
def test_nothing_is_written_through_a_link_of_the_archive(unzip: Unzip, target: bytes) -> None:
    entries = [link(b"link", target), Entry(b"link/planted", b"planted"), *plain(GOOD)]
    arrives = Expected(GOOD | {"link/planted": b"planted"}, skipped=1)  # below a directory of that name
    fails = Expected(GOOD, {"link/planted": COLLIDES}, skipped=1)
    unzip.case(either("through", build(entries), arrives, fails))


def test_nothing_is_written_through_chained_links(unzip: Unzip) -> None:
    entries = [
        link(b"a", b"."),
        link(b"a/b", b".."),
        link(b"c", b"a/b/around"),
        Entry(b"c/precious", b"overwritten"),
        *plain(GOOD),
    ]
    arrives = Expected(GOOD | {"c/precious": b"overwritten"}, skipped=3)
    fails = Expected(GOOD, {"c/precious": COLLIDES}, skipped=3)
    unzip.case(either("chained", build(entries), arrives, fails))


def test_a_file_with_the_name_of_a_link_does_not_replace_what_it_points_to(unzip: Unzip) -> None:
    entries = [link(b"same", b"../around/precious"), Entry(b"same", b"overwritten"), *plain(GOOD)]
    arrives = Expected(GOOD | {"same": b"overwritten"}, skipped=1)
    fails = Expected(GOOD, {"same": COLLIDES}, skipped=1)
    unzip.case(either("same", build(entries), arrives, fails))


def test_a_link_whose_target_claims_gigabytes_costs_no_memory(unzip: Unzip) -> None:
    # CVE-2026-115909: memory for the target was taken as the header said.
    entry = replace(link(b"link", b"target"), size=1 << 31)
    whole = Expected(refused={"archive", "too-large"})
    unzip.case(either("claims", build([entry, *plain(GOOD)]), Expected(GOOD, skipped=1), whole))


@pytest.mark.parametrize(
    "mode", [0o104755, 0o102755, 0o101777, 0o107777, 0o100777, 0o100666, 0o100000, 0o100111, 0o000777]
)
def test_a_mode_gives_permissions_within_the_umask_and_no_special_bit(unzip: Unzip, mode: int) -> None:
    unzip.case(either("mode", build([Entry(b"x", b"#!", mode=mode), *plain(GOOD)]), Expected(GOOD | {"x": b"#!"})))
    umask = os.umask(0)
    os.umask(umask)
    given = stat.S_IMODE((unzip.out / "x").stat().st_mode)
    assert given == (mode & 0o777 or 0o666) & ~umask, f"{given:o}"


def test_a_mode_never_closes_a_directory_to_its_owner_and_gives_no_special_bit(unzip: Unzip) -> None:
    entries = [
        Entry(b"closed/", mode=stat.S_IFDIR | 0o100),
        Entry(b"closed/x", b"x"),
        Entry(b"sticky/", mode=stat.S_IFDIR | 0o7777),
        *plain(GOOD),
    ]
    unzip.case(either("modes", build(entries), Expected(GOOD | {"closed/x": b"x"}, skipped=2, empty=["sticky"])))
    assert stat.S_IMODE((unzip.out / "closed").stat().st_mode) == 0o700
    assert stat.S_IMODE((unzip.out / "sticky").stat().st_mode) & ~0o777 == 0


@pytest.mark.parametrize("made_by", [0 << 8, 10 << 8, 11 << 8, 14 << 8, 255 << 8])
def test_attributes_of_other_systems_are_no_modes(unzip: Unzip, made_by: int) -> None:
    # Where no Unix wrote it, the upper half of the attributes means something else, or nothing.
    entry = replace(link(b"file", b"content"), central={"made_by": made_by})
    file, left_out = Expected(GOOD | {"file": b"content"}), Expected(GOOD, skipped=1)
    unzip.case(either("attributes", build([entry, *plain(GOOD)]), file, left_out))


def test_a_link_in_the_destination_is_not_followed(unzip: Unzip) -> None:
    out = unzip.out
    (out / "real").mkdir(parents=True)
    (out / "link").symlink_to(unzip.around)
    (out / "real" / "up").symlink_to("../../around")
    (out / "loop").symlink_to("loop")
    planted = {"link": os.fsencode(unzip.around), "real/up": b"../../around", "loop": b"loop"}
    names = ["link/x", "link/precious", "link/folder/kept", "link/new/x", "real/up/x", "loop/x"]
    entries = [Entry(name.encode(), b"hostile") for name in names]
    [path] = unzip.put({"x.zip": build([*entries, *plain(GOOD | {"real/x": b"inside"})])})
    outcome = unzip.run([path])
    assert_same_tree(tree(out), GOOD | {"real/x": b"inside"} | planted)
    assert {failure["name"] for failure in outcome.report["failures"]} == set(names)
    assert {failure["kind"] for failure in outcome.report["failures"]} <= STANDS_IN_THE_WAY, outcome


def test_directories_are_not_made_through_a_link_in_the_destination(unzip: Unzip) -> None:
    unzip.out.mkdir()
    (unzip.out / "link").symlink_to(unzip.around)
    names = [b"link/", b"link/new/", b"link/new/deeper/"]
    entries = [Entry(name, mode=stat.S_IFDIR | 0o755) for name in names]
    [path] = unzip.put({"x.zip": build([*entries, *plain(GOOD)])})
    outcome = unzip.run([path])
    assert_same_tree(tree(unzip.out), GOOD | {"link": os.fsencode(unzip.around)})
    assert outcome.report["failed"] >= 1, outcome


@pytest.mark.parametrize("overwrite", ["never", "always"])
def test_a_link_with_the_name_of_an_entry_is_not_written_through(unzip: Unzip, overwrite: str) -> None:
    unzip.out.mkdir()
    links = {"last": unzip.around / "precious", "dangling": unzip.around / "absent"}
    for name, target in links.items():
        (unzip.out / name).symlink_to(target)
    entries = [Entry(name.encode(), b"hostile") for name in links]
    outcome = unzip.run(unzip.put({"x.zip": build([*entries, *plain(GOOD)])}), "--overwrite", overwrite)
    found = tree(unzip.out)
    for name, target in links.items():
        allowed = [os.fsencode(target)] + ([b"hostile"] if overwrite == "always" else [])
        assert found.pop(name) in allowed, outcome  # the link itself may be replaced, never what it points to
    assert found == GOOD
    if overwrite == "never":
        assert {failure["kind"] for failure in outcome.report["failures"]} <= STANDS_IN_THE_WAY, outcome


def test_a_file_that_was_there_is_kept(unzip: Unzip) -> None:
    unzip.out.mkdir()
    (unzip.out / "good-1").write_bytes(b"mine")
    outcome = unzip.run(unzip.put({"x.zip": build(plain(GOOD))}))
    assert_same_tree(tree(unzip.out), GOOD | {"good-1": b"mine"})
    assert [failure["kind"] for failure in outcome.report["failures"]] == ["exists"], outcome
