"""`parquet:DIR` as a source, and `shoal verify` of it: PyArrow writes and compares, not shoal."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from faults.runs import committed, wait_for_commit
from test_update_service import site
from waiting import wait_until

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pc = pytest.importorskip("pyarrow.compute", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

if TYPE_CHECKING:
    from conftest import Command, Service

TIME = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)


def objects(count: int) -> dict[str, bytes]:
    """Objects of many sizes; one larger than what is passed on whole, and than a page."""
    made = {f"d{n % 7}/file ä {n:05}": random.Random(n).randbytes(n * 97 % 3_000) for n in range(count)}
    return made | {"large": random.Random(1).randbytes(3_000_000), "empty": b""}


def written(directory: Path, made: dict[str, bytes], files: int = 3, **options: Any) -> Path:
    """A dataset of PyArrow's."""
    directory.mkdir()
    names = list(made)
    for number in range(files):
        part = names[number::files]
        table = pa.table({"data": [made[name] for name in part], "other": [1.5] * len(part), "name": part})
        pq.write_table(table, directory / f"part-{number}.parquet", **options)
    return directory


def tree(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file() and ".shoal" not in path.parts)
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def tables(made: dict[str, bytes]) -> list[Any]:
    names, data = list(made), list(made.values())
    return [
        pa.table({"name": pa.array(names, one), "data": pa.array(data, other)})
        for one, other in [
            (pa.large_string(), pa.large_binary()),
            (pa.string_view(), pa.binary_view()),
            (
                pa.dictionary(pa.int32(), pa.string()),
                pa.dictionary(pa.int32(), pa.binary()),
            ),
        ]
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "use_dictionary": False, "write_page_index": True, "data_page_size": 4096},
        {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 77},
        {"compression": "none", "use_dictionary": False, "write_page_checksum": True},
        {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY", "data": "DELTA_LENGTH_BYTE_ARRAY"}},
    ],
    ids=str,
)
def test_what_pyarrow_writes_becomes_files_and_objects(tmp_path: Path, options: dict[str, Any]) -> None:
    made = objects(700)
    source = f"parquet:{written(tmp_path / 'in', made, **options)}"
    report = package.copy(source, tmp_path / "out")
    assert (report.written, report.bytes) == (len(made), sum(map(len, made.values())))
    assert tree(tmp_path / "out") == made
    assert {obj.name: bytes(obj) for obj in package.read(source)} == made
    assert package.copy(source, "null:").bytes == report.bytes
    assert package.copy(source, tmp_path / "out").completed_before


def test_every_arrow_type_of_text_and_bytes_is_read(tmp_path: Path) -> None:
    made = objects(50)
    for number, table in enumerate(tables(made)):
        (tmp_path / str(number)).mkdir()
        pq.write_table(table, tmp_path / str(number) / "x.parquet")
        assert {obj.name: bytes(obj) for obj in package.read(f"parquet:{tmp_path}/{number}")} == made


def test_batches_of_a_dataset_are_its_columns(tmp_path: Path) -> None:
    made = objects(300)
    table = pa.table(package.read(f"parquet:{written(tmp_path / 'in', made)}").batches())
    assert dict(zip(table["name"].to_pylist(), table["data"].to_pylist(), strict=True)) == made
    assert table["size"].to_pylist() == [len(made[name]) for name in table["name"].to_pylist()]


def test_what_shoal_packed_is_unpacked_again_with_its_times(tmp_path: Path, shoal: Command) -> None:
    made = objects(400)
    for name, data in made.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    package.copy(tmp_path / "tree", package.parquet(tmp_path / "packed", shard_size="200kB"))
    done = shoal.run("copy", f"parquet:{tmp_path}/packed", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done
    assert tree(tmp_path / "out") == made
    assert all((tmp_path / "out" / name).stat().st_mtime == (tmp_path / "tree" / name).stat().st_mtime for name in made)
    again = shoal.run("read", f"parquet:{tmp_path}/packed", "--checksum", "sha256")
    wanted = shoal.run("read", str(tmp_path / "tree"), "--checksum", "sha256")
    assert sorted(again.stdout.splitlines()) == sorted(wanted.stdout.splitlines())
    repacked = package.copy(f"parquet:{tmp_path}/packed", f"parquet:{tmp_path}/again")
    assert repacked.written == len(made)


def test_what_pyarrow_rewrites_is_read_although_it_keeps_the_old_checksums(tmp_path: Path) -> None:
    made = objects(200)
    package.save(made.items(), f"parquet:{tmp_path}/packed")
    table = pq.read_table(tmp_path / "packed")
    assert b"shoal.row-group-xxh3" in table.schema.metadata
    (tmp_path / "again").mkdir()
    pq.write_table(table, tmp_path / "again/x.parquet", row_group_size=50)
    assert {obj.name: bytes(obj) for obj in package.read(f"parquet:{tmp_path}/again")} == made


def test_times_and_sizes_are_listed(tmp_path: Path) -> None:
    columns = {"name": ["a", "b"], "data": [b"A", b"BB"], "size": [1, 2], "last_modified": [TIME, None]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    listed = {one.name: one for one in package.list_objects(f"parquet:{tmp_path}")}
    assert [listed[name].size for name in "ab"] == [1, 2]
    assert [listed[name].last_modified for name in "ab"] == [TIME, None]
    assert listed["a"].archive == str(tmp_path / "x.parquet")


def test_a_copy_that_was_killed_continues_and_writes_each_object_once(tmp_path: Path, shoal: Command) -> None:
    made = {f"{n % 50}/{n:06}": b"%d" % n for n in range(30_000)}
    source = f"parquet:{written(tmp_path / 'in', made, files=4, row_group_size=1000)}"
    kept = 0
    for _ in range(4):
        process = shoal.start("copy", source, str(tmp_path / "out"), "--limit-rate", "20kB", "-q")
        wait_for_commit(tmp_path / "out", kept)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL, "it was still at work"
        kept = committed(tmp_path / "out")
    done = shoal.run("copy", source, str(tmp_path / "out"), "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["total"]["written"], report["total"]["failed"]) == (0, 30_000, 0)
    assert report["written"] == 30_000 - kept
    assert tree(tmp_path / "out") == made


def test_a_file_that_was_replaced_between_two_sessions_is_read_again(tmp_path: Path, shoal: Command) -> None:
    made = {f"{n:06}": b"%d" % n for n in range(25_000)}
    directory = written(tmp_path / "in", made, files=2)
    process = shoal.start("copy", f"parquet:{directory}", str(tmp_path / "out"), "--limit-rate", "30kB", "-q")
    wait_for_commit(tmp_path / "out")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    new = {f"new {n:06}": b"new" for n in range(100)}
    written(tmp_path / "other", new, files=1)
    (tmp_path / "other/part-0.parquet").rename(directory / "part-0.parquet")
    report = package.copy(f"parquet:{directory}", tmp_path / "out")
    found = tree(tmp_path / "out")
    assert all(found[name] == data for name, data in new.items())
    assert report.total.written == 12_500 + 100


def test_a_dataset_that_is_none_is_an_error_that_says_why(tmp_path: Path, shoal: Command) -> None:
    cases = {"missing": "no such file or directory", "empty": "no file in this directory ends in .parquet"}
    (tmp_path / "empty").mkdir()
    for name, why in cases.items():
        done = shoal.run("read", f"parquet:{tmp_path}/{name}")
        assert (done.returncode, why in done.stderr) == (2, True), done
    with pytest.raises(package.NotFoundError):
        package.copy(f"parquet:{tmp_path}/missing", "null:")
    with pytest.raises(package.ConfigError, match="needs a directory"):
        package.copy("parquet:", "null:")
    pq.write_table(pa.table({"title": ["a"]}), tmp_path / "empty/x.parquet")
    done = shoal.run("read", f"parquet:{tmp_path}/empty")
    assert done.returncode == 1
    assert 'no column "name" (its columns: title)' in done.stderr + done.stdout


def test_null_names_and_data_are_failures_with_their_rows(tmp_path: Path) -> None:
    table = pa.table({"name": ["a", None, "c"], "data": [b"A", b"B", None]})
    pq.write_table(table, tmp_path / "x.parquet")
    reader = package.read(f"parquet:{tmp_path}", on_error="record")
    assert [obj.name for obj in reader] == ["a"]
    assert reader.report is not None
    reasons = sorted(failure.reason for failure in reader.report.failures)
    assert [reason.rpartition("row ")[2] for reason in reasons] == ["2: its data is null", "1: its name is null"]
    assert {failure.archive for failure in reader.report.failures} == {str(tmp_path / "x.parquet")}


def test_a_changed_byte_in_a_page_with_a_checksum_of_another_program_fails(tmp_path: Path, shoal: Command) -> None:
    made = {f"{n:04}": b"-the bytes of an object-" for n in range(1000)}
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = written(tmp_path / "in", made, files=1, **options) / "part-0.parquet"
    data = path.read_bytes()
    middle = data.index(made["0000"], len(data) // 4)
    path.write_bytes(data[:middle] + b"+" + data[middle + 1 :])
    with pytest.raises(package.ObjectsFailedError) as failed:
        package.copy(f"parquet:{path.parent}", tmp_path / "out")
    assert failed.value.failures
    assert set(tree(tmp_path / "out").values()) <= {b"-the bytes of an object-"}
    assert shoal.run("verify", f"parquet:{path.parent}").returncode == 1


def test_columns_are_kept_when_a_dataset_is_packed_again(tmp_path: Path) -> None:
    columns = {"name": ["a", "b"], "data": [b"A", b"BB"], "last_modified": [TIME, None], "e_tag": [None, '"t"']}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in/x.parquet")
    package.copy(f"parquet:{tmp_path}/in", f"parquet:{tmp_path}/out")
    again = pq.read_table(tmp_path / "out/objects-000000.parquet").sort_by("name").to_pydict()
    assert again == columns | {"size": [1, 2]}


def test_the_time_of_a_service_is_stored(tmp_path: Path) -> None:
    old = dt.datetime(2017, 7, 14, tzinfo=dt.UTC)
    with site(tmp_path / "site") as served:
        served.make(["file-1"], "one", old.timestamp())
        package.copy(served.source, f"parquet:{tmp_path}/out")
    row = pq.read_table(tmp_path / "out/objects-000000.parquet").to_pylist()[0]
    assert (row["last_modified"], row["e_tag"]) == (old, None)


def test_a_text_that_names_nothing_has_a_hint_with_parquet(tmp_path: Path) -> None:
    for source, destination in (("gopher://x", "null:"), (tmp_path, "gopher://x"), (tmp_path, "")):
        with pytest.raises(package.ConfigError) as failed:
            package.copy(source, destination)
        assert "parquet:DIR" in str(failed.value.hint), failed.value


def test_unsafe_names_are_never_files_outside(tmp_path: Path) -> None:
    names = ["../up", "/abs", "a/../../b", "good", "nul\0"]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"name": names, "data": [b"x"] * 5}), tmp_path / "in/x.parquet")
    with pytest.raises(package.ObjectsFailedError) as failed:
        package.copy(f"parquet:{tmp_path}/in", tmp_path / "sub/out")
    assert {failure.kind for failure in failed.value.failures} == {"unsafe-name"}
    assert len(failed.value.failures) == 4
    assert tree(tmp_path) == {"sub/out/good": b"x", "in/x.parquet": (tmp_path / "in/x.parquet").read_bytes()}


def test_a_dataset_is_not_copied_into_itself(tmp_path: Path) -> None:
    source = f"parquet:{written(tmp_path / 'in', objects(10))}"
    with pytest.raises(package.ConfigError, match="inside the source"):
        package.copy(source, f"parquet:{tmp_path}/in")


@pytest.fixture
def packed(tmp_path: Path, service: Service) -> Path:
    """A dataset of 250,000 objects that shoal wrote, in row groups of 100,000."""
    package.copy(service(synthetic="250000:100").url, f"parquet:{tmp_path}/packed")
    return tmp_path / "packed"


def verified(shoal: Command, *arguments: str) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    done = shoal.run("verify", *arguments, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    report = lines.pop()
    assert report["type"] == "report", done
    return done.returncode, lines, report


def test_a_good_dataset_is_verified_by_either_name(shoal: Command, packed: Path) -> None:
    files = len(list(packed.glob("*.parquet")))
    for name in (str(packed), f"parquet:{packed}"):
        code, lines, report = verified(shoal, name)
        assert (code, lines, report["ok"]) == (0, [], True)
        assert (report["objects"], report["files"], report["bytes"]) == (250_000, files, 25_000_000)
        assert (report["damaged"], report["duplicates"], report["without_checksums"], report["notes"]) == (0, 0, 0, [])
    plain = shoal.run("verify", str(packed))
    assert (plain.returncode, plain.stdout) == (0, "")
    assert plain.stderr.startswith(f"verified 250,000 objects in {files} file")


def test_damage_and_duplicates_are_printed_and_fail(shoal: Command, packed: Path) -> None:
    first = min(packed.glob("*.parquet"))
    last = f"objects-{len(list(packed.glob('*.parquet'))):06}.parquet"
    name = pq.read_table(first)["name"][-1].as_py()
    table = pa.table({"name": [name, "own", "own"], "data": [b"x", b"y", b"z"]})
    pq.write_table(table, packed / last)
    data = bytearray(first.read_bytes())
    data[1000] ^= 1
    first.write_bytes(data)
    code, lines, report = verified(shoal, str(packed))
    damaged = [line for line in lines if line["type"] == "file"]
    twice = {line["name"]: (line["first"], line["second"]) for line in lines if line["type"] == "duplicate"}
    assert (code, report["ok"], report["damaged"], report["duplicates"]) == (1, False, 1, 2)
    assert (damaged[0]["state"], damaged[0]["name"]) == ("damaged", first.name)
    assert "does not match its checksum" in damaged[0]["reason"]
    assert twice == {
        name: (
            {"file": first.name, "row": pq.read_metadata(first).num_rows - 1},
            {"file": last, "row": 0},
        ),
        "own": ({"file": last, "row": 1}, {"file": last, "row": 2}),
    }
    assert report["without_checksums"] == 1
    plain = shoal.run("verify", f"parquet:{packed}")
    assert plain.returncode == 1
    assert f'damaged: "{first.name}": row group 0 does not match its checksum' in plain.stdout
    assert f'duplicate: "own": {last} row 1 and {last} row 2' in plain.stdout
    assert "1 file damaged or missing, 2 duplicates" in plain.stderr
    assert "note: 1 file without checksums" in plain.stderr


def test_a_file_that_is_missing_between_others_fails_and_is_named(shoal: Command, packed: Path) -> None:
    (packed / "objects-000000.parquet").rename(packed / "objects-000002.parquet")
    code, lines, report = verified(shoal, str(packed))
    assert (code, report["ok"]) == (1, False)
    assert [line["name"] for line in lines] == ["objects-000000.parquet", "objects-000001.parquet"]
    assert all("is missing" in line["reason"] for line in lines)
    shutil.rmtree(packed / ".shoal")
    reason = incomplete(packed)
    assert reason == '"objects-000000.parquet" is missing; "objects-000001.parquet" is missing'


def incomplete(packed: Path) -> str:
    """Returns why a dataset is a failure, for a copy, for a loop over a reader, and for `shoal read`."""
    report = package.copy(f"parquet:{packed}", "null:", include=["none"], on_error="record")
    assert (report.failed, report.ok) == (1, False)
    (failure,) = report.failures
    assert (failure.name, failure.kind) == (packed.name, "archive")
    with (
        pytest.raises(package.ObjectsFailedError, match="the dataset is incomplete"),
        package.read(f"parquet:{packed}") as reader,
    ):
        assert sum(1 for _ in reader) == sum(pq.read_metadata(path).num_rows for path in packed.glob("*.parquet"))
    return failure.reason.removeprefix("the dataset is incomplete: ")


def test_the_last_file_that_is_gone_is_missed(shoal: Command, service: Service) -> None:
    url, packed = service(synthetic="3000:1000:random", page_size=200).url, shoal.directory / "rows"
    assert shoal.run("copy", url, f"parquet:{packed}", "--shard-size", "100kB", "--memory", "4MiB").returncode == 0
    last = max(packed.glob("*.parquet"))
    content = last.read_bytes()
    last.unlink()
    code, lines, _ = verified(shoal, str(packed))
    assert (code, [line["name"] for line in lines]) == (1, [last.name])
    assert incomplete(packed) == f'"{last.name}" is missing'
    assert shoal.run("read", f"parquet:{packed}", "--checksum", "xxh3").returncode == 1
    done = shoal.run("copy", f"parquet:{packed}", "files", "--include", "none")
    assert (done.returncode, "is incomplete" in done.stderr) == (1, True), done.stderr
    last.write_bytes(content)
    done = shoal.run("copy", f"parquet:{packed}", "files", "--include", "none")
    assert (done.returncode, "was not listed" in done.stderr) == (1, True), done.stderr
    assert shoal.run("copy", f"parquet:{packed}", "files", "--include", "none", "--update").returncode == 0
    assert verified(shoal, str(packed))[0] == 0


def test_a_dataset_is_incomplete_until_its_run_is_finished(shoal: Command, service: Service) -> None:
    copy = ("copy", service(synthetic="3000:1000:random", page_size=200).url, "parquet:rows", "--memory", "4MiB")
    run = shoal.start(*copy, "--shard-size", "100kB", "--limit-rate", "500kB")
    rows = shoal.directory / "rows"
    try:
        wait_until(lambda: any(rows.glob("*.parquet")))
        code, lines, _ = verified(shoal, "parquet:rows")
        assert (code, {line["name"] for line in lines}) == (1, {"rows"}), "while it runs"
    finally:
        run.kill()
        run.wait()
    assert incomplete(rows).startswith("the copy into this directory is not finished: run it again to finish it")
    assert shoal.run(*copy).returncode == 0
    assert verified(shoal, "parquet:rows")[0] == 0
    assert package.copy(f"parquet:{rows}", "null:").written == 3000


def test_a_dataset_with_files_that_are_not_finished_fails(shoal: Command, packed: Path) -> None:
    (packed / ".shoal/tmp/part-1").write_bytes(b"PAR1")
    note = "1 file in .shoal/tmp not finished, and not read"
    code, lines, _ = verified(shoal, str(packed))
    assert (code, [line["name"] for line in lines]) == (1, [packed.name])
    assert lines[0]["reason"].startswith(note)
    assert incomplete(packed).startswith(note)
    for path in packed.glob("*.parquet"):
        path.unlink()
    for command in (["verify", f"parquet:{packed}"], ["read", f"parquet:{packed}"]):
        done = shoal.run(*command)
        assert (done.returncode, f"hint: {note}" in done.stderr) == (2, True), done


def test_verify_says_where_it_needs_room_for_many_names(shoal: Command, packed: Path) -> None:
    names = (str(packed), "--memory", "1MB", "--json")
    assert json.loads(shoal.run("verify", *names, TMPDIR=str(packed.parent)).stdout)["ok"]
    assert not list(packed.parent.glob("*tmp*"))
    done = shoal.run("verify", *names, TMPDIR="/nowhere")
    assert (done.returncode, "set TMPDIR" in done.stderr) == (3, True), done


def test_each_damage_is_found(shoal: Command, packed: Path) -> None:
    victim = min(packed.glob("*.parquet"))
    whole = victim.read_bytes()
    for place in (2, len(whole) // 3, len(whole) // 2):
        victim.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        code, _, report = verified(shoal, str(packed))
        assert (code, report["damaged"]) == (1, 1), place
    victim.write_bytes(whole[:-100])
    assert verified(shoal, str(packed))[0] == 1
    victim.write_bytes(b"")
    assert verified(shoal, str(packed))[0] == 1
    victim.write_bytes(whole)
    assert verified(shoal, str(packed))[0] == 0


def test_verify_without_a_manifest_says_what_to_pass(shoal: Command, packed: Path) -> None:
    other = packed.parent / "other"
    other.mkdir()
    done = shoal.run("verify", str(other))
    assert done.returncode == 2
    assert "SHA256SUMS" in done.stderr
    assert f"parquet:{other}" in done.stderr
    assert shoal.run("verify", f"parquet:{other}").returncode == 2
    assert shoal.run("verify", f"parquet:{packed}", "SUMS").returncode == 2
    for flag in (["--strict"], ["--checksum", "xxh3"], ["--links", "follow"]):
        done = shoal.run("verify", str(packed), *flag)
        assert (done.returncode, f"{flag[0]} needs a manifest" in done.stderr) == (2, True), done


def opened(pid: int) -> list[Path]:
    """The files that a process has open."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(descriptor.readlink())
    return found


def test_verify_stops_at_a_signal(shoal: Command, tmp_path: Path) -> None:
    names = pc.cast(pa.array(range(2_000_000)), pa.string())
    (tmp_path / "in").mkdir()
    table = pa.table({"name": names, "data": pc.cast(names, pa.binary())})
    for number in range(4):
        pq.write_table(table, tmp_path / f"in/objects-{number:06}.parquet", row_group_size=50_000)
    process = shoal.start("verify", str(tmp_path / "in"), "--json", "--workers", "1")
    wait_until(lambda: any(str(path).endswith(".parquet") for path in opened(process.pid)))
    process.send_signal(signal.SIGINT)
    last = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert (process.returncode, last["type"], last["kind"]) == (130, "error", "interrupted")
