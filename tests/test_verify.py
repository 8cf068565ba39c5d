"""`shoal verify`: every file is what the list says, or the command says which is not; a bad list is never a success."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Command

NAMES = [b"a.txt", b"d/b.txt", b"latin\xe9", b"new\nline", b"back\\slash", b"return\r", b" two ", "é".encode()]


@pytest.fixture
def tree(shoal: Command) -> Path:
    tree = shoal.directory / "tree"
    (tree / "d").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        Path(os.fsdecode(bytes(tree) + b"/" + name)).write_bytes(b"%d" % number * 1000)
    return tree


def listed(shoal: Command, kind: str = "sha256") -> Path:
    """The list that `shoal read` makes of the tree."""
    path = shoal.directory / "LIST"
    with path.open("wb") as stream:
        assert shoal.start("read", "tree", "--checksum", kind, "--quiet", stdout=stream).wait(timeout=60) == 0
    return path


def states(shoal: Command, *more: str) -> tuple[int, dict[str, str], dict[str, object]]:
    """The exit code, the states by name, and the report."""
    done = shoal.run("verify", "tree", "LIST", "--json", *more)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    report = lines.pop()
    assert report["type"] == "report", done
    assert {line["type"] for line in lines} <= {"file"}
    return done.returncode, {line["name"]: line["state"] for line in lines}, report


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("kind", ["sha256", "xxh3", "crc32"])
def test_what_was_read_is_verified(shoal: Command, kind: str) -> None:
    listed(shoal, kind)
    code, found, report = states(shoal)
    assert (code, found) == (0, {})
    assert (report["ok"], report["good"], report["listed"], report["checksum"]) == (True, 8, 8, kind)
    plain = shoal.run("verify", "tree", "LIST")
    assert (plain.returncode, plain.stdout) == (0, "")
    assert plain.stderr.startswith("verified 8 files, 8 kB, in ")
    assert len(plain.stderr.splitlines()) == 1


def test_a_list_of_sha256sum_is_read(shoal: Command, tree: Path) -> None:
    for form in (["sha256sum", "--"], ["sha256sum", "--binary", "--"]):
        names = [b"./" + name if name.startswith(b" ") else name for name in NAMES]
        made = subprocess.run([*form, *names], cwd=tree, capture_output=True, check=True)
        (shoal.directory / "LIST").write_bytes(b"# a comment\n" + made.stdout)
        assert states(shoal)[:2] == (0, {})


def test_every_file_that_is_not_as_listed_is_named(shoal: Command, tree: Path) -> None:
    listed(shoal)
    (tree / "a.txt").write_text("other")
    (tree / "d/b.txt").unlink()
    (tree / "d/b.txt").symlink_to("../a.txt")
    Path(os.fsdecode(bytes(tree) + b"/latin\xe9")).unlink()
    (tree / "new").write_text("new")

    code, found, report = states(shoal)

    latin = os.fsdecode(b"latin\xe9")
    assert code == 1
    assert found == {"a.txt": "different", "d/b.txt": "different", latin: "missing", "new": "extra"}
    counts = {state: report[state] for state in ("ok", "good", "different", "missing", "unreadable", "extra")}
    assert counts == {"ok": False, "good": 5, "different": 2, "missing": 1, "unreadable": 0, "extra": 1}
    done = shoal.run("verify", "tree", "LIST")
    assert sorted(done.stdout.splitlines()) == [
        'different: "a.txt"',
        'different: "d/b.txt"',
        'extra: "new"',
        'missing: "latin\\xe9"',
    ]
    assert "of 8 files in the manifest: 2 different, 1 missing\nnote: 1 file not in the manifest\n" in done.stderr


def test_an_extra_file_is_a_failure_on_request_only(shoal: Command, tree: Path) -> None:
    listed(shoal)
    (tree / "new").write_text("new")
    assert states(shoal)[:2] == (0, {"new": "extra"})
    assert states(shoal, "--strict")[0] == 1


def test_a_list_in_the_directory_itself_is_not_extra(shoal: Command, tree: Path) -> None:
    listed(shoal).rename(tree / "LIST")
    done = shoal.run("verify", "tree", "tree/LIST", "--strict")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the command is run as another user")
def test_a_file_that_cannot_be_read_is_a_failure_with_its_reason(shoal: Command, tree: Path) -> None:
    listed(shoal)
    (tree / "a.txt").chmod(0)
    other = shoal.under("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
    done = other.run("verify", "tree", "LIST")
    if "unreadable" not in done.stdout:
        pytest.skip("this root may read everything")
    assert done.returncode == 1
    assert 'unreadable: "a.txt": ' in done.stdout


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: b"", "it is empty"),
        (lambda text: b"# only a comment\n", "it is empty"),
        (lambda text: text[:-1], "the manifest is truncated"),
        (lambda text: text[: len(text) // 2].rstrip(b"\n") + b"x", "the manifest is truncated"),
        (lambda text: text + b"no checksum\n", "line 9 of"),
        (lambda text: text + b"\n", "line 9 of"),
        (lambda text: b"\0" * 100 + b"\n" + text, "line 1 of"),
        (lambda text: text + b"0" * 32 + b"  md5\n", "has MD5"),
        (lambda text: text + b"0" * 16 + b"  xxh3\n", "is not a checksum of sha256"),
        (lambda text: text + b"\\" + b"0" * 64 + b"  a\\tb\n", "has an escape"),
        (lambda text: text + b"0" * 64 + b"  a.txt\n", "the name of an earlier line, with another checksum"),
    ],
)
def test_a_list_that_cannot_be_believed_is_an_error(shoal: Command, change: object, why: str) -> None:
    path = listed(shoal)
    assert callable(change)
    path.write_bytes(change(path.read_bytes()))
    done = shoal.run("verify", "tree", "LIST", "--json")
    assert done.returncode == 3, done
    assert why in done.stderr
    assert shoal.last_json(done)["type"] == "error"


@pytest.mark.usefixtures("tree")
def test_what_is_not_there_is_an_error_of_the_command_line(shoal: Command) -> None:
    listed(shoal)
    for arguments in (("nowhere", "LIST"), ("tree", "nowhere"), ("tree", "tree"), ("LIST", "LIST")):
        done = shoal.run("verify", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")


def test_an_empty_directory_has_nothing_of_what_is_listed(shoal: Command, tree: Path) -> None:
    listed(shoal)
    tree.rename(shoal.directory / "away")
    tree.mkdir()
    code, found, _ = states(shoal)
    assert code == 1
    assert list(found.values()) == ["missing"] * 8


@pytest.mark.usefixtures("tree")
def test_a_name_that_leads_out_of_the_directory_is_not_looked_for(shoal: Command) -> None:
    (shoal.directory / "outside").write_text("x")
    (shoal.directory / "LIST").write_bytes(b"0" * 64 + b"  ../outside\n" + b"0" * 64 + b"  /etc/passwd\n")
    code, found, _ = states(shoal)
    assert code == 1
    assert {name: state for name, state in found.items() if state != "extra"} == {
        "../outside": "missing",
        "/etc/passwd": "missing",
    }
