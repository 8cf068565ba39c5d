"""The jobs save and read of the lab: what they compare, what they catch, what their rows say."""

from __future__ import annotations

import importlib
import json
import mmap
import resource
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

import shoal as package
import shoal_bench
from shoal_bench import corpus, jobs, measure, verify
from shoal_bench.cli import job as command_line
from shoal_bench.contestants import BENCH, Contestant, Task
from shoal_bench.settings import parse_size

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Here

COPY = importlib.import_module("shoal_bench.jobs.copy")
SAVE = importlib.import_module("shoal_bench.jobs.save")
READ = importlib.import_module("shoal_bench.jobs.read")
RECORDS = importlib.import_module("shoal_bench.jobs.records")


def test_bench_save_compares_every_byte_and_scales_to_the_study(lab: Here, tmp_path: Path) -> None:
    done = lab.run(
        *("bench", "save", "--only", "limit,sequential,batches", "--count", "20", "--trials", "2"),
        *("--dir", tmp_path / "there", "--results", tmp_path / "results.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "every byte compared" in " ".join(done.stdout.split())
    assert "5,000 files" in done.stdout
    assert "63.4 s" in done.stdout, "the author's figure"
    assert max(len(line) for line in done.stdout.partition("\n\n")[0].splitlines()) <= 120
    turns = [line.partition(": ")[2] for line in done.stderr.splitlines()]
    assert len(turns) == 9
    assert turns[:3] == turns[3:6] == turns[6:], "in turn, after a round that does not count"
    assert list((tmp_path / "there").iterdir()) == [], "what was written is removed at the end"

    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["job"], results["base"], results["scale"]["objects"]) == ("save", "limit", 5000)
    rows = {row["key"]: row for row in results["rows"]}
    assert [trial["objects"] for trial in rows["limit"]["trials"]] == [20, 20]
    assert [trial["objects"] for trial in rows["sequential"]["trials"]] == [2, 2], "slow rows get fewer files"
    assert rows["sequential"]["published"] == 63.4 / 5000
    assert results["settings"]["size"] == sum(len(study(number)) for number in range(20)) // 20


def study(number: int) -> bytes:
    """The content of a file, as the study's recipe has it."""
    return "\n".join(",".join(str(number + line + column) for column in range(10)) for line in range(5000)).encode()


def test_what_is_compared_is_the_recipe_of_the_study() -> None:
    content = verify.tables(20_000)
    for number in (0, 1, 4999, 9990, 19_999):
        assert content(number) == study(number)


def test_memory_is_touched_before_it_is_written_to_in_somebodys_time() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    measure.touch_memory(64 << 20)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert after - before >= (64 << 20) // mmap.PAGESIZE // 512, "each page, or each huge page"
    measure.touch_memory(0)


HARMS = {
    "a wrong digit": "path.write_bytes(path.read_bytes()[:-1] + b'0')",
    "a final newline": "path.write_bytes(path.read_bytes() + b'\\n')",
    "a file too few": "path.unlink()",
    "a file too many": "(path.parent / 'data-0003.csv~').touch()",
    "another's content": "path.write_bytes((path.parent / 'data-0002.csv').read_bytes())",
}


@pytest.mark.parametrize("what", HARMS)
def test_a_wrong_save_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""
import pathlib, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
path = pathlib.Path(sys.argv[2]) / "data-0003.csv"
{HARMS[what]}
"""

    def command(task: Task) -> list[str]:
        sequential = BENCH / "strategies" / "save" / "sequential.py"
        return [sys.executable, "-c", script, str(sequential), str(task.directory), str(task.count)]

    monkeypatch.setattr(SAVE, "contestants", lambda: [Contestant("harmful", "harmful", "peer", command)])
    results = shoal_bench.run("save", count=5, trials=1, directory=tmp_path)
    assert "data-0003.csv" in (results.row("harmful").failed or "nothing is wrong")


def test_too_many_open_files_is_what_its_row_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiofiles")
    (unbounded,) = [one for one in SAVE.contestants() if one.key == "event-loop-unbounded"]
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)); "
    limited += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"

    def command(task: Task) -> list[str]:
        return [sys.executable, "-c", limited, *unbounded.command(task)[1:]]

    few = Contestant("unbounded", "no bound", "strategy", command, may_fail=unbounded.may_fail)
    monkeypatch.setattr(SAVE, "contestants", lambda: [few])
    results = shoal_bench.run("save", count=100, trials=1, directory=tmp_path)
    assert "Too many open files" in (results.row("unbounded").failed or "")
    assert "Too many open files" in shoal_bench.table(results)
    assert results.failed == [], "it is what the study found, too"


def test_bench_read_proves_every_byte_before_the_trials(lab: Here, tmp_path: Path) -> None:
    keys = ("shoal", "shoal-given", "limit", "sequential", "threads-2", "chunks", "processes", "processes-returning")
    done = lab.run(
        *("bench", "read", "--only", ",".join(keys), "--count", "300", "--size", "1kB", "--trials", "1"),
        *("--dir", tmp_path / "there", "--results", tmp_path / "results.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "300 files of 1,000 bytes" in " ".join(done.stdout.split())
    assert "every byte proven once" in " ".join(done.stdout.split())
    assert "The study gives no table" in " ".join(done.stdout.split())
    assert "author's" not in done.stdout, "there is no column without figures"
    turns = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in turns] == ["warming up"] * 8 + ["round 1 of 1"] * 8
    assert list((tmp_path / "there").iterdir()) == []
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert {row["key"] for row in rows} == set(keys)
    assert all(row["trials"][0]["objects"] == 300 for row in rows)


def test_batches_are_proven_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    results = shoal_bench.run("read", count=300, size="1kB", trials=1, only=["shoal-batches"], directory=tmp_path)
    assert results.row("shoal-batches").failed is None
    assert results.row("shoal-batches").trials[0].objects == 300


LIES = {
    "a file too few": 'found["objects"] -= 1',
    "a byte too few": 'found["bytes"] -= 1',
    "another content": 'found["proof"] = found.get("proof", 0) + 1',
    "no proof": 'found.pop("proof", None)',
}


@pytest.mark.parametrize("what", LIES)
def test_a_wrong_read_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"""
import json, subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], check=True, capture_output=True)
found = json.loads(done.stdout)
{LIES[what]}
print(json.dumps(found))
"""
    (honest,) = [one for one in READ.contestants() if one.key == "sequential"]

    def command(task: Task) -> list[str]:
        return [sys.executable, "-c", script, *honest.command(task)[1:]]

    monkeypatch.setattr(READ, "contestants", lambda: [honest, Contestant("liar", "liar", "peer", command)])
    results = shoal_bench.run("read", count=20, size=100, trials=1, directory=tmp_path)
    assert results.failed == ["liar"]
    assert len(results.row("sequential").trials) == 1


def test_a_proof_tells_names_and_contents_apart() -> None:
    right = verify.proof("a", b"1") + verify.proof("b", b"2")
    assert verify.proof("a", b"2") + verify.proof("b", b"1") != right
    assert verify.proof("a", b"1") + verify.proof("c", b"2") != right


@pytest.mark.skipif(not (shutil.which("java") and shutil.which("javac")), reason="needs a JDK: java and javac")
def test_the_java_peer_reads_every_byte_and_its_start_is_apart(tmp_path: Path) -> None:
    results = shoal_bench.run("read", count=100, size="1kB", trials=1, only=["java-2"], directory=tmp_path)
    assert results.failed == []
    row = results.row("java-2")
    assert (row.workers, row.trials[0].objects) == (2, 100)
    assert row.start > 0.05, "a JVM never starts so fast"
    assert "is not in its time" in " ".join(shoal_bench.table(results).split())
    assert "java" in results.machine


def test_without_a_jdk_the_row_says_so(lab: Here) -> None:
    lab.environment["PATH"] = "/nowhere"
    done = lab.run("bench", "read", "--list")
    assert "java is not installed" in done.stdout
    keys = {line.split()[0] for line in done.stdout.splitlines()}
    assert {"shoal", "shoal-batches", "shoal-given", "limit", "java-2", "sequential", "threads-64", "chunks"} <= keys


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("save", "--size", "100"), "has no size"),
        (("save", "--into", "null"), "writes files"),
        (("read", "--into", "null"), "writes nothing"),
        (("read", "--durable"), "could be durable"),
        (("read", "--size", "big"), "--size is not a size"),
    ],
)
def test_what_a_job_does_not_know_is_a_clear_error(lab: Here, arguments: tuple[str, ...], message: str) -> None:
    done = lab.run("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_durable_saves_are_rows_of_their_own(lab: Here) -> None:
    plain = lab.run("bench", "save", "--list").stdout
    durable = lab.run("bench", "save", "--list", "--durable").stdout
    assert "shoal-generate " in plain
    assert "shoal-generate-batch" not in plain
    assert "shoal-generate-batch" in durable
    assert "shoal-generate " not in durable


def test_a_row_without_durability_is_not_for_durable_runs(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="no program is left"):
        shoal_bench.run("save", durable=True, only=["shoal-generate"], directory=tmp_path)


def test_the_command_says_the_jobs_and_their_defaults() -> None:
    assert list(command_line.JOBS) == list(jobs.JOBS)
    (case,) = [option for option in command_line.job_command("save").params if option.name == "case"]
    assert tuple(getattr(case.type, "choices", ())) == (*COPY.CASES, *corpus.CASES, *RECORDS.CASES)
    counts = ", ".join(f"{one.COUNT} for {name}" for name, one in jobs.JOBS.items())
    assert counts == command_line.DEFAULTS
    sizes = [part.split(" for ") for part in command_line.SIZES.partition(";")[0].split(", ")]
    assert {name: parse_size(size, "size") for size, name in sizes} == {
        name: one.SIZE for name, one in jobs.JOBS.items() if one.SIZE is not None
    }


def test_a_size_is_exact_or_refused() -> None:
    assert parse_size("9007199254740993", "size") == 9007199254740993  # no double is this number
    assert parse_size("1.1GB", "size") == 1_100_000_000
    for wrong in (1.5, True, 0, "0", "-1", "1e3", "10 parsecs", str(1 << 63)):
        with pytest.raises(package.ConfigError, match="size is not a size above 0"):
            parse_size(wrong, "size")  # type: ignore[arg-type]
