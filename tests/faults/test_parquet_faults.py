"""`parquet:DIR` on disks that fill up or become read-only: one error, and the same command continues."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from test_parquet import query

if TYPE_CHECKING:
    from conftest import Command, Service

pytestmark = pytest.mark.root

COUNT = 4_000


def files(directory: Path) -> None:
    directory.mkdir()
    for number in range(COUNT):
        (directory / f"{number:04}").write_bytes(random.Random(number).randbytes(5_000))


def check(directory: Path) -> None:
    whole = "count(*), count(distinct name), count(*) filter (size = 5000 and octet_length(data) = 5000)"
    assert query(directory, whole) == (COUNT, COUNT, COUNT)


def test_a_full_disk_stops_the_run_and_it_continues_when_there_is_room(
    shoal: Command, tmpfs: Callable[[str], Path]
) -> None:
    place = tmpfs("size=40m")
    files(shoal.directory / "tree")
    ballast = place / "ballast"
    ballast.write_bytes(bytes(30 << 20))
    done = shoal.run("copy", "tree", f"parquet:{place}/out", "--shard-size", "100kB")
    assert done.returncode == 3, done.stderr
    assert "free some space" in done.stderr
    ballast.unlink()
    done = shoal.run("copy", "tree", f"parquet:{place}/out", "--shard-size", "100kB")
    assert done.returncode == 0, done.stderr
    check(place / "out")


def test_a_disk_that_becomes_read_only_stops_the_run_and_it_continues_when_it_is_writable(
    shoal: Command, service: Service, tmpfs: Callable[[str], Path]
) -> None:
    place = tmpfs("size=200m")
    url = service(synthetic="3000000:100").url
    run = shoal.start("copy", url, f"parquet:{place}/out", "--limit-rate", "50MB", stderr=subprocess.PIPE)
    try:
        run.wait(2)
    except subprocess.TimeoutExpired:
        subprocess.run(["mount", "-o", "remount,ro", place], check=False)
    run.communicate()
    subprocess.run(["mount", "-o", "remount,rw", place], check=True)
    done = shoal.run("copy", url, f"parquet:{place}/out")
    assert done.returncode == 0, done.stderr
    assert query(place / "out", "count(*), count(distinct name)") == (3_000_000, 3_000_000)
