"""`shoal read`: what is there, how fast it comes, and manifests that other tools check."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Command, Service


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, bytes]:
    objects = {f"d{number % 3}/f{number}": os.urandom(number * 700) for number in range(200)}
    for name, data in objects.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(data)
    return objects


def test_it_says_how_much_there_is_and_how_fast_it_came(shoal: Command, tree: dict[str, bytes]) -> None:
    done = shoal.run("read", "tree")
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("read 200 objects, 13.9 MB, in ")
    report = shoal.last_json(shoal.run("read", "tree", "--json"))
    assert (report["written"], report["bytes"]) == (200, sum(map(len, tree.values())))
    assert sorted(os.listdir(shoal.directory)) == ["tree"], "nothing is written"  # noqa: PTH208


@pytest.mark.parametrize("where", ["tree", "service"])
def test_a_manifest_of_sha256_is_one_that_sha256sum_checks(
    shoal: Command, service: Service, tree: dict[str, bytes], where: str
) -> None:
    source = "tree" if where == "tree" else service(shoal.directory / "tree").url
    done = shoal.run("read", source, "--checksum", "sha256", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(tree)
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "--strict"], cwd=shoal.directory / "tree", input=done.stdout, text=True
    )
    assert checked.returncode == 0


def test_every_checksum_is_the_one_it_is_called(shoal: Command, tree: dict[str, bytes]) -> None:
    def lines(kind: str) -> dict[str, str]:
        done = shoal.run("read", "tree", "--checksum", kind, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert found.pop()["type"] == "report"
        assert {one["name"]: one["size"] for one in found} == {name: len(data) for name, data in tree.items()}
        return {one["name"]: one["checksum"] for one in found}

    assert lines("sha256") == {name: hashlib.sha256(data).hexdigest() for name, data in tree.items()}
    assert lines("crc32") == {name: f"{zlib.crc32(data):08x}" for name, data in tree.items()}
    assert len(set(lines("xxh3").values())) == len(tree)


def test_xxh3_of_nothing_is_the_published_value(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert shoal.run("read", "empty", "--checksum", "xxh3").stdout == "2d06800538d394c2  empty\n"


def test_the_order_given_orders_the_manifest(shoal: Command, service: Service) -> None:
    done = shoal.run("read", service(synthetic="5000:20").url, "--checksum", "crc32", "--order", "source")
    names = [line.split("  ")[1] for line in done.stdout.splitlines()]
    assert len(names) == 5000
    assert names == sorted(names)


def test_a_name_that_a_terminal_might_act_on_is_escaped(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/evil\x1b[2J\n").write_bytes(b"")
    leader, terminal = pty.openpty()
    process = shoal.start("read", "tree", "--checksum", "crc32", "--quiet", stdout=terminal)
    assert process.wait(timeout=60) == 0
    os.close(terminal)
    assert os.read(leader, 4096) == b"\\00000000  evil\\x1b[2J\\n\r\n"
    os.close(leader)


def test_a_manifest_has_the_bytes_of_every_name_as_gnu_writes_them(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    names = [b"latin\xe9", b"new\nline", b"back\\slash", b"return\r", b"esc\x1b[2J", "é".encode(), b"x" * 255, b" two "]
    for number, name in enumerate(names):
        Path(os.fsdecode(bytes(tmp_path / "tree") + b"/" + name)).write_bytes(b"%d" % number)
    with (tmp_path / "SHA256SUMS").open("wb") as stream:
        assert shoal.start("read", "tree", "--checksum", "sha256", stdout=stream).wait(timeout=60) == 0
    gnu = subprocess.run(["sha256sum", "-c", "--strict", "../SHA256SUMS"], cwd=tmp_path / "tree", capture_output=True)
    assert (gnu.returncode, gnu.stderr, gnu.stdout.count(b": OK\n")) == (0, b"", len(names))


def test_what_cannot_be_read_is_named_and_the_code_is_1(shoal: Command, tree: dict[str, bytes]) -> None:
    (shoal.directory / "tree/gone").symlink_to("nowhere")
    for links in ([], ["--links", "follow"]):
        done = shoal.run("read", "tree/**", *links)
        assert done.returncode == 1, done.stderr
        assert '"gone"' in done.stderr
        assert "1 failed" in done.stderr or "1 object failed" in done.stderr
    done = shoal.run("read", "tree/**", "--ignore-vanished")
    assert done.returncode == 0, "a dangling link is skipped"
    assert "1 skipped" in done.stderr
    missing = shoal.run("read", "nowhere")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr


def test_a_reader_of_the_manifest_that_goes_away_is_no_error(shoal: Command, service: Service) -> None:
    url = service(synthetic="100000:20").url
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -n 2', "-", *shoal.argv, "read", url, "--checksum", "crc32", "--quiet"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (len(done.stdout.splitlines()), done.stderr) == (2, "")


def test_files_can_be_copied_and_the_copy_goes_on(shoal: Command, tree: dict[str, bytes]) -> None:
    done = shoal.run("copy", "tree", "out", "--json")
    assert done.returncode == 0, done.stderr
    assert shoal.last_json(done)["written"] == len(tree)
    for name, data in tree.items():
        assert (shoal.directory / "out" / name).read_bytes() == data
    again = shoal.run("copy", "tree", "out", "--once")
    assert again.returncode == 0
    assert again.stderr.startswith("nothing to do: complete since ")
    inside = shoal.run("copy", "tree", "tree/out")
    assert inside.returncode == 2


@pytest.mark.parametrize("where", ["tree", "zip", "service"])
def test_the_manifests_of_all_parts_are_the_manifest_of_the_whole(
    shoal: Command, service: Service, tree: dict[str, bytes], where: str
) -> None:
    source = {"tree": "tree", "zip": "zip:all.zip"}.get(where) or service(shoal.directory / "tree").url
    with zipfile.ZipFile(shoal.directory / "all.zip", "w") as archive:
        for name, data in tree.items():
            archive.writestr(name, data)
    whole = shoal.run("read", source, "--checksum", "sha256", "--quiet").stdout.splitlines()
    parts: list[str] = []
    for index in range(16):
        report = shoal.last_json(shoal.run("read", source, "--part", f"{index}/16", "--json"))
        own = shoal.run("read", source, "--checksum", "sha256", "--part", f"{index}/16", "--quiet").stdout.splitlines()
        assert (report["listed"], report["written"], report["skipped"]) == (len(own), len(own), 0)
        parts += own
    assert sorted(parts) == sorted(whole)
    assert len(whole) == len(tree)


@pytest.mark.parametrize("wrong", ["16/16", "3", "-1/2", "a/b", "0/0", "3/16/1"])
def test_a_part_that_does_not_exist_is_refused(shoal: Command, tree: dict[str, bytes], wrong: str) -> None:
    done = shoal.run("read", "tree", f"--part={wrong}")
    assert done.returncode == 2
    assert "parts count from 0" in done.stderr
