"""The makers of tar archives, held against independent readers: what is meant to be good is good, lies are there."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from hostile.archives import damage, names, tar_headers, tar_streams, tars
from hostile.archives.case import Case
from hostile.archives.tars import Member, base_256, build, named, octal, pax_record

# Good archives that Python's reader does not take as they are meant; why it does not.
NOT_FOR_PYTHON = {
    "pax-empty-path",  # it takes the empty name, not the one in the header
    "time-beyond-64-bits",
    "mode-of-nonsense",
    "pax-time-of-nonsense",
}
NOT_FOR_TAR = {
    "ids-in-base-256",  # -1 is no number of a group
    "long-name-without-nul",  # GNU tar takes only what it writes
    "mode-of-nonsense",
    "time-beyond-64-bits",
    "pax-time-of-nonsense",
    "pax-empty-path",
    "size-without-end",
}


def contents(archive: bytes) -> dict[str, bytes]:
    """Returns what Python's own reader finds."""
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as opened:
        found = {}
        for member in opened:
            file = opened.extractfile(member) if member.isreg() else None
            if file is not None:
                found[member.name] = file.read()
        return found


GOOD = [*tar_headers.good_headers(), *tar_headers.good_ends()]


@pytest.mark.parametrize("case", [case for case in GOOD if case.name not in NOT_FOR_PYTHON], ids=str)
def test_python_reads_what_is_expected_of_the_good_archives(case: Case) -> None:
    assert contents(case.archive) == case.ends[0].written


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs tar")
@pytest.mark.parametrize("case", [c for c in tar_headers.good_headers() if c.name not in NOT_FOR_TAR], ids=str)
def test_gnu_tar_reads_what_is_expected_of_the_good_archives(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(case.archive)
    listed = subprocess.run(["tar", "-tf", str(path)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert listed.returncode == 0, listed
    assert sorted(listed.stdout.splitlines()) == sorted(case.ends[0].written)


@pytest.mark.parametrize("case", tar_streams.good_streams(), ids=str)
def test_python_reads_the_good_streams(case: Case) -> None:
    if "zst" in case.name or "zip" in case.name.split("-")[0]:
        pytest.skip("not a format of Python's tarfile")
    assert contents(case.archive) == case.ends[0].written


@pytest.mark.parametrize("name", ["checksum-of-the-first", "nonsense"])
def test_python_refuses_what_is_no_archive(name: str) -> None:
    [case] = [case for case in tar_headers.not_archives() if case.name == name]
    with pytest.raises(tarfile.ReadError):
        contents(case.archive)


@pytest.mark.parametrize("how", ["pax", "gnu"])
def test_names_of_every_kind_can_be_written(how: str) -> None:
    for name in names.rows("legal"):
        [(found, data)] = contents(build(named(name.encode(), b"data", how))).items()
        assert (found, data) == (name, b"data")


def test_a_record_begins_with_its_own_length() -> None:
    for length in (1, 3, 88, 89, 90, 91, 92, 93, 94, 990, 991, 992, 993, 994, 5000):
        record = pax_record(b"path", b"n" * length)
        assert int(record.split(b" ")[0]) == len(record)


def test_numbers_are_written_as_python_reads_them() -> None:
    for value in (0, 1, 0o7777777):
        assert tarfile.nti(octal(value, 8)) == value  # type: ignore[attr-defined]
    for value in (0, 5, -1, -1024, 1 << 33, 1 << 62):
        assert tarfile.nti(base_256(value, 12)) == value  # type: ignore[attr-defined]


def test_a_header_has_512_bytes_and_a_true_checksum() -> None:
    header = Member(b"n" * 100, b"data", fields={"prefix": b"p" * 155}).header()
    assert len(header) == tars.BLOCK == 512
    assert tarfile.calc_chksums(header)[0] == int(header[148:154], 8)  # type: ignore[attr-defined]


def test_the_small_tar_is_read_by_python() -> None:
    archive, objects = damage.small_tar()
    assert contents(archive) == objects


def test_what_looks_like_data_to_one_reader_is_a_header_to_another() -> None:
    cases = {case.name: case for case in tar_headers.lengths_in_doubt()}
    assert "smuggled" not in contents(cases["pax-size-over-0"].archive)
    assert contents(cases["pax-size-over-0"].archive)["outer.tar"].startswith(b"smuggled")
