"""Zip archives with an entry that lies or cannot be unpacked: it fails, leaves no file, and the others arrive."""

from __future__ import annotations

import pytest

from hostile.archives import zip_entries as corpus
from hostile.archives.case import Case
from hostile.archives.judge import Unzip


@pytest.mark.parametrize("case", corpus.local_headers_that_differ(), ids=str)
def test_an_entry_whose_local_header_differs_from_the_directory_fails(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.harmless_differences(), ids=str)
def test_headers_may_differ_in_what_does_not_matter(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.sizes_that_lie(), ids=str)
def test_an_entry_of_another_size_than_declared_fails(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.checksums_that_lie(), ids=str)
def test_an_entry_with_another_checksum_fails_and_is_not_kept(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.broken_streams(), ids=str)
def test_an_entry_that_cannot_be_decompressed_fails(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.memory_bombs(), ids=str)
def test_a_stream_that_asks_for_gigabytes_does_not_get_them(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.not_supported(), ids=str)
def test_encrypted_entries_and_unknown_methods_are_said_to_be_so(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.directories_with_contents(), ids=str)
def test_46_a_directory_with_contents_is_a_failure(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.descriptors(), ids=str)
def test_sizes_behind_the_data_are_understood_in_every_form(unzip: Unzip, case: Case) -> None:
    unzip.case(case)
