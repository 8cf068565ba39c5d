"""What could be passed over without a word is not: it is written, or it is a failure."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from shoal._options import Resume

pytestmark = pytest.mark.disk


class StopError(Exception):
    """A run was stopped on purpose."""


# Bytes/s at which the 5,002 files take 12 s: a busy disk holds a commit for seconds, and the run must be stopped then.
SLOW = 5_000


def stop_behind(committed: float) -> Callable[[package.Progress], None]:
    """A progress function that stops a run as soon as more objects than this are committed."""

    def stop(progress: package.Progress) -> None:
        if progress.committed > committed:
            raise StopError

    return stop


def test_an_archive_that_cannot_be_read_is_a_failure_whatever_is_included(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}.csv", "1,2")
    bad = tmp_path / "bad.zip"
    bad.write_bytes(bad.read_bytes()[:-30])
    report = package.unzip(tmp_path / "*.zip", tmp_path / "out", include="**/*.csv", exclude="*.zip", on_error="record")
    assert (report.written, report.failed, report.ok) == (1, 1, False)
    assert report.failures[0].name == "bad.zip"


def test_an_archive_that_is_refused_when_it_is_resumed_is_a_failure(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for number in range(40_000):
            archive.writestr(f"{number // 1000}/{number}", "x")

    with pytest.raises(StopError):
        package.unzip(tmp_path / "one.zip", tmp_path / "out", durability="none", progress=stop_behind(20_000))
    assert package.status(tmp_path / "out").runs[0].total.written >= 10_000, "the place to go on lies in the archive"
    limited: dict[str, Any] = {"max_entries": 1000, "on_error": "record"}
    report = package.unzip(tmp_path / "one.zip", tmp_path / "out", durability="none", **limited)
    assert (report.failed, report.ok) == (1, False), report
    assert package.unzip(tmp_path / "one.zip", tmp_path / "out", durability="none", resume="restart").written == 40_000


def test_a_link_that_has_become_a_file_is_copied_when_it_is_listed_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("a")
    (source / "link").symlink_to("a")
    files = package.files(source, links="skip")
    assert package.copy(files, tmp_path / "out").written == 1
    (source / "link").unlink()
    (source / "link").write_text("a file now")
    assert package.copy(files, tmp_path / "out", resume="relist").written == 2
    assert (tmp_path / "out/link").read_text() == "a file now"


def test_what_other_options_had_left_out_is_copied_with_new_ones(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.jpg", "b.jpg", "c.png"):
        (source / name).write_text(name)
    assert package.copy(source, tmp_path / "out", include="*.jpg").written == 2
    assert package.copy(source, tmp_path / "out", resume="restart").written == 3
    assert (tmp_path / "out/c.png").read_text() == "c.png"


@pytest.mark.parametrize("files", [3_000, 12_000])
def test_a_source_that_is_empty_for_a_moment_completes_no_run(tmp_path: Path, files: int) -> None:
    source = tmp_path / "source"
    for number in range(files):
        (source / str(number // 1000)).mkdir(parents=True, exist_ok=True)
        (source / str(number // 1000) / str(number)).write_bytes(b"x" * 100)

    with pytest.raises(StopError):
        # At this rate it takes five seconds: on a busy machine, progress may be told a second late.
        package.copy(
            source, tmp_path / "out", durability="none", progress=stop_behind(files / 5), limit_rate=files * 20
        )
    source.rename(tmp_path / "away")
    source.mkdir()  # as a mount point without its disk
    with pytest.raises(package.JournalError, match="it may not be mounted"):
        package.copy(source, tmp_path / "out", durability="none")
    source.rmdir()
    (tmp_path / "away").rename(source)
    report = package.copy(source, tmp_path / "out", durability="none")
    assert (report.total.written, report.ok) == (files, True), report


def test_a_run_without_barriers_is_not_taken_for_a_durable_one_without_a_word(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("a")
    package.copy(source, tmp_path / "out", durability="none")
    notes = package.copy(source, tmp_path / "out", durability="file", resume="once").notes
    assert any("committed objects were not synced" in note for note in notes), notes
    assert not package.copy(source, tmp_path / "out", durability="none", resume="once").notes


def made(one: str) -> bytes:
    """What `generate` is given to call."""
    return f"object {one}".encode()


def test_two_ids_with_one_name_are_a_failure_also_when_they_are_made_again(tmp_path: Path) -> None:
    resumes: list[Resume] = ["auto", "restart"]
    for resume in resumes:
        report = package.generate(
            made,
            ["aaaa1", "bbbb1", "aaaa2"],
            tmp_path / "out",
            name="{:.4}.txt",
            workers=1,
            resume=resume,
            on_error="record",
        )
        assert (report.written, report.failed, report.ok) == (2, 1, False), resume
    assert (tmp_path / "out/aaaa.txt").read_bytes() in {b"object aaaa1", b"object aaaa2"}


def two_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    """Paths of 5,002 files, the first and the last of which are called x at a destination."""
    for directory in ("far", "near/between"):
        (tmp_path / directory).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "near")
    paths: list[str | Path] = ["x", *(f"between/{number}" for number in range(5_000)), tmp_path / "far/x"]
    for path in paths:
        Path(path).write_text(str(path))
    return paths


def test_of_two_paths_with_one_name_the_second_is_a_failure_also_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = two_of_one_name(tmp_path, monkeypatch)

    with pytest.raises(StopError):
        package.copy(paths, tmp_path / "out", progress=stop_behind(1_000), limit_rate=SLOW, on_error="record")
    report = package.copy(paths, tmp_path / "out", on_error="record")
    assert (report.total.written, report.total.failed, report.ok) == (5_001, 1, False), report
    assert [(failure.kind, failure.name) for failure in report.failures] == [("name-conflict", "x")]
    assert (tmp_path / "out/x").read_text() == "x"


def test_a_journal_elsewhere_of_one_destination_completes_no_other(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("a")
    journal = tmp_path / "journal.db"
    package.copy(source, tmp_path / "one", journal=journal)
    assert package.copy(source, tmp_path / "two", journal=journal).written == 1
    assert (tmp_path / "two/a").read_text() == "a"
    assert package.copy(source, tmp_path / "one", journal=journal, resume="once").completed_before, (
        "each is a run of its own"
    )


def test_a_young_file_that_is_the_beginning_of_another_is_not_replaced_by_it_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = two_of_one_name(tmp_path, monkeypatch)
    young = time.time_ns() + 712_345_678  # a time within the first session
    for path, text in ((paths[0], "begins"), (paths[-1], "begins, and goes on")):
        Path(path).write_text(text)
        os.utime(path, ns=(young, young))

    with pytest.raises(StopError):
        package.copy(paths, tmp_path / "out", progress=stop_behind(1_000), limit_rate=SLOW, on_error="record")
    report = package.copy(paths, tmp_path / "out", on_error="record")
    assert (report.total.written, report.total.failed, report.ok) == (5_001, 1, False), report
    assert (tmp_path / "out/x").read_text() == "begins"


def test_listing_again_that_was_stopped_leaves_no_run_complete(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(250):
        (source / f"m{number}").write_text("x")
    assert package.copy(source, tmp_path / "out").complete
    for number in range(3_000):
        (source / f"n{number}").write_text("x")
    with pytest.raises(StopError):
        package.copy(source, tmp_path / "out", resume="relist", progress=stop_behind(-1), limit_rate=1_000)
    assert package.status(tmp_path / "out").runs[0].completed is None
    assert package.copy(source, tmp_path / "out").total.written == 3_250
