"""Looking into archives without unpacking, what is no archive, and which archive a failure is of."""

from __future__ import annotations

import gzip
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from trees import tree

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command


def make_zip(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, (2026, 5, 4, 3, 2, 0)), "" if name.endswith("/") else name * 10)
    return path


def make_tar(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            (path.parent / "entry").write_text(name * 10)
            archive.add(path.parent / "entry", name)
    (path.parent / "entry").unlink()
    return path


def test_entries_are_listed_without_unpacking(shoal: Command) -> None:
    make_zip(shoal.directory / "one.zip", ["a/x.txt", "a/", "b.csv"])
    (shoal.directory / "bad.zip").write_bytes(b"<html>no</html>")
    listed = shoal.run("unzip", "--list", "*.zip")
    assert listed.returncode == 1
    lines = [line.split("\t") for line in listed.stdout.splitlines()]
    assert [(size.strip(), archive, name) for size, _, archive, name in lines] == [
        ("70", "one.zip", "a/x.txt"),
        ("50", "one.zip", "b.csv"),
    ]
    assert all(time == "2026-05-04 03:02:00" for _, time, _, _ in lines), "a zip has the time of a wall clock"
    assert listed.stderr.startswith('error: "bad.zip": neither a zip nor a tar archive, but an HTML page')
    assert [path.name for path in shoal.directory.iterdir() if path.is_dir()] == []


def test_flags_that_mean_nothing_for_a_listing_are_a_note(shoal: Command) -> None:
    make_zip(shoal.directory / "one.zip", ["a"])
    flags = ("--workers", "3", "--update", "--include", "*", "--max-depth", "9", "-v")
    listed = shoal.run("unzip", "--list", "one.zip", *flags, SHOAL_MEMORY="1M")
    assert (listed.returncode, listed.stderr) == (
        0,
        "note: --update, --workers mean nothing for this listing (one.zip)\n",
    )
    assert shoal.run("unzip", "--list", "one.zip", *flags, "-q").stderr == ""


def test_entries_are_listed_as_json_and_by_patterns(shoal: Command) -> None:
    one = make_zip(shoal.directory / "one.zip", ["a/x.txt", "b.csv"])
    broken = shoal.directory / "seven.zip"
    broken.write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(100))
    listed = shoal.run("unzip", "-l", "*.zip", "--include", "*.csv", "--json")
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert listed.returncode == 1
    assert sorted(row["type"] for row in rows[:-1]) == ["failure", "object"]
    assert rows[-1] == {"type": "report", "ok": False, "listed": 2, "failed": 1}
    entry = next(row for row in rows if row["type"] == "object")
    assert (entry["name"], entry["size"], entry["archive"]) == ("b.csv", 50, str(one))
    failure = next(row for row in rows if row["type"] == "failure")
    assert (failure["name"], failure["archive"], failure["kind"]) == ("seven.zip", str(broken), "archive")
    assert "a 7z archive" in failure["reason"]


@pytest.mark.parametrize("pattern", [(), ("--include", "*.csv")])
def test_46_an_archive_before_another_in_one_file_is_a_failure_whatever_is_done(
    shoal: Command, pattern: tuple[str, ...]
) -> None:
    parts = [make_zip(shoal.directory / name, [entry]) for name, entry in (("1", "one.csv"), ("2", "two.csv"))]
    (shoal.directory / "both.zip").write_bytes(b"".join(part.read_bytes() for part in parts))
    (shoal.directory / "program.zip").write_bytes(b"#!/bin/sh\n" + parts[0].read_bytes())
    what = '"both.zip"'

    listed = shoal.run("unzip", "--list", "*.zip", *pattern)
    assert sorted(line.split("\t")[3] for line in listed.stdout.splitlines()) == ["one.csv", "two.csv"]
    tested = shoal.run("unzip", "--test", "*.zip", *pattern)
    unpacked = shoal.run("unzip", "*.zip", "-d", "out", *pattern)
    copied = shoal.run("copy", "zip:*.zip", "copy", *pattern)
    again = shoal.run("copy", "zip:*.zip", "copy", "--retry-failed", *pattern)
    for done in (listed, tested, unpacked, copied, again):
        assert done.returncode == 1, done
        assert what in done.stderr, done
        assert "begins with another archive" in done.stderr, done
    assert sorted(path.name for path in (shoal.directory / "out").glob("*.csv")) == ["one.csv", "two.csv"]


def test_46_a_tar_that_breaks_off_is_a_failure_whatever_entries_were_asked_for(shoal: Command) -> None:
    with tarfile.open(shoal.directory / "x.tar", "w") as archive:
        for name in ("one.csv", "two.csv"):
            archive.addfile(tarfile.TarInfo(name))
    whole = (shoal.directory / "x.tar").read_bytes()
    (shoal.directory / "x.tar").write_bytes(whole[:512] + b"x" * 512)

    done = shoal.run("unzip", "x.tar", "-d", "out", "--include", "*.csv")
    assert (shoal.directory / "out/one.csv").exists()
    assert done.returncode == 1, done
    assert 'x.tar"' in done.stderr


def test_one_of_the_three_things_to_do_is_asked_for(shoal: Command) -> None:
    make_zip(shoal.directory / "one.zip", ["a"])
    for flags in ((), ("--list", "--test"), ("--list", "-d", "out")):
        wrong = shoal.run("unzip", "one.zip", *flags)
        assert wrong.returncode == 2, flags
        assert "--list" in wrong.stderr


def test_a_listing_in_python_raises_at_its_end_what_could_not_be_listed(tmp_path: Path) -> None:
    make_zip(tmp_path / "one.zip", ["x", "y"])
    for name in ("bad", "worse"):
        (tmp_path / f"{name}.zip").write_bytes(b"")
    listing = package.list_objects(f"zip:{tmp_path}/*.zip")
    assert [(one.name, one.size) for one in (next(listing), next(listing))] == [("x", 10), ("y", 10)]
    with pytest.raises(package.ObjectError, match=r"bad\.zip.*an empty file") as caught:
        next(listing)
    assert caught.value.__notes__ == ["1 more could not be listed"]
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("x")
    (tmp_path / "tree/link").symlink_to("file")
    assert sorted((one.name, one.size, one.archive) for one in package.list_objects(tmp_path / "tree")) == [
        ("file", None, None),
        ("link", None, None),
    ]
    with pytest.raises(package.ShoalError):
        package.list_objects(tmp_path / "nothing")


def test_a_failure_names_its_archive(shoal: Command) -> None:
    one, two = shoal.directory / "one.zip", shoal.directory / "two.zip"
    for path in (one, two):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("same", path.name)
    (shoal.directory / "page.zip").write_bytes(b"\n<!DOCTYPE html><html></html>")
    report = package.unzip(str(shoal.directory / "*.zip"), shoal.directory / "out", on_error="record")
    failed = {failure.name: failure.archive for failure in report.failures}
    assert failed["page.zip"] == str(shoal.directory / "page.zip")
    assert failed["same"] in {str(one), str(two)}
    assert any("`into_subdirectories=True`" in note for note in report.notes), report.notes
    status = shoal.run("status", "out", "--json", "--failures", "all")
    rows = [json.loads(line) for line in status.stdout.splitlines()]
    archives = [row["archive"] for row in rows if row["type"] == "failure"]
    assert sorted(archives) == sorted(str(archive) for archive in failed.values())
    (shoal.directory / "file").write_text("x")
    (shoal.directory / "taken").mkdir()
    (shoal.directory / "taken/file").write_text("y")
    taken = package.copy(shoal.directory / "file", shoal.directory / "taken", on_error="record")
    assert [failure.archive for failure in taken.failures] == [None]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "an empty file"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive"),
        (b"Rar!\x1a\x07\x01\0", "a RAR archive"),
        (b"<html><body>Log in</body></html>", "an HTML page"),
        (gzip.compress(b"a table, and no tar" * 100, mtime=0), "not a tar archive compressed with gzip"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "it.zip").write_bytes(data)
    report = package.unzip(tmp_path / "it.zip", tmp_path / "out", on_error="record")
    assert [failure.kind for failure in report.failures] == ["archive"]
    assert what in report.failures[0].reason


def test_two_archives_never_share_a_directory(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    make_zip(place / "g01.zip", ["same", "z"])
    make_tar(place / "g01.tar.gz", ["same", "t"])
    make_zip(place / "g02.zip", ["same"])
    report = package.unzip(place / "*", tmp_path / "out", into_subdirectories=True)
    assert report.ok, report.failures
    wanted = {"g01.zip/same", "g01.zip/z", "g01.tar.gz/same", "g01.tar.gz/t", "g02/same"}
    assert set(tree(tmp_path / "out")) == wanted


class StopError(Exception):
    """Stops a run."""


def test_an_archive_that_comes_in_between_moves_no_entry_to_a_directory_it_shares(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    with zipfile.ZipFile(place / "big.zip", "w") as archive:
        for number in range(40_000):
            archive.writestr(f"{number // 1000}/{number}", "x")

    def stop(progress: package.Progress) -> None:
        if progress.committed > 0:  # a quarter of it: the rest takes long enough to be stopped on a busy machine
            raise StopError

    first: dict[str, Any] = {"durability": "none", "workers": 1, "progress": stop}
    with pytest.raises(StopError):
        package.unzip(place / "*", tmp_path / "out", into_subdirectories=True, **first)
    make_tar(place / "big.tar.gz", ["0/0"])
    report = package.unzip(place / "*", tmp_path / "out", into_subdirectories=True, durability="none")
    assert report.ok, report.failures
    found = set(tree(tmp_path / "out"))
    assert {name for name in found if name.startswith("big.tar.gz/")} == {"big.tar.gz/0/0"}
    assert sum(name.startswith("big.zip/") for name in found) == 40_000, "all of it is where it belongs now"
