"""The lab: which contestants take part, what is compared, what a wrong answer costs."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
import shoal_bench
from shoal_bench import contest, verify
from shoal_bench.contestants import Contestant, Task
from shoal_bench.jobs import settings
from shoal_bench.results import Scale
from shoal_bench.service import first_names
from shoal_bench.settings import Settings

if TYPE_CHECKING:
    from conftest import Command, Here, Service

COPY = importlib.import_module("shoal_bench.jobs.copy")


def test_bench_copy_runs_contestants_in_turn_and_writes_json(shoal: Command, tmp_path: Path) -> None:
    done = shoal.run(
        *("bench", "copy", "--only", "shoal,shoal-off,shoal-1", "--count", "300", "--trials", "2"),
        *("--dir", tmp_path / "there", "--results", tmp_path / "results.json"),
    )
    assert done.returncode == 0, done.stderr
    assert "every byte compared" in " ".join(done.stdout.split())
    turns = [line.partition(": ")[2] for line in done.stderr.splitlines()]
    assert len(turns) == 9
    assert turns[:3] == turns[3:6] == turns[6:], "in turn, after a round that does not count"
    assert list((tmp_path / "there").iterdir()) == [], "what was written is removed at the end"

    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["schema"], results["job"], results["base"]) == (1, "copy", "shoal")
    rows = {row["key"]: row for row in results["rows"]}
    assert set(rows) == {"shoal", "shoal-off", "shoal-1"}
    for row in rows.values():
        assert [trial["round"] for trial in row["trials"]] == [1, 2]
        assert all(trial["seconds"] > 0 and trial["cpu"] > 0 and trial["rss"] > 0 for trial in row["trials"])
    assert rows["shoal-1"]["trials"][0]["objects"] == 45, "slow rows get fewer objects"
    assert rows["shoal"]["faster_than"]["shoal"] == 1


def test_bench_copy_into_null_counts_every_byte(lab: Here) -> None:
    done = lab.run("bench", "copy", "--into", "null", "--only", "shoal,shoal-off", "--count", "200", "--trials", "1")
    assert done.returncode == 0, done.stderr
    assert "a billion" in done.stdout
    assert "bytes counted, not compared" in " ".join(done.stdout.split())


def test_bench_copy_durable_runs_the_default_durability(tmp_path: Path) -> None:
    results = shoal_bench.run("copy", count=200, trials=1, durable=True, only=["shoal-batch"], directory=tmp_path)
    assert results.row("shoal-batch").trials
    with pytest.raises(package.ConfigError, match="no program is left"):
        shoal_bench.run("copy", durable=True, only=["shoal"], directory=tmp_path)


def test_the_list_names_everybody_and_what_they_lack(lab: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.environment["PATH"] = "/nowhere"
    done = lab.run("bench", "copy", "--list")
    keys = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"shoal", "curl", "limit", "combo", "threads-10", "threads-100"} <= set(keys)
    for program in ("curl", "aria2c", "wget2", "rclone"):
        assert f"{program} is not installed" in done.stdout
    assert "urls" not in done.stdout
    listed = lab.run("bench", "copy", "--list", "--case", "hosts")
    for program in ("curl", "aria2c", "wget2"):
        assert f"{program} is not installed" in listed.stdout
    null = lab.run("bench", "copy", "--list", "--into", "null")
    assert "wrk is not installed" in null.stdout


def test_an_unknown_contestant_is_a_clear_error(shoal: Command) -> None:
    done = shoal.run("bench", "copy", "--only", "curly")
    assert done.returncode == 2
    assert "unknown program 'curly'" in done.stderr
    assert "curl," in done.stderr


@pytest.mark.parametrize("key", ["curl", "aria2c", "wget2", "rclone", "obstore"])
def test_every_program_that_is_there_copies_every_byte(key: str, tmp_path: Path) -> None:
    (one,) = [one for one in COPY.contestants() if one.key == key]
    if one.missing():
        pytest.skip(str(one.missing()))
    # Alone they get a share; here each gets all, more than it fetches at once. aria2c has a sync for each.
    count = 20 if key == "aria2c" else 150
    settings = Settings(job="copy", count=count, size=1000, trials=1, directory=tmp_path)
    results = contest.run(settings, lambda _: None, [replace(one, share=1.0)])
    assert results.row(key).failed is None
    assert results.row(key).trials[0].objects == count
    assert any(letter.isdigit() for letter in results.machine[key]), "its version"


@pytest.mark.parametrize("case", COPY.HOSTS)
def test_a_list_of_urls_is_fetched_from_every_host_of_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[package.Server] = []

    def recorded(*given: int) -> package.Server:
        servers.append(start(*given))
        return servers[-1]

    start = COPY.service
    monkeypatch.setattr(COPY, "service", recorded)
    programs = ("curl", "aria2c", "wget2")
    # 300, more than are fetched at once; of aria2c, all of them too.
    settings = Settings(job="copy", count=300, size=100, trials=1, directory=tmp_path, case=case)
    everyone = [replace(one, share=1.0) for one in contest.chosen(settings)]
    results = contest.run(settings, lambda _: None, everyone)
    assert {row.key for row in results.rows} == {"shoal-urls", "shoal-urls-off", *(f"{one}-urls" for one in programs)}
    assert {row.key: row.failed for row in results.rows if row.failed} == {}
    assert "author's" not in shoal_bench.table(results), "the case is not that of the study"
    ran = [row.key for row in results.rows if row.missing is None]
    assert [trial.objects for row in results.rows for trial in row.trials] == [300] * len(ran)

    hosts = {server.url.rpartition(":")[0] for server in servers}
    assert hosts == {f"http://127.0.0.{at + 1}" for at in range(COPY.HOSTS[case])}
    assert len(servers) == len(ran) * len(hosts)
    assert all(server.stats.requests >= 300 / len(hosts) for server in servers)
    if missing := [f"{row.title}: {row.missing}" for row in results.rows if row.missing]:
        pytest.skip("; ".join(missing))


def test_a_list_of_urls_may_have_a_final_sync_in_each_time(tmp_path: Path) -> None:
    only = ["shoal-urls-batch", "curl-urls"]
    results = shoal_bench.run("copy", case="urls", count=100, trials=1, durable=True, only=only, directory=tmp_path)
    assert all(row.trials or row.missing for row in results.rows)
    with pytest.raises(package.ConfigError, match="no program is left"):
        shoal_bench.run("copy", case="urls", durable=True, only=["shoal-urls"], directory=tmp_path)


@pytest.mark.parametrize("durable", [False, True])
def test_a_directory_is_copied_by_every_program_that_is_there(durable: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"case": "tree", "trials": 1, "durable": durable, "directory": tmp_path}
    results = shoal_bench.run("copy", count=250, size=5000, **options)
    ours = {"shoal-tree-batch"} if durable else {"shoal-tree", "shoal-tree-1"}
    assert {row.key for row in results.rows} == {*ours, "cp", "rsync", "tar"}
    assert {row.key: row.failed for row in results.rows if row.failed} == {}
    assert [trial.objects for row in results.rows for trial in row.trials] == [250] * (
        len(results.rows) - lacking(results)
    )
    assert all(trial.cpu > 0 for row in results.rows for trial in row.trials)
    said = shoal_bench.table(results)
    assert "250 files of 5,000 bytes" in said
    assert "shoal serve" not in said
    if lacking(results):
        pytest.skip("; ".join(f"{row.title}: {row.missing}" for row in results.rows if row.missing))


def lacking(results: shoal_bench.Results) -> int:
    """How many programs are not installed."""
    return sum(row.missing is not None for row in results.rows)


def test_a_program_that_is_not_there_costs_its_row_of_the_tree_only(lab: Here) -> None:
    lab.environment["PATH"] = "/nowhere"
    listed = lab.run("bench", "copy", "--list", "--case", "tree")
    for program in ("cp", "rsync", "tar"):
        assert f"{program} is not installed" in listed.stdout
    assert "shoal-tree   " in listed.stdout


TREE_HARMS = {
    "a wrong byte": "printf x >> {one}",
    "another time": "touch {one}",
    "other permissions": "chmod 600 {one}",
    "a file too few": "rm {one}",
}


@pytest.mark.parametrize("what", TREE_HARMS)
def test_a_copied_directory_that_differs_has_no_row(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(task: Task) -> list[str]:
        harm = TREE_HARMS[what].format(one=f"{task.directory}/00000/object-000000007")
        return ["sh", "-c", f"cp -a {task.tree}/. {task.directory} && {harm}"]

    monkeypatch.setattr(COPY, "contestants", lambda: [Contestant("harmful", "harmful", "peer", command)])
    results = shoal_bench.run("copy", case="tree", count=20, trials=1, directory=tmp_path)
    failed = results.row("harmful").failed
    assert failed is not None
    assert "object-000000007" in failed


def test_the_default_tree_has_30000_files_of_10_kb() -> None:
    given = settings("copy", case="tree")
    assert (given.count, given.size) == (30_000, 10_000)
    assert settings("copy", case="tree", count=5).size == 10_000
    assert settings("copy").size == COPY.SIZE


def harmful(key: str, harm: str) -> Contestant:
    """A contestant that copies rightly and then does harm to what it wrote."""
    script = f"""
import subprocess, sys, pathlib
subprocess.run([sys.executable, "-m", "shoal", "copy", sys.argv[1], sys.argv[2], "-q"], check=True)
target = pathlib.Path(sys.argv[2])
{harm}
"""

    def command(task: Task) -> list[str]:
        return [sys.executable, "-c", script, task.url, str(task.directory)]

    return Contestant(key, key, "peer", command)


HARMS = {
    "a wrong byte": "(target / 'object-000000007').write_bytes(b'object-000000007\\n' * 5 + b'object-000000006')",
    "a file too few": "(target / 'object-000000007').unlink()",
    "a file too many": "(target / 'object-000000007~').write_bytes(b'')",
    "a short file": "(target / 'object-000000007').write_bytes(b'object')",
    "an exit code": "sys.exit(7)",
}


@pytest.mark.parametrize("what", HARMS)
def test_a_fast_wrong_answer_has_no_row_and_costs_no_other(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COPY, "contestants", lambda: [harmful("harmful", HARMS[what]), harmful("harmless", "")])
    results = shoal_bench.run("copy", count=20, trials=1, directory=tmp_path)
    wrong = results.row("harmful")
    assert wrong.failed is not None
    assert ("ended with code 7" if what == "an exit code" else "object-000000007") in wrong.failed
    assert wrong.trials == []
    assert (results.failed, results.base, len(results.row("harmless").trials)) == (["harmful"], "harmless", 1)
    assert f"failed: harmful: {wrong.failed}" in " ".join(shoal_bench.table(results).split())
    assert list(tmp_path.iterdir()) == []


def test_who_fails_once_is_out_whatever_it_did_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = tmp_path / "once"
    harm = f"done = pathlib.Path({str(once)!r})\nsys.exit(7) if done.exists() else done.touch()"
    monkeypatch.setattr(COPY, "contestants", lambda: [harmful("harmful", harm), harmful("harmless", "")])
    said: list[str] = []
    results = shoal_bench.run("copy", count=20, trials=2, directory=tmp_path / "there", progress=said.append)
    assert results.row("harmful").trials == []
    assert len(results.row("harmless").trials) == 2
    assert sum(line.endswith(": harmful") for line in said) == 2, "it is not run a third time"


def test_a_failed_row_is_the_exit_code(lab: Here, tmp_path: Path) -> None:
    (tmp_path / "requests.py").write_text("raise ImportError('broken')")
    done = lab.run(
        "bench", "copy", "--only", "shoal,session", "--count", "50", "--trials", "1", PYTHONPATH=lab.first(tmp_path)
    )
    assert done.returncode == 1
    assert "failed: requests, one session: it ended with code 1: ImportError: broken" in done.stdout
    assert "\nshoal copy from shoal serve" in done.stdout, "the other row stands"


def test_what_is_expected_is_what_the_service_serves(service: Service, tmp_path: Path) -> None:
    served = service(synthetic="30:100")
    package.copy(served.url, tmp_path / "out")
    names = first_names(served.url, 30)
    assert verify.fault(tmp_path / "out", names, 100) is None


def test_trials_are_compared_pair_by_pair() -> None:
    def row(key: str, seconds: list[float]) -> shoal_bench.Row:
        trials = [shoal_bench.Trial(number, 100, time, 0.1, 1) for number, time in enumerate(seconds, 1)]
        return shoal_bench.Row(key, key, "peer", trials=trials)

    rows = [row("a", [1, 2, 4]), row("b", [2, 4, 8])]
    nothing: Any = {}
    results = shoal_bench.Results("copy", nothing, {}, rows, "a", Scale(1, "one", "made up"), "not at all")
    assert results.ratio("a", "b") == 2
    assert results.noisy == ["a", "b"], "a machine that becomes four times as slow is said to be noisy"
