"""Compressed tar archives: what cannot be known to be right is not kept, and no stream gets gigabytes of anything."""

from __future__ import annotations

import os

import pytest

from hostile.archives import tar_streams as corpus
from hostile.archives.case import Case
from hostile.archives.judge import Unzip
from hostile.archives.streams import xz_with_dictionary
from hostile.archives.tars import Member, build


@pytest.mark.parametrize("case", corpus.good_streams(), ids=str)
def test_a_compressed_archive_is_told_by_its_first_bytes(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.broken_streams(), ids=str)
def test_a_stream_that_is_broken_is_refused_whole(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.odd_tails(), ids=str)
def test_what_stands_behind_a_stream_is_not_unpacked(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.stream_bombs(), ids=str)
def test_a_stream_beyond_the_limits_is_refused_before_any_output(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


def test_many_small_streams_that_grow_stay_within_memory(unzip: Unzip) -> None:
    # 30 KB each, 30 MB unpacked: below what any limit looks at.
    stream = corpus.gz(build([Member(b"%d" % number, bytes(1 << 20)) for number in range(30)]))
    paths = unzip.put({f"{number}.tar.gz": stream for number in range(12)})
    outcome = unzip.run(paths, "--into-subdirectories", seconds=4.0, test=True)
    assert (outcome.code, outcome.report["written"]) == (0, 360), outcome


@pytest.mark.parametrize("case", corpus.memory_bombs(), ids=str)
def test_a_stream_that_asks_for_gigabytes_does_not_get_them(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


def test_a_stream_that_uses_a_window_of_64_mib_stays_within_memory(unzip: Unzip) -> None:
    # More than is kept of a stream; noise, or the limits of what it may unpack to would refuse it.
    archive = build([Member(b"one", os.urandom(1 << 20) + bytes(80 << 20))])
    [path] = unzip.put({"x.tar.xz": xz_with_dictionary(archive, 28)})
    outcome = unzip.run([path], seconds=4.0)
    assert (outcome.code, outcome.report["written"]) == (0, 1), outcome
