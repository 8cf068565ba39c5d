"""Permissions are never wider than the source's, and empty directories arrive."""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from destination import balanced
from trees import tree_of_raw_names

if TYPE_CHECKING:
    from conftest import Command

SMALL, LARGE = 100, 200_000  # bytes: handed over at once, and in pieces
FILES = {"id_rsa": 0o600, "script": 0o755, "set-id": 0o6755, "read-only": 0o400, "open": 0o666}
DIRECTORIES = {"private": 0o700, "sticky": 0o1777, "group": 0o2770, "read-only.d": 0o555, "plain": 0o755}
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (scripts/install_test_tools.sh)")


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def as_any_user() -> None:
    """Gives up root's right to pass over permissions, in a process that is about to start a program."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP; refused where there is none to drop


def run(shoal: Command, *arguments: str | Path, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a command line without root's rights over files."""
    command = [*before, *shoal.argv, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=shoal.directory,
        env=shoal.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=as_any_user,
    )


def strace(*options: str, log: str | Path = "/dev/null") -> tuple[str, ...]:
    return ("strace", "-f", "-qq", "-o", str(log), *options)


def make(root: Path, modes: Mapping[str, int], size: int = SMALL) -> Path:
    """A tree of these files and, where a name ends in a slash, directories; the deepest get their permissions first."""
    for name in modes:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode() * (size // len(name)))
    for name in sorted(modes, key=lambda name: -name.count("/")):
        (root / name).chmod(modes[name])
    return root


def modes(root: Path) -> dict[str, int]:
    """The permissions of everything below a directory but shoal's own, set-id and sticky bits too."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root)
        if name.parts[0] != ".shoal":
            found[f"{name}/" if path.is_dir() else str(name)] = stat.S_IMODE(path.stat().st_mode)
    return found


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("mask", [0o022, 0o077, 0])
def test_a_copied_file_has_the_permissions_of_its_source_within_the_umask(tmp_path: Path, size: int, mask: int) -> None:
    tree = make(tmp_path / "tree", FILES, size)
    with umask(mask):
        report = package.copy(tree, tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (len(FILES), 0)
    assert modes(tmp_path / "out") == {name: mode & 0o777 & ~mask for name, mode in FILES.items()}


@pytest.mark.parametrize("mask", [0o022, 0o077, 0])
def test_a_copied_directory_has_the_permissions_of_its_source_within_the_umask(tmp_path: Path, mask: int) -> None:
    directories = {f"{name}/": mode for name, mode in DIRECTORIES.items()}
    tree = make(tmp_path / "tree", {f"{name}file": 0o644 for name in directories} | directories)
    with umask(mask):
        report = package.copy(tree, tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (len(DIRECTORIES), 0)
    found = modes(tmp_path / "out")
    assert {name: found[name] for name in directories} == {
        name: mode & 0o777 & ~mask for name, mode in directories.items()
    }


def test_private_directories_are_private_where_only_a_file_far_below_brings_them(tmp_path: Path) -> None:
    wanted = {"a/": 0o700, "a/b/": 0o711, "a/b/c/": 0o750, "a/b/c/deep": 0o644}
    tree = make(tmp_path / "tree", wanted | {"a/left-out": 0o644})
    with umask(0o022):
        report = package.copy(tree, tmp_path / "out", include="deep")
    assert (report.written, report.skipped) == (1, 1)
    assert modes(tmp_path / "out") == wanted


def test_a_directory_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", {"a/file": 0o644, "a/": 0o755})
    make(tmp_path / "out", {"a/": 0o700})
    package.copy(tree, tmp_path / "out")
    assert modes(tmp_path / "out") == {"a/": 0o700, "a/file": 0o644}


def test_a_destination_that_is_made_for_a_private_tree_is_private(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", {"config": 0o644})
    tree.chmod(0o700)
    (tmp_path / "there").mkdir(mode=0o755)
    for name, wanted in (("new/and/private", 0o700), ("there", 0o755)):
        package.copy(tree, tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == wanted
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755


def test_globs_and_links_that_are_followed_bring_the_permissions_of_the_directories_they_lead_to(
    tmp_path: Path,
) -> None:
    make(tmp_path, {"tree/private/x/file": 0o640, "tree/private/x/": 0o750, "tree/private/": 0o700})
    make(tmp_path, {"away/closed/file": 0o600, "away/closed/": 0o700})
    wanted = {"private/": 0o700, "private/x/": 0o750, "private/x/file": 0o640}
    package.copy(f"{tmp_path}/tree/p*/**", tmp_path / "glob")
    assert modes(tmp_path / "glob") == wanted
    (tmp_path / "tree/link").symlink_to("../away/closed")
    package.copy(package.files(tmp_path / "tree", links="follow"), tmp_path / "followed")
    assert modes(tmp_path / "followed") == wanted | {"link/": 0o700, "link/file": 0o600}


def test_a_list_of_paths_brings_the_permissions_of_their_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = {"private/x/file": 0o640, "private/x/": 0o750, "private/": 0o700}
    make(tmp_path / "here", private)
    make(tmp_path / "there", private | {"other": 0o600})
    wanted = {name.rstrip("/"): mode for name, mode in private.items()}
    monkeypatch.chdir(tmp_path / "here")
    lists: dict[str, tuple[list[str | Path], str]] = {
        "near": (["./private//x/file"], ""),
        "far": ([tmp_path / "there/private/x/file", tmp_path / "there/other"], ""),
        "up": (["../there/private/x/file", "../here/private/x/file"], "there/"),
        "link": (["../link/x/../x/file", "../there/other"], "link/"),
    }
    (tmp_path / "link").symlink_to("there/private")
    for name, (paths, prefix) in lists.items():
        report = package.copy(paths, tmp_path / "out" / name, on_error="record")
        assert report.failed == 0, report.failures
        found = {path.rstrip("/"): mode for path, mode in modes(tmp_path / "out" / name).items()}
        if name == "link":
            assert (found["link"], found["link/x"]) == (0o700, 0o750)
        else:
            assert {path: found[prefix + path] for path in wanted} == wanted, name


def test_what_is_tried_again_lies_in_directories_with_the_permissions_of_the_source(
    shoal: Command, tmp_path: Path
) -> None:
    tree = make(tmp_path / "tree", {"a/b/unreadable": 0o000, "a/b/": 0o750, "a/": 0o700})
    first = run(shoal, "copy", tree, "out")
    assert first.returncode == 1, first.stderr
    (tree / "a/b/unreadable").chmod(0o600)
    again = run(shoal, "copy", tree, "out", "--retry-failed")
    assert again.returncode == 0, again.stderr
    assert modes(tmp_path / "out") == {"a/": 0o700, "a/b/": 0o750, "a/b/unreadable": 0o600}


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_file_that_its_owner_may_not_write_is_replaced(shoal: Command, tmp_path: Path, size: int) -> None:
    make(tmp_path / "tree", {"file": 0o400}, size)
    make(tmp_path / "out", {"file": 0o400}, size + 50)
    done = run(shoal, "copy", "tree", "out", "--overwrite", "always")
    assert done.returncode == 0, done.stderr
    assert tree_of_raw_names(tmp_path / "out") == tree_of_raw_names(tmp_path / "tree")
    assert modes(tmp_path / "out") == {"file": 0o400}


@needs_strace
def test_a_killed_run_of_files_that_may_not_be_written_resumes(shoal: Command, tmp_path: Path) -> None:
    names = {f"a/{number}": 0o400 for number in range(150)}
    make(tmp_path / "tree", names)
    make(tmp_path / "tree", {"large": 0o400, "a/": 0o500}, LARGE)
    kill = strace("-e", "trace=write", "-e", "inject=write:signal=SIGKILL:when=100")
    arguments = ("copy", "tree", "out", "--workers", "1")
    killed = run(shoal, *arguments, before=kill)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    assert modes(tmp_path / "out")["a/"] == 0o700, "open to its owner until the run is complete"
    again = run(shoal, *arguments)
    assert again.returncode == 0, again.stderr
    found = {path.name: path for path in (tmp_path / "out").rglob("*") if path.is_file() and ".shoal" not in path.parts}
    assert len(found) == 151
    for path in found.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
        source = tmp_path / "tree" / ("large" if path.name == "large" else f"a/{path.name}")
        assert path.read_bytes() == source.read_bytes()
    assert modes(tmp_path / "out")["a/"] == 0o500


@needs_strace
@pytest.mark.parametrize("kind", ["tree", "zip", "tar"])
def test_nothing_private_is_open_for_a_moment(shoal: Command, tmp_path: Path, kind: str) -> None:
    wanted = {"a/": 0o700, "a/b/": 0o700, "a/b/large": 0o600, "a/small": 0o600, "empty/": 0o700, "taken": 0o600}
    tree = make(tmp_path / "tree", wanted, LARGE)
    (tree / "a/small").write_bytes(b"small")
    tree.chmod(0o700)
    entries = {name: (mode, b"" if name.endswith("/") else (tree / name).read_bytes()) for name, mode in wanted.items()}
    sources = {"tree": lambda *_: "tree", "zip": make_zip, "tar": make_tar}
    make(tmp_path / "out", {"taken": 0o600})
    (tmp_path / "out").chmod(0o700)
    log = tmp_path / "log"
    calls = "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,/chmod"
    with umask(0):
        arguments = (sources[kind](tmp_path, entries), "out", "--overwrite", "always")
        done = run(shoal, "copy", *arguments, before=strace("-e", calls, log=log))
    assert done.returncode == 0, done.stderr
    assert modes(tmp_path / "out") == wanted
    made = [line for line in log.read_text().splitlines() if re.search("O_CREAT|O_TMPFILE|mkdir|chmod", line)]
    made = [line for line in made if " = -1 E" not in line and "resumed>" not in line]
    tmp = next(at for at, line in enumerate(made, 1) if '"tmp", 0700' in line)
    # There, before all objects, a file that holds nothing of the user's tells the clock and the umask.
    made[tmp:] = itertools.dropwhile(lambda line: '"clock"' in line and "mode=0777" in line, made[tmp:])
    bits = {line: int(found[-1], 8) for line in made if (found := re.findall(r"(?:mode=|, )(0[0-7]{2,3})\b", line))}
    assert len(bits) == len(set(made)) >= 7, made
    assert {line for line, mode in bits.items() if mode & 0o077} == set()


@needs_strace
def test_a_file_system_without_permissions_takes_the_files_all_the_same(shoal: Command, tmp_path: Path) -> None:
    make(tmp_path / "tree", {"a/large": 0o640, "a/": 0o750}, LARGE)
    refuse = strace("-e", "trace=/chmod", "-e", "inject=/chmod:error=EPERM")
    done = run(shoal, "copy", "tree", "out", before=refuse)
    assert done.returncode == 0, done.stderr
    assert tree_of_raw_names(tmp_path / "out") == tree_of_raw_names(tmp_path / "tree")


def make_zip(directory: Path, entries: Mapping[str, tuple[int, bytes]]) -> str:
    """A zip archive of Unix."""
    with zipfile.ZipFile(directory / "one.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (mode, data) in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            kind = stat.S_IFDIR if name.endswith("/") else stat.S_IFREG
            entry.external_attr = (kind | mode) << 16
            archive.writestr(entry, data)
    return f"zip:{directory}/one.zip"


def make_tar(directory: Path, entries: Mapping[str, tuple[int, bytes]], packed: str = "") -> str:
    with tarfile.open(directory / "one.tar", f"w:{packed}") as archive:  # type: ignore[call-overload]
        for name, (mode, data) in entries.items():
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mode, member.size = mode, len(data)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(member, io.BytesIO(data))
    return f"tar:{directory}/one.tar"


def make_tar_gz(directory: Path, entries: Mapping[str, tuple[int, bytes]]) -> str:
    return make_tar(directory, entries, "gz")


ARCHIVES = pytest.mark.parametrize("archive", [make_zip, make_tar, make_tar_gz])


@ARCHIVES
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_entries_of_archives_have_their_permissions_within_the_umask(tmp_path: Path, archive: Any, mask: int) -> None:
    entries = {f"{name}-{size}": (mode, b"x" * size) for name, mode in FILES.items() for size in (SMALL, LARGE)}
    entries |= {"none": (0, b"none"), "no-entry/file": (0o644, b"x")}
    # Directories behind what lies in them, one in front of it, one with nothing in it.
    entries |= {f"{name}/file": (0o644, b"x") for name in DIRECTORIES}
    entries |= {f"{name}/": (mode, b"") for name, mode in DIRECTORIES.items()}
    entries |= {"a/": (0o700, b""), "a/b/c/deep": (0o644, b"x"), "a/b/c/": (0o710, b""), "zero/": (0, b"")}
    entries |= {"empty/": (0o700, b"")}
    source = archive(tmp_path, entries)
    with umask(mask):
        report = package.copy(source, tmp_path / "out", on_error="record")
    assert report.failed == 0, report.failures
    wanted = {name: (mode & 0o777 or 0o666) & ~mask for name, (mode, _) in entries.items()}
    for name in (name for name in wanted if name.endswith("/")):
        mode = entries[name][0]
        wanted[name] = (mode & 0o777 | 0o700 if mode else 0o777) & ~mask
    wanted |= {"no-entry/": 0o777 & ~mask, "a/b/": 0o777 & ~mask}
    assert modes(tmp_path / "out") == wanted


@ARCHIVES
def test_directories_of_archives_are_private_below_subdirectories_and_whatever_a_filter_leaves_out(
    tmp_path: Path, archive: Any
) -> None:
    entries = {"a/": (0o700, b""), "a/b/file": (0o600, b"x"), "a/b/": (0o711, b""), "other": (0o644, b"x")}
    pattern = archive(tmp_path, entries)[len("zip:") :]
    with umask(0o022):
        package.unzip(pattern, tmp_path / "out", into_subdirectories=True, include="file")
    wanted = {"one/": 0o755, "one/a/": 0o700, "one/a/b/": 0o711, "one/a/b/file": 0o600}
    assert modes(tmp_path / "out") == wanted


def test_a_directory_that_an_archive_holds_twice_has_what_both_entries_permit(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "one.tar", "w") as archive:
        for mode in (0o750, 0o705):
            member = tarfile.TarInfo("a")
            member.type, member.mode = tarfile.DIRTYPE, mode
            archive.addfile(member)
        archive.addfile(tarfile.TarInfo("a/file"))
    package.unzip(tmp_path / "one.tar", tmp_path / "out")
    assert modes(tmp_path / "out")["a/"] == 0o700


def test_empty_directories_arrive_and_count_as_skipped(tmp_path: Path) -> None:
    empty = {"empty/": 0o755, "private/": 0o700, "a/b/c/": 0o750, "a/out.d/": 0o755}
    tree = make(tmp_path / "tree", empty | {"full/file": 0o644, "full/": 0o755, "a/": 0o755, "a/b/": 0o711})
    report = package.copy(tree, tmp_path / "out", exclude=["**/*.d"], on_error="record")
    assert (report.listed, report.written, report.skipped, report.failed) == (5, 1, 4, 0)
    assert balanced(report)
    assert report.complete
    del empty["a/out.d/"]
    filled = {"full/": 0o755, "full/file": 0o644, "a/": 0o755, "a/b/": 0o711}
    assert modes(tmp_path / "out") == empty | filled


def test_a_tree_of_nothing_but_directories_arrives(tmp_path: Path) -> None:
    names = {f"{number % 7}/{number}/": 0o755 for number in range(350)}
    tree = make(tmp_path / "tree", names)
    report = package.copy(tree, tmp_path / "out")
    assert (report.written, report.skipped, report.complete) == (0, 350, True)
    assert modes(tmp_path / "out").keys() == modes(tree).keys()
    (tmp_path / "none").mkdir()
    report = package.copy(tmp_path / "none", tmp_path / "of-none")
    assert (report.listed, report.complete) == (0, True)


def test_an_empty_directory_is_no_object(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", {"empty/": 0o755, "file": 0o644, "z/": 0o755})
    for reader in (package.read(tree), package.read(tree, order="source")):
        assert [obj.name for obj in reader] == ["file"]
        assert reader.report is not None
        assert (reader.report.written, reader.report.skipped) == (1, 2)


def test_a_glob_brings_an_empty_directory_only_where_it_goes_into_it_and_matches(tmp_path: Path) -> None:
    make(tmp_path / "tree", {"empty/": 0o755, "a/empty/": 0o755, "a/file": 0o644})
    for glob, wanted in {
        "**": {"empty/", "a/", "a/empty/", "a/file"},
        "a/**": {"empty/", "file"},
        "**/file": {"a/", "a/file"},
        "*": set(),
        "*/*": {"a/", "a/file"},
    }.items():
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        package.copy(f"{tmp_path}/tree/{glob}", out, allow_empty=True)
        assert modes(out).keys() == wanted, glob


def test_an_empty_directory_whose_place_is_taken_is_a_failure_that_can_be_tried_again(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree", {"empty/": 0o700, "file": 0o644})
    out = make(tmp_path / "out", {"empty": 0o644})
    report = package.copy(tree, out, on_error="record")
    assert [(failure.name, failure.kind) for failure in report.failures] == [("empty", "name-conflict")]
    (out / "empty").unlink()
    report = package.copy(tree, out, resume="failed", on_error="record")
    assert (report.total.failed, report.total.skipped) == (0, 1)
    assert modes(out) == {"empty/": 0o700, "file": 0o644}


@needs_strace
def test_a_killed_run_of_empty_directories_resumes(shoal: Command, tmp_path: Path) -> None:
    names = {f"{number % 7}/{number}/": 0o700 for number in range(350)}
    tree = make(tmp_path / "tree", names)
    kill = strace("-e", "trace=mkdirat", "-e", "inject=mkdirat:signal=SIGKILL:when=150")
    killed = run(shoal, "copy", tree, "out", "--workers", "1", before=kill)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    again = run(shoal, "copy", tree, "out", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["total"]["skipped"] == 350
    assert modes(tmp_path / "out") == modes(tree)


def test_objects_of_a_service_and_of_a_program_follow_the_umask(tmp_path: Path) -> None:
    make(tmp_path / "served", {"private/file": 0o600, "private/": 0o700})
    with package.serve(tmp_path / "served") as server, umask(0o027):
        package.copy(server.url, tmp_path / "copied")
        package.save([("private/file", b"x")], tmp_path / "saved")
    for out in ("copied", "saved"):
        assert modes(tmp_path / out) == {"private/": 0o750, "private/file": 0o640}
