"""Zip archives whose directory lies: refused whole, before anything of them is written, in little memory."""

from __future__ import annotations

import os

import pytest

from hostile.archives import zip_directory as corpus
from hostile.archives.case import Case
from hostile.archives.judge import OPTIONS, Unzip
from hostile.archives.zips import build
from trees import tree


@pytest.mark.parametrize("case", corpus.refused_directories(), ids=str)
def test_an_archive_whose_directory_lies_is_refused_whole(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.undecided_directories(), ids=str)
def test_an_archive_that_can_be_read_in_two_ways_is_refused_or_read_in_the_one_permitted(
    unzip: Unzip, case: Case
) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", [*corpus.odd_directories(), corpus.padded_extra()], ids=str)
def test_an_archive_that_is_only_odd_arrives_whole(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("case", corpus.zip64_fields(), ids=str)
def test_a_64_bit_field_that_is_missing_or_absurd_is_an_error(unzip: Unzip, case: Case) -> None:
    unzip.case(case)


@pytest.mark.parametrize("kind", ["fifo", "directory", "loop", "dangling", "device"])
def test_what_is_no_file_is_not_waited_for(unzip: Unzip, kind: str) -> None:
    path = unzip.archives / "x.zip"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"loop": "x.zip", "dangling": "absent", "device": "/dev/zero"}[kind])
    [good] = unzip.put({"good.zip": build(corpus.ENTRIES)})
    arguments = ["unzip", str(path), str(good), "-d", str(unzip.out), *OPTIONS]
    outcome = unzip.shoal.run(*arguments, limit=10.0)
    # It fails alone, or it is said before anything begins that there is no such archive.
    assert outcome.code in (1, 2), outcome
    assert "x.zip" in outcome.stderr, outcome
    assert "Traceback" not in outcome.stderr, outcome
    assert tree(unzip.out) == (corpus.GOOD if outcome.code == 1 else {})
