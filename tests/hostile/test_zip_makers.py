"""The makers of zip archives, held against independent readers: what is meant to be good is good, lies are there."""

from __future__ import annotations

import io
import lzma
import shutil
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path

import pytest

from hostile.archives import bombs, streams, zip_directory, zip_entries
from hostile.archives.case import Case
from hostile.archives.zips import BZIP2, DEFLATED, LZMA, STORED, XZ, ZSTD, Entry, build, described

# Good archives that Python's reader does not take; why it does not.
NOT_FOR_PYTHON = {
    "comment-of-signatures",  # it looks for the last signature alone
    "other-versions",
}


def contents(archive: bytes) -> dict[str, bytes]:
    """Returns what Python's own reader finds, checksums compared."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


@pytest.mark.parametrize("case", [c for c in zip_directory.odd_directories() if c.name not in NOT_FOR_PYTHON], ids=str)
def test_python_reads_what_is_expected_of_the_good_archives(case: Case) -> None:
    assert contents(case.archive) == case.ends[0].written


@pytest.mark.parametrize("method", [STORED, DEFLATED, BZIP2, LZMA])
@pytest.mark.parametrize("form", ["plain", "described", "unsigned"])
def test_python_reads_every_method(method: int, form: str) -> None:
    entry = Entry(b"entry", zip_entries.TEXT, method)
    if form != "plain":
        entry = described(entry, signature=form == "described")
    assert contents(zip_entries.between(entry)) == zip_entries.GOOD | {"entry": zip_entries.TEXT}


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip")
@pytest.mark.parametrize("case", zip_directory.odd_directories(), ids=str)
def test_unzip_takes_the_good_archives(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(case.archive)
    done = subprocess.run(["unzip", "-t", str(path)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    # 1: taken, with a remark, as on bytes before or between the entries, or on an archive without any.
    assert done.returncode in (0, 1), done


@pytest.mark.parametrize("case", zip_entries.checksums_that_lie(), ids=str)
def test_python_finds_the_wrong_checksums_too(case: Case) -> None:
    if "-95" in case.name:
        with pytest.raises(NotImplementedError):
            contents(case.archive)
        return
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        contents(case.archive)


@pytest.mark.parametrize("case", zip_entries.not_supported(), ids=str)
def test_python_does_not_read_what_is_not_supported_either(case: Case) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        contents(case.archive)


def test_every_name_and_checksum_of_a_quoted_bomb_is_true() -> None:
    bomb = bombs.quoted(5, 1000)
    assert sum(map(len, contents(bomb.archive).values())) == bomb.claimed
    large = bombs.quoted(250, 21_000_000)
    assert len(large.archive) < 50_000
    assert large.claimed > 5_000_000_000


def test_checksums_can_be_joined() -> None:
    first, second = zip_entries.TEXT, b"x" * 12_345
    assert bombs.crc_of_both(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)
    assert bombs.crc_of_zeros(3 << 20 | 7) == zlib.crc32(bytes(3 << 20 | 7))


def test_a_stream_of_zeros_has_the_highest_ratio_of_deflate() -> None:
    archive = bombs.many_zeros(200_000_000)
    assert 200_000_000 / len(archive) > 1000
    assert zlib.decompressobj(-15).decompress(bombs.zeros(1_000_001)) == bytes(1_000_001)


def test_nested_archives_hold_each_other() -> None:
    archive = bombs.nested(3, b"innermost")
    for name in ("3.zip", "2.zip", "1.zip", "0.txt"):
        archive = contents(archive)[name]
    assert archive == b"innermost"


def test_pyarrow_reads_the_zstd_frames() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    text = zip_entries.TEXT * 40  # more than one block
    for packed, data in ((streams.zstd(text), text), (streams.zstd_zeros(300_000), bytes(300_000))):
        assert bytes(pyarrow.decompress(packed, len(data), codec="zstd")) == data


def test_the_dictionary_of_an_xz_stream_can_be_set() -> None:
    for code in (0, 18, 36, 40):
        packed = streams.xz_with_dictionary(b"data", code)
        with pytest.raises(lzma.LZMAError, match=r"[Mm]emory usage limit"):
            lzma.LZMADecompressor(memlimit=1000).decompress(packed)
    assert lzma.decompress(streams.xz_with_dictionary(b"data", 18)) == b"data"


def test_a_field_that_lies_is_where_the_format_has_it() -> None:
    archive = build([Entry(b"a", b"data", STORED, local={"size": 77}, central={"crc": 78})], end={"entries": 79})
    assert struct.unpack_from("<I", archive, 22) == (77,)
    directory = archive.index(b"PK\x01\x02")
    assert struct.unpack_from("<I", archive, directory + 16) == (78,)
    assert struct.unpack_from("<H", archive, archive.index(b"PK\x05\x06") + 10) == (79,)


def test_zip_entries_are_packed_as_they_say() -> None:
    for method in (DEFLATED, BZIP2, LZMA, XZ, ZSTD):
        entry = Entry(b"a", zip_entries.TEXT, method, packed=streams.zstd(zip_entries.TEXT) if method == ZSTD else None)
        assert entry.body != zip_entries.TEXT
        assert entry.fields()["packed"] == len(entry.body)
