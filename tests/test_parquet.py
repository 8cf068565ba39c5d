"""`parquet:DIR`: every object is one row, after any interruption. DuckDB counts, not shoal."""

from __future__ import annotations

import random
import signal
import subprocess
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import shoal as package
from faults.runs import committed, wait_for_commit
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command, Service

SIZE = 100
LINE = len("GET /get/object-000000000 200 100\n")  # of an access log


def query(directory: Path, what: str) -> Any:
    with duckdb.connect() as connection:
        return connection.sql(f"select {what} from '{directory}/*.parquet'").fetchone()


def check_synthetic(directory: Path, count: int) -> None:
    """Checks that the rows are the synthetic objects, each once."""
    content = f"encode(substr(repeat(name || chr(10), 7), 1, {SIZE}))"
    found = query(directory, f"count(*), count(distinct name), count(*) filter (data = {content} and size = {SIZE})")
    assert found == (count, count, count)
    assert query(directory, "min(name), max(name)") == ("object-000000000", f"object-{count - 1:09}")
    assert list((directory / ".shoal" / "tmp").iterdir()) == []


def test_a_service_becomes_rows_and_the_same_call_again_adds_none(tmp_path: Path, service: Service) -> None:
    url = service(synthetic=f"30000:{SIZE}").url
    report = package.copy(url, f"parquet:{tmp_path}/out")
    assert (report.written, report.bytes, report.ok) == (30_000, 30_000 * SIZE, True)
    check_synthetic(tmp_path / "out", 30_000)
    assert package.copy(url, f"parquet:{tmp_path}/out").completed_before
    check_synthetic(tmp_path / "out", 30_000)
    for described in (tmp_path / "out", f"parquet:{tmp_path}/out", package.parquet(tmp_path / "out")):
        assert package.status(described).runs[0].completed


def test_any_bytes_arrive_from_files_archives_and_items(tmp_path: Path) -> None:
    wanted = {f"d{n % 7}/file ä {n}": random.Random(n).randbytes(n * 97 % 5_000) for n in range(300)}
    wanted["large"] = random.Random(1).randbytes(3_000_000)
    for name, data in wanted.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for name, data in wanted.items():
            archive.writestr(name, data)
    package.copy(tmp_path / "tree", f"parquet:{tmp_path}/files")
    package.unzip(tmp_path / "one.zip", f"parquet:{tmp_path}/archives")
    package.save(wanted.items(), f"parquet:{tmp_path}/items")
    for kind in ("files", "archives", "items"):
        with duckdb.connect() as connection:
            rows = connection.sql(f"select name, data, size from '{tmp_path}/{kind}/*.parquet'").fetchall()
        assert len(rows) == len(wanted)
        assert {name: data for name, data, _ in rows} == wanted
        assert all(size == len(data) for _, data, size in rows)
    newest = (tmp_path / "tree" / "large").stat().st_mtime_ns
    assert query(tmp_path / "files", "max(epoch_ns(last_modified)) filter (name = 'large')") == (newest // 1000 * 1000,)


def test_files_have_about_the_size_given(tmp_path: Path, service: Service) -> None:
    url = service(synthetic="400000:100").url
    package.copy(url, package.parquet(tmp_path / "out", shard_size="300kB"))
    check_synthetic(tmp_path / "out", 400_000)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) > 1
    assert [file.name for file in files] == [f"objects-{number:06}.parquet" for number in range(len(files))]


def test_the_described_destination_is_the_text_and_its_repr_is_code() -> None:
    packed = package.parquet("parquet:out", shard_size="1MiB")
    assert repr(packed).startswith("parquet('out', shard_size=1048576, ")
    assert eval(repr(packed), vars(package)) == packed == package.parquet("out", shard_size="1MiB")


def test_row_groups_have_about_the_number_of_rows_given(tmp_path: Path, service: Service) -> None:
    package.copy(service(synthetic="20000:100").url, package.parquet(tmp_path / "out", group_rows=1_000))
    check_synthetic(tmp_path / "out", 20_000)
    with duckdb.connect() as connection:
        groups = f"select max(row_group_num_rows) from parquet_metadata('{tmp_path}/out/*.parquet')"
        ((largest,),) = connection.sql(groups).fetchall()
    assert 100 < largest < 3_000


def killed(shoal: Command, service: Service, count: int, kills: int, seed: int) -> None:
    """Kills runs at random moments after a commit, until one ends; no row may be missing or doubled."""
    url, out = service(synthetic=f"{count}:{SIZE}").url, shoal.directory / "out"
    command = ["copy", url, "parquet:out", "--shard-size", "1MB"]
    moments, done = random.Random(seed), 0
    for _ in range(kills):
        run = shoal.start(*command, "--limit-rate", "20MB", "--quiet")
        before = done
        wait_for_commit(out, before)
        time.sleep(moments.uniform(0, 0.5))  # it commits about once a second: any moment between two of them
        run.kill()
        assert run.wait() == -signal.SIGKILL, "it was still at work"
        done = committed(out)
        assert before < done < count
    last = shoal.run(*command, "--json")
    assert last.returncode == 0, last.stderr
    assert shoal.last_json(last)["written"] == count - done, "what was committed is not fetched again"
    check_synthetic(out, count)


def test_a_run_that_is_killed_resumes_with_every_object_once(shoal: Command, service: Service) -> None:
    killed(shoal, service, 1_500_000, kills=2, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_is_killed_often_resumes_with_every_object_once(shoal: Command, service: Service, seed: int) -> None:
    killed(shoal, service, 4_000_000, kills=5, seed=seed)


def test_ctrl_c_commits_what_was_fetched(shoal: Command, service: Service) -> None:
    log, out = shoal.directory / "log", shoal.directory / "out"
    url = service(synthetic=f"5000000:{SIZE}", access_log=log).url
    run = shoal.start("copy", url, "parquet:out", "--limit-rate", "5MB", "--json", stdout=subprocess.PIPE)
    wait_until(lambda: log.exists() and log.stat().st_size > 20_000 * LINE, 60)
    run.send_signal(signal.SIGINT)
    printed, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert committed(out) > 10_000, printed
    assert query(out, "count(*), count(distinct name)") == (committed(out), committed(out))


def test_a_second_run_at_the_same_time_is_refused(shoal: Command, service: Service) -> None:
    url = service(synthetic=f"2000000:{SIZE}").url
    run = shoal.start("copy", url, "parquet:out", "--limit-rate", "5MB", "--quiet")
    wait_for_commit(shoal.directory / "out")
    other = shoal.run("copy", url, "parquet:out")
    assert other.returncode == 3
    assert "another run is active here" in other.stderr
    run.send_signal(signal.SIGINT)
    run.wait()


def test_a_second_job_in_a_directory_is_told_of_the_rows_of_the_first(tmp_path: Path) -> None:
    def noted(source_id: str | None = None) -> list[bool]:
        report = package.save([("a", b"1")], f"parquet:{tmp_path}/out", source_id=source_id)
        return [note.startswith("the directory also has rows of another job") for note in report.notes]

    assert [noted(), noted(), noted("named")] == [[], [True], [True]]


def test_a_directory_of_files_is_not_continued_as_rows(tmp_path: Path, service: Service) -> None:
    url = service(synthetic="100:10").url
    package.copy(url, tmp_path / "out")
    with pytest.raises(package.RunError, match="other options"):
        package.copy(url, f"parquet:{tmp_path}/out")


@pytest.mark.parametrize(
    "option",
    [{"resume": "update"}, {"resume": "restart"}, {"overwrite": "always"}, {"durability": "none"}],
    ids=lambda option: next(iter(option)) + "-" + next(iter(option.values())),
)
def test_what_rows_cannot_do_is_refused_with_a_hint(tmp_path: Path, option: dict[str, Any]) -> None:
    (tmp_path / "tree").mkdir()
    with pytest.raises(package.ConfigError, match="never rewritten") as caught:
        package.copy(tmp_path / "tree", f"parquet:{tmp_path}/out", **option)
    assert "new directory" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_generate_takes_a_directory_only(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="destination"):
        package.generate(str, range(3), f"parquet:{tmp_path}/out", name="{}.txt")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_creates_nothing(tmp_path: Path, service: Service) -> None:
    report = package.copy(service(synthetic="100:10").url, f"parquet:{tmp_path}/out", dry_run=True)
    assert (report.written, report.dry_run) == (100, True)
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_was_moved_is_continued(tmp_path: Path, service: Service) -> None:
    url = service(synthetic=f"20000:{SIZE}").url
    package.copy(url, f"parquet:{tmp_path}/out")
    (tmp_path / "out").rename(tmp_path / "moved")
    assert package.copy(url, f"parquet:{tmp_path}/moved").completed_before
    check_synthetic(tmp_path / "moved", 20_000)


def test_an_object_that_is_too_large_is_a_failure_with_a_hint(tmp_path: Path) -> None:
    items = [("small", b"1"), ("large", bytes(5_000_000))]
    report = package.save(items, f"parquet:{tmp_path}/out", memory="32MiB", on_error="record")
    assert (report.written, report.failed) == (1, 1)
    assert report.failures[0].kind == "too-large"
    assert query(tmp_path / "out", "count(*), max(name)") == (1, "small")
