"""The job unzip of the lab: what its archives are made of, what its programs unpack, what they must notice."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
import shoal_bench
from conftest import PATIENCE
from shoal_bench import cold, corpus, verify
from shoal_bench.contestants import BARE_LOOPS, BENCH, Contestant, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Here
    from shoal_bench.corpus import Corpus

UNZIP = importlib.import_module("shoal_bench.jobs.unzip")
STRATEGIES = sorted(path for path in (BENCH / "strategies" / "unzip").glob("*.py") if path.stem != "__init__")
ISAL = BENCH / "peers" / "isal_processes.py"
LIMIT = Path(BARE_LOOPS)
SCRIPTS = [*STRATEGIES, LIMIT, BENCH / "ours" / "unzip.py", ISAL]
# Those that say nothing of what they did, or need a program; each is run where that is installed.
PROGRAMS = ("unzip", "xargs-unzip", "7z", "bsdtar", "ripunzip", "ruby-serial", "ruby-queue")


def key(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two archives of sixty files of this machine."""
    return corpus.make("many", 60, None, tmp_path_factory.mktemp("corpus") / "many")


def start(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if script == ISAL and importlib.util.find_spec("isal") is None:
        pytest.skip("needs isal")
    command = [*((LIMIT, "unzip") if script == LIMIT else (sys.executable, script)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def run(script: Path, *arguments: str | Path) -> dict[str, object]:
    done = start(script, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    path = {"concurrency"} if script.parent.name == "ours" else set()  # only shoal has one
    assert set(found) == {"objects", "bytes", "seconds", "workers"} | path
    assert isinstance(found["seconds"], float)
    assert found["seconds"] > 0
    return found


def damaged(archives: Corpus, directory: Path) -> Path:
    """Returns a directory of the same archives, where a byte of an entry's packed content is another one."""
    shutil.copytree(archives.directory, directory)
    path = directory / archives.archives[1].name
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda entry: entry.compress_size)
    content = bytearray(path.read_bytes())
    # Far behind the header, whose name and extra field are no longer than this.
    content[entry.header_offset + 30 + len(entry.filename) + 100] ^= 0x10
    path.write_bytes(content)
    return directory


@pytest.mark.parametrize("script", SCRIPTS, ids=key)
def test_every_script_checks_and_extracts_every_byte(script: Path, archives: Corpus, tmp_path: Path) -> None:
    into: list[list[str]] = [[], ["--into", str(tmp_path)]]
    for options in into:
        found = run(script, archives.directory, *options)
        assert (found["objects"], found["bytes"]) == (60, archives.size)
        assert isinstance(found["workers"], int)
        assert found["workers"] >= 1
    assert verify.hashes(tmp_path, archives.entries) is None


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem != "serial"], ids=key)
def test_workers_are_as_asked_and_may_be_more_than_archives(script: Path, archives: Corpus) -> None:
    for workers in (1, 3):
        found = run(script, archives.directory, "--workers", str(workers))
        assert (found["objects"], found["bytes"], found["workers"]) == (60, archives.size, workers)


@pytest.mark.parametrize("script", SCRIPTS, ids=key)
def test_a_damaged_entry_ends_every_script_with_an_error(script: Path, archives: Corpus, tmp_path: Path) -> None:
    done = start(script, damaged(archives, tmp_path / "damaged"))
    assert done.returncode == 1
    assert done.stderr != ""
    assert "objects" not in done.stdout


def test_shoal_hands_every_entry_over(archives: Corpus) -> None:
    found = run(BENCH / "ours" / "unzip.py", archives.directory, "--read")
    assert (found["objects"], found["bytes"]) == (60, archives.size)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_extracts_every_byte_and_notices_damage(name: str, archives: Corpus, tmp_path: Path) -> None:
    (one,) = [one for one in UNZIP.contestants() if one.key == name]
    if missing := one.missing():
        pytest.skip(missing)
    harm = damaged(archives, tmp_path / "damaged")
    for into in sorted(one.into):
        for number, place in enumerate((archives.directory, harm)):
            directory = tmp_path / f"{into}-{number}" if into == "files" else None
            if directory:
                directory.mkdir()
            task = Task(directory=directory, count=60, scratch=tmp_path, archives=place)
            done = subprocess.run(one.command(task), capture_output=True, text=True, timeout=PATIENCE)
            assert (done.returncode == 0) == (place == archives.directory), done.stdout + done.stderr
            if directory and place == archives.directory:
                assert verify.hashes(directory, archives.entries) is None
            if place == archives.directory and one.proves:
                said = json.loads(done.stdout)
                assert (said["objects"], said["bytes"]) == (60, archives.size)


def test_the_rows_of_the_study_have_its_figures() -> None:
    published = {one.key: one.published for one in UNZIP.contestants() if one.published}
    assert published == {"serial": 57.6, "queue-threads-3": 60.7, "ruby-serial": 46.1, "ruby-queue": 54.5}


def test_what_is_compared_is_what_was_packed(archives: Corpus) -> None:
    assert [path.name for path in archives.archives] == ["archive-000.zip", "archive-001.zip"]
    found = {}
    for path in archives.archives:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                assert entry.compress_type == zipfile.ZIP_DEFLATED
                # The file itself, which the packers have read, too: not the archive.
                content = Path("/", entry.filename).read_bytes()
                found[entry.filename] = (len(content), hashlib.sha256(content).hexdigest())
    assert found == archives.entries
    assert archives.rounds == 1


def place_of(tmp_path: Path, files: dict[str, bytes]) -> Path:
    """A place with a directory that has these files, and such as are not taken."""
    below = tmp_path / "below"
    (below / "deep").mkdir(parents=True)
    for name, content in files.items():
        (below / name).write_bytes(content)
    (below / "n\u00e4me").write_bytes(b"not taken: not ASCII")
    (below / "back\\slash").write_bytes(b"not taken")
    (below / "packed.gz").write_bytes(b"not taken")
    (below / "link").symlink_to(below / "a")
    return tmp_path


def test_files_are_chosen_the_same_way_again_and_links_never(tmp_path: Path) -> None:
    place = place_of(tmp_path, {"a": b"1", "c": b"3", "b": b"2", "deep/d": b""})
    chosen, rounds = corpus.choose(4, [place])
    assert [Path(entry.name).name for entry in chosen] == ["a", "b", "c", "d"]
    assert [entry.files[0] for entry in chosen] == [f"/{entry.name}" for entry in chosen]
    assert rounds == 1
    assert corpus.choose(4, [place]) == (chosen, 1)


def test_too_few_files_are_taken_again_under_other_names(tmp_path: Path) -> None:
    # Larger than the average that is allowed at first: it is taken in the end, for lack of others.
    chosen, rounds = corpus.choose(9, [place_of(tmp_path, {"a": b"1", "large": b"2" * 1_000_000})])
    assert rounds > 4
    assert len({entry.name for entry in chosen}) == 9
    assert {entry.files[0] for entry in chosen} == {str(tmp_path / "below" / name) for name in ("a", "large")}
    with pytest.raises(package.RunError, match="has no files"):
        corpus.choose(1, [tmp_path / "below"])


@pytest.mark.parametrize(
    ("case", "count", "size", "archives", "entries"),
    [("one", 5, 3_000_000, 1, 1), ("tiny", 1100, None, 1, 1100), ("skewed", 150, 3_000_000, 100, 151)],
)
def test_the_other_cases_have_their_shapes(
    case: str, count: int, size: int | None, archives: int, entries: int, tmp_path: Path
) -> None:
    made = corpus.make(case, count, size, tmp_path / case)
    assert (len(made.archives), len(made.entries)) == (archives, entries)
    if size:
        assert made.entries[corpus.GIANT][0] == size
        with zipfile.ZipFile(made.archives[-1]) as archive:
            assert archive.namelist() == [corpus.GIANT]
    else:
        assert all(20 <= size <= 200 for size, _ in made.entries.values())
    (tmp_path / "out").mkdir()
    found = run(LIMIT, made.directory, "--into", tmp_path / "out")
    assert (found["objects"], found["bytes"]) == (entries, made.size)
    assert verify.hashes(tmp_path / "out", made.entries) is None


def test_bench_unzip_compares_every_byte_and_keeps_its_archives(lab: Here, tmp_path: Path) -> None:
    there = tmp_path / "there"
    arguments = ("bench", "unzip", "--only", "limit,serial,processes-2", "--count", "40", "--dir", there)
    done = lab.run(*arguments, "--trials", "2", "--results", tmp_path / "results.json")
    assert done.returncode == 0, done.stderr
    assert "every byte compared" in " ".join(done.stdout.split())
    assert "40 entries of" in " ".join(done.stdout.split())
    assert "2 archives of" in " ".join(done.stdout.split())
    assert "2.32 GB" in done.stdout
    assert "57.6 s" in done.stdout, "the author's figure"
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    turns = [line.partition(": ")[2] for line in done.stderr.splitlines()]
    assert len(turns) == 9
    assert turns[:3] == turns[3:6] == turns[6:], "in turn, after a round that does not count"
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["job"], results["base"]) == ("unzip", "limit")
    assert {key: results["settings"][key] for key in ("count", "case", "cold")} == {
        "count": 40,
        "case": "",
        "cold": False,
    }
    assert all(trial["objects"] == 40 for row in results["rows"] for trial in row["trials"])

    (kept,) = there.iterdir()
    assert kept.name == "shoal-bench-archives", "what was written is removed at the end"
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.zip")}
    assert len(before) == 2
    assert lab.run(*arguments, "--trials", "1").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.zip")} == before, "they are made once"


def test_into_null_what_they_say_is_added_up(lab: Here, tmp_path: Path) -> None:
    done = lab.run(
        *("bench", "unzip", "--into", "null", "--only", "limit,threads-2,shoal,shoal-read", "--count", "30"),
        *("--trials", "1", "--dir", tmp_path),
    )
    assert done.returncode == 0, done.stdout
    assert "entries and bytes counted" in " ".join(done.stdout.split())


def test_the_giant_alone_has_a_row_of_its_own_case(tmp_path: Path) -> None:
    assert "shoal-giant" not in {
        one.key for one in shoal_bench.run("unzip", count=5, trials=1, only=["limit"], directory=tmp_path).rows
    }
    results = shoal_bench.run(
        "unzip",
        case="skewed",
        count=120,
        size="1MB",
        trials=1,
        only=["shoal", "shoal-1", "shoal-giant"],
        directory=tmp_path,
    )
    assert results.failed == []
    assert [trial.objects for row in results.rows for trial in row.trials] == [121] * 3
    assert "author's" not in shoal_bench.table(results), "the case is not that of the study"


def test_durable_runs_have_the_disk_beside_them(tmp_path: Path) -> None:
    results = shoal_bench.run(
        "unzip", count=20, trials=1, durable=True, only=["limit-disk", "shoal-batch", "limit"], directory=tmp_path
    )
    assert results.failed == []
    with pytest.raises(package.ConfigError, match="no program is left"):
        shoal_bench.run("unzip", count=20, only=["shoal"], durable=True, directory=tmp_path)


HARMS = {
    "a wrong byte": "path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])",
    "a file too few": "path.unlink()",
    "a file too many": "path.with_name(path.name + '~').touch()",
    "a byte too many": "path.write_bytes(path.read_bytes() + b'.')",
    "an empty file": "path.write_bytes(b'')",
    "a lie": "found['bytes'] -= 1",
}


def harmful(harm: str) -> Callable[[Task], list[str]]:
    """Makes the command of a contestant that extracts rightly and then does harm to what it wrote."""
    script = f"""
import json, pathlib, subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], check=True, capture_output=True)
found = json.loads(done.stdout)
written = [path for path in pathlib.Path(sys.argv[-1]).rglob("*") if path.is_file()]
path = max(written, key=lambda path: path.stat().st_size)
{harm}
print(json.dumps(found))
"""
    serial = BENCH / "strategies" / "unzip" / "serial.py"
    return lambda task: [
        *(sys.executable, "-c", script, str(serial), str(task.archives)),
        *("--into", str(task.directory)),
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of contests, where the archives of the first stay for the others."""
    return tmp_path_factory.mktemp("kept")


@pytest.mark.parametrize("what", HARMS)
def test_a_wrong_extraction_is_caught(what: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [Contestant(name, name, "peer", harmful(harm)) for name, harm in (("bad", HARMS[what]), ("good", ""))]
    monkeypatch.setattr(UNZIP, "contestants", lambda: everyone)
    results = shoal_bench.run("unzip", count=20, trials=1, directory=kept)
    assert results.failed == ["bad"]
    assert "it did not do the job" in (results.row("bad").failed or "")


def test_a_wrong_count_is_caught_where_nothing_is_written(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import json; print(json.dumps({'objects': 20, 'bytes': 1, 'seconds': 0.1}))"
    liar = Contestant("liar", "liar", "peer", lambda _: [sys.executable, "-c", script], into=("null",))
    monkeypatch.setattr(UNZIP, "contestants", lambda: [liar])
    results = shoal_bench.run("unzip", count=20, trials=1, into="null", directory=kept)
    assert "1 bytes of" in (results.row("liar").failed or "")


@pytest.mark.parametrize("keep", [False, True])
def test_what_was_compared_takes_no_space_unless_it_is_kept(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second looks at what the first has left.
    look = (
        "left = [one.stat().st_size for one in pathlib.Path(sys.argv[-1]).parent.glob('*-first/**/*') if one.is_file()]"
    )
    look += f"\nassert len(left) == 1 and any(left) == {keep}, left"
    everyone = [Contestant(name, name, "peer", harmful(harm)) for name, harm in (("first", ""), ("second", look))]
    monkeypatch.setattr(UNZIP, "contestants", lambda: everyone)
    results = shoal_bench.run("unzip", case="one", size=UNZIP.CUT, trials=1, directory=tmp_path, keep=keep)
    assert results.failed == []


def test_cold_archives_are_not_in_the_page_cache(archives: Corpus, tmp_path: Path) -> None:
    for path in archives.archives:
        path.read_bytes()
    before = [cold.resident(path) for path in archives.archives]
    assert all(found == pages > 0 for found, pages in before)
    try:
        cold.drop(archives.archives)
    except package.RunError:
        pytest.skip("the file system of the temporary directory is its own cache")
    assert [cold.resident(path) for path in archives.archives] == [(0, pages) for _, pages in before]
    results = shoal_bench.run("unzip", count=20, trials=1, into="null", cold=True, only=["limit"], directory=tmp_path)
    assert "from a cold cache" in shoal_bench.table(results)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system without a disk")
def test_what_cannot_be_dropped_is_an_error(tmp_path: Path) -> None:
    path = Path("/dev/shm") / f"shoal-test-{tmp_path.name}"
    path.write_bytes(b"1" * 100_000)
    try:
        with pytest.raises(package.RunError, match="stays in the page cache: 25 of 25 pages"):
            cold.drop([path])
    finally:
        path.unlink()
    (tmp_path / "empty").touch()
    assert cold.resident(tmp_path / "empty") == (0, 0)


def test_without_its_program_a_row_says_so(lab: Here) -> None:
    lab.environment["PATH"] = "/nowhere"
    done = lab.run("bench", "unzip", "--list")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    for name, program in (("unzip", "unzip"), ("7z", "7z"), ("ripunzip", "ripunzip"), ("ruby-queue", "ruby")):
        assert f"{program} is not installed" in lines[name]
    assert {"shoal", "shoal-1", "limit", "serial", "queue-threads-3", "threads-8", "processes-4"} <= set(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("copy", "--cold"), "leave out --cold"),
        (("copy", "--case", "many"), "there is no case 'many'"),
        (("copy", "--case", "urls", "--full"), "leave out --full"),
        (("copy", "--case", "urls", "--strategy", "shoal:copy"), "leave out --case"),
        (("copy", "--case", "urls", "--into", "null"), "no program is left"),
        (("read", "--case", "tiny"), "leave out --case"),
        (("unzip", "--size", "100"), "decide the size"),
        (("unzip", "--case", "one", "--size", "3GB"), "at most 2,000,000,000 bytes"),
        (("unzip", "--into", "null", "--durable"), "cannot be durable"),
    ],
)
def test_what_a_job_does_not_know_is_a_clear_error(lab: Here, arguments: tuple[str, ...], message: str) -> None:
    done = lab.run("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
