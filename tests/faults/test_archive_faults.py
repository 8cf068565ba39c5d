"""A disk that cannot read part of an archive: what lies there fails, all else arrives, nothing is made up."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from trees import tree

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (scripts/install_test_tools.sh)")

MEBIBYTE = 1 << 20
SMALL = {f"small/{number}": b"%d" % number * 900 for number in range(10)}


def chance(seed: int, *sizes: int) -> dict[str, bytes]:
    """Returns files that do not compress."""
    source = random.Random(seed)
    return {f"{seed}/{number}": source.randbytes(size) for number, size in enumerate(sizes)}


def tar(entries: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in entries.items():
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return made.getvalue()


def make(path: Path, entries: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
    else:
        path.write_bytes(tar(entries) if path.suffix == ".tar" else gzip.compress(tar(entries), 0))
    return path


def unzip_with_bad_reads(
    shoal: Command, directory: Path, paths: list[Path], when: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Unpacks `paths` with one worker, while reads of them fail; returns the report, and what is there.

    strace counts the reads of each thread by itself: one plans a small archive, one a large one, one unpacks.
    """
    shutil.rmtree(directory / "out", ignore_errors=True)
    strace = ["strace", "-f", "-qq", "-o", "/dev/null"]
    for path in paths:
        strace += ["-P", str(path)]
    strace += ["-e", f"inject=pread64:error=EIO:when={when}"]
    command: list[str | Path] = [
        *shoal.argv,
        "unzip",
        *paths,
        directory / "good.zip",
        "-d",
        "out",
        "--workers",
        "1",
        "--json",
    ]
    done = subprocess.run([*strace, *command], cwd=directory, capture_output=True, text=True, timeout=100)
    report = shoal.last_json(done)
    assert done.returncode == (1 if report["failed"] else 0), done.stderr
    assert "panicked" not in done.stderr
    there = tree(directory / "out")
    assert len(there) == report["written"]
    assert {failure["kind"] for failure in report["failures"]} <= {"read-failed"}, report["failures"]
    return report, there


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_entries_that_cannot_be_read_fail_alone(shoal: Command, tmp_path: Path, form: str) -> None:
    entries = chance(1, 300_000, 2_000_000, 70_000, 50, 600_000, 10) | {"1/last": b"the last one"}
    bad = make(tmp_path / f"bad.{form}", entries)
    make(tmp_path / "good.zip", SMALL)
    ends = set()
    for when in range(1, 16):
        report, there = unzip_with_bad_reads(shoal, tmp_path, [bad], str(when))
        lost = entries.keys() - there.keys()
        assert there == {name: data for name, data in (entries | SMALL).items() if name not in lost}, f"read {when}"
        failed = {failure["name"] for failure in report["failures"]}
        # An archive fails as one where its directory or headers cannot be read.
        assert failed in (lost, {bad.name}), f"read {when}"
        assert (lost == entries.keys()) == (failed == {bad.name}), f"read {when}"
        assert all("byte" in failure["reason"] for failure in report["failures"]), f"read {when}"
        ends.add(len(lost))
    assert {1, len(entries)} <= ends, "an entry alone, and all of the archive"


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_disk_that_fails_from_some_place_on_loses_what_lies_there(shoal: Command, tmp_path: Path, form: str) -> None:
    entries = chance(2, *[400_000] * 8)
    bad = make(tmp_path / f"bad.{form}", entries)
    make(tmp_path / "good.zip", SMALL)
    report, there = unzip_with_bad_reads(shoal, tmp_path, [bad], "13+")
    lost = entries.keys() - there.keys()
    assert 1 < len(lost) < len(entries)
    assert there == {name: data for name, data in (entries | SMALL).items() if name not in lost}
    assert {failure["name"] for failure in report["failures"]} == lost


@pytest.mark.parametrize("when", [1, 2, 20])
def test_a_compressed_tar_that_cannot_be_read_is_not_unpacked(shoal: Command, tmp_path: Path, when: int) -> None:
    bad = make(tmp_path / "bad.tar.gz", chance(3, *[400_000] * 5))
    make(tmp_path / "good.zip", SMALL)
    report, there = unzip_with_bad_reads(shoal, tmp_path, [bad], str(when))
    assert there == SMALL
    assert [failure["name"] for failure in report["failures"]] == [bad.name]


def test_an_entry_of_a_large_compressed_tar_that_cannot_be_read_fails_alone(shoal: Command, tmp_path: Path) -> None:
    # Too large to be kept while they are listed: each is read once by a thread of its own, in 700 reads of 64
    # KiB, and then both by the one worker.
    entries = [chance(seed, *[3 * MEBIBYTE] * 14) for seed in (4, 5)]
    paths = [make(tmp_path / f"{seed}.tar.gz", files) for seed, files in zip((4, 5), entries, strict=True)]
    make(tmp_path / "good.zip", SMALL)
    report, there = unzip_with_bad_reads(shoal, tmp_path, paths, "1000")
    (failure,) = report["failures"]
    whole = SMALL | entries[0] | entries[1]
    assert there == {name: data for name, data in whole.items() if name != failure["name"]}
    assert len(there) == len(whole) - 1
    assert "byte" in failure["reason"]
