"""A full destination stops a run with one clear error; when there is room again, the same command completes it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.jobs import KINDS, Job
from faults.runs import errors

pytestmark = [pytest.mark.root, pytest.mark.mount]

COUNT, SIZE = 4_000, 3_000  # a page of memory each on tmpfs: 16 MB


def expected(number: int) -> bytes:
    line = f"object-{number:09}\n".encode()
    return (line * (SIZE // len(line) + 1))[:SIZE]


@pytest.mark.parametrize(
    ("small", "large", "word"),
    [
        pytest.param("size=6m", "size=64m", "space", id="no blocks left"),
        pytest.param("size=64m,nr_inodes=1500", "size=64m,nr_inodes=20000", "inode", id="no inodes left"),
    ],
)
def test_a_full_disk_stops_the_run_and_space_lets_it_go_on(
    shoal: Command, service: Service, tmpfs: Callable[[str], Path], small: str, large: str, word: str
) -> None:
    place = tmpfs(small)
    server = service(synthetic=f"{COUNT}:{SIZE}")
    began = time.monotonic()
    full = shoal.run("copy", server.url, place / "out", "--json")
    assert full.returncode == 3, full.stderr
    assert time.monotonic() - began < 10
    error = shoal.last_json(full)
    assert error["kind"] == "destination-full"
    assert word in full.stderr, full.stderr
    assert full.stderr.count("error:") == 1, full.stderr
    for path in (place / "out").glob("object-*"):
        assert path.read_bytes() == expected(int(path.name[7:])), "what is there is whole"

    subprocess.run(["mount", "-o", f"remount,{large}", place], check=True)
    again = shoal.run("copy", server.url, place / "out", "--json")
    assert again.returncode == 0, again.stderr
    report = shoal.last_json(again)
    assert report["total"]["written"] == COUNT
    assert report["total"]["unfinished"] == 0
    for number in range(COUNT):
        assert (place / "out" / f"object-{number:09}").read_bytes() == expected(number)
    assert list((place / "out" / ".shoal" / "tmp").iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_a_list_or_a_part_stops_at_a_full_disk_and_goes_on_when_there_is_space(
    shoal: Command, service: Service, tmp_path: Path, tmpfs: Callable[[str], Path], kind: str
) -> None:
    place = tmpfs("size=64m")
    job = Job(shoal, service, tmp_path, place / "out", kind)
    free = os.statvfs(place)
    # Room for the journal and some of the objects. An update needs more only for what is new: 60 pages of memory, and a
    # large object.
    room = 400_000 if kind == "update" else 1_000_000
    ballast = place / "ballast"
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - room))

    full = shoal.run(*job.command, "--json")

    assert full.returncode == 3, full.stderr
    assert shoal.last_json(full)["kind"] == "destination-full"
    (error,) = errors(full.stderr)
    assert "space" in error
    assert str(job.out) in error
    job.assert_nothing_is_claimed_or_lost()
    done = job.found()[0]
    assert all(done[name] in (data, job.before.get(name)) for name, data in job.wanted.items() if name in done), "whole"
    ballast.unlink()
    job.assert_resumes()


def test_no_room_even_for_the_journal_is_said(shoal: Command, service: Service, tmpfs: Callable[[str], Path]) -> None:
    place = tmpfs("size=64k")
    done = shoal.run("copy", service(synthetic="10:10").url, place / "out", "--json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["kind"] in {"destination-full", "journal"}
    assert str(place) in done.stderr


def test_a_manifest_that_does_not_fit_on_the_disk_is_an_error(shoal: Command, tmpfs: Callable[[str], Path]) -> None:
    place = tmpfs("size=64k")
    (shoal.directory / "tree").mkdir()
    for number in range(COUNT):
        (shoal.directory / "tree" / f"{number}").touch()
    with (place / "SHA256SUMS").open("w") as manifest:
        process = shoal.start("read", "tree", "--checksum", "sha256", stdout=manifest)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 3, said
    assert "error: cannot write to standard output: No space left on device" in said
    # Most of it would have fitted nowhere: 4,000 lines of 70 bytes.
    assert (place / "SHA256SUMS").stat().st_size <= 64 << 10
