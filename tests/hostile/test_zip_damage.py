"""Zip archives cut short and changed, at rest and while they are read: what arrives is exact, the rest has failed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from conftest import Interpreter
from hostile.archives import damage
from hostile.archives.judge import OPTIONS, Unzip
from hostile.archives.zips import DEFLATED, STORED, Entry, build, deflate
from hostile.oracle import assert_balanced, left_over
from trees import tree
from waiting import wait_until

BLOCK = random.Random(5).randbytes(1 << 20)
BROKEN_OFF = {"changed", "archive", "read-failed", "integrity"}


def test_a_zip_cut_short_at_any_point_is_refused_whole(unzip: Unzip) -> None:
    archive, _ = damage.small_zip()
    cut = damage.cuts(archive)
    unzip.put({f"{name}.zip": data for name, data in cut.items()})
    outcome = unzip.run([unzip.archives / "*.zip"], "--into-subdirectories", seconds=20.0)
    assert tree(unzip.out) == {}
    assert (outcome.report["written"], outcome.report["failed"]) == (0, len(cut)), outcome.report
    failures = unzip.failures()
    for name in cut:
        assert f"{name}.zip" in failures, name


def test_no_changed_byte_of_a_zip_changes_what_arrives(unzip: Unzip) -> None:
    archive, objects = damage.small_zip()
    changed = damage.flips(archive)
    unzip.put({f"{name}.zip": data for name, data in changed.items()})
    unzip.run([unzip.archives / "*.zip"], "--into-subdirectories", seconds=30.0)
    attributes = damage.attributes_of(archive)
    trees = damage.by_archive(tree(unzip.out))
    assert trees.keys() <= changed.keys()
    failures = unzip.failures()
    silent = []
    for name in changed:
        found = trees.get(name, {})
        if int(name.split("-")[1]) in attributes and found.get("link") == b"empty":
            del found["link"]  # its attributes say that it is a file now
        assert found.items() <= objects.items(), f"{name}: {sorted(found.items() - objects.items())}"
        if found != objects and name not in failures and int(name.split("-")[1]) not in attributes:
            silent.append(name)
    assert silent == [], f"files are missing, and no message says so: {silent}"
    assert any(found == objects for found in trees.values())  # some bytes do not matter, such as a date


def test_no_changed_byte_of_a_zip_is_a_trap_for_the_tester(unzip: Unzip) -> None:
    archive, _ = damage.small_zip()
    changed = damage.flips(archive)
    unzip.put({f"{name}.zip": data for name, data in changed.items()})
    outcome = unzip.run([unzip.archives / "*.zip"], "--into-subdirectories", seconds=30.0, test=True)
    assert outcome.report["failed"] > len(changed) / 2, outcome.report


def long_archive(method: int, count: int, size: int) -> bytes:
    """Returns an archive of `count` entries of `size` MiB, all the same and not compressible."""
    data = BLOCK * size
    packed = data if method == STORED else deflate(data, 1)
    return build([Entry(b"%04d" % number, data, method, packed) for number in range(count)])


@pytest.mark.parametrize("method", [STORED, DEFLATED])
@pytest.mark.parametrize(("count", "size"), [(64, 1), (2, 32)], ids=["many", "large"])
def test_an_archive_cut_while_it_is_unpacked_is_an_error(unzip: Unzip, method: int, count: int, size: int) -> None:
    [path] = unzip.put({"x.zip": long_archive(method, count, size)})
    # Slow enough that the archive is surely cut before its second half is read.
    running = unzip.shoal.start("unzip", path, "-d", unzip.out, *OPTIONS, "--limit-rate", "16MiB", "--memory", "16MiB")
    wait_until(lambda: unzip.out.exists() and any(item.is_file() for item in unzip.out.rglob("*")))
    os.truncate(path, path.stat().st_size // 4)
    outcome = running.wait(60.0)
    assert outcome.code == 1, outcome
    assert "panicked" not in outcome.stderr, outcome
    assert_balanced(outcome.report)
    found = tree(unzip.out)
    assert all(data == BLOCK * size for data in found.values()), {name: len(data) for name, data in found.items()}
    assert len(found) == outcome.report["written"] < count
    assert {failure["kind"] for failure in outcome.report["failures"]} <= BROKEN_OFF, outcome
    assert left_over(unzip.out) == []


READ_AND_CUT = """
import os, sys, shoal

path, chunk = sys.argv[1], int(sys.argv[2])
reader = shoal.read("zip:" + path, memory="8MiB", workers=2, chunk_size=chunk or None, on_error="record")
pieces = 0
for piece in reader:
    pieces += 1
    if pieces == 1:
        os.truncate(path, os.path.getsize(path) // 4)
report = reader.report
print(pieces, report.failed, *sorted({failure.kind for failure in report.failures}))
"""


@pytest.mark.parametrize("method", [STORED, DEFLATED])
@pytest.mark.parametrize(("count", "size", "chunk"), [(64, 1, 0), (2, 32, 1 << 20)], ids=["many", "large"])
def test_an_archive_cut_while_python_reads_it_is_an_error(
    interpreter: Interpreter, tmp_path: Path, method: int, count: int, size: int, chunk: int
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(long_archive(method, count, size))
    done = interpreter.run(READ_AND_CUT, path, str(chunk))
    assert done.returncode == 0, done  # not -7, which is SIGBUS
    pieces, failed, *kinds = done.stdout.split()
    assert 0 < int(pieces) < 64, done
    assert int(failed) > 0, done
    assert set(kinds) <= BROKEN_OFF, done
