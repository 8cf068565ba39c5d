"""The path of the workers: the numbers that a run had, in the report, in JSON, in the summary and in the log."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
from servers import faults
from servers.fixtures import MakeServer, fault_server
from shoal._progress import PATH_MAX, Rates, parts, path_text

if TYPE_CHECKING:
    from conftest import Command, Interpreter, Service

__all__ = ["fault_server"]


def slowed_down(make_server: MakeServer) -> str:
    """Starts a service that asks, late, to slow down for some objects in a row, which halves the workers at once."""
    server = make_server({f"object-{number:04}": bytes(1000) for number in range(300)})
    for number in range(200, 220):
        server.on_object(f"object-{number:04}", faults.status(503, b"slow down", {"Retry-After": "1"}), times=1)
    return server.start().url


def steps(*workers: int, seconds: float = 1.25) -> tuple[package.Step, ...]:
    last = len(workers) - 1
    return tuple(
        package.Step(seconds=seconds * at / max(last, 1), workers=count, objects_per_second=1.0, bytes_per_second=1.0)
        for at, count in enumerate(workers)
    )


def test_the_path_begins_where_the_run_began_and_ends_at_its_workers(service: Service) -> None:
    began: list[int] = []
    url = service(synthetic="200000:100").url
    report = package.copy(url, "null:", progress=lambda progress: began.append(progress.workers))

    path = report.concurrency
    assert (path[0].seconds, path[0].workers) == (0, began[0])
    assert path[-1].workers == report.workers
    assert len(path) <= 200
    for before, after in pairwise(path):
        assert before.seconds < after.seconds <= report.seconds
        assert before.workers != after.workers


def test_a_step_says_what_was_measured_while_it_held(service: Service) -> None:
    report = package.copy(service(synthetic="20000:100").url, "null:", workers=4, limit_rate="1MB")

    [step] = report.concurrency
    assert (step.seconds, step.workers, report.workers) == (0, 4, 4)
    assert 0 < step.objects_per_second < 2 * report.written / report.seconds
    assert step.bytes_per_second == pytest.approx(100 * step.objects_per_second, rel=0.01)


def test_a_run_with_nothing_left_to_do_has_no_path(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    first, again = (package.copy(tmp_path / "tree", tmp_path / "out", workers=1, resume="once") for _ in range(2))
    assert [len(first.concurrency), len(again.concurrency)] == [1, 0]


def test_reading_and_saving_have_a_path_too(tmp_path: Path) -> None:
    saved = package.save([("a", b"1"), ("b", b"2")], tmp_path / "out", workers=2)
    reader = package.read(tmp_path / "out", workers=3)
    assert len(list(reader)) == 2
    assert reader.report is not None
    assert [[step.workers for step in one.concurrency] for one in (saved, reader.report)] == [[2], [3]]


def test_generate_has_its_processes_as_one_step(interpreter: Interpreter, tmp_path: Path) -> None:
    # Slow enough for the progress function to be called.
    (tmp_path / "job.py").write_text("import time\n\ndef make(number):\n    time.sleep(0.02)\n    return str(number)\n")
    done = interpreter.run(
        """
        import shoal, job
        seen = []
        look = lambda progress: seen.append(progress.workers)
        report = shoal.generate(job.make, range(50), "out", name="{}", workers=2, progress=look)
        [step] = report.concurrency
        print(report.workers, step.workers, step.seconds, step.objects_per_second > 0, set(seen))
        again = shoal.generate(job.make, range(50), "out", name="{}", workers=2)
        print(again.workers, again.concurrency)
        """
    )
    assert done.stdout.splitlines() == ["2 2 0.0 True {2}", "2 ()"], done.stderr


def test_json_and_the_summary_tell_the_path(shoal: Command, fault_server: MakeServer) -> None:
    url = slowed_down(fault_server)
    done = shoal.run(
        "copy", url, "null:", "--workers", "8", "--limit-rate", "200kB", "--verbose", "--json", PYTHONUTF8="1"
    )

    assert done.returncode == 0
    report = shoal.last_json(done)
    path = report["concurrency"]
    assert (path[0]["workers"], path[1]["workers"], path[-1]["workers"]) == (8, 4, report["workers"])
    assert path[0].keys() == {"seconds", "workers", "objects_per_second", "bytes_per_second"}
    lines = done.stderr.splitlines()
    [said] = [at for at, line in enumerate(lines) if line.startswith("workers: ")]
    assert lines[said + 1].startswith("  path: 8 → 4")


def test_the_path_is_ascii_where_the_terminal_is(shoal: Command, fault_server: MakeServer) -> None:
    url = slowed_down(fault_server)
    words = ("copy", url, "null:", "--workers", "8", "--limit-rate", "200kB", "--verbose")
    done = shoal.run(*words, PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "\n  path: 8 -> 4" in done.stderr
    assert "\\u" not in done.stderr


def test_a_number_that_never_changed_has_no_line(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    done = shoal.run("copy", "a", "null:", "--workers", "1", "--verbose")
    assert "workers: 1 (as asked)" in done.stderr
    assert "path:" not in done.stderr


def test_the_path_is_logged(fault_server: MakeServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    package.copy(slowed_down(fault_server), "null:", workers=8, limit_rate="200kB")
    assert any(record.getMessage().startswith("path of the workers: 8 -> 4") for record in caplog.records)


def test_a_long_path_keeps_its_beginning_and_its_end() -> None:
    assert path_text(steps(8), ascii_only=False) is None
    assert path_text(steps(2, 4, 8), ascii_only=False) == "2 → 4 → 8 (in 1.2 s)"
    most = range(1, PATH_MAX + 1)
    assert path_text(steps(*most), ascii_only=True) == " -> ".join(map(str, most)) + " (in 1.2 s)"
    long = path_text(steps(*range(1, 201)), ascii_only=False)
    assert long == "1 → 2 → 3 → 4 → 5 → 6 → … → 195 → 196 → 197 → 198 → 199 → 200 (in 1.2 s)"
    assert len(f"  path: {long}") <= 80


def test_progress_projects_the_bytes_and_tells_what_is_received_from_what_is_committed() -> None:
    def at(*, listing_done: bool, committed: int) -> str:
        run = package.Counts(listed=500, written=200, skipped=0, failed=0, unfinished=0, bytes=2000)
        before = package.Counts(listed=100, written=100, skipped=0, failed=0, unfinished=0, bytes=1000)
        progress = package.Progress(
            run=run,
            before=before,
            listing_done=listing_done,
            workers=4,
            committed=committed,
            retry_in=None,
            paused=False,
            seconds=10.0,
            in_flight=0,
            retries=0,
            deferred=0,
        )
        rates = Rates()
        rates.update(progress)
        return ", ".join(parts(progress, rates))

    assert at(listing_done=False, committed=180).startswith("300 objects of 600 so far, 3 kB, 20/s")
    assert at(listing_done=True, committed=180).startswith("300 of 600 objects, 3 kB of about 6 kB, 20/s")
    assert "committed" not in at(listing_done=True, committed=180), "what a second brings is always on its way"
    assert ", 150 not committed yet, " in at(listing_done=True, committed=50)


def test_progress_shows_the_current_workers(service: Service) -> None:
    seen: list[package.Progress] = []
    package.copy(service(synthetic="100:100").url, "null:", workers=7, progress=seen.append)
    said = parts(seen[-1], Rates())
    # On a busy machine even this takes seconds, of which one may say that not all is committed.
    line = ", ".join(part for part in said if not part.endswith("not committed yet"))
    assert line.endswith(" in flight, 7 workers")
    assert len(line) < 80
