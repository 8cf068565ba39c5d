"""A job in parts on a real Ray cluster: a head and two nodes of one processor each, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from clusters import LONG, Nodes, Run, nodes, run
from conftest import PATIENCE, Command, Service
from trees import tree
from waiting import wait_until

pytestmark = pytest.mark.xdist_group("ray")  # one cluster, beside the other tests

__all__ = ["nodes", "run"]

SECRET = "correct-horse-battery-staple"


def check_whole(directory: Path, wanted: dict[str, bytes], report: dict[str, Any] | None = None) -> None:
    """Every file is there with its bytes, and the counts are those of the files."""
    assert tree(directory / "out") == wanted
    status = package.status(directory / "out")
    assert status.complete
    assert sum(run.total.written for run in status.runs) == len(wanted)
    if report is not None:
        assert (report["total"]["listed"], report["total"]["written"]) == (len(wanted), len(wanted))
        assert report["total"]["bytes"] == sum(map(len, wanted.values()))


def objects_of(url: str) -> dict[str, bytes]:
    with package.read(url) as reader:
        return {one.name: bytes(one.data) for one in reader}


def test_a_copy_on_a_cluster_has_every_object_and_says_what_each_node_did(run: Run, service: Service) -> None:
    url = service(synthetic="20000:100").url
    report = run("copy", url, "out")
    check_whole(run.directory, objects_of(url), report)
    assert len(package.status(run.directory / "out").parts) == 24
    assert len([note for note in report["notes"] if note.startswith("node ")]) == 3, report["notes"]
    again = run("copy", url, "out")
    assert again["run"]["written"] == 0
    assert again["total"] == report["total"]
    assert not list((run.directory / "out" / ".shoal" / "parts").glob("probe*"))


def test_the_progress_says_what_each_node_does(run: Run, service: Service) -> None:
    url = service(synthetic="200000:100").url  # enough for several lines: one is printed every second
    copying = run.start("copy", url, "out", "--progress", "plain", "--log-format", "json")
    _, told = copying.communicate(timeout=LONG)
    lines = [line for line in map(json.loads, told.splitlines()) if line["type"] == "progress"]
    seen = [line for line in lines if "nodes" in line]
    assert seen, told
    for line in seen:
        assert sum(node["written"] for node in line["nodes"]) == line["written"]
        assert sum(node["done"] + node["running"] for node in line["nodes"]) <= 24
    assert 1 <= len(seen[-1]["nodes"]) <= 3


def test_a_copy_into_parquet_on_a_cluster_is_one_dataset(run: Run, service: Service) -> None:
    url = service(synthetic="5000:100").url
    report = run("copy", url, "parquet:rows", "--parts", "5")
    assert report["total"]["written"] == 5_000
    assert objects_of(f"parquet:{run.directory}/rows") == objects_of(url)


def test_archives_are_unpacked_on_a_cluster(run: Run) -> None:
    (run.directory / "zips").mkdir()
    wanted = {}
    for number in range(60):
        with zipfile.ZipFile(run.directory / "zips" / f"a{number}.zip", "w") as archive:
            for entry in range(10):
                wanted[f"a{number}/{entry}.txt"] = f"{number} {entry}".encode() * 20
                archive.writestr(f"{entry}.txt", wanted[f"a{number}/{entry}.txt"])
    report = run("unzip", "zips/*.zip", "-d", "out", "--into-subdirectories", "--parts", "6")
    check_whole(run.directory, wanted, report)


def test_files_are_generated_on_a_cluster(run: Run) -> None:
    (run.directory / "maker.py").write_text("def make(number): return f'content of {number}'\n")
    report = run("generate", "maker:make", "300", "out", "--name", "{:04}.txt", "--parts", "4")
    check_whole(run.directory, {f"{n:04}.txt": f"content of {n}".encode() for n in range(300)}, report)


def test_the_failures_of_all_parts_are_those_of_the_job(run: Run) -> None:
    (run.directory / "src").mkdir()
    (run.directory / "out").mkdir()
    for number in range(60):
        (run.directory / "src" / f"{number}").write_bytes(b"new")
        if number % 5 == 0:
            (run.directory / "out" / f"{number}").write_bytes(b"of another program")
    report = run("copy", "src", "out", "--parts", "4", code=1)
    assert (report["failed"], report["total"]["written"], len(report["failures"])) == (12, 48, 12)


@pytest.mark.parametrize("fault", ["worker", "node"])
def test_a_copy_survives_the_loss_of_workers_and_nodes(run: Run, service: Service, fault: str) -> None:
    url = service(synthetic="30000:100").url
    chance = random.Random(fault)
    process = run.start("copy", url, "out", "--parts", "6", "--limit-rate", "300kB", "--json")
    for _ in range(3 if fault == "worker" else 1):
        wait_until(run.nodes.workers, LONG)
        time.sleep(chance.uniform(0.1, 1.5))
        wait_until(lambda: run.nodes.lose(fault, chance), LONG)
    check_whole(run.directory, objects_of(url), run.ended(process))


def test_the_same_command_runs_the_rest_after_the_driver_was_killed(run: Run, service: Service) -> None:
    url = service(synthetic="30000:100").url
    process = run.start("copy", url, "out", "--parts", "12", "--limit-rate", "300kB")

    def complete() -> int:
        try:
            return [one.state for one in package.status(run.directory / "out").parts].count("complete")
        except package.ShoalError:
            return 0

    wait_until(lambda: complete() >= 2, LONG)
    process.kill()
    process.wait()
    report = run("copy", url, "out")
    check_whole(run.directory, objects_of(url))
    assert report["run"]["written"] < 30_000
    assert len(package.status(run.directory / "out").parts) == 12


def committed(out: Path) -> int:
    """Objects that the journals of all parts have as written; 0 if there are none yet."""
    try:
        return sum(one.total.written for one in package.status(out).runs)
    except package.ShoalError:
        return 0


@pytest.mark.timing
def test_ctrl_c_stops_all_parts_within_two_seconds_and_they_have_committed(run: Run, service: Service) -> None:
    url = service(synthetic="60000:100").url
    process = run.start("copy", url, "out", "--parts", "9", "--limit-rate", "300kB")
    wait_until(run.nodes.workers, LONG)
    wait_until(lambda: committed(run.directory / "out") > 0, LONG)
    process.send_signal(signal.SIGINT)
    before = len(list((run.directory / "out").glob("object*")))
    wait_until(lambda: not run.nodes.workers(), LONG)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 130, errors
    status = package.status(run.directory / "out")
    assert not status.complete
    assert not any(one.owner for one in status.parts)
    written = committed(run.directory / "out")
    assert 0 < written < before + 2 * 3_000, "no more than two seconds of the limit, however busy the machine is"
    assert f": {written:,} written" in errors, "the parts have ended in order, and have returned their reports"


def test_a_part_that_is_interrupted_on_its_node_runs_again(run: Run, service: Service) -> None:
    url = service(synthetic="30000:100").url
    process = run.start("copy", url, "out", "--parts", "6", "--limit-rate", "300kB")
    wait_until(run.nodes.workers, LONG)
    wait_until(lambda: len(list((run.directory / "out").glob("object*"))) > 500, LONG)
    os.kill(run.nodes.workers()[0], signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 0, errors
    check_whole(run.directory, objects_of(url))


def test_a_second_driver_of_the_same_job_is_refused(run: Run, service: Service) -> None:
    url = service(synthetic="20000:100").url
    first = run.start("copy", url, "out", "--parts", "6", "--limit-rate", "300kB")
    wait_until(run.nodes.workers, LONG)
    second = run.start("copy", url, "out", "--parts", "6")
    _, errors = second.communicate(timeout=LONG)
    assert second.returncode == 3
    assert "another driver" in errors
    _, errors = first.communicate(timeout=LONG)
    assert first.returncode == 0, errors
    check_whole(run.directory, objects_of(url))


def test_a_wrong_option_stops_the_job_with_one_error(run: Run, service: Service) -> None:
    url = service(synthetic="100:10").url
    process = run.start("copy", url, "out", "--parts", "3", "--exclude", "[")
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 2, errors
    assert errors.count("error:") == 1, errors
    for more in (("--part", "0/3"), ("--journal", "j.db"), ("--dry-run",)):
        process = run.start("copy", url, "out", *more)
        _, errors = process.communicate(timeout=LONG)
        assert process.returncode == 2, errors
        assert more[0] in errors


@pytest.mark.parametrize(
    ("source", "below"),
    [
        pytest.param("missing", "", id="no source"),
        pytest.param("src", "file/", id="destination below a file"),
        pytest.param("parquet:src/broken.parquet", "", id="no Parquet file"),
    ],
)
def test_an_error_has_the_exit_code_and_the_kind_of_a_run_without_a_cluster(
    run: Run, shoal: Command, source: str, below: str
) -> None:
    (run.directory / "src").mkdir()
    (run.directory / "src" / "broken.parquet").write_bytes(b"not a table")
    (run.directory / "file").touch()
    local = shoal.run("copy", source, f"{below}local", "--json")
    assert local.returncode != 0
    process = run.start("copy", source, f"{below}out", "--parts", "3", "--json")
    output, errors = process.communicate(timeout=LONG)
    assert process.returncode == local.returncode, errors
    assert json.loads(output.splitlines()[-1]).get("kind") == shoal.last_json(local).get("kind")
    assert errors.count("error:") == local.stderr.count("error:"), errors


def test_a_node_that_is_lost_while_nodes_are_checked_is_not_waited_for(run: Run) -> None:
    script = (
        "import ray, shoal, sys\n"
        "from shoal import ray as own\n"
        "from shoal._cluster import Job\n"
        "ray.init(log_to_driver=False)\n"
        "nodes = [node for node in ray.nodes() if node['Alive']]\n"
        "print(len(nodes), flush=True)\n"
        "sys.stdin.readline()\n"
        "job = Job(shoal.copy, ('http://127.0.0.1:1', 'null:'), {'cluster': 'ray'})\n"
        "own.check_nodes(job, own.Sight(job, '', ''), nodes)\n"
        "print('checked')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env=run.nodes.environment(run.directory),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    run.started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "3\n"
    run.nodes.remove(run.nodes.others[0])
    output, errors = process.communicate("go\n", timeout=LONG)
    assert output.endswith("checked\n"), errors


def test_secrets_are_in_no_file_of_the_cluster(run: Run, service: Service) -> None:
    url = service(synthetic="300:10").url
    run("copy", url, "out", "--parts", "3", "--header", f"X-Token: {SECRET}")
    session = Path(run.nodes.cluster.head_node.get_session_dir_path())
    read = 0
    for file in session.rglob("*"):
        if file.is_file() and not file.is_symlink():
            assert SECRET.encode() not in file.read_bytes(), file
            read += 1
    assert read > 10
    for file in (run.directory / "out" / ".shoal").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare, for a mount"
)
# What a node has in the place of what the others have: how it is mounted, and what the error says.
OTHERS = {
    "no destination": ("mount -t tmpfs none shared", "does not see the destination"),
    "destination that cannot be written": ("mount --bind -o ro shared shared", ""),
    "empty source": ("mount --bind other/empty mnt", "does not see the source"),
    "older list": ("mount --bind other mnt", "does not see the source"),
}


@pytest.fixture
def odd(run: Run, service: Service) -> Iterator[Callable[[str], None]]:
    """Adds a node where something else is mounted."""
    started: list[subprocess.Popen[bytes]] = []
    names = [f"f{number:04}" for number in range(3000)]
    for directory in ("shared", "mnt/src", "other/empty/src"):
        (run.directory / directory).mkdir(parents=True)
    for name in names:
        (run.directory / "mnt" / "src" / name).write_bytes(name.encode() * 200)
    url = service(run.directory / "mnt" / "src").url
    lines = [f"{name}\t{url}/get/{name}\n" for name in names]
    (run.directory / "mnt" / "list.txt").write_text("".join(lines))
    (run.directory / "other" / "list.txt").write_text("".join(lines[:1000]))

    def add(what: str) -> None:
        ray = (
            f"{sys.executable} -m ray.scripts.scripts start --address {run.nodes.cluster.address} --num-cpus 1 --block"
        )
        command = f"{OTHERS[what][0]} && exec {ray}"
        started.append(
            subprocess.Popen(["unshare", "-m", "/bin/sh", "-c", command], cwd=run.directory, start_new_session=True)
        )
        wait_until(lambda: len(ray_nodes(run.nodes)) >= 4, LONG)

    yield add
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=PATIENCE)
    wait_until(lambda: len(ray_nodes(run.nodes)) == 3, LONG)


def arguments(what: str) -> tuple[str, ...]:
    source = ("--urls", "mnt/list.txt") if what == "older list" else ("mnt/src",)
    return ("copy", *source, "shared/out")


@needs_mounts
@pytest.mark.parametrize("what", OTHERS)
def test_a_node_that_does_not_see_what_the_driver_sees_is_one_error_before_anything_starts(
    run: Run, odd: Callable[[str], None], what: str
) -> None:
    odd(what)
    process = run.start(*arguments(what), "--parts", "3")
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 2, errors
    assert (OTHERS[what][1] or "cannot write to the destination") in errors
    assert not tree(run.directory / "shared" / "out")
    assert not list((run.directory / "shared").rglob("probe*"))


@needs_mounts
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] if at % 2 else []) for at, what in enumerate(OTHERS)]
)
def test_a_node_that_joins_later_and_does_not_see_it_makes_no_job_complete(
    run: Run, odd: Callable[[str], None], what: str
) -> None:
    process = run.start(*arguments(what), "--parts", "60", "--limit-rate", "60kB", "--json")
    wait_until(run.nodes.workers, LONG)
    odd(what)
    report = run.ended(process, code=3)
    assert "node" in report["message"]
    assert OTHERS[what][1] in report["message"]
    assert not package.status(run.directory / "shared" / "out").complete
    assert not list((run.directory / "shared").rglob("probe*"))


def patched(run: Run, patch: str, *more: str) -> subprocess.Popen[str]:
    """A driver in which something is different."""
    script = f"import shoal, sys\nfrom shoal import ray as own\n{patch}\nfrom shoal.cli import main\nsys.exit(main())\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "copy", *more, "--cluster", "ray"],
        cwd=run.directory,
        env=run.nodes.environment(run.directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    run.started.append(process)
    return process


def test_locks_that_do_not_reach_the_nodes_are_an_error_which_can_be_accepted(run: Run, service: Service) -> None:
    url = service(synthetic="100:10").url
    no_lock = "own.fcntl.flock = lambda file, how: None"
    process = patched(run, no_lock, url, "out", "--parts", "2")
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 2, errors
    assert "local_lock=none" in errors
    assert "--allow-unlocked" in errors
    process = patched(run, no_lock, url, "out", "--parts", "2", "--allow-unlocked")
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 0, errors


def test_a_part_that_hangs_is_named_and_ends_the_job_without_a_twin(run: Run, service: Service) -> None:
    url = service(synthetic="30000:100").url
    process = patched(
        run, "own.HANGS_AFTER, own.STOP_WITHIN = 15, 2", url, "out", "--parts", "6", "--limit-rate", "100kB", "--json"
    )
    wait_until(run.nodes.workers, LONG)
    wait_until(lambda: list((run.directory / "out").glob("object*")), LONG)
    stopped = run.nodes.workers()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        report = run.ended(process, code=3)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGKILL)
    assert report["kind"] == "part-hangs", report
    assert "has not moved for" in report["message"]


def test_reports_that_the_journals_at_the_destination_do_not_confirm_are_an_error(run: Run, service: Service) -> None:
    url = service(synthetic="300:10").url
    hides = (
        "own.SEEN_WITHIN = 1\n"
        "import shutil\n"
        "whole = own.Driver.wrong_there\n"
        "def wrong(self, report):\n"
        "    shutil.rmtree(self.job.directory / '.shoal' / 'parts' / '1')\n"
        "    return whole(self, report)\n"
        "own.Driver.wrong_there = wrong\n"
    )
    report = run.ended(patched(run, hides, url, "out", "--parts", "3", "--json"), code=3)
    assert "not complete at the destination: 1" in report["message"]
    assert report["complete"] is False


def ray_nodes(nodes: Nodes) -> list[str]:
    """The nodes that are alive, as another process sees them."""
    script = "import ray; ray.init(log_to_driver=False); print(*(n['NodeID'] for n in ray.nodes() if n['Alive']))"
    environment = nodes.environment(Path())
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_without_ray_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['ray'] = None\n"
        "import shoal\n"
        f"shoal.copy('.', {str(tmp_path / 'out')!r}, cluster='ray')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "shoal[ray]"' in done.stderr
