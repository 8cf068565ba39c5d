"""`parquet:DIR` on disks that fill up or become read-only: one error, and the same command continues."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.runs import committed, errors
from faults.tracing import injected, traced
from servers.fixtures import MakeServer, fault_server
from test_parquet import check_synthetic, query
from test_parquet_withdrawn import assert_rows_are, late, rows, slow

if TYPE_CHECKING:
    from conftest import Command, Service

__all__ = ["fault_server"]

COUNT = 4_000


def files(directory: Path) -> None:
    directory.mkdir()
    for number in range(COUNT):
        (directory / f"{number:04}").write_bytes(random.Random(number).randbytes(5_000))


def check(directory: Path) -> None:
    whole = "count(*), count(distinct name), count(*) filter (size = 5000 and octet_length(data) = 5000)"
    assert query(directory, whole) == (COUNT, COUNT, COUNT)


@pytest.mark.root
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


@pytest.mark.root
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


@pytest.mark.parametrize(
    ("call", "nth", "at"),
    [("fdatasync", 2, ""), ("fdatasync", 3, ""), ("fsync", 1, ".shoal/tmp"), ("fsync", 2, ".shoal/tmp")],
)
def test_what_a_failed_sync_covered_is_not_committed_and_the_next_run_has_every_row_once(
    shoal: Command, service: Service, tmp_path: Path, call: str, nth: int, at: str
) -> None:
    """Of a file of rows, or of their directory. (The first file that is synced as they are is shoal's ballast.)"""
    url, log, out = service(synthetic="300000:100").url, tmp_path / "strace", tmp_path / "out"
    command = ["copy", url, f"parquet:{out}"]
    paths = [out / at] if at else []
    inject = f"{call}:error=EIO:when={nth}"
    # Slow enough for several syncs, also where the first one takes seconds.
    failed = shoal.under(*traced(log, inject, *paths)).run(*command, "--limit-rate", "4MB", "--json")
    assert injected(log) == 1
    assert failed.returncode == 3, failed.stderr
    assert shoal.last_json(failed)["kind"] == "destination-failed"
    (error,) = errors(failed.stderr)
    assert "cannot sync" in error
    assert ".shoal/tmp" in error
    assert (committed(out) > 0) == (nth > 1), "what the failed sync covered is not"
    done = shoal.run(*command, "--json")
    assert done.returncode == 0, done.stderr
    check_synthetic(out, 300_000)


@pytest.mark.root
def test_a_wrong_row_for_which_there_is_no_room_to_remove_it_is_a_failure_until_there_is(
    shoal: Command, fault_server: MakeServer, tmpfs: Callable[[str], Path]
) -> None:
    place = tmpfs("size=32m")
    server = fault_server({f"f{number:02}": random.Random(number).randbytes(500_000) for number in range(50)})
    server.echo = False
    server.on_object("f07", late())
    server.on_object("f49", slow)
    server.start()
    out = place / "out"
    command = ["copy", server.url, f"parquet:{out}", "--workers", "2"]
    for _ in range(2):
        done = shoal.run(*command)
        assert done.returncode == 3, done.stderr
        assert "free some space" in done.stderr
        assert " 49 written " in shoal.run("status", f"parquet:{out}").stdout
        assert list((out / ".shoal" / "tmp").iterdir()) == []
        server.heal()
    assert rows(out) != sorted(server.objects.items())
    subprocess.run(["mount", "-o", "remount,size=200m", place], check=True)
    done = shoal.run(*command)
    assert done.returncode == 0, done.stderr
    assert_rows_are(shoal, out, server.objects)
