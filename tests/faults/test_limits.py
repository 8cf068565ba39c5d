"""In 256 MB of memory every job of any size is done; with too few processes a command says so and never hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal as package
from conftest import Command, Service
from faults.cgroups import Group
from trees import tree

pytestmark = pytest.mark.root

MEMORY = 256 << 20
LIMIT = 55.0  # seconds in which a command with too few processes must have ended


class Groups:
    """Makes groups; they are removed at the end of the test."""

    def __init__(self) -> None:
        self.made: list[Group] = []

    def __call__(self, controller: str, limit: int) -> Group:
        self.made.append(Group(controller, limit))
        return self.made[-1]


@pytest.fixture
def group() -> Iterator[Groups]:
    groups = Groups()
    yield groups
    for made in groups.made:
        made.remove()


def assert_done_in(limited: Group, done: subprocess.CompletedProcess[str], written: int) -> None:
    assert done.returncode == 0, done.stderr
    assert Command.last_json(done)["written"] == written
    assert (limited.peak() or 0) <= MEMORY


@pytest.mark.parametrize("keys", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow(minutes=5))])
def test_any_number_of_keys_is_listed_in_256_mb(shoal: Command, service: Service, group: Groups, keys: int) -> None:
    limited = group("memory", MEMORY)
    url = service(synthetic=f"{keys}:10", page_size=10_000).url
    done = shoal.under(*limited.command()).run("copy", url, "null:", "--json", timeout=280)
    assert_done_in(limited, done, keys)


def test_an_object_of_2_gib_is_copied_in_256_mb(
    shoal: Command, service: Service, group: Groups, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "large").open("wb") as file:
        file.truncate(2 << 30)
        file.seek(1 << 30)
        file.write(b"half-way")
    for source in (service(tmp_path / "source").url, str(tmp_path / "source")):
        limited = group("memory", MEMORY)
        done = shoal.under(*limited.command()).run("copy", source, tmp_path / "out", "--json", timeout=200)
        assert_done_in(limited, done, 1)
        copied = tmp_path / "out" / "large"
        assert copied.stat().st_size == 2 << 30
        with copied.open("rb") as file:
            file.seek(1 << 30)
            assert file.read(8) == b"half-way"
        subprocess.run(["rm", "-r", tmp_path / "out"], check=True)


def test_a_zip_of_100_000_entries_is_unpacked_in_256_mb(shoal: Command, group: Groups, tmp_path: Path) -> None:
    entries = 100_000
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as made:
        for number in range(entries):
            made.writestr(f"{number % 100}/{number}", str(number))
    limited = group("memory", MEMORY)
    command = shoal.under(*limited.command())
    done = command.run("unzip", tmp_path / "many.zip", "-d", tmp_path / "out", "--json", timeout=200)
    assert_done_in(limited, done, entries)
    assert (tmp_path / "out" / "99" / "99999").read_text() == "99999"


SOURCE = {str(number): bytes([number]) * 1_000 for number in range(200)}
SHOAL = ("-m", "shoal")
SAVE = "import shoal; print(shoal.save(((str(n), b'%d' % n) for n in range(200)), 'out').written)"
# The command lines that threads or processes are refused to; `save` is Python.
LINES = {
    "copy": (*SHOAL, "copy", "source", "out"),
    "read": (*SHOAL, "read", "source"),
    "unzip": (*SHOAL, "unzip", "some.zip", "-d", "out"),
    "records": (*SHOAL, "records", "records", "--format", "<QQ", "--count", "--sum", "f0"),
    "generate": (*SHOAL, "generate", "make:text", "50", "out", "--name", "data-{:04d}.csv"),
    "save": ("-c", SAVE),
    "serve": (*SHOAL, "serve", "source", "--port", "0"),
}


def prepare(tmp_path: Path, command: str) -> None:
    """Makes what a command needs, and nothing else: it is done for each limit anew."""
    if command in ("copy", "read", "serve"):
        (tmp_path / "source").mkdir()
        for name, content in SOURCE.items():
            (tmp_path / "source" / name).write_bytes(content)
    elif command == "unzip":
        with zipfile.ZipFile(tmp_path / "some.zip", "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in SOURCE.items():
                made.writestr(name, content)
    elif command == "records":
        (tmp_path / "records").write_bytes(bytes(16) * 1_000_000)
    elif command == "generate":
        (tmp_path / "make.py").write_text("def text(number):\n    return str(number) * 100\n")


def errs_clearly(said: str, command: str) -> bool:
    lines = said.splitlines()
    if "panicked" in said or "bug in shoal" in said:
        return False
    if command == "save":  # an exception of shoal's own, as any
        return any(line.startswith("shoal.") for line in lines)
    # The processes of `generate` say for themselves how Python failed in them.
    return sum(line.startswith("error:") for line in lines) == 1 and ("Traceback" not in said or command == "generate")


def assert_done(command: str, place: Path, printed: str, said: str) -> None:
    """Fails unless a command that says it has done its work has done all of it."""
    if command == "read":
        assert said.startswith("read 200 objects, 200 kB,"), said
    elif command == "records":
        assert printed == "count\t1000000\nsum(f0)\t0\n"
    elif command == "serve":
        assert printed == "", "nothing behind the URL"
    else:
        made = {f"data-{number:04}.csv": str(number).encode() * 100 for number in range(50)}
        saved = {str(number): b"%d" % number for number in range(200)}
        wanted = {"generate": made, "save": saved}.get(command, SOURCE)
        assert tree(place / "out") == wanted
        assert package.status(place / "out").runs[-1].total.written == len(wanted)


@pytest.mark.parametrize("command", LINES)
@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, *(pytest.param(most, marks=pytest.mark.slow) for most in (4, 6, 12))])
def test_with_few_processes_a_command_uses_fewer_workers_or_says_what_is_missing_and_never_hangs(
    group: Groups, tmp_path: Path, command: str, most: int
) -> None:
    prepare(tmp_path, command)
    line = [*group("pids", most).command(), sys.executable, *LINES[command]]
    process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if command == "serve":
            assert process.stdout is not None
            if url := process.stdout.readline().strip():  # it has begun
                with urllib.request.urlopen(f"{url}/get/7", timeout=LIMIT) as answer:
                    assert answer.read() == bytes([7]) * 1_000
                process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        raise AssertionError(f"{command} hangs: {said}") from None

    assert process.returncode == 0 or errs_clearly(said, command), (process.returncode, said)
    if process.returncode == 0:
        assert_done(command, tmp_path, printed, said)
