"""Symbolic links: copied as links into a directory, else the files that they lead to are read; `links=` says otherwise.

Here: each way to treat links, and what happens where a name is taken. Not here: trees made of links
(`test_link_trees.py`); hard links (`test_hard_links.py`); a service's destination (`hostile/test_names.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

import shoal as package
from conftest import Command
from every_kind import ROOT, TIMES, describe, differences, put, stamp
from faults.tracing import injected, traced
from trees import tree

LONG = "x/" * 1_999 + "xy"  # a text of 4,000 bytes
TARGETS = {
    "relative": "file",
    "up/up": "../file",
    "dangling": "nowhere",
    "itself": "itself",
    "directory": "d",
    "root": ".",
    "outside": "../outside/file",
    "absolute": "/dev/null",
    "long": LONG,
    "raw": os.fsdecode(b"\xff\n"),
    "chain": "relative",
}
OUTSIDE = {"outside", "absolute"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree of a file, a directory and all kinds of links; it is beside a file to which one leads."""
    root = tmp_path / "source"
    put(root / "file", b"a file")
    put(root / "d/inner", b"inner")
    put(tmp_path / "outside/file", b"outside")
    (root / "up").mkdir()
    for number, (name, target) in enumerate(TARGETS.items()):
        (root / name).symlink_to(target)
        stamp(root / name, TIMES[number % len(TIMES)])
    return root


def texts(root: Path) -> dict[str, str]:
    """All links of a tree, with their texts."""
    found = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            if path.is_symlink():
                found[str(path.relative_to(root))] = str(path.readlink())
    return found


def failures(place: Path) -> dict[str, str]:
    """The failures of the last run, with their kinds."""
    return {one.name: one.kind for one in package.status(place, failures=None).runs[-1].failures}


def skipped(place: Path) -> dict[str, str]:
    return {one.name: one.reason for one in package.status(place, skipped=None).runs[-1].skipped}


def rows(packed: Path) -> dict[str, bytes]:
    """What is in a Parquet dataset."""
    table = pq.read_table(packed, columns=["name", "data"])
    return dict(zip(table["name"].to_pylist(), table["data"].to_pylist(), strict=True))


def noted(notes: Any, *words: str) -> list[str]:
    return [note for note in notes if all(word in note for word in words)]


@pytest.mark.parametrize("durability", ["none", "file"])
def test_into_a_directory_links_are_copied_with_their_texts_and_times_and_are_not_looked_behind(
    source: Path, tmp_path: Path, durability: Any
) -> None:
    out = tmp_path / "deep/below/out"  # from where no relative link leads to the same
    report = package.copy(source, out, durability=durability)
    assert (report.written, report.failed, report.skipped) == (2 + len(TARGETS), 0, 0)
    assert texts(out) == TARGETS
    for name in TARGETS:
        assert (out / name).lstat().st_mtime_ns == (source / name).lstat().st_mtime_ns
    assert tree(out) == tree(source)
    assert noted(report.notes, "out of the source", f"{len(OUTSIDE)} "), report.notes
    again = package.copy(source, out)
    assert (again.written, again.unchanged) == (0, 2 + len(TARGETS))


def test_copied_links_that_stay_inside_need_no_note(tmp_path: Path) -> None:
    put(tmp_path / "source/d/file", b"x")
    for name, text in {"link": "d/file", "d/up": "../link", "d/odd": "../d/../d/./file", "nothing": "d/none"}.items():
        (tmp_path / "source" / name).symlink_to(text)
    report = package.copy(tmp_path / "source", tmp_path / "out")
    assert (report.written, noted(report.notes, "link")) == (5, [])


def test_links_are_copied_without_their_times_on_request(source: Path, tmp_path: Path) -> None:
    package.copy(source, tmp_path / "out", keep_times=False)
    assert texts(tmp_path / "out") == TARGETS
    assert (tmp_path / "out/relative").lstat().st_mtime > 1_600_000_000


def test_filters_select_links_by_their_names(tmp_path: Path) -> None:
    root = tmp_path / "source"
    for name in ("a.txt", "b.bin", "d/c.txt"):
        put(root / name, b"x")
        (root / f"{name[:-4]}-link{name[-4:]}").symlink_to(Path(name).name)
    report = package.copy(root, tmp_path / "out", include="*.txt", exclude="d/")
    assert tree(tmp_path / "out") == {"a.txt": b"x", "a-link.txt": b"a.txt"}
    assert (report.written, report.skipped) == (2, 4)


def test_links_that_are_skipped_are_counted_and_listed(shoal: Command, source: Path) -> None:
    done = shoal.run("copy", "--links", "skip", source, "out")
    out = shoal.directory / "out"
    assert done.returncode == 0, done.stderr
    assert tree(out) == {"file": b"a file", "d/inner": b"inner"}
    assert skipped(out) == dict.fromkeys(TARGETS, "link")
    assert f"{len(TARGETS)} symbolic links were skipped" in done.stderr
    assert "--links follow" in done.stderr


def test_links_that_are_followed_give_files_and_directories_and_what_leads_to_nothing_is_a_failure(
    shoal: Command, source: Path
) -> None:
    out = shoal.directory / "out"
    (source / "absolute").unlink()  # which leads to a device
    done = shoal.run("copy", "--links", "follow", source, "out", "--json")
    assert done.returncode == 1, done.stderr
    files = {"file": b"a file", "d/inner": b"inner", "relative": b"a file", "chain": b"a file", "up/up": b"a file"}
    files |= {"directory/inner": b"inner", "outside": b"outside"}
    assert tree(out) == files
    assert failures(out) == dict.fromkeys(("dangling", "itself", "long", "raw"), "vanished")
    assert skipped(out) == {"root": "looping-link"}
    assert noted(shoal.last_json(done)["notes"], "links were followed")

    done = shoal.run("copy", "--links", "follow", source, "out2", "--ignore-vanished")
    assert done.returncode == 0, done.stderr
    assert tree(shoal.directory / "out2") == files
    assert package.status(shoal.directory / "out2").runs[0].skipped_by["vanished"] == 4


@pytest.mark.parametrize("destination", ["out", "read"])
def test_links_that_must_lead_inside_are_failures_if_they_do_not(
    source: Path, tmp_path: Path, destination: str
) -> None:
    (source / "absolute").unlink()
    (source / "absolute").symlink_to(tmp_path / "outside/file")
    files = package.files(source, links="inside")
    wanted = {"file": b"a file", "d/inner": b"inner", "relative": b"a file", "chain": b"a file", "up/up": b"a file"}
    if destination == "out":
        report = package.copy(files, tmp_path / "out", on_error="record")
        assert tree(tmp_path / "out") == wanted
    else:
        reader = package.read(files, on_error="record")
        assert {one.name: bytes(one.data) for one in reader} == wanted
        assert reader.report is not None
        report = reader.report
    kinds = {one.name: one.kind for one in report.failures}
    assert kinds.keys() == OUTSIDE | {"dangling", "itself", "long", "raw"}
    assert {kinds[name] for name in ("dangling", "itself", "long", "raw")} == {"vanished"}
    assert "vanished" not in {kinds[name] for name in OUTSIDE}
    assert report.skipped == 2, "the links to directories"


@pytest.mark.parametrize("what", ["directory", "file", "link to a directory", "link to a file", "list"])
def test_a_path_that_is_named_is_followed(source: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "to d").symlink_to("source/d")
    (tmp_path / "to file").symlink_to("source/relative")
    paths: dict[str, Any] = {
        "directory": (source / "d", {"inner": b"inner"}),
        "file": (source / "relative", {"relative": b"a file"}),
        "link to a directory": (tmp_path / "to d", {"inner": b"inner"}),
        "link to a file": (tmp_path / "to file", {"to file": b"a file"}),
        "list": ([source / "relative", source / "file"], {"relative": b"a file", "file": b"a file"}),
    }
    named, wanted = paths[what]
    package.copy(named, tmp_path / "out")
    assert {name.rpartition("/")[2]: data for name, data in tree(tmp_path / "out").items()} == wanted
    assert texts(tmp_path / "out") == {}


@pytest.mark.parametrize("way", ["read", "parquet", "null", "list"])
def test_where_no_link_can_be_links_to_files_are_followed_and_to_directories_skipped(
    shoal: Command, source: Path, tmp_path: Path, way: str
) -> None:
    (source / "absolute").unlink()  # which leads to a device
    files = {"file": b"a file", "d/inner": b"inner", "relative": b"a file", "chain": b"a file", "up/up": b"a file"}
    files |= {"outside": b"outside"}
    gone = {"dangling", "itself", "long", "raw"}
    if way == "read":
        reader = package.read(source, on_error="record")
        assert {one.name: bytes(one.data) for one in reader} == files
        assert reader.report is not None
        report = reader.report
    elif way == "list":
        assert {one.name for one in package.list_objects(source)} >= files.keys()
        return
    else:
        destination = {"parquet": f"parquet:{tmp_path}/packed", "null": "null:"}[way]
        report = package.copy(source, destination, on_error="record")
    assert (report.written, report.skipped) == (len(files), 2)
    assert {one.name: one.kind for one in report.failures} == dict.fromkeys(gone, "vanished")
    assert noted(report.notes, "links were followed"), report.notes
    if way == "parquet":
        assert rows(tmp_path / "packed") == files
        assert skipped(tmp_path / "packed") == {"root": "link", "directory": "link"}
    if way == "read":
        done = shoal.run("read", source, "--ignore-vanished")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("links", ["copy", "follow", "skip", "inside", None])
@pytest.mark.parametrize("destination", ["parquet", "read", "checksum"])
def test_the_text_of_a_link_is_never_data(
    shoal: Command, source: Path, tmp_path: Path, links: Any, destination: str
) -> None:
    given = ["--links", links] if links else []
    if destination == "checksum":
        done = shoal.run("read", source, *given, "--checksum", "crc32", "--json")
        listed = [line for line in done.stdout.splitlines() if '"type": "object"' in line or '"type":"object"' in line]
        assert not [line for line in listed if '"dangling"' in line or '"itself"' in line or '"long"' in line]
        return
    found: dict[str, bytes] = {}
    try:
        if destination == "parquet":
            package.copy(package.files(source, links=links), f"parquet:{tmp_path}/packed", on_error="record")
            found = rows(tmp_path / "packed")
        else:
            reader = package.read(package.files(source, links=links), on_error="record")
            found = {one.name: bytes(one.data) for one in reader}
    except package.ConfigError:
        assert links == "copy", "they cannot be copied there"
    else:
        assert found["file"] == b"a file"
    data = {b"a file", b"inner", b"outside", b""}
    assert set(found.values()) <= data


def test_a_dry_run_counts_links_and_writes_none(shoal: Command, source: Path) -> None:
    done = shoal.run("copy", "--dry-run", source, "out", "--json")
    assert done.returncode == 0, done.stderr
    assert shoal.last_json(done)["written"] == 2 + len(TARGETS)
    assert not os.path.lexists(shoal.directory / "out")


def test_a_link_that_is_gone_when_it_is_read_is_a_failure_and_can_be_retried(shoal: Command, source: Path) -> None:
    log = shoal.directory / "log"
    under = traced(log, "readlinkat:error=ENOENT:when=2")
    done = shoal.under(*under).run("copy", source, "out", "--workers", "1")
    assert injected(log) > 0
    assert done.returncode == 1, done.stderr
    assert set(failures(shoal.directory / "out").values()) == {"vanished"}
    assert shoal.run("copy", source, "out", "--retry-failed").returncode == 0
    assert texts(shoal.directory / "out") == TARGETS


# What is bound to a run.


def test_other_links_continue_a_finished_copy_as_an_update(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    package.copy(package.files(source, links="skip"), out)
    assert texts(out) == {}
    report = package.copy(source, out)
    assert (report.written, texts(out)) == (len(TARGETS), TARGETS)


def test_other_links_are_an_error_where_a_run_would_only_be_continued(shoal: Command, source: Path) -> None:
    for number in range(3_000):
        put(source / f"many/{number}", b"x")
    kill = traced(shoal.directory / "log", "openat2:signal=SIGKILL:when=500")
    killed = shoal.under(*kill).run("copy", source, "out", "--workers", "1")
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    done = shoal.run("copy", "--links", "skip", source, "out")
    assert done.returncode in (2, 3), done.stderr
    assert "links" in done.stderr
    assert "--update" in done.stderr
    done = shoal.run("copy", "--links", "skip", source, "out", "--update")
    assert done.returncode == 0, done.stderr
    assert skipped(shoal.directory / "out") == dict.fromkeys(TARGETS, "link")


@pytest.mark.parametrize("resume", ["once", "failed"])
def test_other_links_are_an_error_for_a_finished_run_that_is_not_updated(
    source: Path, tmp_path: Path, resume: Any
) -> None:
    package.copy(source, tmp_path / "out")
    with pytest.raises(package.JournalError, match="links"):
        package.copy(package.files(source, links="skip"), tmp_path / "out", resume=resume)


# Names that are taken.


class Place:
    """A source and its finished copy, which a test changes before the next copy."""

    def __init__(self, directory: Path) -> None:
        self.source, self.out, self.away = directory / "source", directory / "out", directory / "away"
        put(self.source / "other", b"other")
        put(self.away / "precious", b"precious")

    def set(self, what: str, root: Path | None = None) -> None:
        """Puts something of this kind at `x`, in the place of what is there."""
        path = (root or self.source) / "x"
        if os.path.lexists(path):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        kind, _, text = what.partition(" ")
        if kind == "file":
            put(path, text.encode())
        elif kind == "link":
            path.symlink_to(text)
        elif kind == "empty":
            path.mkdir()
        elif kind == "full":
            put(path / "below", b"below")

    def copy(self, **options: Any) -> package.Report:
        report = package.copy(self.source, self.out, on_error="record", **options)
        assert tree(self.away) == {"precious": b"precious"}, "it has written through a link"
        return report

    def is_copied(self) -> bool:
        wanted, found = describe(self.source), describe(self.out)
        del wanted[ROOT], found[ROOT]
        return differences(wanted, found) == []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


FILE, LINK, TO_AWAY, TO_PRECIOUS = "file text", "link other", "link ../away", "link ../away/precious"
OWN = [
    (LINK, "link another"),
    (LINK, TO_AWAY),
    (TO_AWAY, LINK),
    (TO_PRECIOUS, LINK),
    (FILE, LINK),
    (FILE, TO_PRECIOUS),
    (LINK, FILE),
    (TO_PRECIOUS, FILE),
    (TO_AWAY, FILE),
    ("link nowhere", FILE),
    ("empty", FILE),
    ("empty", LINK),
    ("empty", TO_AWAY),
]


@pytest.mark.parametrize("resume", ["update", "restart", "auto"])
@pytest.mark.parametrize(("before", "after"), OWN)
def test_what_this_run_has_made_becomes_what_the_source_has_become(
    place: Place, before: str, after: str, resume: Any
) -> None:
    place.set(before)
    assert place.copy().ok
    place.set(after)
    report = place.copy(resume=resume)
    kept = 1 if resume == "restart" else 0  # what a restart compares and keeps counts as written
    assert (report.failed, report.written) == (0, 1 + kept), report.failures
    assert place.is_copied()
    assert place.copy().written == 0


@pytest.mark.parametrize("after", [FILE, LINK])
def test_a_directory_that_is_not_empty_stays(place: Place, after: str) -> None:
    place.set("full")
    assert place.copy().ok
    place.set(after)
    for overwrite in ("never", "always"):
        report = place.copy(overwrite=overwrite)
        assert [(one.name, one.kind) for one in report.failures] == [("x", "name-conflict")]
        assert (place.out / "x/below").read_text() == "below"


@pytest.mark.parametrize("before", [FILE, LINK, TO_AWAY])
def test_what_becomes_a_directory_with_files_never_leads_them_elsewhere(place: Place, before: str) -> None:
    place.set(before)
    assert place.copy().ok
    place.set("full")
    report = place.copy()
    if report.ok:
        assert place.is_copied()
    else:
        assert {one.name for one in report.failures} == {"x/below"}
        assert not (place.out / "x").is_dir() or (place.out / "x").is_symlink()


FOREIGN = [
    ("link another", LINK),
    (TO_AWAY, LINK),
    (TO_PRECIOUS, FILE),
    ("link nowhere", FILE),
    (TO_AWAY, FILE),
    ("file mine", LINK),
    ("empty", LINK),
    ("empty", FILE),
]


@pytest.mark.parametrize(("there", "wanted"), FOREIGN)
def test_what_another_program_has_made_stays_and_is_a_failure(place: Place, there: str, wanted: str) -> None:
    place.set(wanted)
    place.out.mkdir()
    place.set(there, place.out)
    before = describe(place.out)[b"x"]
    report = place.copy()
    ((name, kind),) = [(one.name, one.kind) for one in report.failures]
    allowed = {"exists"} if there.startswith("link") and wanted.startswith("link") else {"exists", "name-conflict"}
    assert name == "x"
    assert kind in allowed
    assert describe(place.out)[b"x"] == before
    assert (place.out / "other").read_text() == "other"


@pytest.mark.parametrize(("there", "wanted"), [case for case in FOREIGN if case[0] != "empty"])
def test_with_overwrite_it_is_replaced_and_not_written_through(place: Place, there: str, wanted: str) -> None:
    place.set(wanted)
    place.out.mkdir()
    place.set(there, place.out)
    report = place.copy(overwrite="always")
    is_same_kind = there.startswith("link") and wanted.startswith("link")
    if is_same_kind or report.ok:
        assert report.ok
        assert place.is_copied()
    else:
        assert [(one.name, one.kind) for one in report.failures] == [("x", "name-conflict")]


def test_a_link_of_another_program_with_the_same_text_is_as_good(place: Place) -> None:
    place.set(LINK)
    place.out.mkdir()
    place.set(LINK, place.out)
    inode = (place.out / "x").lstat().st_ino
    report = place.copy()
    assert report.ok
    assert (place.out / "x").lstat().st_ino == inode


def test_a_link_that_the_user_has_set_elsewhere_stays_until_the_source_changes_and_then_too(place: Place) -> None:
    place.set(LINK)
    assert place.copy().ok
    place.set("link mine", place.out)
    for text in (LINK, "link changed"):
        if text != LINK:
            place.set(text)
        place.copy()
        assert str((place.out / "x").readlink()) == "mine"
    assert place.copy(overwrite="always").ok
    assert place.is_copied()


def test_a_link_with_another_time_gets_that(place: Place) -> None:
    place.set(LINK)
    assert place.copy().ok
    stamp(place.source / "x", 1_234_567_890_987_654_321)
    assert place.copy().ok
    assert (place.out / "x").lstat().st_mtime_ns == 1_234_567_890_987_654_321
    assert place.copy().written == 0


def test_files_below_a_link_that_leads_out_of_the_destination_are_failures(place: Place) -> None:
    place.set("full")
    place.out.mkdir()
    place.set(TO_AWAY, place.out)
    for overwrite in ("never", "always"):
        report = place.copy(overwrite=overwrite)
        assert {one.name for one in report.failures} == {"x/below"}
        assert str((place.out / "x").readlink()) == "../away"


def test_many_links_are_replaced_at_once_and_leave_nothing_behind(shoal: Command, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "d").mkdir(parents=True)
    for number in range(2_000):
        (source / f"d/{number}").symlink_to(f"../first/{number}")
    assert shoal.run("copy", source, out).returncode == 0
    for number in range(0, 2_000, 2):
        (source / f"d/{number}").unlink()
        (source / f"d/{number}").symlink_to(f"../second/{number}")
    done = shoal.run("copy", source, out, "--json")
    assert (done.returncode, shoal.last_json(done)["written"]) == (0, 1_000), done.stderr
    assert texts(out) == texts(source)
    assert list((out / ".shoal/tmp").iterdir()) == []
