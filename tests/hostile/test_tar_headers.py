"""Tar archives whose headers lie: what was before arrives, a failure stands for the rest, nothing is guessed."""

from __future__ import annotations

import pytest

from hostile.archives import tar_headers as corpus
from hostile.archives.case import Case, refused, unpacked
from hostile.archives.judge import Unzip
from hostile.archives.tars import END, Member, build, plain

FILE = corpus.FILE


@pytest.mark.parametrize("case", corpus.good_headers(), ids=str)
def test_a_header_that_is_only_odd_is_read(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.good_ends(), ids=str)
def test_an_archive_ends_at_its_end(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.not_archives(), ids=str)
def test_a_file_that_is_no_tar_is_refused_whole(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.broken_headers(), ids=str)
def test_behind_a_header_that_cannot_be_believed_nothing_is_read(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.pax_headers(), ids=str)
def test_an_extended_header_that_is_malformed_is_an_error(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.lengths_in_doubt(), ids=str)
def test_nothing_is_smuggled_in_where_headers_say_two_lengths(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.headers_of_headers(), ids=str)
def test_a_header_for_the_next_member_costs_no_memory(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.sparse_members(), ids=str)
def test_sparse_files_are_refused_clearly(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.other_types(), ids=str)
def test_members_of_other_types_harm_nothing(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


def test_more_members_than_allowed_are_refused_whole(unzip: Unzip) -> None:
    archive = build(plain({f"{number:04}": b"" for number in range(1001)}))
    unzip.case(refused("over", archive, "--max-entries", "1000", said=["--max-entries"], file=FILE))


def test_as_many_members_as_allowed_arrive(unzip: Unzip) -> None:
    objects = {f"{number:04}": b"" for number in range(1000)}
    unzip.case(unpacked("just", build(plain(objects)), objects, "--max-entries", "1000", file=FILE))


def test_more_output_than_allowed_is_refused_whole(unzip: Unzip) -> None:
    archive = build(plain({"a": b"a" * 600, "b": b"b" * 600}))
    unzip.case(refused("over", archive, "--max-size", "1000", said=["--max-size"], file=FILE))


def test_100_000_members_cost_little_memory(unzip: Unzip) -> None:
    block = Member(b"directory-of-its-own/%06d" % 0, b"tiny")
    archive = b"".join(Member(b"directory-of-its-own/%06d" % number, block.data).block() for number in range(100_000))
    outcome = unzip.run(unzip.put({FILE: archive + END}), seconds=2.0, test=True)
    assert (outcome.code, outcome.report["written"]) == (0, 100_000), outcome
