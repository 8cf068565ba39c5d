"""Records in the rough: tuples used again, threads, signals, forks, memory, files cut short, crashes in an append."""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Interpreter

FORMAT = "<QII"
MEBIBYTE = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 60,000 records, more than one block of them."""
    found = tmp_path / "f"
    found.write_bytes(b"".join(struct.pack(FORMAT, 1 << 40 | n, n * 7, n % 100) for n in range(60_000)))
    return found


def rows_of(path: Path) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(FORMAT, path.read_bytes()))


class Box:
    """Holds a row in an attribute."""

    def __init__(self, row: tuple[int, ...]) -> None:
        self.row = row


HOLDERS: dict[str, Callable[[Any], list[Any]]] = {
    "list": list,
    "comprehension": lambda records: [row for row in records],  # noqa: C416  # another way through the interpreter
    "zip": lambda records: [one for pair in zip(records, records, strict=True) for one in pair][::2],
    "two at once": lambda records: [first for first, _ in itertools.zip_longest(iter(records), iter(records))],
    "tuple": lambda records: [*tuple(records)],
    "map": lambda records: list(map(lambda row: row, records)),  # noqa: C417
    "sorted": lambda records: sorted(records),
    "dict": lambda records: list({row: None for row in records}),  # noqa: C420  # each is a key
    "generator": lambda records: list(row for row in records),  # noqa: C400
    "starred": lambda records: [*records],
    "deque": lambda records: list(itertools.islice(records, None)),
    "filter": lambda records: list(filter(lambda row: row[0] >= 0, records)),
    "attribute": lambda records: [box.row for box in list(map(Box, records))],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_tuple_that_somebody_keeps_never_changes(path: Path, holder: str) -> None:
    assert HOLDERS[holder](package.Records(path, FORMAT)) == rows_of(path)


def test_keeping_every_second_or_some_tuples_keeps_them_as_they_were(path: Path) -> None:
    wanted = rows_of(path)
    patterns = [(2, 1), (2, 2), (3, 1), (5, 4), (7, 3)]  # of each so many, the first ones
    for every, first in patterns:
        kept = [row for at, row in enumerate(package.Records(path, FORMAT)) if at % every < first]
        assert kept == [row for at, row in enumerate(wanted) if at % every < first]
    chance = random.Random(1)
    kept_by_place: dict[int, Any] = {}
    window: list[tuple[int, Any]] = []
    for at, row in enumerate(package.Records(path, FORMAT)):
        window.append((at, row))
        if chance.random() < 0.1:
            kept_by_place[at] = row
        if len(window) > chance.randrange(6):
            place, old = window.pop(chance.randrange(len(window)))
            assert old == wanted[place]
    assert all(wanted[at] == row for at, row in kept_by_place.items())


def test_a_tuple_used_again_has_the_hash_of_its_values(path: Path) -> None:
    seen = set()
    for at, row in enumerate(package.Records(path, FORMAT)):
        assert hash(row) == hash((*row,))
        seen.add(id(row))
        if at == 2000:
            break
    # What makes the loop fast: nobody kept them, so that there were only two.
    if sys.version_info < (3, 14):
        assert len(seen) == 2


def test_tuples_seen_by_the_collector_are_not_used_again(path: Path) -> None:
    wanted = rows_of(path)
    found = []
    for at, row in enumerate(package.Records(path, FORMAT)):
        if at % 10_000 == 0:
            gc.collect()
            # Also those that the iterator has for later.
            found += [(one, (*one,)) for one in gc.get_objects() if type(one) is tuple and len(one) == 3]
        assert row == wanted[at]
    assert all(one == copy for one, copy in found)


def test_iterators_leave_no_references_and_no_memory_behind(path: Path) -> None:
    records = package.Records(path, FORMAT)
    marker = 1 << 40 | 59_999  # equal to the last record's number, not the same object

    def use() -> None:
        for row in records:
            assert row is not None
        for _ in zip(range(10), records, strict=False):
            pass
        for raw in records.raw():
            assert len(raw) == 16
        list(records[:1000])
        records.aggregate("count", "sum(f1)", by="f2").numpy()
        sum(len(batch.arrays()) for batch in records.scan(batch_size=1000))
        assert records[-1][0] == marker

    use()
    gc.collect()
    tracemalloc.start()
    try:
        use()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            use()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
    iterator = iter(records)
    row = next(iterator)
    plain = next(struct.iter_unpack(FORMAT, path.read_bytes()))
    assert sys.getrefcount(row) == sys.getrefcount(plain) + 1  # the iterator's
    assert sys.getrefcount(row[0]) == sys.getrefcount(plain[0])
    del iterator
    assert sys.getrefcount(row) == sys.getrefcount(plain)


def test_an_iterator_stays_at_its_end_and_cannot_be_made_from_its_type(path: Path) -> None:
    records = package.Records(path, FORMAT)[:2]
    for iterator in (iter(records), records.raw()):
        assert iter(iterator) is iterator
        assert len(list(iterator)) == 2
        for _ in range(3):
            assert next(iterator, None) is None
        with pytest.raises(TypeError):
            type(iterator)()


@pytest.mark.parametrize("kind", ["tuples", "raw", "batches"])
def test_threads_that_share_an_iterator_get_every_record_once(path: Path, kind: str) -> None:
    records = package.Records(path, FORMAT)
    shared: Any = {"tuples": iter(records), "raw": records.raw(), "batches": iter(records.scan(batch_size=500))}[kind]
    found: list[list[Any]] = [[] for _ in range(6)]
    start = threading.Barrier(6)

    def take(into: list[Any]) -> None:
        start.wait()
        for one in shared:
            into += one.rows() if kind == "batches" else [one]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take, args=(into,)) for into in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    everything = sorted(struct.unpack(FORMAT, one) if kind == "raw" else one for into in found for one in into)
    assert everything == rows_of(path)


@pytest.mark.parametrize(
    "use",
    [
        "list(records)",
        "sum(1 for _ in records.raw())",
        "records.numpy()",
        "records.aggregate('sum(f1)', where='f1 * f2 > 3')",
        "records.arrow()",
        "records.aggregate('sum(f1)', by='f2')",
        "list(records.scan('f1 == 1'))",
        "list(records.scan('f1 == 1', workers=1))",
        "collections.deque(records.scan(), maxlen=0)",
    ],
)
@pytest.mark.timing
def test_ctrl_c_ends_all_that_takes_long(interpreter: Interpreter, tmp_path: Path, use: str) -> None:
    # As large as makes the slowest of them take longer than this test; sparse, so that it takes no room.
    with (tmp_path / "large").open("wb") as file:
        file.truncate(
            256 << 30 if "numpy" not in use and "arrow" not in use and "list(records)" not in use else 1 << 30
        )
    script = f"""
        import collections, shoal, sys
        records = shoal.Records(sys.argv[1], "<QII")
        if {"arrow" in use or "numpy" in use}:
            records = shoal.Records([sys.argv[1]] * 4, "<QII")
        print("going", flush=True)
        {use}
        print("done")
    """
    _, printed = interpreter.interrupt(script, tmp_path / "large")
    assert "done" not in printed


def test_a_forked_child_is_told_and_what_is_new_works_there(interpreter: Interpreter, path: Path) -> None:
    script = """
        import os, shoal, signal, sys
        records = shoal.Records(sys.argv[1], "<QII")
        tuples, raw, batches = iter(records), records.raw(), iter(records.scan(batch_size=10))
        columns = records.columns(batch_size=10)
        next(tuples), next(raw), next(batches), next(columns)
        for attempt in range(10):
            child = os.fork()
            if not child:
                signal.alarm(20)
                for begun in (batches, columns):
                    try:
                        next(begun)
                    except RuntimeError as error:
                        assert "forked" in str(error), error
                    else:
                        os._exit(1)
                # These have no threads: each process goes on where both were.
                assert len(list(tuples)) == len(list(raw)) == 59_999
                assert len(list(records)) == 60_000
                assert records.aggregate("count", where="f2 < 50") == {"count": 30_000}
                assert sum(map(len, records.scan(batch_size=100))) == 60_000
                del batches, columns
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0, attempt
        print(len(list(tuples)), sum(map(len, batches)))
    """
    done = interpreter.run(script, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "59999 59990\n", "")


@pytest.mark.parametrize("use", ["tuples", "raw", "scan", "columns", "numpy", "aggregate", "groups", "arrow"])
def test_a_file_cut_short_while_it_is_read_is_an_error_that_names_it(path: Path, use: str) -> None:
    records = package.Records(path, FORMAT)
    iterators: dict[str, Callable[[], Iterator[object]]] = {
        "tuples": lambda: iter(records),
        "raw": records.raw,
        "scan": lambda: iter(records.scan(batch_size=100, workers=1)),
        "columns": lambda: records.columns(batch_size=100, workers=1),
    }
    uses: dict[str, Callable[[], object]] = {
        "numpy": records.numpy,
        "aggregate": lambda: records.aggregate("sum(f1)"),
        "groups": lambda: records.aggregate("sum(f1)", by="f2"),
        "arrow": records.arrow,
    }
    begun = iterators[use]() if use in iterators else None
    if begun is not None:
        assert next(begun) is not None
    os.truncate(path, 16 * 30_000)
    with pytest.raises(package.IntegrityError, match="truncated") as caught:
        for _ in begun if begun is not None else [uses[use]()]:
            pass
    assert caught.value.kind == "changed"
    assert str(path) in str(caught.value)
    if begun is not None:
        assert next(begun, None) is None


def test_a_file_that_another_thread_cuts_and_grows_all_the_time_kills_nobody(tmp_path: Path) -> None:
    path = tmp_path / "f"
    data = random.Random(2).randbytes(16 * 200_000)
    path.write_bytes(data)
    stop = threading.Event()

    def change() -> None:
        with path.open("r+b") as file:
            while not stop.is_set():
                file.truncate(16 * 1000)
                file.seek(0)
                file.write(data)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        until, errors = time.monotonic() + 2, 0
        while time.monotonic() < until:
            try:
                records = package.Records(path, FORMAT, tail="drop")
                records.numpy()
                records.aggregate("sum(f1)", by="f2", where="f0 > 5")
                for _ in records.raw():
                    pass
            except package.IntegrityError:
                errors += 1
    finally:
        stop.set()
        thread.join()
    assert errors


def test_who_reads_while_others_append_sees_whole_records_only(interpreter: Interpreter, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    script = """
        import shoal, struct, sys
        for at in range(400):
            rows = [(at, writer, 7) for writer in [int(sys.argv[2])] for _ in range(37)]
            assert shoal.Records.append(sys.argv[1], rows, "<QII").records == 37
    """
    writers = [interpreter.start(script, path, f"{number}") for number in range(3)]
    seen, records = 0, package.Records(path, FORMAT, follow=True)
    while any(process.poll() is None for process in writers):
        assert len(records) >= seen
        assert all(row[2] == 7 and row[1] < 3 for row in records[seen:])
        seen = len(records[: len(records)])
        # A program that looks anew waits for an append that is under way, rather than call the file torn.
        assert len(package.Records(path, FORMAT)) >= seen
    for process in writers:
        assert process.communicate()[1] == ""
    rows = list(records)
    assert len(rows) == 3 * 400 * 37
    # The records of one call stand together.
    for start in range(0, len(rows), 37):
        assert len(set(rows[start : start + 37])) == 1


def has_attributes(path: Path) -> bool:
    """Whether the file system has what marks an append that is under way."""
    try:
        os.setxattr(path, "user.test", b"1")
    except OSError:
        return False
    return True


def test_a_program_killed_while_it_appends_leaves_all_records_of_a_call_or_none(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    path, chance = tmp_path / "f", random.Random(5)
    path.touch()
    whole, before = has_attributes(path), 0
    script = """
        import shoal, sys
        rows = b"".join(bytes([7]) * 1_000_003 for _ in range(20))
        print("going", flush=True)
        while True:
            shoal.Records.append(sys.argv[1], rows, "1000003s")
    """
    for _ in range(8):
        process = interpreter.start(script, path)
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        time.sleep(chance.random() * 0.1)
        process.kill()
        process.communicate()
        # Whatever it left, readers that follow see whole records, and the next append cuts it off unasked.
        if whole:
            assert (len(package.Records(path, "1000003s", tail="drop")) - before) % 20 == 0
        for (record,) in itertools.islice(package.Records(path, "1000003s", follow=True), 3):
            assert record == bytes([7]) * 1_000_003
        length = path.stat().st_size
        done = package.Records.append(path, bytes([7]) * 1_000_003, "1000003s", tail="error" if whole else "cut")
        assert (done.records, done.cut) == (1, length - done.first * 1_000_003)
        records = package.Records(path, "1000003s")
        assert records[-1] == (bytes([7]) * 1_000_003,)
        os.truncate(path, 1_000_003)
        before = 1


def test_a_torn_end_is_refused_by_an_append_and_cut_only_when_asked_for(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"half of one")
    before = path.read_bytes()
    with pytest.raises(package.IntegrityError, match="11 more bytes") as caught:
        package.Records.append(path, [(1, 2, 3)], FORMAT)
    assert (caught.value.kind, caught.value.name) == ("torn", str(path))
    assert 'tail="cut"' in (caught.value.hint or "")
    with pytest.raises(package.ConfigError, match="'cut'"):
        package.Records.append(path, [(1, 2, 3)], FORMAT, tail="drop")  # type: ignore[arg-type]
    assert path.read_bytes() == before
    done = package.Records.append(path, [(1, 2, 3)], FORMAT, tail="cut")
    assert done == package.Appended(records=1, first=60_000, cut=11)
    records = package.Records(path, FORMAT)
    assert (len(records), records[-1]) == (60_001, (1, 2, 3))


def test_records_survive_an_append_with_the_wrong_format(tmp_path: Path) -> None:
    package.Records.append(tmp_path / "f", b"abcdefghij" * 3, "10s")
    with pytest.raises(package.IntegrityError):
        package.Records.append(tmp_path / "f", [(1, 2)], "<QQ")
    assert (tmp_path / "f").read_bytes() == b"abcdefghij" * 3


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (scripts/install_test_tools.sh)")
@pytest.mark.parametrize("fails", ["fdatasync", "fsync"])
def test_a_durable_append_that_cannot_be_synced_can_be_called_again_and_appends_once(
    tmp_path: Path, fails: str
) -> None:
    # fdatasync is the file's, fsync that of the directory of a file that the call has made.
    script = """
        import os, shoal, sys
        for _ in range(2):
            try:
                print(shoal.Records.append(sys.argv[1], bytes(range(16)), "<QQ", durable=True).records)
            except shoal.RunError as error:
                print("syncing" in str(error), os.path.getsize(sys.argv[1]), os.listxattr(sys.argv[1]))
    """
    inject = ["-e", "trace=fsync,fdatasync", "-e", f"inject={fails}:error=EIO:when=1"]
    strace = ["strace", "-f", "-qq", "-y", "-o", str(tmp_path / "calls"), *inject]
    done = subprocess.run(
        [*strace, sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "new")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("True 0 []\n1\n", "")
    assert (tmp_path / "new").read_bytes() == bytes(range(16))
    assert f"<{tmp_path}>" in (tmp_path / "calls").read_text(), "the directory of a new file is synced"


def test_an_append_that_fails_in_the_middle_leaves_the_file_as_it_was(interpreter: Interpreter, path: Path) -> None:
    script = """
        import resource, shoal, sys
        # Room for 12 MB more, as on a disk that is nearly full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (13_000_000, 13_000_000))
        try:
            shoal.Records.append(sys.argv[1], bytes(16_000_000), "<QII")
        except shoal.RunError as error:
            print(error.name == sys.argv[1], "appending" in str(error))
        print(len(shoal.Records(sys.argv[1], "<QII")), shoal.Records.append(sys.argv[1], bytes(16), "<QII").records)
    """
    done = interpreter.run(script, path)
    assert (done.stdout, done.stderr) == ("True True\n60000 1\n", "")


@pytest.mark.timing
def test_ctrl_c_while_waiting_for_the_lock_of_an_append(interpreter: Interpreter, path: Path) -> None:
    script = """
        import fcntl, shoal, sys
        held = open(sys.argv[1], "r+b")
        fcntl.flock(held, fcntl.LOCK_EX)
        print("going", flush=True)
        shoal.Records.append(sys.argv[1], [(1, 2, 3)], "<QII")
    """
    interpreter.interrupt(script, path, after=0.2)
    assert path.stat().st_size == 960_000


@pytest.mark.parametrize("gigabytes", [3, pytest.param(20, marks=pytest.mark.slow(minutes=2))])
def test_a_sparse_file_of_many_gb_is_read_within_300_mb(
    interpreter: Interpreter, tmp_path: Path, gigabytes: int
) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(gigabytes * 1_000_000_000)
    script = """
        import itertools, shoal, sys
        def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
        records = shoal.Records(sys.argv[1], "<QII")
        for row in itertools.islice(records, 1_000_000): pass
        for batch in itertools.islice(records.scan("f0 == 0"), 200): pass
        count = len(records) // 6
        groups = records[:count].aggregate("count", by="f1", where="f2 == 0")
        assert list(groups) == [(0, count)]
        print(peak())
    """
    done = interpreter.run(script, tmp_path / "large", timeout=200)
    assert done.stderr == ""
    assert int(done.stdout) < 300_000_000
