"""Zip archives that claim, or are, far more than their size: refused before any output, unless an option allows it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from hostile.archives import bombs, streams, zip_entries
from hostile.archives.case import DAMAGED, REFUSED, Expected, either, refused, unpacked
from hostile.archives.judge import Unzip
from hostile.archives.zips import ALL_32, DEFLATED, STORED, ZSTD, Entry, build, plain, zip64_extra
from hostile.oracle import assert_same_tree
from trees import tree

# The first three claim gigabytes, the others nothing to speak of: they overlap all the same.
OVERLAPS: dict[str, Callable[[], bytes]] = {
    "quoted-5-gb": lambda: bombs.quoted(250, 21_000_000).archive,
    "full-5-gb": lambda: bombs.full(250, 21_000_000).archive,
    "full-of-65000": lambda: bombs.full(65_000, 1000).archive,
    "quoted-small": lambda: bombs.quoted(5, 1000).archive,
    "full-small": lambda: bombs.full(5, 1000).archive,
    "stored-over-the-next": lambda: bombs.stored_over_the_next(b"inner" * 10),
    "into-the-directory": bombs.into_the_directory,
    "same-entry-twice": lambda: build([Entry(b"a", b"abc"), Entry(b"a", b"abc")], offsets=[0, 0]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlapping_entries_are_refused_before_any_output(unzip: Unzip, name: str) -> None:
    unzip.case(refused(name, OVERLAPS[name]()))


@pytest.mark.parametrize("name", ["quoted-small", "stored-over-the-next"])
def test_the_refusal_of_overlaps_names_the_option_that_allows_them(unzip: Unzip, name: str) -> None:
    unzip.case(refused(name, OVERLAPS[name](), said=["--allow-overlap"]))


def test_overlaps_that_are_allowed_arrive_as_each_entry_says(unzip: Unzip) -> None:
    bomb = bombs.quoted(5, 1000)
    outcome = unzip.run(unzip.put({"x.zip": bomb.archive}), "--allow-overlap")
    assert outcome.code == 0, outcome
    found = tree(unzip.out)
    assert [len(found[name]) for name in sorted(found)] == list(bomb.sizes)
    assert found["000005"] == bytes(1000)
    assert found["000001"].endswith(found["000002"])


def test_overlaps_that_are_allowed_still_meet_the_limits(unzip: Unzip) -> None:
    bomb = bombs.quoted(250, 21_000_000)
    unzip.case(refused("allowed", bomb.archive, "--allow-overlap", said=["--max-ratio"]))


def test_a_ratio_over_the_limit_is_refused_before_any_output(unzip: Unzip) -> None:
    unzip.case(refused("200-mb", bombs.many_zeros(200_000_000), said=["--max-ratio"]))


@pytest.mark.parametrize("method", [DEFLATED, ZSTD])
def test_a_ratio_that_is_allowed_is_unpacked_in_little_memory(unzip: Unzip, method: int) -> None:
    archive = bombs.many_zeros(200_000_000)
    if method == ZSTD:
        size = 200_000_000
        packed = streams.zstd_zeros(size)
        archive = build([Entry(b"zeros", method=ZSTD, packed=packed, crc=bombs.crc_of_zeros(size), size=size)])
    outcome = unzip.run(unzip.put({"x.zip": archive}), "--max-ratio", "100000", test=True)
    assert (outcome.code, outcome.report["bytes"]) == (0, 200_000_000), outcome


def test_a_ratio_does_not_matter_below_64_mib(unzip: Unzip) -> None:
    unzip.case(unpacked("60-mb", bombs.many_zeros(60_000_000), {"zeros": bytes(60_000_000)}))


def test_the_ratio_is_that_of_all_entries(unzip: Unzip) -> None:
    packed, size = bombs.zeros(1 << 20), 1 << 20
    one = Entry(b"", method=DEFLATED, packed=packed, crc=bombs.crc_of_zeros(size), size=size)
    archive = build([replace(one, name=b"%03d" % number) for number in range(100)])
    unzip.case(refused("100-of-1-mib", archive, said=["--max-ratio"]))


@pytest.mark.parametrize("declared", [10, 1_000_000, 63_000_000])
def test_an_entry_that_hides_its_size_ends_at_the_size_that_it_declares(unzip: Unzip, declared: int) -> None:
    archive = bombs.many_zeros(200_000_000, declared=declared)
    unzip.case(either("hidden", archive, Expected(failed={"zeros": zip_entries.SIZE_LIES})))


@pytest.mark.parametrize("size", [ALL_32 - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("raised", [False, True])
def test_a_claimed_size_costs_no_memory(unzip: Unzip, size: int, raised: bool) -> None:
    wide = {"size": ALL_32, "extra": zip64_extra(size)}
    entry = Entry(b"a", b"tiny", STORED, central=wide, local={**wide, "extra": zip64_extra(size, 4)})
    # Stored data is as long as it is: an entry that says otherwise may also be found out before anything is unpacked.
    failed = Expected(failed={"a": zip_entries.SIZE_LIES})
    whole = Expected(refused=REFUSED)
    options = ("--max-ratio", str((1 << 32) - 1)) if raised else ()
    unzip.case(either("claimed", build([entry]), whole, failed, options=options))


def test_claimed_sizes_whose_sum_wraps_are_refused(unzip: Unzip) -> None:
    wide = {"size": ALL_32, "extra": zip64_extra(1 << 63)}
    entries = [Entry(name, b"tiny", DEFLATED, central=wide) for name in (b"a", b"b", b"c")]
    unzip.case(refused("sum", build(entries)))


@pytest.mark.parametrize(("log", "memory"), [(26, 110_000_000), (27, 100_000_000)])
def test_windows_of_many_megabytes_in_every_lane_stay_within_memory(unzip: Unzip, log: int, memory: int) -> None:
    # 128 MiB is what common tools allow, 64 what this one does, since `xz -9` asks for it. One at a time: four at once
    # would take 270 MB. One of them and what every run takes (34 MB) is just over what all others stay under.
    size, noise = 200 << 20, os.urandom(3 << 20)
    packed = streams.zstd(noise, window=log - 10 << 3) + streams.zstd_zeros(size, window=log - 10 << 3)
    crc = bombs.crc_of_both(zlib.crc32(noise), bombs.crc_of_zeros(size), size)
    one = Entry(b"", method=ZSTD, packed=packed, crc=crc, size=len(noise) + size)
    archive = build([replace(one, name=b"%d" % number) for number in range(4)])
    unzip.run(unzip.put({"x.zip": archive}), seconds=8.0, memory=memory, test=True)


def test_archives_in_archives_stay_archives(unzip: Unzip) -> None:
    inner = bombs.nested(2, b"innermost")
    unzip.case(unpacked("nested", build([Entry(b"3.zip", inner, DEFLATED)]), {"3.zip": inner}))


def test_more_output_than_allowed_is_refused_whole(unzip: Unzip) -> None:
    archive = build(plain({"a": b"a" * 600, "b": b"b" * 600}))
    unzip.case(refused("over", archive, "--max-size", "1000", said=["--max-size"]))


def test_as_much_output_as_allowed_arrives(unzip: Unzip) -> None:
    objects = {"a": b"a" * 500, "b": b"b" * 500}
    unzip.case(unpacked("just", build(plain(objects)), objects, "--max-size", "1000"))


def test_more_entries_than_allowed_are_refused_whole(unzip: Unzip) -> None:
    archive = build(plain({f"{number:04}": b"" for number in range(1001)}))
    unzip.case(refused("over", archive, "--max-entries", "1000", said=["--max-entries"]))


def test_as_many_entries_as_allowed_arrive(unzip: Unzip) -> None:
    objects = {f"{number:04}": b"" for number in range(1000)}
    unzip.case(unpacked("just", build(plain(objects)), objects, "--max-entries", "1000"))


def test_one_archive_that_is_refused_leaves_the_others_alone(unzip: Unzip) -> None:
    objects = {f"good-{number}": b"%d" % number * 100 for number in range(10)}
    goods = {f"{name}.zip": build(plain({name: data})) for name, data in objects.items()}
    bad = {"bomb.zip": bombs.full(250, 21_000_000).archive, "broken.zip": b"PK\x05\x06", "none.zip": b""}
    outcome = unzip.run(unzip.put(goods | bad))
    assert_same_tree(tree(unzip.out), objects)
    assert (outcome.report["written"], outcome.report["failed"]) == (len(objects), len(bad)), outcome
    assert {failure["kind"] for failure in outcome.report["failures"]} <= DAMAGED | REFUSED, outcome
    assert all(name in outcome.stderr for name in bad), outcome
