"""A full disk while archives are unpacked, and an archive that changes meanwhile."""

from __future__ import annotations

import random
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Command

COUNT, SIZE = 3_000, 3_000


def archive(path: Path, entries: dict[str, bytes]) -> dict[str, bytes]:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return entries


@pytest.mark.root
@pytest.mark.mount
def test_a_full_disk_stops_it_and_space_lets_it_go_on(
    shoal: Command, tmp_path: Path, tmpfs: Callable[[str], Path]
) -> None:
    texts = {f"{number % 10}/{number}": (b"%d " % number * SIZE)[:SIZE] for number in range(COUNT)}
    entries = archive(tmp_path / "one.zip", texts)
    place = tmpfs("size=5m")
    full = shoal.run("unzip", "one.zip", "-d", place / "out", "--json")
    assert full.returncode == 3, full.stderr
    assert shoal.last_json(full)["kind"] == "destination-full"
    assert "space" in full.stderr
    for path in (place / "out").glob("*/*"):
        name = str(path.relative_to(place / "out"))
        assert name.startswith(".shoal") or path.read_bytes() == entries[name], "what is there is whole"
    subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
    again = shoal.run("unzip", "one.zip", "-d", place / "out", "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["total"]["written"] == COUNT
    assert all((place / "out" / name).read_bytes() == data for name, data in entries.items())
    assert list((place / "out/.shoal/tmp").iterdir()) == []


def test_an_archive_that_is_cut_short_meanwhile_is_an_error_and_no_crash(shoal: Command, tmp_path: Path) -> None:
    # Of contents that do not compress: of a small archive all may have been read before it is cut.
    chance = random.Random(1)
    contents = {f"{number % 10}/{number}": chance.randbytes(SIZE) for number in range(COUNT)}
    entries = archive(tmp_path / "one.zip", contents)
    process = shoal.start("unzip", "one.zip", "-d", "out", "--limit-rate", "2MB", "--json")
    end = time.monotonic() + 20
    while not any((tmp_path / "out").glob("[0-9]/*")) and time.monotonic() < end:
        time.sleep(0.01)
    with (tmp_path / "one.zip").open("r+b") as file:
        file.truncate(20_000)
    _, said = process.communicate(timeout=30)
    assert process.returncode in (1, 3), said
    assert "truncated" in said or "changed" in said, said
    for path in (tmp_path / "out").glob("[0-9]/*"):
        assert path.read_bytes() == entries[str(path.relative_to(tmp_path / "out"))]
