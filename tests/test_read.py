"""`shoal.read`: every object arrives, one by one, and the reader behaves as an iterator should."""

from __future__ import annotations

import io
import os
import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from conftest import Service


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, bytes]:
    """Files of every size that is treated differently, below `tree/`."""
    chance = random.Random(4)
    objects = {f"d{number % 7}/f{number}": chance.randbytes(number * 3) for number in range(500)}
    for size in (0, 1, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, 3_600_000):
        objects[f"sized/deep/er/{size}"] = chance.randbytes(size)
    for name, data in objects.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return objects


def threads(prefix: str = "shoal") -> int:
    found = 0
    for task in tasks():
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended meanwhile
            found += Path(f"/proc/self/task/{task}/comm").read_text().startswith(prefix)
    return found


def tasks() -> list[str]:
    return os.listdir("/proc/self/task")  # noqa: PTH208


def wait_for_no_threads(within: float) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if not threads():
                return
        except FileNotFoundError:
            continue  # one ended in this moment
        assert time.monotonic() < deadline, threads()
        time.sleep(0.005)


@pytest.mark.parametrize("order", ["any", "source"])
def test_every_file_arrives_with_its_name_and_its_bytes(tmp_path: Path, tree: dict[str, bytes], order: str) -> None:
    reader = package.read(tmp_path / "tree", order=order, on_error="record")  # type: ignore[arg-type]
    found = {obj.name: bytes(obj) for obj in reader}
    assert found == tree
    assert reader.report is not None
    assert (reader.report.listed, reader.report.written, reader.report.failed) == (len(tree), len(tree), 0)
    assert reader.report.bytes == sum(map(len, tree.values()))


def test_every_object_of_a_service_arrives(tmp_path: Path, tree: dict[str, bytes], service: Service) -> None:
    url = service(tmp_path / "tree").url
    assert {obj.name: bytes(obj) for obj in package.read(url)} == tree
    assert {obj.name: bytes(obj) for obj in package.read(package.list_get(url, pipeline="off"), order="source")} == tree


def test_a_file_a_glob_and_paths_are_read(
    tmp_path: Path, tree: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [(obj.name, bytes(obj)) for obj in package.read("tree/d1/f1")] == [("f1", tree["d1/f1"])]
    wanted = {name: data for name, data in tree.items() if name.startswith("d") and name.endswith("5")}
    assert {obj.name: bytes(obj) for obj in package.read("tree/d*/*5")} == wanted
    assert {obj.name for obj in package.read("tree/**/f7")} == {"d0/f7"}
    paths = [Path("tree") / name for name in wanted]
    assert {obj.name: obj.size for obj in package.read(iter(paths))} == {
        f"tree/{name}": len(data) for name, data in wanted.items()
    }


def test_include_and_exclude_choose_by_name(tmp_path: Path, tree: dict[str, bytes]) -> None:
    reader = package.read(tmp_path / "tree", include=["d1/**", "d2/**"], exclude="**/f8")
    assert {obj.name for obj in reader} == {name for name in tree if name[:3] in ("d1/", "d2/") and name != "d1/f8"}
    assert reader.report is not None
    assert reader.report.skipped == len(tree) - reader.report.written


def test_the_order_given_is_kept(tmp_path: Path, tree: dict[str, bytes], service: Service) -> None:
    names = list(tree) * 3
    random.Random(5).shuffle(names)
    paths = [tmp_path / "tree" / name for name in names]
    found = [obj.name for obj in package.read(paths, order="source", workers=5, memory="4MiB")]
    assert found == names
    served = [obj.name for obj in package.read(service(synthetic="20000:50").url, order="source")]
    assert served == sorted(served)
    assert len(served) == 20000


def test_what_fails_or_is_skipped_does_not_hold_the_order_up(tmp_path: Path, tree: dict[str, bytes]) -> None:
    names = list(tree)[:300]
    paths = [tmp_path / "tree" / (name if at % 3 else f"{name}-not-there") for at, name in enumerate(names)]
    reader = package.read(paths, order="source", exclude="**/f1?", on_error="record")
    found = [Path(obj.name).name for obj in reader]
    wanted = [Path(name).name for at, name in enumerate(names) if at % 3]
    assert found == [name for name in wanted if not (len(name) == 3 and name.startswith("f1"))]
    assert reader.report is not None
    assert reader.report.failed > 90


def test_the_bytes_are_a_view_and_nothing_is_copied(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/large").write_bytes(bytes(range(256)) * 4096)
    (obj,) = package.read(tmp_path / "a")
    view = obj.data
    assert (view.readonly, view.nbytes, view.format, view.itemsize) == (True, 1 << 20, "B", 1)
    assert (obj.size, len(obj), obj.offset) == (1 << 20, 1 << 20, 0)
    first, second = memoryview(obj), obj.data
    assert first == second == bytes(obj) == bytes(range(256)) * 4096
    file = io.BytesIO()
    assert file.write(obj) == 1 << 20
    with pytest.raises(TypeError):
        view[0] = 1
    del obj, first, second
    assert view[257] == 1, "the view keeps the bytes"
    with pytest.raises(TypeError):
        io.BytesIO(b"x").readinto(next(package.read(tmp_path / "a")))


def test_an_object_is_read_as_json_and_what_is_not_json_raises(tmp_path: Path) -> None:
    texts = {"a": b'{"x": [1, null]}', "b": '"\N{SNOWMAN}"'.encode("utf-16"), "c": b"{", "d": b""}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    objects = {obj.name: obj for obj in package.read(tmp_path)}
    assert objects["a"].json() == {"x": [1, None]}
    assert objects["b"].json() == "\N{SNOWMAN}"
    for name in "cd":
        with pytest.raises(ValueError, match="line 1 column"):
            objects[name].json()


def test_a_name_that_is_not_text_has_surrogates_and_is_safe_to_show(tmp_path: Path) -> None:
    raw = b"caf\xe9-\x1b[31m"
    (tmp_path / os.fsdecode(raw)).write_bytes(b"x")
    (obj,) = package.read(tmp_path)
    assert os.fsencode(obj.name) == raw
    assert repr(obj) == r'Object(name="caf\xe9-\x1b[31m", size=1)'


def test_nothing_happens_before_the_first_object_is_asked_for(service: Service) -> None:
    server = service(synthetic="10:10")
    reader = package.read(server.url)
    time.sleep(0.1)
    assert server.stats.requests == 0
    assert threads() == server_threads()
    assert getattr(reader, "report") is None  # noqa: B009  # it changes
    assert len(list(reader)) == 10
    report = reader.report
    assert report is not None
    assert report.written == 10


def server_threads() -> int:
    return threads("shoal-serve")


def test_leaving_the_loop_early_ends_the_threads_at_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(100_000))
    wait_for_no_threads(5)
    for _ in range(20):
        for obj in package.read([tmp_path / "f"] * 50_000):
            assert obj.size == 100_000
            break
        wait_for_no_threads(1)


def test_a_context_manager_waits_for_the_threads(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(1000))
    with package.read([tmp_path / "f"] * 50_000) as reader:
        assert next(reader).size == 1000
    assert threads() == 0
    assert reader.report is not None
    assert not reader.report.complete
    assert next(reader, None) is None
    reader.close()


def test_a_closed_reader_that_was_never_begun_says_so(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    reader = package.read(tmp_path)
    reader.close()
    with pytest.raises(package.ConfigError, match="this reader is closed"):
        list(reader)
    assert reader.report is None
    with pytest.raises(package.ConfigError, match="objects come once"):
        reader.batches()


def test_a_failed_object_is_recorded_and_the_others_come(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    reader = package.read([tmp_path / "there", tmp_path / "gone", tmp_path / "there"], on_error="record")
    assert [obj.name for obj in reader] == ["there", "there"]
    assert reader.report is not None
    assert (reader.report.failed, reader.report.written) == (1, 2)
    (failure,) = reader.report.failures
    assert (failure.name, failure.kind) == ("gone", "vanished")
    skipping = package.read([tmp_path / "there", tmp_path / "gone"], ignore_vanished=True, on_error="record")
    assert len(list(skipping)) == 1
    assert skipping.report is not None
    assert (skipping.report.failed, skipping.report.skipped) == (0, 1)


def test_the_first_failure_is_raised_on_request_with_the_report(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    reader = package.read([tmp_path / "there", tmp_path / "gone"], on_error="stop")
    with pytest.raises(package.NotFoundError, match="gone") as raised:
        list(reader)
    assert raised.value.report is not None
    assert raised.value.report.run.failed + raised.value.report.unfinished > 0, "committed with its failure, or not yet"
    assert not raised.value.report.ok
    assert next(reader, None) is None, "it is raised once"


def test_a_source_that_is_not_there_or_none_at_all_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(package.NotFoundError, match="nowhere"):
        package.read(tmp_path / "nowhere")
    for wrong in (b"bytes", 1, None, [1], [""], ""):
        with pytest.raises(package.ConfigError):
            package.read(wrong)  # type: ignore[arg-type]


def test_a_run_that_cannot_go_on_raises_after_what_came_before(service: Service) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        reader = package.read(package.list_get(f"http://127.0.0.1:{nobody.getsockname()[1]}", retry_timeout=0.5))
        with pytest.raises(package.RunError) as raised:
            next(reader)
    assert raised.value.report is not None
    assert next(reader, None) is None


def test_an_object_larger_than_the_memory_is_a_failure_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    (tmp_path / "small").write_bytes(b"x")
    for order in ("any", "source"):
        reader = package.read(tmp_path, memory="1MiB", order=order, on_error="record")
        assert [obj.name for obj in reader] == ["small"]
        assert reader.report is not None
        (failure,) = reader.report.failures
        assert failure.kind == "too-large"
        assert "3145728 bytes" in failure.reason


@pytest.mark.parametrize("order", ["any", "source"])
def test_long_objects_come_in_pieces_on_request(
    tmp_path: Path, tree: dict[str, bytes], service: Service, order: str
) -> None:
    for source in (tmp_path / "tree", service(tmp_path / "tree").url):
        found: dict[str, bytes] = {}
        for obj in package.read(source, chunk_size=100_000, memory="1MiB", order=order):  # type: ignore[arg-type]
            assert obj.offset == len(found.get(obj.name, b"")), "pieces come one after the other"
            assert obj.size <= 100_000
            found[obj.name] = found.get(obj.name, b"") + bytes(obj)
        assert found == tree


def test_several_threads_may_take_from_one_reader(tmp_path: Path, tree: dict[str, bytes]) -> None:
    reader = package.read(tmp_path / "tree")
    found: Counter[str] = Counter()
    takers = [threading.Thread(target=lambda: found.update(obj.name for obj in reader)) for _ in range(4)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join(30)
    assert found == Counter(list(tree))


def test_a_reader_inside_the_loop_of_another_works(tmp_path: Path, tree: dict[str, bytes]) -> None:
    for at, obj in enumerate(package.read(tmp_path / "tree")):
        assert bytes(obj) == tree[obj.name]
        if at % 200 == 0:
            assert sum(1 for _ in package.read(tmp_path / "tree")) == len(tree)


def test_progress_is_told_and_what_it_raises_comes_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(10_000))
    told: list[package.Progress] = []
    for _ in package.read([tmp_path / "f"] * 30_000, progress=told.append):
        pass
    assert told
    assert all(one.run.listed <= 30_000 for one in told)

    def angry(_: package.Progress) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        list(package.read([tmp_path / "f"] * 30_000, progress=angry))
    wait_for_no_threads(1)


def test_links_pipes_and_sockets_are_followed_or_skipped_and_counted(tmp_path: Path) -> None:
    directory = tmp_path / "odd"
    directory.mkdir()
    (directory / "file").write_bytes(b"x")
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to("file")
    (directory / "dangling").symlink_to("nowhere")
    (directory / "loop").symlink_to(".")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        reader = package.read(directory, on_error="record")
        assert sorted(obj.name for obj in reader) == ["file", "link"]
    assert reader.report is not None
    assert (reader.report.skipped, reader.report.failed) == (3, 1)
    assert [(one.name, one.kind) for one in reader.report.failures] == [("dangling", "vanished")]
    assert any("pipe" in note and "socket" in note and "link" in note for note in reader.report.notes)
    following = package.read(package.files(directory, links="follow"), on_error="record")
    assert sorted(obj.name for obj in following) == ["file", "link"]
    assert following.report is not None
    assert (following.report.skipped, following.report.failed) == (3, 1)
    skipping = package.read(package.files(directory, links="skip"))
    assert [obj.name for obj in skipping] == ["file"]
    assert skipping.report is not None
    assert (skipping.report.skipped, skipping.report.failed) == (5, 0)


def test_the_workers_asked_for_are_the_workers_of_the_report(tmp_path: Path, tree: dict[str, bytes]) -> None:
    for workers in (1, 7):
        reader = package.read(tmp_path / "tree", workers=workers)
        assert sum(1 for _ in reader) == len(tree)
        assert reader.report is not None
        assert (reader.report.workers, reader.report.workers_reason) == (workers, "as asked")


def test_the_parts_of_a_source_hold_every_object_once(tmp_path: Path, tree: dict[str, bytes]) -> None:
    found: Counter[str] = Counter()
    for index in range(3):
        reader = package.read(tmp_path / "tree", part=(index, 3))
        part = [obj.name for obj in reader]
        assert reader.report is not None
        assert (reader.report.listed, reader.report.skipped) == (len(part), 0), "others' objects are not listed"
        found.update(part)
    assert found == Counter(list(tree))
    for wrong in ((3, 3), (-1, 2), (0,), ("0", "1"), (0, 0)):
        with pytest.raises(package.ConfigError, match="part"):
            package.read(tmp_path / "tree", part=wrong)  # type: ignore[arg-type]
