"""What a command prints is written, or the command fails: full disks, closed descriptors, readers that go away."""

from __future__ import annotations

import shutil
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package
from shoal.cli import COMMANDS

if TYPE_CHECKING:
    from conftest import Command

# Every command, in each of the ways that it prints.
LINES = [
    "--help",
    "--version",
    *(f"{command} --help" for command in COMMANDS),
    "copy tree out --json",
    "copy missing out --json",
    "copy tree out --no-such-option --json",
    "generate make:text 3 made --json",
    "read tree --json",
    "read tree --checksum xxh3",
    "read tree --checksum xxh3 --json",
    "unzip a.zip -d unpacked --json",
    "unzip a.zip --test --json",
    "records index.bin",
    "records index.bin --json",
    "records index.bin --format <QQ",
    "records index.bin --format <QQ --json",
    "records index.bin --format <QQ --count",
    "records index.bin --format <QQ --count --by f0",
    "records index.bin --format <QQ --to index.csv --json",
    "records missing --json",
    "serve tree --port 0",
    "serve tree --port 0 --json",
    "status done",
    "status done --failures all",
    "status done --skipped all",
    "status done --skipped all --json",
    "status done --json",
    "status done --failures all --json",
    "status missing --json",
    "status done --csv",
    "verify tree LIST",
    "verify tree LIST --json",
    "verify tree missing --json",
    "completion bash",
]


@pytest.fixture
def prepared(shoal: Command) -> Command:
    """The command, with something for each of them to work on."""
    place = shoal.directory
    (place / "tree").mkdir()
    for number in range(20):
        (place / "tree" / f"{number}").write_bytes(bytes(number))
    (place / "make.py").write_text("def text(number):\n    return str(number)\n")
    with zipfile.ZipFile(place / "a.zip", "w") as archive:
        archive.writestr("entry", b"bytes")
    package.Records.append(place / "index.bin", [(number, 7) for number in range(100)], "<QQ")
    (place / "done").mkdir()
    (place / "done" / "3").write_text("mine, so that one fails")
    package.copy(place / "tree", place / "done", on_error="record")
    (place / "LIST").write_text("00000000  gone\n")
    return shoal


def into_full(shoal: Command, line: str) -> tuple[int, str]:
    """Runs a command line with a standard output that takes nothing: its exit code, and what it says."""
    with Path("/dev/full").open("w") as stream:
        process = shoal.start(*line.split(), stdout=stream)
        said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize("line", LINES)
def test_a_command_whose_output_cannot_be_written_fails_and_says_so(prepared: Command, line: str) -> None:
    code, said = into_full(prepared, line)
    assert code == 3, said
    assert said.count("error: cannot write to standard output: No space left on device (errno 28)\nhint: ") == 1
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_every_command_is_tried() -> None:
    # Those of `bench` are tried where they are, in the lab.
    assert {line.split()[0] for line in LINES if not line.endswith("--help")} == {*COMMANDS, "--version"} - {"bench"}


def test_a_command_that_prints_nothing_does_not_mind(prepared: Command) -> None:
    assert into_full(prepared, "copy tree out")[0] == 0


def test_a_run_whose_report_could_not_be_printed_is_done_all_the_same(prepared: Command) -> None:
    assert into_full(prepared, "copy tree out --json")[0] == 3
    again = prepared.run("copy", "tree", "out", "--json", "--once")
    assert again.returncode == 0
    assert prepared.last_json(again)["completed_before"] is not None


def test_a_standard_output_that_is_closed_is_one_that_cannot_be_written(prepared: Command) -> None:
    for line, code in (
        ("--version", 3),
        ("read tree --checksum crc32", 3),
        ("status done --json", 3),
        ("read tree", 0),
    ):
        script = ["bash", "-c", '"$@" >&-', "-", *prepared.argv, *line.split()]
        done = subprocess.run(script, cwd=prepared.directory, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, line
        assert ("cannot write to standard output: Bad file descriptor" in done.stderr) == (code == 3)
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("line", ["--help", "status done --json", "copy tree out --json", "records index.bin"])
def test_a_reader_that_went_away_is_no_error(prepared: Command, line: str) -> None:
    script = ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "-", *prepared.argv, *line.split()]
    done = subprocess.run(script, cwd=prepared.directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (scripts/install_test_tools.sh)")
def test_a_disk_that_refuses_only_as_the_file_is_closed_is_told(prepared: Command) -> None:
    output = prepared.directory / "manifest"
    inject = ["-e", "trace=close", "-e", "inject=close:error=EDQUOT:when=1", "-P", str(output)]
    with output.open("w") as stream:
        done = subprocess.run(
            ["strace", "-qq", "-o", "/dev/null", *inject, *prepared.argv, "read", "tree", "--checksum", "crc32"],
            cwd=prepared.directory,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 3, done.stderr
    assert "cannot write to standard output: Disk quota exceeded" in done.stderr


def test_a_service_that_is_stopped_says_that_its_counts_are_lost(prepared: Command) -> None:
    # The first line, its address, can be written; what is printed at the end cannot.
    output = prepared.directory / "served"
    with output.open("w") as stream:
        process = prepared.start("serve", "tree", "--port", "0", "--json", stdout=stream)
    while not output.read_text():
        assert process.poll() is None
    subprocess.run(["prlimit", f"--pid={process.pid}", f"--fsize={output.stat().st_size}"], check=True)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 3
    assert "cannot write to standard output: File too large" in said
