"""A job in parts: each is a run of its own, and together they do what one run does. Nothing is lost, nothing twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import PATIENCE, Command, Service
from generating import Job, expected
from trees import tree
from waiting import takes_signals, wait_until

pytestmark = pytest.mark.disk

COUNTS = ("listed", "written", "skipped", "failed", "unfinished", "bytes")


def fill(directory: Path, count: int) -> dict[str, bytes]:
    """Makes files in directories; returns them by name."""
    made = {f"d{number % 7}/f{number}": f"content of {number}\n".encode() * (number % 5) for number in range(count)}
    for name, data in made.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return made


def sums(reports: list[dict[str, Any]]) -> dict[str, int]:
    """Adds up the counts of reports."""
    return {name: sum(report[name] for report in reports) for name in COUNTS}


@pytest.mark.parametrize("of", ["files", "service"])
def test_the_parts_of_a_copy_hold_every_object_once_and_their_counts_add_up(
    shoal: Command, service: Service, of: str
) -> None:
    files = fill(shoal.directory / "src", 1_500)
    source = "src" if of == "files" else service(shoal.directory / "src", page_size=200).url
    whole = shoal.last_json(shoal.run("copy", source, "whole", "--json"))
    reports = []
    for index in range(4):
        done = shoal.run("copy", source, "out", "--part", f"{index}/4", "--json")
        assert done.returncode == 0, done.stderr
        reports.append(shoal.last_json(done))
    assert sums(reports) == {name: whole[name] for name in COUNTS}
    assert all(0 < report["listed"] < len(files) / 2 for report in reports)
    assert tree(shoal.directory / "out") == files


def test_a_run_without_part_is_refused_where_parts_have_written_and_changes_nothing(shoal: Command) -> None:
    fill(shoal.directory / "src", 50)
    assert shoal.run("copy", "src", "out", "--part", "0/2").returncode == 0

    def everything() -> list[tuple[str, int]]:
        return sorted((str(path), path.lstat().st_ctime_ns) for path in (shoal.directory / "out").rglob("*"))

    before = everything()
    for more in ((), ("--journal", "elsewhere.db"), ("--dry-run",), ("--restart",), ("--update",)):
        refused = shoal.run("copy", "src", "out", *more)
        assert refused.returncode == 2, more
        assert "written in parts" in refused.stderr
        assert "--part" in refused.stderr
    with pytest.raises(package.ConfigError, match="written in parts"):
        package.save([("a", b"b")], shoal.directory / "out")
    with pytest.raises(package.ConfigError, match="written in parts"):
        package.generate(str, range(3), shoal.directory / "out", name="{}")
    assert everything() == before
    assert not (shoal.directory / "elsewhere.db").exists()


@pytest.mark.parametrize("journal", [(), ("--journal", "elsewhere.db")])
def test_a_part_is_refused_where_a_run_without_parts_has_written(shoal: Command, journal: tuple[str, ...]) -> None:
    fill(shoal.directory / "src", 50)
    assert shoal.run("copy", "src", "out", *journal).returncode == 0
    for more in ((), ("--dry-run",)):
        refused = shoal.run("copy", "src", "out", "--part", "0/2", *more)
        assert refused.returncode == 2
        assert "a run without --part has written" in refused.stderr
    assert not (shoal.directory / "out" / ".shoal" / "parts" / "job").exists()
    assert shoal.run("copy", "src", "out", *journal).returncode == 0


def test_another_number_of_parts_source_or_filter_is_refused_with_the_difference(shoal: Command) -> None:
    fill(shoal.directory / "src", 50)
    fill(shoal.directory / "other", 50)
    assert shoal.run("copy", "src", "out", "--part", "0/2").returncode == 0
    for source, more, named in (
        ("src", ("--part", "1/3"), "parts: 2 -> 3"),
        ("other", ("--part", "1/2"), "other"),
        ("src", ("--part", "1/2", "--exclude", "*7"), "*7"),
        ("src", ("--part", "0/2", "--exclude", "*7", "--restart"), "*7"),
    ):
        for dry in ((), ("--dry-run",)):
            refused = shoal.run("copy", source, "out", *more, *dry)
            assert refused.returncode == 3, (more, refused.stderr)
            assert named in refused.stderr
    assert not (shoal.directory / "out" / ".shoal" / "parts" / "1").exists()
    assert shoal.run("copy", "src", "out", "--part", "1/2").returncode == 0
    assert package.status(shoal.directory / "out").complete


def test_a_journal_of_another_job_is_not_taken_for_a_part(shoal: Command) -> None:
    """As two machines could leave it that began different jobs at one moment and did not see each other."""
    fill(shoal.directory / "src", 50)
    assert shoal.run("copy", "src", "out", "--part", "0/2").returncode == 0
    job = shoal.directory / "out" / ".shoal" / "parts" / "job"
    job.write_text(job.read_text().replace('"parts":2', '"parts":3'))
    for command in (("status", "out"), ("copy", "src", "out", "--part", "0/3")):
        refused = shoal.run(*command)
        assert refused.returncode == 3, refused.stderr
        assert "parts/0/journal.db" in refused.stderr


def test_parts_that_wrote_numbered_directories_are_refused_with_what_to_do_instead(shoal: Command) -> None:
    fill(shoal.directory / "src", 50)
    assert shoal.run("copy", "src", "out", "--part", "0/2").returncode == 0
    job = shoal.directory / "out" / ".shoal" / "parts" / "job"
    job.write_text(job.read_text().replace('["layout","names"]', '["layout","partition"]'))
    assert '"partition"' in job.read_text()
    before = tree(shoal.directory / "out")
    for more in ((), ("--dry-run",), ("--restart",)):
        refused = shoal.run("copy", "src", "out", "--part", "1/2", *more)
        assert refused.returncode == 3, (more, refused.stderr)
        assert "numbered directories" in refused.stderr
        assert '"parquet:DIR"' in refused.stderr
    assert tree(shoal.directory / "out") == before
    assert not (shoal.directory / "out" / ".shoal" / "parts" / "1").exists()


def test_a_part_that_is_running_is_waited_for_and_not_done_twice(shoal: Command, service: Service) -> None:
    server = service(synthetic="3000:1000")
    arguments = ("copy", server.url, "out", "--part", "1/2", "--json")
    first = shoal.start(*arguments, "--limit-rate", "700kB")
    wait_until(lambda: any(shoal.directory.glob("out/object*")))
    second = shoal.start(*arguments)
    time.sleep(0.5)
    assert second.poll() is None
    output, errors = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, errors
    again, errors = second.communicate(timeout=PATIENCE)
    assert second.returncode == 0, errors
    done, found = (json.loads(text.splitlines()[-1]) for text in (output, again))
    assert done["run"]["written"] == done["written"] > 1_000
    assert found["run"]["written"] == 0
    assert found["total"] == done["total"]
    assert server.stats.requests < 3_000


def test_ctrl_c_ends_the_wait_for_a_part_and_a_kill_of_the_first_lets_the_second_resume(
    shoal: Command, service: Service
) -> None:
    url = service(synthetic="4000:1000").url
    arguments = ("copy", url, "out", "--part", "0/2")
    first = shoal.start(*arguments, "--limit-rate", "100kB")
    wait_until(lambda: any(shoal.directory.glob("out/object*")))
    second, third = shoal.start(*arguments), shoal.start(*arguments, "-v")
    wait_until(lambda: takes_signals(second.pid))
    time.sleep(0.5)  # it may be waiting by then
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE) == 130
    assert third.poll() is None
    first.kill()
    _, errors = third.communicate(timeout=PATIENCE)
    assert third.returncode == 0, errors
    assert "waited" in errors
    assert shoal.run("copy", url, "out", "--part", "1/2").returncode == 0
    assert len(tree(shoal.directory / "out")) == 4_000


def test_the_start_of_a_part_removes_no_temporary_file_of_another(shoal: Command, service: Service) -> None:
    (shoal.directory / "src").mkdir()
    for letter in "abcdefgh":
        (shoal.directory / "src" / letter).write_bytes(letter.encode() * 3_000_000)
    url = service(shoal.directory / "src").url
    slow = shoal.start("copy", url, "out", "--part", "0/2", "--limit-rate", "2MB")
    wait_until(lambda: any(shoal.directory.glob("out/.shoal/parts/0/tmp/.shoal-*.tmp")))
    assert shoal.run("copy", url, "out", "--part", "1/2").returncode == 0
    assert any(shoal.directory.glob("out/.shoal/parts/0/tmp/.shoal-*.tmp"))
    _, errors = slow.communicate(timeout=PATIENCE)
    assert slow.returncode == 0, errors
    assert tree(shoal.directory / "out") == tree(shoal.directory / "src")


def test_status_sums_the_parts_and_says_complete_only_if_all_are(shoal: Command, service: Service) -> None:
    url = service(synthetic="6000:100").url
    copy = ("copy", url, "out", "--part")
    assert shoal.run(*copy, "0/5").returncode == 0
    assert shoal.run(*copy, "3/5").returncode == 0
    killed = shoal.start(*copy, "4/5", "--limit-rate", "20kB")
    wait_until(lambda: [one.state for one in package.status(shoal.directory / "out").parts][4] == "running")
    running = shoal.start(*copy, "1/5", "--limit-rate", "20kB")

    def states() -> list[str]:
        return [one.state for one in package.status(shoal.directory / "out").parts]

    wait_until(lambda: states()[1] == "running")
    killed.kill()
    killed.wait()
    assert states() == ["complete", "running", "missing", "complete", "unfinished"]
    said = shoal.run("status", "out").stdout
    assert "5 parts: not complete" in said
    assert "1 running: 1" in said
    assert "1 not begun: 2" in said
    assert "1 unfinished; run the same command again to resume: 4" in said
    assert f"pid {running.pid} on" in said
    report = shoal.last_json(shoal.run("status", "out", "--json"))
    assert (report["ok"], report["complete"]) == (False, False)
    assert [one["state"] for one in report["parts"]] == states()
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=PATIENCE) == 130
    for index in (1, 2, 4):
        assert not package.status(shoal.directory / "out").complete
        assert shoal.run(*copy, f"{index}/5").returncode == 0
    status = package.status(shoal.directory / "out")
    assert status.complete
    assert [one.run.options["part"] for one in status.parts if one.run] == [f"{index}/5" for index in range(5)]
    report = shoal.last_json(shoal.run("status", "out", "--json"))
    assert (report["ok"], report["complete"], report["total"]["written"]) == (True, True, 6_000)
    said = shoal.run("status", "out").stdout
    assert "5 parts: complete since" in said
    assert "6,000 written" in said


def test_the_failures_of_all_parts_are_in_the_status(shoal: Command) -> None:
    files = fill(shoal.directory / "src", 60)
    taken = sorted(files)[::5]
    for name in taken:
        (shoal.directory / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (shoal.directory / "out" / name).write_bytes(b"of another program")
    for index in range(3):
        assert shoal.run("copy", "src", "out", "--part", f"{index}/3").returncode == 1
    status = package.status(shoal.directory / "out")
    assert sorted(one.name for run in status.runs for one in run.failures) == taken
    said = shoal.run("status", "out", "--failures", "all").stdout
    assert f"{len(taken)} objects failed" in said
    assert all(name in said for name in taken)
    rows = shoal.run("status", "out", "--csv").stdout.splitlines()
    assert len(rows) == 1 + len(taken)
    assert not shoal.last_json(shoal.run("status", "out", "--json"))["ok"]


def test_parts_that_are_killed_at_random_and_run_at_the_same_time_come_to_the_whole(
    shoal: Command, service: Service
) -> None:
    """Every part may be killed and started again, several at the same time, and one by two processes at once."""
    chance = random.Random(22)
    files = fill(shoal.directory / "src", 4_000)
    url = service(shoal.directory / "src", page_size=300).url
    command = ("copy", url, "out", "--limit-rate", "300kB", "--json", "--part")
    count = 4
    kills = 0
    running: dict[int, list[subprocess.Popen[str]]] = {index: [] for index in range(count)}
    while kills < 8:
        index = chance.randrange(count)
        running[index] = [process for process in running[index] if process.poll() is None]
        if running[index] and chance.random() < 0.7:
            victim = chance.choice(running[index])
            victim.kill()
            victim.wait()
            kills += 1
        else:
            running[index].append(shoal.start(*command, f"{index}/{count}", stdout=subprocess.DEVNULL))
        time.sleep(chance.uniform(0.02, 0.4))
    for processes in running.values():
        for process in processes:
            process.kill()
            process.wait()
    last = [shoal.start(*command[:3], "--json", "--part", f"{index}/{count}") for index in range(count)]
    reports = []
    for process in last:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        reports.append(json.loads(output.splitlines()[-1]))
    assert tree(shoal.directory / "out") == files
    total = sums([report["total"] for report in reports])
    assert (total["listed"], total["failed"], total["unfinished"]) == (len(files), 0, 0)
    assert total["bytes"] == sum(map(len, files.values()))
    assert package.status(shoal.directory / "out").complete
    assert not list((shoal.directory / "out" / ".shoal").rglob(".shoal-*"))


def test_parts_write_parquet_files_of_their_own_which_are_one_dataset(shoal: Command, service: Service) -> None:
    url = service(synthetic="3000:1000:random", page_size=200).url
    with package.read(url) as reader:
        files = {one.name: bytes(one.data) for one in reader}
    copy = ("copy", url, "parquet:rows", "--shard-size", "100kB", "--part")
    assert shoal.run(*copy, "0/3").returncode == 0
    killed = [shoal.start(*copy, f"{index}/3", "--limit-rate", "100kB") for index in (1, 2)]

    for index, process in zip((1, 2), killed, strict=True):
        wait_until(lambda: any(shoal.directory.glob(f"rows/.shoal/parts/{index}/journal.db")))  # noqa: B023
        time.sleep(1)
        process.kill()
        process.wait()
    incomplete = "the dataset is incomplete: 1 of 3 parts are complete"
    with (
        pytest.raises(package.ObjectsFailedError, match=incomplete),
        package.read(f"parquet:{shoal.directory}/rows") as reader,
    ):
        assert 900 < sum(1 for _ in reader) < len(files)
    verified = shoal.run("verify", "parquet:rows")
    assert (verified.returncode, 'damaged: "rows": 1 of 3 parts are complete' in verified.stdout) == (1, True)
    refused = shoal.run("copy", url, "parquet:rows")
    assert refused.returncode == 2
    assert "written in parts" in refused.stderr
    small = ("--memory", "4MiB", "--json")  # small row groups: several files for each part
    last = [shoal.start(*copy, f"{index}/3", *small) for index in range(3)]
    reports = []
    for process in last:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        reports.append(json.loads(output.splitlines()[-1])["total"])
    assert sums(reports)["written"] == len(files)
    made = {path.name.rsplit("-", 1)[0] for path in (shoal.directory / "rows").glob("*.parquet")}
    assert made == {f"part-{index}-objects" for index in range(3)}
    with package.read(f"parquet:{shoal.directory}/rows") as reader:
        rows = [(one.name, bytes(one.data)) for one in reader]
    assert len(rows) == len(files)
    assert dict(rows) == files
    assert shoal.run("verify", "parquet:rows").returncode == 0
    (shoal.directory / "rows" / "part-1-objects-000000.parquet").unlink()
    damaged = shoal.run("verify", "parquet:rows")
    assert damaged.returncode == 1
    assert "part-1-objects-000000.parquet" in damaged.stdout + damaged.stderr
    assert package.status(f"parquet:{shoal.directory}/rows").complete
    assert shoal.last_json(shoal.run("status", "parquet:rows", "--json"))["complete"]


def archives(directory: Path, count: int) -> dict[str, bytes]:
    """Makes zip archives; returns what is in them, below the directories of their own."""
    directory.mkdir()
    made = {}
    for number in range(count):
        with zipfile.ZipFile(directory / f"a{number}.zip", "w") as archive:
            for entry in range(number % 9 + 1):
                data = f"{number} {entry}\n".encode() * 50
                archive.writestr(f"x/{entry}.txt", data)
                made[f"a{number}/x/{entry}.txt"] = data
    return made


def test_the_parts_of_unzip_have_whole_archives_and_read_no_others(shoal: Command) -> None:
    files = archives(shoal.directory / "zips", 40)
    (shoal.directory / "zips" / "broken.zip").write_bytes(b"PK no archive at all")
    whole = shoal.last_json(shoal.run("unzip", "zips/*.zip", "-d", "whole", "--into-subdirectories", "--json"))
    reports, codes, archive_parts = [], [], Counter[str]()
    for index in range(5):
        before = set(tree(shoal.directory / "out"))
        done = shoal.run("unzip", "zips/*.zip", "-d", "out", "--into-subdirectories", "--part", f"{index}/5", "--json")
        reports.append(shoal.last_json(done))
        codes.append(done.returncode)
        archive_parts.update({name.split("/")[0] for name in set(tree(shoal.directory / "out")) - before})
    assert sums(reports) == {name: whole[name] for name in COUNTS}
    assert sorted(codes) == [0, 0, 0, 0, 1]
    assert tree(shoal.directory / "out") == files
    assert set(archive_parts.values()) == {1}
    refused = shoal.run("unzip", "zips/*.zip", "-d", "flat", "--part", "0/5")
    assert refused.returncode == 2
    assert "--into-subdirectories" in refused.stderr
    assert not (shoal.directory / "flat").exists()


def test_archives_whose_directories_contain_each_other_are_refused_in_parts(shoal: Command) -> None:
    (shoal.directory / "zips" / "a").mkdir(parents=True)
    for name, entry in (("a.zip", "b/f"), ("a/b.zip", "f")):
        with zipfile.ZipFile(shoal.directory / "zips" / name, "w") as archive:
            archive.writestr(entry, name)
    refused = shoal.run("unzip", "zips/**/*.zip", "-d", "out", "--into-subdirectories", "--part", "0/2")
    assert refused.returncode == 2, refused.stderr
    assert "inside the directory" in refused.stderr
    assert not tree(shoal.directory / "out")


def test_the_parts_of_generate_call_the_function_once_for_every_id(job: Job) -> None:
    job.module("def make(number): note('calls', number); return plain(number)")
    total = Counter[str]()
    for index in range(3):
        (written, skipped, failed, size, complete), _ = job.run("range(300)", part=(index, 3))
        assert (skipped, failed, complete) == (0, 0, True)
        total.update(written=written, size=size)
    assert job.contents() == expected(300)
    assert sorted(map(int, job.lines("calls"))) == list(range(300))
    assert total == {"written": 300, "size": sum(map(len, expected(300).values()))}
    assert package.status(job.out).complete


def test_ids_of_one_name_are_in_one_part_so_that_no_part_replaces_a_file_of_another(job: Job) -> None:
    """A resumed part replaces what a killed session of it has left of an id: that must never be of another part."""
    job.module("def make(number): time.sleep(0.01); return plain(number)")
    options = {"name": "file-{:.2g}.txt", "on_error": "record"}  # from 100 on, some ten ids have each name
    names = {f"file-{number:.2g}.txt" for number in range(95, 195)}

    def there() -> dict[str, tuple[int, bytes]]:
        return {name: ((job.out / name).stat().st_ino, data) for name, data in tree(job.out).items()}

    total = Counter[str]()
    for index in range(3):
        before = there()
        if index == 2:
            process = job.start("range(95, 195)", part=(index, 3), **options)
            wait_until(lambda: len(there()) > len(before))  # noqa: B023
            process.kill()
            process.wait()
        counts, failures = job.run("range(95, 195)", part=(index, 3), **options)
        assert {kind for _, kind, _ in failures} <= {"name-conflict"}
        assert counts[4]
        assert {name: there()[name] for name in before} == before
        total.update(written=counts[0], failed=counts[2])
        status = package.status(job.out).parts[index].run
        assert status is not None
        total.update(listed=status.total.listed)
    assert set(there()) == names
    assert total["listed"] == 100
    assert len(names) < 20


def test_a_part_of_generate_that_was_killed_resumes_while_another_runs(job: Job) -> None:
    job.module("def make(number): time.sleep(0.004); return plain(number)")
    processes = [job.start("range(900)", part=(index, 2)) for index in range(2)]
    wait_until(lambda: any(job.out.glob("*")) and len(list(job.out.glob("*"))) > 100)
    processes[0].kill()
    processes[0].wait()
    counts, failures = job.run("range(900)", part=(0, 2))
    assert not failures
    assert counts[4]
    assert processes[1].wait(timeout=PATIENCE) == 0
    assert job.contents() == expected(900)
    assert package.status(job.out).complete


def test_parts_are_refused_where_they_cannot_be_told_apart(shoal: Command) -> None:
    fill(shoal.directory / "src", 5)
    refused = shoal.run("copy", "src", "out", "--part", "0/2", "--journal", "j.db")
    assert refused.returncode == 2
    assert "--journal" in refused.stderr
    for wrong in ("2/2", "-1/2", "1", "1/2/3", "a/b", "1/0"):
        assert shoal.run("copy", "src", "out", f"--part={wrong}").returncode == 2, wrong
    assert not (shoal.directory / "out").exists()


def test_a_part_of_a_job_without_a_destination_needs_no_journal_and_one_with_a_path_is_bound_to_its_part(
    shoal: Command,
) -> None:
    fill(shoal.directory / "src", 200)
    listed = [
        shoal.last_json(shoal.run("copy", "src", "null:", "--part", f"{index}/3", "--json"))["listed"]
        for index in range(3)
    ]
    assert sum(listed) == 200
    assert shoal.run("copy", "src", "null:", "--part", "0/3", "--journal", "j.db").returncode == 0
    refused = shoal.run("copy", "src", "null:", "--part", "1/3", "--journal", "j.db")
    assert refused.returncode == 3
    assert "part: 0/3 -> 1/3" in refused.stderr
