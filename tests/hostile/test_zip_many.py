"""Zip archives with very many entries: memory is bounded by the archive's own size, and so is their number."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from hostile.archives import zip_directory, zip_entries, zip_names
from hostile.archives.case import REFUSED, Case
from hostile.archives.judge import Unzip
from hostile.archives.zips import ALL_16, ALL_32, DATE, END64_FIELDS, LOCATOR_FIELDS, end_of, record
from trees import tree

CORPUS: list[Callable[[], list[Case]]] = [
    zip_directory.refused_directories,
    zip_directory.undecided_directories,
    zip_directory.odd_directories,
    zip_directory.zip64_fields,
    zip_entries.local_headers_that_differ,
    zip_entries.sizes_that_lie,
    zip_entries.checksums_that_lie,
    zip_entries.broken_streams,
    zip_entries.memory_bombs,
    zip_entries.not_supported,
    zip_entries.descriptors,
    zip_names.decoded_to_something_unsafe,
    zip_names.not_in_their_encoding,
    zip_names.long_names,
]


def of_many(count: int, form: str, mode: int, data: bytes = b"") -> bytes:
    """Returns an archive of `count` stored entries, honest in everything; in one sweep, since a million are many."""
    crc, size, length = zlib.crc32(data), len(data), len(form % 0)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, DATE, crc, size, size, length, 0)
    central = struct.pack(
        "<IHHHHHHIIIHHHHHI", 0x02014B50, 3 << 8, 20, 0, 0, 0, DATE, crc, size, size, length, 0, 0, 0, 0, mode << 16
    )
    step = 30 + length + size
    names = [(form % number).encode() for number in range(count)]
    body = b"".join([local + name + data for name in names])
    pack = struct.Struct("<I").pack
    directory = b"".join([central + pack(number * step) + name for number, name in enumerate(names)])
    lies = {"entries_here": ALL_16, "entries": ALL_16, "size": ALL_32, "offset": ALL_32}
    values = {
        "signature": 0x06064B50,
        "record_size": 44,
        "made_by": 45,
        "version": 45,
        "disk": 0,
        "directory_disk": 0,
        "entries_here": count,
        "entries": count,
        "size": len(directory),
        "offset": len(body),
    }
    locator = {"signature": 0x07064B50, "disk": 0, "offset": len(body) + len(directory), "disks": 1}
    tail = record("<IQHHIIQQQQ", END64_FIELDS, values) + record("<IIQI", LOCATOR_FIELDS, locator)
    return b"".join([body, directory, tail, end_of(directory, 0, 0, lies=lies)])


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_names_in_one_directory_are_held_once(unzip: Unzip, count: int) -> None:
    archive = of_many(count, "one-directory-with-a-name-of-its-own/file-%06d.txt", 0o100644, b"tiny")
    paths = unzip.put({"x.zip": archive})
    outcome = unzip.run(paths, seconds=15.0 * count / 100_000)
    assert (outcome.code, outcome.report["written"]) == (0, count), outcome
    assert set(tree(unzip.out).values()) == {b"tiny"}


@pytest.mark.timing
def test_100_000_names_are_tested_within_a_second(unzip: Unzip) -> None:
    archive = of_many(100_000, "one-directory-with-a-name-of-its-own/file-%06d.txt", 0o100644, b"tiny")
    outcome = unzip.run(unzip.put({"x.zip": archive}), test=True)
    assert (outcome.code, outcome.report["written"]) == (0, 100_000), outcome


@pytest.mark.parametrize("form", ["d%07d/", "f%07d"])
def test_a_million_and_one_entries_are_refused(unzip: Unzip, form: str) -> None:
    mode = 0o040755 if form.endswith("/") else 0o100644
    outcome = unzip.run(unzip.put({"x.zip": of_many(1_000_001, form, mode)}))
    assert (outcome.report["listed"], outcome.report["failed"]) == (1, 1), outcome
    [failure] = outcome.report["failures"]
    assert failure["kind"] in REFUSED, outcome
    assert "--max-entries" in outcome.stdout + outcome.stderr, outcome
    assert tree(unzip.out) == {}


def test_the_whole_corpus_as_one_job_leaves_nothing_outside(unzip: Unzip) -> None:
    cases = [case for make in CORPUS for case in make()]
    files = {f"{number:03}.zip": case.archive for number, case in enumerate(cases)}
    outcome = unzip.run(unzip.put(files), "--into-subdirectories", seconds=10.0)
    assert outcome.report["failed"] > 100, outcome.report
    good = {
        f"{number:03}/{name}": data
        for number, case in enumerate(cases)
        if len(case.ends) == 1 and not case.options and not case.ends[0].refused
        for name, data in case.ends[0].written.items()
    }
    found = tree(unzip.out)
    assert good.items() <= found.items(), sorted(good.items() - found.items())[:5]


def test_the_whole_corpus_can_be_tested_without_writing(unzip: Unzip) -> None:
    cases = [case for make in CORPUS for case in make()]
    files = {f"{number:03}.zip": case.archive for number, case in enumerate(cases)}
    outcome = unzip.run(unzip.put(files), "--into-subdirectories", seconds=10.0, test=True)
    assert outcome.report["failed"] > 100, outcome.report
