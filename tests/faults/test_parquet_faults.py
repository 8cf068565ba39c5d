"""`parquet:DIR` on disks that fill up or become read-only: one error, and the same command continues."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.datasets import SMALL, assert_published_rows_are_right, assert_resumes, objects
from faults.disks import Disk
from faults.runs import committed, errors, make_source
from faults.tracing import injected, traced
from servers.fixtures import MakeServer, fault_server
from test_parquet import check_synthetic
from test_parquet_withdrawn import assert_rows_are, late, rows, slow
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command, Service

__all__ = ["fault_server"]

COUNT = 4_000


@pytest.mark.root
def test_a_full_disk_stops_the_run_and_it_continues_when_there_is_room(
    shoal: Command, tmpfs: Callable[[str], Path]
) -> None:
    place = tmpfs("size=40m")
    wanted = {f"{number:04}": random.Random(number).randbytes(5_000) for number in range(COUNT)}
    (shoal.directory / "tree").mkdir()
    for name, data in wanted.items():
        (shoal.directory / "tree" / name).write_bytes(data)
    ballast = place / "ballast"
    ballast.write_bytes(bytes(24 << 20))
    command = ("copy", "tree", f"parquet:{place}/out", "--shard-size", "100kB", "--memory", "8MiB")
    # Slow enough for a commit before the disk is full.
    done = shoal.run(*command, "--limit-rate", "5MB", "--json")
    assert done.returncode == 3, done.stderr
    assert shoal.last_json(done)["kind"] == "destination-full"
    (error,) = errors(done.stderr)
    assert f"{place}/out" in error
    assert "free some space" in done.stderr
    assert 0 < assert_published_rows_are_right(place / "out", wanted) < COUNT
    ballast.unlink()
    assert_resumes(shoal, place / "out", wanted, *command)


@pytest.mark.root
@pytest.mark.mount
@pytest.mark.parametrize("fault", ["read-only", "gone"])
def test_a_disk_that_fails_under_a_running_copy_is_one_error_and_the_copy_continues_later(
    shoal: Command, service: Service, tmp_path: Path, disk: Callable[[str], Disk], fault: str
) -> None:
    wanted = objects(make_source(tmp_path / "source"))
    place = disk("ext4")
    out = place.on / "out"
    command: list[str | Path] = ["copy", service(tmp_path / "source").url, f"parquet:{out}", *SMALL]
    run = shoal.start(*command, "--limit-rate", "1MB", "--json")
    wait_until(lambda: any(out.glob("*.parquet")), 60)

    if fault == "gone":
        place.cut_power()
    else:
        place.turn_read_only()
    printed, said = run.communicate(timeout=30)

    assert run.returncode == 3, said
    assert len(errors(said)) == 1, said
    assert str(out) in said, "it says where"
    assert "Traceback" not in said
    kinds = {"destination-failed", "destination-read-only", "journal"}
    assert shoal.last_json(subprocess.CompletedProcess([], 3, printed))["kind"] in kinds
    place.mend()
    assert 0 < assert_published_rows_are_right(out, wanted) < len(wanted)
    assert_resumes(shoal, out, wanted, *command)


def test_a_directory_that_cannot_be_closed_is_no_panic(shoal: Command, tmp_path: Path) -> None:
    """As on a network file system; there is nothing left to be done with it."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"1")
    out, log = tmp_path / "out", tmp_path / "strace"
    fails = traced(log, "close:error=EIO", out, out / ".shoal/tmp")
    for command in (["copy", "tree", f"parquet:{out}"], ["copy", f"parquet:{out}", "files"], ["verify", str(out)]):
        done = shoal.under(*fails).run(*command)
        assert injected(log) > 0
        assert done.returncode == 0, done.stderr


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
