"""`shoal.save`: what is handed over arrives, and is borrowed, copied, bounded and let go as promised."""

from __future__ import annotations

import array
import gc
import mmap
import os
import pathlib
import random
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from destination import balanced
from saving import numbered
from trees import tree_of_raw_names
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Interpreter


def test_every_item_becomes_a_file_with_its_bytes(tmp_path: Path) -> None:
    report = package.save(numbered(2500), tmp_path / "out", on_error="record")

    assert tree_of_raw_names(tmp_path / "out") == {b"%06d" % n: b"%d" % n for n in range(2500)}
    assert (report.listed, report.written, report.failed, report.unfinished) == (2500, 2500, 0, 0)
    assert report.complete
    assert balanced(report)
    assert package.status(tmp_path / "out").runs[-1].total.written == 2500


def test_a_dict_is_saved_by_its_names(tmp_path: Path) -> None:
    data = {f"{n}.json": {"n": n} for n in range(300)}
    report = package.save(data, tmp_path / "out", source_id="dict")
    assert report.written == 300
    read = {obj.name: obj.json() for obj in package.read(tmp_path / "out")}
    assert read == data
    assert package.save(data, tmp_path / "out", source_id="dict").resumed_from == 300


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 9 << 20])
def test_data_of_every_size_arrives(tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    package.save([("small", b""), ("data", data)], tmp_path / "out", memory="1MiB")
    assert tree_of_raw_names(tmp_path / "out") == {b"small": b"", b"data": data}


DOUBLES = array.array("d", [1.5, -2.0])
GRID = memoryview(bytes(range(24))).cast("B", (4, 6))


@pytest.mark.parametrize(
    ("data", "saved"),
    [
        (b"bytes", b"bytes"),
        ("text", b"text"),
        ("é日本", "é日本".encode()),
        (bytearray(b"array of bytes"), b"array of bytes"),
        (memoryview(b"view"), b"view"),
        (memoryview(b"every other")[::2], b"eeyohr"),
        (memoryview(bytearray(b"writable view")), b"writable view"),
        (DOUBLES, DOUBLES.tobytes()),
        (memoryview(DOUBLES).toreadonly(), DOUBLES.tobytes()),
        (GRID, bytes(range(24))),
        (type("Bytes", (bytes,), {})(b"a subclass"), b"a subclass"),
        (bytearray(), b""),
        (memoryview(b""), b""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_of_every_kind_arrives(tmp_path: Path, data: object, saved: bytes) -> None:
    report = package.save([("object", data)], tmp_path / "out")
    assert (report.written, tree_of_raw_names(tmp_path / "out")) == (1, {b"object": saved})


def test_a_mapped_file_is_saved(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"mapped" * 100_000)
    with (tmp_path / "source").open("r+b") as file:
        for access in (mmap.ACCESS_READ, mmap.ACCESS_WRITE):
            with mmap.mmap(file.fileno(), 0, access=access) as mapped:
                package.save([("object", mapped)], tmp_path / f"out{access}")
            assert tree_of_raw_names(tmp_path / f"out{access}") == {b"object": b"mapped" * 100_000}


def test_names_are_text_bytes_or_paths(tmp_path: Path) -> None:
    names: list[Any] = [
        "plain",
        "a/b",
        "日本",
        "\udcff\udcfe",
        b"\xfd",
        pathlib.PurePosixPath("path/of/it"),
        "new\nline",
    ]
    package.save([(name, b"") for name in names], tmp_path / "out")
    assert set(tree_of_raw_names(tmp_path / "out")) == {os.fsencode(name) for name in names}


@pytest.mark.parametrize("name", ["../up", "/root", "", "a//b", ".shoal/x", "nul\0", "\ud800", "x" * 256])
def test_an_unsafe_name_is_a_failure_of_its_object(tmp_path: Path, name: str) -> None:
    report = package.save([("before", b""), (name, b""), ("after", b"")], tmp_path / "out", on_error="record")
    assert (report.written, report.failed) == (2, 1)
    assert report.failures[0].kind == "unsafe-name"
    assert set(tree_of_raw_names(tmp_path / "out")) == {b"before", b"after"}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_text_without_utf_8_is_a_failure_of_its_object(tmp_path: Path) -> None:
    report = package.save([("good", "good"), ("bad", "half \ud800")], tmp_path / "out", on_error="record")
    assert (report.written, report.failed, report.failures[0].name) == (1, 1, "bad")
    assert report.failures[0].kind == "encoding"
    assert "surrogate" in report.failures[0].reason


def test_on_error_stop_ends_it_with_the_objects_own_exception(tmp_path: Path) -> None:
    asked = 0

    def endless() -> Iterator[tuple[str, bytes]]:
        nonlocal asked
        yield "../up", b""
        while True:
            asked += 1
            yield f"{asked}", b""

    with pytest.raises(package.UnsafeNameError) as raised:
        package.save(endless(), tmp_path / "out", on_error="stop")
    assert raised.value.name == "../up"
    assert asked < 1_000_000


def test_a_generator_that_raises_saves_what_it_gave_and_says_how_many(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield from numbered(1234)
        raise ValueError("out of numbers")

    with pytest.raises(ValueError, match="out of numbers") as raised:
        package.save(broken(), tmp_path / "out")

    assert raised.value.__notes__ == ["shoal: 1234 objects were saved before this"]
    report: package.Report = raised.value.report  # type: ignore[attr-defined]
    assert (report.written, report.unfinished, report.complete) == (1234, 0, False)
    assert len(tree_of_raw_names(tmp_path / "out")) == 1234


GARBAGE: list[tuple[Any, str]] = [
    ("ab", "not a pair"),
    (None, "not a pair"),
    (("name",), "not a pair"),
    (("name", b"", b""), "not a pair"),
    ({"name": b""}, "not a pair"),
    ((1, b""), "its name must be"),
    ((None, b""), "its name must be"),
    ((bytearray(b"name"), b""), "its name must be"),
    (("name", None), "its data must be"),
    (("name", 5), "its data must be"),
    (("name", ["text"]), "its data must be"),
    (("name", ...), "its data must be"),
]


@pytest.mark.parametrize(("item", "says"), GARBAGE, ids=repr)
def test_what_is_no_pair_is_a_type_error_that_names_its_place(tmp_path: Path, item: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"item 150 .counted from 0. is .*{says}") as raised:
        package.save([*numbered(150), item, ("never", b"")], tmp_path / "out")
    assert raised.value.__notes__ == ["shoal: 150 objects were saved before this"]
    assert len(tree_of_raw_names(tmp_path / "out")) == 150


def test_garbage_a_hundred_times_over_leaves_nothing_behind(tmp_path: Path) -> None:
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    chance = random.Random(4)
    for attempt in range(100):
        items: list[Any] = [*numbered(chance.randrange(150))]
        items.insert(chance.randrange(len(items) + 1), chance.choice(GARBAGE)[0])
        with pytest.raises(TypeError):
            package.save(iter(items), tmp_path / f"out{attempt}", durability="none")
    # A thread that was joined is listed a little longer.
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads)  # noqa: PTH208
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


@pytest.mark.parametrize("items", [None, 5, object()])
def test_items_that_cannot_be_iterated_are_a_type_error(tmp_path: Path, items: Any) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        package.save(items, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_writable_buffer_may_be_filled_again_at_once(tmp_path: Path) -> None:
    def reused() -> Iterator[tuple[str, bytearray]]:
        buffer = bytearray(1000)
        for number in range(500):
            buffer[:] = bytes([number % 256]) * 1000
            yield f"{number}", buffer
            buffer[:] = b"!" * 1000

    package.save(reused(), tmp_path / "out")
    assert tree_of_raw_names(tmp_path / "out") == {b"%d" % n: bytes([n % 256]) * 1000 for n in range(500)}


def test_bytes_and_views_of_bytes_are_not_copied(interpreter: Interpreter) -> None:
    script = """
        import shoal
        def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
        data = bytes(100 << 20)
        before = peak()
        shoal.save(((f"{n}", d) for n, d in enumerate([data, memoryview(data)])), "null:", memory="1GiB")
        print((peak() - before) >> 10)
    """
    done = interpreter.run(script)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50  # MiB; one copy would be 100


def test_data_is_let_go_soon_after_it_is_written_and_all_of_it_at_the_end(tmp_path: Path) -> None:
    class Data(str):
        """Text that can be watched."""

        __slots__ = ("__weakref__",)

    gone: list[int] = []
    made = most = 0

    def watched() -> Iterator[tuple[str, Data]]:
        nonlocal made, most
        for number in range(2000):
            data = Data("x" * 10_000)
            weakref.finalize(data, gone.append, number)
            made += 1
            most = max(most, made - len(gone))
            yield f"{number}", data

    package.save(watched(), tmp_path / "out", memory="2MiB", durability="none")
    gc.collect()
    assert sorted(gone) == list(range(2000))
    assert most < 300  # 2 MiB are 200 of them


def test_a_generator_much_faster_than_the_disk_stays_within_its_memory(interpreter: Interpreter) -> None:
    script = """
        import shoal
        def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
        shoal.save(((f"warm{n}", bytes(100_000)) for n in range(20)), "null:")
        before = peak()
        report = shoal.save(
            ((f"{n}", bytes([n % 256]) * 100_000) for n in range(1500)), "null:", memory="32MiB", limit_rate="50MB"
        )
        print(report.written, (peak() - before) >> 10)
    """
    done = interpreter.run(script)
    assert done.returncode == 0, done.stderr
    written, grown = map(int, done.stdout.split())
    assert written == 1500
    assert grown < 32 + 60  # MiB, of 150 in all


def test_nothing_is_asked_of_a_generator_when_the_destination_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    asked = 0

    def items() -> Iterator[tuple[str, bytes]]:
        nonlocal asked
        asked += 1
        yield "x", b""

    with pytest.raises(package.ShoalError):
        package.save(items(), tmp_path / "out")
    assert asked == 0


def test_a_generator_may_itself_save(tmp_path: Path) -> None:
    def outer() -> Iterator[tuple[str, bytes]]:
        for number in range(5):
            inner = package.save(numbered(300), tmp_path / f"inner{number}", durability="none")
            yield f"{number}", b"%d" % inner.written

    package.save(outer(), tmp_path / "out")
    assert tree_of_raw_names(tmp_path / "out") == {b"%d" % n: b"300" for n in range(5)}


def test_what_a_slow_generator_gave_is_saved_while_it_thinks(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def slow() -> Iterator[tuple[str, bytes]]:
        for number in range(3):
            yield f"{number}", b""
            time.sleep(0.25)
        yield "last", b""
        deadline = time.monotonic() + 10
        while len(seen) < 3 and time.monotonic() < deadline:
            seen[:] = [name for name in tree_of_raw_names(tmp_path / "out") if name != b"last"]
            time.sleep(0.01)

    package.save(slow(), tmp_path / "out")
    assert len(seen) == 3
