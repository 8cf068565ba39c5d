"""`include` and `exclude`: the rules of `.gitignore`, patterns that match nothing, and what may be left out unread."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

PARTS = ("a", "b", "ab", "a.b", "b.a", "-", "A b")
ATOMS = ("a", "b", "ab", "*", "?", "*b", "a*", "*.b", "[ab]", "[!a]", "[!a-]?", "a[!b]*", "**", "?.?", r"\a", "-")


def make(root: Path, names: list[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def random_names(rng: random.Random) -> list[str]:
    """Names of files of which none is a directory of another."""
    names: set[str] = set()
    for _ in range(60):
        name = "/".join(rng.choice(PARTS) for _ in range(rng.randint(1, 4)))
        if not any(name == old or old.startswith(f"{name}/") or name.startswith(f"{old}/") for old in names):
            names.add(name)
    return sorted(names)


def random_pattern(rng: random.Random) -> str:
    pattern = "/".join(rng.choice(ATOMS) for _ in range(rng.choice((1, 1, 2, 3))))
    return rng.choice(("", "", "", "/")) + pattern + rng.choice(("", "", "", "/"))


def taken(tree: Path, *, include: list[str] | None = None, exclude: list[str] | None = None) -> set[str]:
    return {one.name for one in package.list_objects(tree, include=include or (), exclude=exclude or ())}


@pytest.mark.parametrize("seed", range(4))
def test_excludes_leave_out_what_git_ignores(tmp_path: Path, seed: int) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git here to compare with")
    rng = random.Random(seed)
    names = random_names(rng)
    tree = make(tmp_path / "tree", names)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", tree], check=True, env=environment)
    for _ in range(60):
        patterns = [random_pattern(rng) for _ in range(rng.choice((1, 1, 2)))]
        (tree / ".git/info/exclude").write_text("".join(f"{pattern}\n" for pattern in patterns))
        asked = subprocess.run(
            ["git", "-C", tree, "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(names),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert asked.returncode in {0, 1}, asked.stderr
        ignored = set(asked.stdout.split("\0"))
        found = taken(tree, exclude=[*patterns, "/.git"])
        assert found == set(names) - ignored, patterns


def test_a_pattern_without_a_slash_matches_in_any_directory(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", ["x.json", "a/x.json", "a/b/x.json", "a/b/x.txt", "b/a/y", "top"])
    assert taken(tree, include=["*.json"]) == {"x.json", "a/x.json", "a/b/x.json"}
    assert taken(tree, include=["/*.json"]) == {"x.json"}
    assert taken(tree, include=["a/*.json"]) == {"a/x.json"}
    assert taken(tree, include=["**/b/*.json"]) == {"a/b/x.json"}
    assert taken(tree, include=["a/"]) == {"a/x.json", "a/b/x.json", "a/b/x.txt", "b/a/y"}
    assert taken(tree, include=["a"]) == set()
    for exclude in ("a", "a/"):
        assert taken(tree, exclude=[exclude]) == {"x.json", "top"}
    assert taken(tree, exclude=["/a"]) == {"x.json", "b/a/y", "top"}


def test_a_pattern_that_matches_nothing_is_named(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", [f"{number % 7}/{number}.json" for number in range(1200)])
    report = package.copy(tree, tmp_path / "out", include=["*.jsn", "*.json"], exclude=["3/", "4.json", "/9.json"])
    assert report.ok
    notes = [note for note in report.notes if "matched" in note]
    assert notes == [
        'the `include` pattern "*.jsn" matched none of 1,200 names',
        'the `exclude` pattern "/9.json" matched none of 1,200 names',
    ]
    none = package.copy(tree, tmp_path / "nothing", include="*.jsn", allow_empty=True)
    assert (none.written, none.skipped) == (0, 1200)
    assert any('"*.jsn" matched none of 1,200 names' in note for note in none.notes)


class StopError(Exception):
    """Stops a run."""


def test_a_resumed_run_says_nothing_of_patterns_since_it_has_not_seen_all_names(tmp_path: Path) -> None:
    names = ["first", *(f"{number // 100:03}/{number:05}" for number in range(30_000))]
    tree = make(tmp_path / "tree", names)

    def stop(progress: package.Progress) -> None:
        if progress.committed > 5000:
            raise StopError

    with pytest.raises(StopError):
        package.copy(tree, tmp_path / "out", durability="none", exclude=["000/"], progress=stop)
    report = package.copy(tree, tmp_path / "out", durability="none", exclude=["000/"])
    assert report.ok
    assert report.total.listed == len(names)
    assert not [note for note in report.notes if "matched" in note], report.notes


def test_an_unreadable_directory_is_a_failure_unless_all_of_it_is_excluded(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can read every directory")
    tree = make(tmp_path / "tree", ["open", "shut/one", "shut/two"])
    (tree / "shut").chmod(0)
    try:
        excludes = ["shut", "shut/", "/shut/", "shut/*", "shut/**", "*u*", "one", "shut/[!x]*"]
        reports = {
            exclude: package.copy(tree, tmp_path / f"out{number}", exclude=exclude, on_error="record")
            for number, exclude in enumerate(excludes)
        }
    finally:
        (tree / "shut").chmod(0o755)
    assert {exclude for exclude, report in reports.items() if report.failed} == {"one", "shut/[!x]*"}
    silent = [report for report in reports.values() if not report.failed]
    assert not any("matched" in note for report in silent for note in report.notes)


def test_a_list_of_addresses_that_is_copied_as_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("https://files.local/a.jpg\nhttps://files.local/b.jpg\n")
    (tmp_path / "prose.txt").write_text("https://files.local/ is where they are\n")
    report = package.copy(tmp_path / "urls.txt", tmp_path / "out")
    assert report.written == 1
    assert any(note.startswith('"urls.txt" contains URLs, ') and "--urls" in note for note in report.notes)
    report = package.copy(tmp_path / "prose.txt", tmp_path / "prose")
    assert not [note for note in report.notes if "URLs" in note]


def test_the_command_takes_patterns_that_match_in_any_directory(shoal: Command) -> None:
    make(shoal.directory / "tree", ["x.json", "a/x.json", "a/tmp/x.json", "a/y"])
    done = shoal.run("copy", "tree", "out", "--include", "*.json", "--exclude", "tmp", "--exclude", "gone", "--json")
    assert done.returncode == 0, done.stderr
    report = shoal.last_json(done)
    assert (report["written"], report["skipped"]) == (2, 2)
    assert any('"gone" matched none of 4 names' in note for note in report["notes"])
