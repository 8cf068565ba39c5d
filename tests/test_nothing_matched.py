"""A job that selects nothing is an error, once: what was meant, and where it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal as package
from conftest import Command

pytestmark = pytest.mark.disk


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with two files and a link."""
    made = tmp_path / "source"
    made.mkdir()
    for name in ("a.txt", "b.txt"):
        (made / name).write_text(name)
    (made / "link").symlink_to("a.txt")
    return made


@pytest.mark.parametrize(
    ("what", "options", "says", "advises"),
    [
        ("*.jpg", [], 'nothing matches "', "**/"),
        (".", ["--include", "*.jpg,*.txt"], "nothing matched: all 3 objects were left out, by --include", "comma"),
        (".", ["--include", "*.txt", "--exclude", "*"], "by --include and --exclude", "--exclude is applied after"),
        ("links", ["--links", "skip"], "nothing matched: the only object was left out, 1 link", "--links follow"),
    ],
)
def test_nothing_selected_is_an_error_with_the_likely_mistake(
    shoal: Command, source: Path, what: str, options: list[str], says: str, advises: str
) -> None:
    (source.parent / "links").mkdir()
    (source.parent / "links/a").symlink_to("../source/a.txt")
    where = source.parent / "links" if what == "links" else source / what
    for arguments in (("copy", "out"), ("copy", "dry", "--dry-run"), ("read", "--checksum", "sha256")):
        done = shoal.run(arguments[0], where, *arguments[1:], *options)
        assert done.returncode == 2, arguments
        assert says in done.stderr
        assert advises in done.stderr
        assert "--allow-empty" in done.stderr
    # Nothing of it is recorded: the command with the mistake corrected begins anew.
    assert "not complete" not in shoal.run("status", "out").stdout
    assert shoal.run("copy", where, "out", *options, "--allow-empty").returncode == 0


def test_the_corrected_command_needs_no_other_flag(shoal: Command, source: Path) -> None:
    for wrong in ("*.jpg", "*.png"):
        assert shoal.run("copy", source, "out", "--include", wrong).returncode == 2
    done = shoal.run("copy", source, "out", "--include", "*.txt")
    assert (done.returncode, done.stderr.count("note:")) == (0, 0), done.stderr
    assert sorted(path.name for path in (shoal.directory / "out").glob("*.txt")) == ["a.txt", "b.txt"]


def test_nothing_to_select_from_is_none(tmp_path: Path, shoal: Command) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "nested/empty").mkdir(parents=True)
    for where in ("empty", "nested"):
        report = package.copy(tmp_path / where, tmp_path / f"{where}-out")
        assert (report.ok, report.written) == (True, 0)
    (tmp_path / "served").mkdir()
    with package.serve(tmp_path / "served") as service:
        assert package.copy(service.url, tmp_path / "from-service").ok
    assert package.copy([], tmp_path / "of-list").ok
    assert package.save({}, tmp_path / "saved").ok


def test_a_service_whose_objects_are_all_left_out_is_an_error(tmp_path: Path) -> None:
    with package.serve(synthetic="300:10") as service:
        with pytest.raises(package.NothingMatchedError, match="all 300 objects were left out"):
            package.copy(service.url, tmp_path / "out", include="*.jpg")
        reader = package.read(service.url, include="*.jpg")
        with pytest.raises(package.NothingMatchedError):
            list(reader)
        assert list(package.read(service.url, include="*.jpg", allow_empty=True)) == []


def test_a_job_that_has_matched_once_may_find_nothing_later(shoal: Command, source: Path) -> None:
    glob = str(source / "*.txt")
    assert shoal.run("copy", glob, "out").returncode == 0
    source.rename(source.parent / "away")
    source.mkdir()
    done = shoal.run("copy", glob, "out")
    assert (done.returncode, "may not be mounted" in done.stderr) == (3, True), done.stderr
    (source / "c.old").write_text("an old log")
    for _ in range(2):
        done = shoal.run("copy", glob, "out")
        assert done.returncode == 0, done.stderr
        assert "nothing matches" in done.stderr


def test_parts_are_judged_together(shoal: Command, source: Path) -> None:
    for name in map(str, range(20)):
        (source / name).write_text(name)
    codes = [
        shoal.run("copy", source, "one", "--include", "a.txt", "--part", f"{part}/4").returncode for part in range(4)
    ]
    assert codes == [0, 0, 0, 0]
    codes = [
        shoal.run("copy", source, "none", "--include", "*.x", "--part", f"{part}/4").returncode for part in range(4)
    ]
    assert codes == [0, 0, 0, 2]
    assert shoal.run("copy", source, "none", "--include", "*.x", "--part", "1/4").returncode == 2


def test_sessions_are_judged_together(source: Path, tmp_path: Path) -> None:
    """A session that retries one failure, or finds nothing left to do, has matched nothing itself."""
    (source / "link").unlink()
    secret, out = source / "a.txt", tmp_path / "out"
    (out / "a.txt").mkdir(parents=True)  # in the way
    first = package.copy(source, out, exclude="b.txt", on_error="record", resume="once")
    assert first.failed == 1
    (out / "a.txt").rmdir()
    again = package.copy(source, out, exclude="b.txt", resume="failed")
    assert (again.ok, again.written) == (True, 1)
    assert (out / "a.txt").read_text() == secret.read_text()
    assert package.copy(source, out, exclude="b.txt", resume="once").ok
