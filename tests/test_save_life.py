"""`shoal.save` while and after it runs: source ids, kills, Ctrl-C, forks, threads, the end of the interpreter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import shoal as package
from destination import balanced
from saving import numbered
from trees import tree_of_raw_names

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Interpreter


@pytest.fixture(params=["files", "parquet"])
def into(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A destination of each kind."""
    return f"parquet:{tmp_path}/out" if request.param == "parquet" else f"{tmp_path}/out"


def test_progress_is_told_and_may_stop_it(tmp_path: Path) -> None:
    class EnoughError(Exception):
        """Raised by the progress function."""

    seen: list[package.Progress] = []

    def look(progress: package.Progress) -> None:
        seen.append(progress)
        if progress.run.written > 100:
            raise EnoughError

    def slow() -> Iterator[tuple[str, bytes]]:
        for name, data in numbered(1_000_000):
            time.sleep(0.001)
            yield name, data

    with pytest.raises(EnoughError) as raised:
        package.save(slow(), tmp_path / "out", progress=look)
    assert len(seen) >= 2
    assert balanced(raised.value.report)  # type: ignore[attr-defined]


def test_without_a_source_id_a_second_save_finds_the_files_of_the_first(tmp_path: Path) -> None:
    package.save(numbered(100), tmp_path / "out", on_error="record")

    again = package.save(numbered(100), tmp_path / "out", on_error="record")
    assert (again.written, again.skipped, again.failed) == (0, 100, 0), "the same bytes are there"
    other = package.save(((name, b"new") for name, _ in numbered(100)), tmp_path / "out", on_error="record")
    assert (other.written, other.failed) == (0, 100)
    assert {failure.kind for failure in other.failures} == {"exists"}

    replaced = package.save(
        ((name, b"new") for name, _ in numbered(100)), tmp_path / "out", overwrite="always", on_error="record"
    )
    assert (replaced.written, replaced.failed) == (100, 0)
    assert set(tree_of_raw_names(tmp_path / "out").values()) == {b"new"}


def test_of_a_name_that_comes_twice_the_second_is_a_failure_unless_it_is_the_same(tmp_path: Path) -> None:
    items = [("twice", b"1"), ("twice", b"2"), ("same", b"3"), ("same", b"3")]
    report = package.save(items, tmp_path / "out", workers=1, on_error="record")
    assert (report.written, report.skipped, report.duplicates, report.failed) == (2, 1, 1, 1)
    assert [(failure.name, failure.kind) for failure in report.failures] == [("twice", "name-conflict")]
    assert tree_of_raw_names(tmp_path / "out") == {b"twice": b"1", b"same": b"3"}


def test_a_complete_source_id_is_not_asked_for_items_again(tmp_path: Path) -> None:
    package.save(numbered(100), tmp_path / "out", source_id="numbers")
    asked = 0

    def items() -> Iterator[tuple[str, bytes]]:
        nonlocal asked
        asked += 1
        yield from numbered(100)

    again = package.save(items(), tmp_path / "out", source_id="numbers")
    assert (asked, again.total.written) == (0, 100)
    assert again.completed_before is not None


def test_a_killed_save_with_a_source_id_writes_nothing_committed_again(interpreter: Interpreter) -> None:
    script = """
        import os, shoal, signal, sys, time
        def items():
            for number in range(3000):
                if number == 2000 and sys.argv[1] == "kill":
                    while not any(run.total.written >= 1000 for run in shoal.status("out").runs):
                        time.sleep(0.01)
                    os.kill(os.getpid(), signal.SIGKILL)
                yield f"{number:06}", b"%d" % number
        report = shoal.save(items(), "out", source_id="numbers")
        print(report.listed, report.written, report.skipped, report.failed, report.total.written)
    """
    killed = interpreter.run(script, "kill")
    assert killed.returncode == -9
    out = interpreter.directory / "out"
    committed = package.status(out).runs[-1].total.written
    before = {path.name: path.stat().st_ino for path in out.iterdir() if path.name != ".shoal"}

    done = interpreter.run(script, "whole")

    assert done.returncode == 0, done.stderr
    _, written, _, failed, total = map(int, done.stdout.split())
    assert (written, failed, total) == (3000 - committed, 0, 3000)
    assert tree_of_raw_names(out) == {b"%06d" % n: b"%d" % n for n in range(3000)}
    same = sum(before[name] == (out / name).stat().st_ino for name in before)
    assert same >= committed


def test_the_same_call_retries_what_failed_and_converts_nothing_else(into: str) -> None:
    asked: list[int] = []

    class Lazy:
        """Data that says when it is converted."""

        def __init__(self, number: int) -> None:
            self.number = number

        def __array__(self, *_args: object, **_options: object) -> np.ndarray[Any, Any]:
            asked.append(self.number)
            return np.full(3, self.number)

    def items(good: bool) -> Iterator[tuple[str, object]]:
        for number in range(1000):
            bad = number % 100 == 7 and not good
            yield f"{number}.npy", {1} if bad else Lazy(number)

    def save(good: bool) -> package.Report:
        return package.save(items(good), into, source_id="numbers", on_error="record")

    first = save(good=False)
    assert (first.written, first.failed, len(asked)) == (990, 10, 990)
    asked.clear()
    again = save(good=False)
    assert (again.listed, again.failed, again.total.written, asked) == (10, 10, 990, [])
    mended = save(good=True)
    assert (mended.listed, mended.written, mended.total.written, mended.total.failed) == (10, 10, 1000, 0)
    assert asked == list(range(7, 1000, 100))
    assert mended.ok
    with package.read(into) as reader:
        assert sum(1 for _ in reader) == 1000
    assert save(good=True).completed_before is not None


def test_an_item_that_failed_and_has_another_name_now_stays_a_failure(tmp_path: Path) -> None:
    def items(name: str, data: object) -> Iterator[tuple[str, object]]:
        yield from numbered(50)
        yield name, data
        yield from ((f"x{name}", data) for name, data in numbered(50))

    package.save(items("bad.json", {1}), tmp_path / "out", source_id="numbers", on_error="record")
    with pytest.raises(package.ObjectsFailedError) as raised:
        package.save(items("good.json", {}), tmp_path / "out", source_id="numbers")
    assert raised.value.report is not None
    (failure,) = raised.value.report.failures
    assert (failure.name, failure.reason) == ("bad.json", 'the item at its position is now called "good.json"')
    with pytest.raises(package.ObjectsFailedError) as raised:
        package.save(numbered(20), tmp_path / "out", source_id="numbers")
    assert raised.value.report is not None
    assert raised.value.report.failures[0].reason == "the items ended before it"
    assert package.save(items("bad.json", {}), tmp_path / "out", source_id="numbers").ok


def test_a_generator_that_raises_before_the_failed_items_leaves_them_to_the_next_call(tmp_path: Path) -> None:
    def items(good: bool, until: int = 3000) -> Iterator[tuple[str, object]]:
        for number in range(3000):
            if number == until:
                raise ValueError
            yield f"{number}.json", [number] if good or number % 100 else {1}

    package.save(items(good=False), tmp_path / "out", source_id="numbers", on_error="record")
    with pytest.raises(ValueError) as raised:
        package.save(items(good=True, until=1050), tmp_path / "out", source_id="numbers")
    report = raised.value.report  # type: ignore[attr-defined]
    assert (report.written, report.total.failed + report.total.unfinished) == (11, 19)
    assert balanced(report)
    done = package.save(items(good=True), tmp_path / "out", source_id="numbers")
    assert (done.listed, done.total.written, done.ok) == (19, 3000, True)


@pytest.mark.parametrize("moment", ["first", "retry"])
def test_failures_of_a_save_that_is_killed_are_retried_as_it_goes_on(
    interpreter: Interpreter, into: str, moment: str
) -> None:
    script = """
        import os, shoal, signal, sys, time
        moment, into = sys.argv[1:]
        def items(kill, good):
            for number in range(6000):
                if number == 4000 and kill:
                    enough = 5000 if moment == "retry" else 1000
                    out = into.removeprefix("parquet:")
                    while not any(run.total.written >= enough for run in shoal.status(out).runs):
                        time.sleep(0.01)
                    os.kill(os.getpid(), signal.SIGKILL)
                yield f"{number:06}.json", [number] if good or number % 10 else {1}
        def save(kill, good):
            report = shoal.save(items(kill, good), into, source_id="numbers", on_error="record")
            total = report.total
            print(report.listed, report.written, report.skipped, report.failed, total.written, total.failed)
        if moment in ("first", "retry"):
            if moment == "retry":
                save(False, False)
            save(True, moment == "retry")
        save(False, moment == "good")
    """
    killed = interpreter.run(script, moment, into)
    assert killed.returncode == -9, killed.stderr
    # What failed fails again, and is retried once more.
    bad = interpreter.run(script, "bad", into)
    assert bad.returncode == 0, bad.stderr
    *_, written, failed = map(int, bad.stdout.split())
    assert written + failed == 6000
    assert failed == 600 if moment == "first" else failed > 0
    good = interpreter.run(script, "good", into)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.split() == [str(failed), str(failed), "0", "0", "6000", "0"]
    with package.read(into) as reader:
        assert sorted((one.name, bytes(one.data)) for one in reader) == [
            (f"{number:06}.json", b"[%d]" % number) for number in range(6000)
        ]


def test_other_items_under_the_same_source_id_are_refused(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield from numbered(1000)
        raise ValueError

    with pytest.raises(ValueError):
        package.save(broken(), tmp_path / "out", source_id="numbers")
    with pytest.raises(package.RunError, match="not those of the earlier call") as raised:
        package.save(((f"x{name}", data) for name, data in numbered(2000)), tmp_path / "out", source_id="numbers")
    assert raised.value.kind == "cursor-refused"


@pytest.mark.timing
@pytest.mark.parametrize("where", ["generator", "wait"])
def test_ctrl_c_stops_it_within_two_seconds(interpreter: Interpreter, where: str) -> None:
    script = """
        import os, shoal, signal, sys, threading, time
        blocked = sys.argv[1] == "generator"
        began = []
        def interrupt():
            time.sleep(0.5)
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        def items():
            threading.Thread(target=interrupt).start()
            for number in range(10_000_000):
                if blocked and number == 500:
                    time.sleep(60)
                yield f"{number}", bytes(1000)
        try:
            shoal.save(items(), "out", limit_rate=None if blocked else "500kB", memory="4MiB")
        except KeyboardInterrupt as interrupted:
            report = interrupted.report
            print(time.monotonic() - began[0] < 2, report.written, interrupted.__notes__)
    """
    done = interpreter.run(script, where)
    assert (done.returncode, done.stderr) == (0, "")
    quick, written, note = done.stdout.split(maxsplit=2)
    assert quick == "True"
    assert note.strip() == f"['shoal: {written} objects were saved before this']"
    if where == "generator":
        assert written == "500"


def test_the_interpreter_exits_while_a_daemon_thread_saves(interpreter: Interpreter) -> None:
    script = """
        import shoal, threading, time
        started = threading.Event()
        def items():
            for number in range(10_000_000):
                if number == 1000:
                    started.set()
                yield f"{number}", bytes(1000)
        def work():
            shoal.save(items(), "out", limit_rate="1MB", memory="4MiB", progress=lambda _: None)
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("exit")
    """
    began = time.monotonic()
    done = interpreter.run(script, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "exit\n", "")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("ends", ["yields", "returns", "exits"])
def test_a_child_forked_inside_the_generator_does_not_hang(interpreter: Interpreter, ends: str) -> None:
    script = """
        import os, shoal, signal, sys, warnings
        warnings.simplefilter("ignore")
        def items():
            for number in range(1000):
                if number == 500:
                    child = os.fork()
                    if not child:
                        signal.alarm(15)
                        if sys.argv[1] == "returns":
                            return
                        if sys.argv[1] == "exits":
                            sys.exit(7)
                    else:
                        status = os.waitpid(child, 0)[1]
                        print("child", os.waitstatus_to_exitcode(status), flush=True)
                yield f"{number}", b"x"
        try:
            print(shoal.save(items(), "out").written)
        except RuntimeError as error:
            assert "forked child" in str(error), error
            assert shoal.save([("new", b"")], "child").written == 1
            sys.exit(3)
    """
    done = interpreter.run(script, ends, timeout=40)
    code = 7 if ends == "exits" else 3
    assert (done.returncode, done.stdout, done.stderr) == (0, f"child {code}\n1000\n", "")


def test_a_child_forked_while_other_threads_save_can_save(interpreter: Interpreter) -> None:
    script = """
        import os, shoal, signal, threading, warnings
        warnings.simplefilter("ignore")
        stop = threading.Event()
        def saves(thread):
            number = 0
            while not stop.is_set():
                shoal.save([("a", b"x")], f"thread{thread}/{number}")
                number += 1
        threads = [threading.Thread(target=saves, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        ends = set()
        for number in range(25):
            child = os.fork()
            if not child:
                signal.alarm(15)
                os._exit(0 if shoal.save([("new", b"")], f"child{number}").written == 1 else 1)
            ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if ends != {0}:
                break
        stop.set()
        for thread in threads:
            thread.join()
        print(ends)
    """
    done = interpreter.run(script, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{0}\n", "")


def test_saving_through_a_thread_pool_of_the_callers_own_works(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda n: package.save(numbered(500), tmp_path / f"out{n}"), range(8)))
    assert [report.written for report in reports] == [500] * 8


@pytest.mark.parametrize("source_id", ["", "a\nb", 5, b"x"])
def test_a_source_id_that_is_none_is_a_config_error(tmp_path: Path, source_id: Any) -> None:
    with pytest.raises(package.ConfigError, match="source_id"):
        package.save([], tmp_path / "out", source_id=source_id)
