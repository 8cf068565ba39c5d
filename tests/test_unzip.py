"""`shoal.unzip`, `shoal.archives` and archives as a source: what is in them comes out, whole and nowhere else."""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from trees import tree

if TYPE_CHECKING:
    from conftest import Command

METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}
TARS = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}
if sys.version_info >= (3, 14):
    METHODS["zstd"] = zipfile.ZIP_ZSTANDARD
    TARS["tar.zst"] = "w:zst"


def text(seed: int, size: int) -> bytes:
    """Bytes that pack to about a third, others for each seed."""
    line = b"".join(f"{seed} and {number * number}\n".encode() for number in range(size // 8 + 1))
    return line[:size]


def small(prefix: str = "", count: int = 50) -> dict[str, bytes]:
    return {f"{prefix}d{number % 4}/f{number}": text(number, number * 97) for number in range(count)}


def make_zip(path: Path, entries: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def make_tar(path: Path, entries: Mapping[str, bytes], mode: Any = "w", **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode, **how) as archive:
        for name, data in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def balanced(report: package.Report) -> bool:
    return all(
        one.listed == one.written + one.skipped + one.failed + one.unfinished for one in (report.run, report.total)
    )


def kinds(report: package.Report) -> dict[str, str]:
    return {failure.name: failure.kind for failure in report.failures}


@pytest.mark.parametrize("method", METHODS)
def test_a_zip_comes_out_as_it_went_in(tmp_path: Path, method: str) -> None:
    entries = small() | {"large": text(9, 1_000_000), "empty": b"", "noise": os.urandom(300_000)}
    make_zip(tmp_path / "one.zip", entries, METHODS[method])
    report = package.unzip(tmp_path / "one.zip", tmp_path / "out", on_error="record")
    assert (report.written, report.failed, report.bytes) == (len(entries), 0, sum(map(len, entries.values())))
    assert tree(tmp_path / "out") == entries
    assert report.complete
    assert balanced(report)


@pytest.mark.parametrize("ending", TARS)
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_comes_out_as_it_went_in(tmp_path: Path, ending: str, form: int) -> None:
    entries = small() | {"large": text(9, 1_000_000), "empty": b""}
    if form != tarfile.USTAR_FORMAT:
        entries["/".join(["a-directory-with-a-long-name"] * 8) + "/" + "x" * 120] = b"far below"
        entries["gr\u00fc\u00dfe"] = b"not ascii"
    make_tar(tmp_path / f"one.{ending}", entries, TARS[ending], format=form)
    report = package.unzip(str(tmp_path / f"one.{ending}"), tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (len(entries), 0), report.failures
    assert tree(tmp_path / "out") == entries


def test_what_an_archive_is_is_told_by_its_bytes_and_not_by_its_ending(tmp_path: Path) -> None:
    make_zip(tmp_path / "wrong.tar", {"zip": b"1"})
    make_tar(tmp_path / "wrong.zip", {"tar": b"2"})
    make_tar(tmp_path / "none", {"tar.gz": b"3"}, "w:gz")
    package.unzip([tmp_path / "wrong.tar", tmp_path / "wrong.zip", tmp_path / "none"], tmp_path / "out")
    assert tree(tmp_path / "out") == {"zip": b"1", "tar": b"2", "tar.gz": b"3"}


def test_a_glob_of_many_archives_is_one_job(tmp_path: Path) -> None:
    wanted: dict[str, bytes] = {}
    for number in range(30):
        entries = small(f"{number}/", number)
        wanted |= entries
        make = make_zip if number % 2 else make_tar
        make(tmp_path / f"in/{number % 3}/{number}.archive", entries)
    report = package.unzip(f"{tmp_path}/in/**/*.archive", tmp_path / "out", workers=4, on_error="record")
    assert (report.written, report.failed) == (len(wanted), 0)
    assert tree(tmp_path / "out") == wanted
    again = package.unzip(f"{tmp_path}/in/**/*.archive", tmp_path / "out", workers=4, on_error="record")
    assert again.completed_before is not None
    assert again.listed == 0


def test_one_giant_among_many_small_ones_is_all_there(tmp_path: Path) -> None:
    giant = {f"giant/{number}": text(number, 2_000) for number in range(3_000)} | {"giant/whole": text(1, 9_000_000)}
    wanted = dict(giant)
    make_zip(tmp_path / "in/giant.zip", giant)
    for number in range(20):
        wanted |= (entries := small(f"small-{number}/", 5))
        make_zip(tmp_path / f"in/{number}.zip", entries)
    report = package.unzip(f"{tmp_path}/in/*.zip", tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (len(wanted), 0)
    assert tree(tmp_path / "out") == wanted


def test_each_archive_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    for folder in "ab":
        make_zip(tmp_path / f"in/{folder}/photos.zip", {"same": folder.encode()})
    make_tar(tmp_path / "in/letters.tar.gz", {"same": b"letters"}, "w:gz")
    report = package.unzip(f"{tmp_path}/in/**", tmp_path / "out", into_subdirectories=True, on_error="record")
    assert report.failed == 0, report.failures
    assert tree(tmp_path / "out") == {"a/photos/same": b"a", "b/photos/same": b"b", "letters/same": b"letters"}
    listed = [tmp_path / "in/a/photos.zip", tmp_path / "in/b/photos.zip"]
    report = package.unzip(listed, tmp_path / "listed", into_subdirectories=True, on_error="record")
    assert report.failed == 0, report.failures
    assert tree(tmp_path / "listed") == {"a/photos/same": b"a", "b/photos/same": b"b"}


def test_files_have_the_permissions_of_their_entries_within_the_umask(tmp_path: Path) -> None:
    modes = {"plain": 0o644, "program": 0o755, "owner": 0o700, "setuid": 0o6755, "open": 0o666}
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for name, mode in modes.items():
            entry = zipfile.ZipInfo(f"zip/{name}")
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, name)
    with tarfile.open(tmp_path / "one.tar", "w") as tar:
        for name, mode in modes.items():
            member = tarfile.TarInfo(f"tar/{name}")
            member.mode = mode
            tar.addfile(member)
    before = os.umask(0o027)
    try:
        package.unzip(f"{tmp_path}/one.*", tmp_path / "out")
    finally:
        os.umask(before)
    for kind in ("zip", "tar"):
        for name, mode in modes.items():
            found = stat.S_IMODE((tmp_path / "out" / kind / name).stat().st_mode)
            assert found == mode & 0o750, (kind, name, oct(found))


def test_times_are_kept_unless_they_are_not_wanted(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "one.tar", "w") as tar:
        for name, when in (("old", 1), ("new", 1_700_000_000)):
            member = tarfile.TarInfo(name)
            member.mtime = when
            tar.addfile(member)
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        # The extra field of Info-ZIP: the time in seconds since 1970, in no time zone.
        entry = zipfile.ZipInfo("zip", (1999, 1, 1, 0, 0, 0))
        entry.extra = b"UT\5\0\1" + (1_500_000_000).to_bytes(4, "little")
        archive.writestr(entry, b"x")
        archive.writestr(zipfile.ZipInfo("dos", (2020, 5, 17, 12, 34, 56)), b"x")
    package.unzip(f"{tmp_path}/one.*", tmp_path / "kept")
    found = {name: (tmp_path / "kept" / name).stat().st_mtime for name in ("old", "new", "zip")}
    assert found == {"old": 1, "new": 1_700_000_000, "zip": 1_500_000_000}
    # A plain zip has the time of some clock on some wall: within a day of this machine's.
    dos = time.mktime((2020, 5, 17, 12, 34, 56, 0, 0, -1))
    assert abs((tmp_path / "kept/dos").stat().st_mtime - dos) <= 86_400
    package.unzip(f"{tmp_path}/one.*", tmp_path / "now", keep_times=False)
    assert all(path.stat().st_mtime > time.time() - 600 for path in (tmp_path / "now").glob("*"))


def test_directories_are_no_failures_and_empty_ones_are_made(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for name in ("full/", "empty/", "deep/er/empty/"):
            archive.mkdir(name)
        archive.writestr("full/file", b"x")
    with tarfile.open(tmp_path / "one.tar", "w") as tar:
        for name in ("tar-full", "tar-empty"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            member.mode = 0o755
            tar.addfile(member)
        tar.addfile(tarfile.TarInfo("tar-full/file"))
    report = package.unzip(f"{tmp_path}/one.*", tmp_path / "out", on_error="record")
    assert (report.written, report.skipped, report.failed) == (2, 5, 0), report.failures
    made = {path.name for path in (tmp_path / "out").rglob("*") if path.is_dir() and ".shoal" not in path.parts}
    assert made >= {"empty", "er", "full", "tar-empty"}
    assert report.complete
    assert balanced(report)


def test_a_name_that_a_second_archive_has_too_is_a_failure_and_the_first_stays(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", {"same": b"of a", "a": b"1"} | small("padding/", 20))
    make_zip(tmp_path / "b.zip", {"same": b"of b", "b": b"2"})
    report = package.unzip(f"{tmp_path}/*.zip", tmp_path / "out", workers=1, on_error="record")
    assert (report.written, report.failed) == (23, 1)
    assert kinds(report) == {"same": "repeated"}
    there = tree(tmp_path / "out")
    assert there["same"] == b"of a", "the larger archive is taken first"
    assert balanced(report)
    again = package.unzip(f"{tmp_path}/*.zip", tmp_path / "out", workers=1, resume="failed", on_error="record")
    assert (again.written, again.failed, again.ok) == (0, 1, False)
    assert tree(tmp_path / "out") == there


def encrypted(path: Path, entries: Mapping[str, bytes], which: str) -> None:
    """A zip one of whose entries says that it is encrypted."""
    make_zip(path, entries, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        local = archive.getinfo(which).header_offset
    data[local + 6] |= 1
    central = data.index(b"PK\1\2")
    while data[central + 46 : central + 46 + len(which)] != which.encode():
        central = data.index(b"PK\1\2", central + 4)
    data[central + 8] |= 1
    path.write_bytes(data)


def test_an_encrypted_entry_is_a_clear_failure_and_its_bytes_are_never_written(tmp_path: Path) -> None:
    encrypted(tmp_path / "one.zip", {"open": b"open", "secret": b"cipher"}, "secret")
    report = package.unzip(tmp_path / "one.zip", tmp_path / "out", on_error="record")
    assert kinds(report) == {"secret": "unsupported"}
    assert "encrypted" in report.failures[0].reason
    assert tree(tmp_path / "out") == {"open": b"open"}
    with pytest.raises(package.ObjectError, match=r"secret.*encrypted"):
        package.unzip(tmp_path / "one.zip", tmp_path / "raised", on_error="stop")


def damage(path: Path, data: bytes) -> bytes:
    """Flips a bit in the middle of what `data` was stored as; returns the archive as it was."""
    whole = path.read_bytes()
    at = whole.index(data) + len(data) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    return whole


def test_a_damaged_entry_is_not_kept_and_once_mended_it_alone_is_tried_again(tmp_path: Path) -> None:
    entries = small() | {"hurt": os.urandom(5_000)}
    path = make_zip(tmp_path / "one.zip", entries, zipfile.ZIP_STORED)
    whole = damage(path, entries["hurt"])
    report = package.unzip(path, tmp_path / "out", on_error="record")
    assert kinds(report) == {"hurt": "integrity"}
    assert "hurt" not in tree(tmp_path / "out")
    path.write_bytes(whole)
    again = package.unzip(path, tmp_path / "out", resume="failed", on_error="record")
    assert (again.written, again.failed, again.ok) == (1, 0, True)
    assert tree(tmp_path / "out") == entries


def test_a_truncated_archive_or_none_is_one_failure_and_the_others_come(tmp_path: Path) -> None:
    good = make_zip(tmp_path / "in/good.zip", small())
    whole = good.read_bytes()
    (tmp_path / "in/cut.zip").write_bytes(whole[: len(whole) * 2 // 3])
    (tmp_path / "in/text.zip").write_text("this is no archive " * 100)
    (tmp_path / "in/empty.zip").write_bytes(b"")
    report = package.unzip(f"{tmp_path}/in/*.zip", tmp_path / "out", on_error="record")
    assert kinds(report) == {"cut.zip": "archive", "text.zip": "archive", "empty.zip": "archive"}
    assert tree(tmp_path / "out") == small()
    assert balanced(report)


def test_an_archive_that_is_mended_is_listed_anew_and_a_retry_says_so(tmp_path: Path, shoal: Command) -> None:
    make_zip(tmp_path / "in/good.zip", {"good": b"1"})
    mended = make_zip(tmp_path / "in/late.zip", {"late": b"2", "later": b"3"})
    whole = mended.read_bytes()
    mended.write_bytes(whole[:40])
    out = tmp_path / "out"
    done = shoal.run("unzip", f"{tmp_path}/in/*.zip", "-d", out)
    assert done.returncode == 1
    assert "--update" in done.stderr
    mended.write_bytes(whole)
    again = package.unzip(f"{tmp_path}/in/*.zip", out, resume="failed", on_error="record")
    assert kinds(again) == {"late.zip": "archive"}
    assert "have not been listed" in again.failures[0].reason
    assert package.unzip(f"{tmp_path}/in/*.zip", out, resume="update", on_error="record").total.failed == 0
    assert set(tree(out)) == {"good", "late", "later"}


def test_a_tar_that_breaks_off_gives_what_came_before(tmp_path: Path) -> None:
    entries = {f"f{number:02}": os.urandom(10_000) for number in range(20)}
    path = make_tar(tmp_path / "one.tar.gz", entries, "w:gz")
    path.write_bytes(path.read_bytes()[:100_000])
    report = package.unzip(path, tmp_path / "out", on_error="record")
    found = tree(tmp_path / "out")
    assert report.failed >= 1
    assert 5 <= len(found) < 20
    assert all(entries[name] == data for name, data in found.items())
    assert balanced(report)


def test_an_archive_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    for missing in ("gone.zip", str(tmp_path / "gone.zip"), tmp_path / "gone.zip", [tmp_path / "gone.zip"]):
        with pytest.raises(package.NotFoundError, match=r"gone\.zip"):
            package.unzip(missing, tmp_path / "out")
    for wrong in ([1], [""], "", 7, None, b"one.zip"):
        with pytest.raises((package.ConfigError, TypeError)):
            package.unzip(wrong, tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_names_that_are_not_utf_8_are_read_as_what_they_are(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "raw.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        tar.addfile(tarfile.TarInfo("gr\u00fc\u00dfe"))
    package.unzip(tmp_path / "raw.tar", tmp_path / "raw")
    assert os.listdir(os.fsencode(tmp_path / "raw")) in (  # noqa: PTH208
        [b".shoal", b"gr\xfc\xdfe"],
        [b"gr\xfc\xdfe", b".shoal"],
    )
    package.unzip(tmp_path / "raw.tar", tmp_path / "said", encoding="latin1")
    assert set(tree(tmp_path / "said")) == {"gr\u00fc\u00dfe"}
    # Python writes such a name as UTF-8 and says so; without the flag it is of code page 437, or what is said here.
    for folder, encoding, wanted in (
        ("437", "auto", "\u00e9"),
        ("sjis", "shift_jis", "\uff82"),  # a half-width katakana
    ):
        data = bytearray(make_zip(tmp_path / "one.zip", {"?": b"x"}).read_bytes().replace(b"?", b"\x82"))
        if folder == "sjis":
            data = bytearray(bytes(data).replace(b"\x82", b"\xc2"))
        for mark, flag in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(mark) + flag + 1] &= ~8 & 0xFF
        # Made by MS-DOS, so that nothing speaks for UTF-8.
        data[data.index(b"PK\1\2") + 5] = 0
        (tmp_path / "one.zip").write_bytes(data)
        package.unzip(tmp_path / "one.zip", tmp_path / folder, encoding=encoding)
        assert set(tree(tmp_path / folder)) == {wanted}


def test_no_name_leads_out_and_backslashes_are_what_is_said(tmp_path: Path) -> None:
    make_zip(tmp_path / "one.zip", {"../escaped": b"1", "/tmp/shoal-absolute": b"2", "a\\b": b"3", "fine": b"4"})
    report = package.unzip(tmp_path / "one.zip", tmp_path / "deep/out", on_error="record")
    assert set(kinds(report).values()) == {"unsafe-name"}
    assert len(report.failures) == 3
    assert tree(tmp_path / "deep") == {"out/fine": b"4"} | {
        name: data for name, data in tree(tmp_path / "deep").items() if ".shoal" in name
    }
    package.unzip(tmp_path / "one.zip", tmp_path / "split", backslashes="separator", on_error="record")
    assert tree(tmp_path / "split") == {"a/b": b"3", "fine": b"4"}


def test_links_and_devices_are_counted_and_never_made(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "one.tar", "w") as tar:
        for name, kind in (("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = "/etc/passwd"
            tar.addfile(member)
        tar.addfile(tarfile.TarInfo("soft/file"))
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        entry = zipfile.ZipInfo("zip-link")
        entry.create_system = 3
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    report = package.unzip(f"{tmp_path}/one.*", tmp_path / "out", on_error="record")
    # The hard link leads out, and "soft" is no directory.
    assert (report.skipped, set(kinds(report))) == (3, {"hard", "soft/file"})
    assert any("link" in note for note in report.notes), report.notes
    assert not any(path.is_symlink() or path.is_fifo() for path in (tmp_path / "out").rglob("*"))


@pytest.mark.parametrize(
    ("option", "value"), [("max_size", 10_000), ("max_entries", 10), ("max_depth", 1), ("max_ratio", 1)]
)
def test_a_limit_is_named_with_what_raises_it(tmp_path: Path, option: str, value: int) -> None:
    # More than 64 MiB, from where on the ratio is looked at; zeros, so that it is quickly done.
    entries = {f"a/b/{number}": bytes(5_000_000) for number in range(14)}
    make_zip(tmp_path / "one.zip", entries)
    raised: dict[str, Any] = {"max_ratio": 2_000}
    within = package.unzip(tmp_path / "one.zip", "null:", **raised, on_error="record")
    assert (within.written, within.failed) == (14, 0), within.failures
    limits: dict[str, Any] = raised | {option: value}
    report = package.unzip(tmp_path / "one.zip", tmp_path / "out", **limits, on_error="record")
    assert report.written == 0
    assert report.failed == (14 if option == "max_depth" else 1)
    if option != "max_depth":
        assert kinds(report) == {"one.zip": "archive"}
    assert tree(tmp_path / "out") == {}


def test_null_checks_everything_and_keeps_nothing(tmp_path: Path) -> None:
    entries = {"good": b"good" * 100, "hurt": os.urandom(3_000)}
    damage(make_zip(tmp_path / "one.zip", entries, zipfile.ZIP_STORED), entries["hurt"])
    report = package.unzip(tmp_path / "one.zip", "null:", on_error="record")
    assert (report.written, kinds(report)) == (1, {"hurt": "integrity"})
    assert {path.name for path in tmp_path.iterdir()} == {"one.zip"}


def test_include_and_exclude_choose_entries_and_their_directories(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.mkdir("skipped")
        for name in ("keep/a.csv", "keep/b.txt", "other/c.csv"):
            archive.writestr(name, name)
    report = package.unzip(tmp_path / "one.zip", tmp_path / "out", include="**/*.csv", exclude="other/**")
    assert (report.written, report.skipped) == (1, 3)
    assert tree(tmp_path / "out") == {"keep/a.csv": b"keep/a.csv"}
    assert not (tmp_path / "out/skipped").exists()


Make = Callable[[Path, Mapping[str, bytes]], Path]


@pytest.mark.parametrize(("make", "scheme"), [(make_zip, "zip"), (make_tar, "tar")])
def test_entries_come_into_python(tmp_path: Path, make: Make, scheme: str) -> None:
    wanted: dict[str, bytes] = {}
    for number in range(5):
        wanted |= (entries := small(f"{number}/", 30) | {f"{number}/large": text(number, 300_000)})
        make(tmp_path / f"{number}.archive", entries)
    source = f"{scheme}:{tmp_path}/*.archive"
    reader = package.read(source, on_error="record")
    assert {obj.name: bytes(obj) for obj in reader} == wanted
    assert reader.report is not None
    assert (reader.report.written, reader.report.failed) == (len(wanted), 0)
    assert {obj.name for obj in package.read(package.archives(f"{tmp_path}/*.archive"), on_error="record")} == set(
        wanted
    )
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table(package.read(source, on_error="record").batches()).to_pylist()
    assert {row["name"]: row["data"] for row in rows} == wanted
    once = [obj.name for obj in package.read(source, order="source", on_error="record")]
    assert once == [obj.name for obj in package.read(source, order="source", on_error="record")]


def test_a_scheme_takes_only_its_own_kind(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "one.tar", small())
    report = package.copy(f"zip:{path}", tmp_path / "out", on_error="record")
    assert (report.written, kinds(report)) == (0, {"one.tar": "archive"})
    with pytest.raises(package.NotFoundError, match=r"gone\.zip"):
        package.copy(f"zip:{tmp_path}/gone.zip", tmp_path / "out2", on_error="record")


def test_archives_take_options_wherever_a_source_is_taken(tmp_path: Path) -> None:
    paths = [make_zip(tmp_path / f"{name}.zip", {"x": name.encode()}) for name in "ab"]
    source = package.archives(paths, into_subdirectories=True)
    assert repr(source).startswith("archives((2 paths), into_subdirectories=True, encoding='auto'")
    assert {obj.name: bytes(obj) for obj in package.read(source, on_error="record")} == {"a/x": b"a", "b/x": b"b"}
    report = package.copy(source, tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (2, 0)
    assert tree(tmp_path / "out") == {"a/x": b"a", "b/x": b"b"}


def test_other_options_that_change_names_are_another_run(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "one.zip", {"x": b"x"})
    package.unzip(path, tmp_path / "out")
    package.unzip(path, tmp_path / "out", into_subdirectories=True)
    assert tree(tmp_path / "out") == {"x": b"x", "one/x": b"x"}
    with pytest.raises(package.JournalError, match="exclude"):
        package.unzip(path, tmp_path / "out", exclude="y")
    assert package.unzip(path, tmp_path / "out", keep_times=False, overwrite="always").completed_before


def test_progress_is_told_and_an_exception_of_its_function_ends_the_run(tmp_path: Path) -> None:
    make_zip(tmp_path / "one.zip", {str(number): bytes(1000) for number in range(2_000)})
    seen: list[package.Progress] = []
    package.unzip(tmp_path / "one.zip", tmp_path / "out", progress=seen.append, limit_rate="2MB")
    assert len(seen) >= 3
    written = [one.run.written for one in seen]
    assert written == sorted(written)
    assert 0 < written[-1] <= 2_000

    def stop(_: package.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        package.unzip(tmp_path / "one.zip", tmp_path / "out2", progress=stop, limit_rate="1MB")
    assert package.unzip(tmp_path / "one.zip", tmp_path / "out2").total.written == 2_000


def test_an_archive_that_was_added_to_a_glob_is_found_with_update(tmp_path: Path) -> None:
    make_zip(tmp_path / "1.zip", {"one": b"1"})
    package.unzip(f"{tmp_path}/*.zip", tmp_path / "out", on_error="record")
    make_zip(tmp_path / "2.zip", {"two": b"2"})
    assert package.unzip(f"{tmp_path}/*.zip", tmp_path / "out", on_error="record").completed_before
    report = package.unzip(f"{tmp_path}/*.zip", tmp_path / "out", resume="update", on_error="record")
    assert report.failed == 0, report.failures
    assert tree(tmp_path / "out") == {"one": b"1", "two": b"2"}
