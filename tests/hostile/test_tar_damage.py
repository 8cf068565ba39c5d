"""Tar archives cut short and changed, at rest and while they are read: what arrives is exact, the rest has failed."""

from __future__ import annotations

import gzip
import lzma
import os
import random
from collections.abc import Callable

import pytest

from hostile.archives import damage, streams
from hostile.archives.judge import OPTIONS, Unzip
from hostile.archives.tars import BLOCK, Member, build
from hostile.oracle import assert_balanced, left_over
from trees import tree
from waiting import wait_until

NOISE = random.Random(5).randbytes(1 << 20)
BROKEN_OFF = {"changed", "archive", "read-failed", "integrity"}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "zst": streams.zstd,
}


def run(unzip: Unzip, variants: dict[str, bytes], ending: str) -> tuple[dict[str, dict[str, bytes]], str]:
    """Unpacks every variant in one job; returns the files of each, and the messages."""
    unzip.put({f"{name}.{ending}": data for name, data in variants.items()})
    unzip.run([unzip.archives / f"*.{ending}"], "--into-subdirectories", seconds=40.0)
    trees = damage.by_archive(tree(unzip.out))
    assert trees.keys() <= variants.keys()
    return trees, unzip.failures()


def test_a_tar_cut_short_at_any_point_says_so(unzip: Unzip) -> None:
    archive, objects = damage.small_tar()
    cut = damage.cuts(archive)
    trees, messages = run(unzip, cut, "tar")
    for name in cut:
        found = trees.get(name, {})
        assert found.items() <= objects.items(), name
        # Also where the cut lies between two members: the end is missing there.
        assert found == objects or name in messages, f"{name}: files are missing, and no message says so"


def test_no_changed_byte_of_a_tar_changes_more_than_itself(unzip: Unzip) -> None:
    archive, objects = damage.small_tar()
    changed = damage.flips(archive)
    trees, messages = run(unzip, changed, "tar")
    where = {name: archive.index(data) for name, data in objects.items()}
    records = archive.index(b" path=") // BLOCK * BLOCK
    in_pax = range(records, records + BLOCK)
    for variant in changed:
        at = int(variant.split("-")[1])
        found = trees.get(variant, {})
        if at in in_pax:  # no checksum covers it: the name in it may be another one, and nothing else
            assert set(found.values()) <= set(objects.values()), variant
            continue
        assert found.keys() <= objects.keys(), f"{variant}: {sorted(found)}"
        for name, data in found.items():
            # Nothing in the format tells that content has changed; nothing else may have.
            begins = where[name]
            expected = bytearray(objects[name])
            if begins <= at < begins + len(expected):
                expected[at - begins] = changed[variant][at]
            assert data == bytes(expected), f"{variant}: {name}"
        if found.keys() != objects.keys():
            assert variant in messages, f"{variant}: files are missing, and no message says so"


@pytest.mark.parametrize("form", PACKERS)
def test_a_stream_cut_short_at_any_point_says_so(unzip: Unzip, form: str) -> None:
    archive, objects = damage.small_tar()
    cut = damage.cuts(PACKERS[form](archive))
    trees, messages = run(unzip, cut, f"tar.{form}")
    for name in cut:
        assert trees.get(name, {}).items() <= objects.items(), name
        assert name in messages or trees.get(name) == objects, f"{name}: no message names it"


@pytest.mark.parametrize("form", ["gz", "xz"])
def test_no_changed_byte_of_a_stream_with_a_checksum_changes_what_arrives(unzip: Unzip, form: str) -> None:
    archive, objects = damage.small_tar()
    changed = damage.flips(PACKERS[form](archive))
    trees, messages = run(unzip, changed, f"tar.{form}")
    for name in changed:
        found = trees.get(name, {})
        assert found.items() <= objects.items(), f"{name}: {sorted(found.keys())}"
        assert found == objects or name in messages, f"{name}: files are missing, and no message says so"


def test_no_changed_byte_of_a_stream_without_one_leads_elsewhere(unzip: Unzip) -> None:
    archive, _ = damage.small_tar()
    trees, _ = run(unzip, damage.flips(streams.zstd(archive)), "tar.zst")
    assert trees


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.zst"])
@pytest.mark.parametrize(("count", "size"), [(64, 1), (2, 32)], ids=["many", "large"])
def test_an_archive_cut_while_it_is_unpacked_is_an_error(unzip: Unzip, form: str, count: int, size: int) -> None:
    data = NOISE * size
    archive = build([Member(b"%04d" % number, data) for number in range(count)])
    if form != "tar":
        archive = gzip.compress(archive, 1) if form == "tar.gz" else streams.zstd(archive)
    [path] = unzip.put({f"x.{form}": archive})
    running = unzip.shoal.start("unzip", path, "-d", unzip.out, *OPTIONS, "--limit-rate", "16MiB", "--memory", "16MiB")
    wait_until(lambda: unzip.out.exists() and any(item.is_file() for item in unzip.out.rglob("*")))
    os.truncate(path, path.stat().st_size // 4)
    outcome = running.wait(60.0)
    assert outcome.code == 1, outcome
    assert "panicked" not in outcome.stderr, outcome
    assert_balanced(outcome.report)
    found = tree(unzip.out)
    assert all(content == data for content in found.values()), {name: len(data) for name, data in found.items()}
    assert len(found) == outcome.report["written"] < count
    assert {failure["kind"] for failure in outcome.report["failures"]} <= BROKEN_OFF, outcome
    assert left_over(unzip.out) == []


def test_the_small_tar_is_what_it_should_be() -> None:
    archive, objects = damage.small_tar()
    assert len(archive) % BLOCK == 0
    assert all(archive.count(data) >= 1 for data in objects.values())
