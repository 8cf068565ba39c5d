"""What `shoal generate MODULE:FUNCTION COUNT DST` promises."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from generating import MODULE, processes_in
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command


@pytest.fixture
def module(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(MODULE)


@pytest.mark.usefixtures("module")
def test_it_saves_a_file_for_each_number_and_goes_on(shoal: Command) -> None:
    done = shoal.run("generate", "job:plain", "25", "out", "--name", "data-{:04d}.csv", "--json")
    assert done.returncode == 0, done.stderr
    assert shoal.last_json(done)["written"] == 25
    assert done.stderr.startswith("wrote 25 objects, ")
    assert (shoal.directory / "out/data-0024.csv").read_text() == "content of 24\n"
    assert "complete" in shoal.run("generate", "job:plain", "25", "out", "--name", "data-{:04d}.csv").stderr


@pytest.mark.usefixtures("module")
def test_names_are_as_asked(shoal: Command) -> None:
    done = shoal.run("generate", "job:plain", "3", "out", "--name", "{:02x}.txt", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert sorted(one.name for one in (shoal.directory / "out").glob("*.txt")) == ["00.txt", "01.txt", "02.txt"]


@pytest.mark.usefixtures("module")
def test_failures_are_exit_code_1_and_named_in_one_line(shoal: Command) -> None:
    (shoal.directory / "job.py").write_text(MODULE + "def broken(number): raise ValueError('why')\n")
    # One worker: with several, any of the two may fail first.
    done = shoal.run("generate", "job:broken", "2", "out", "--name", "data-{:04d}.csv", "--workers", "1")
    assert done.returncode == 1
    assert '"data-0000.csv": the function raised ValueError: why' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    "arguments",
    [["job", "3"], ["nowhere:make", "3"], ["job:nothing", "3"], ["job:plain", "-3"], ["job:plain", "many"]],
)
def test_what_is_wrong_with_the_command_line_is_exit_code_2(shoal: Command, arguments: list[str]) -> None:
    done = shoal.run("generate", *arguments, "out", "--name", "{}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert not (shoal.directory / "out").exists()


@pytest.mark.usefixtures("module")
def test_ctrl_c_is_exit_code_130(shoal: Command) -> None:
    (shoal.directory / "job.py").write_text(MODULE + "def slow(number): note('calls', number); time.sleep(60)\n")
    process = shoal.start("generate", "job:slow", "5", "out", "--name", "data-{:04d}.csv", "--durability", "none")
    wait_until(lambda: (shoal.directory / "calls").exists())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)  # an item takes 60
    assert process.returncode == 130
    assert "run the same command again to resume" in said
    wait_until(lambda: not processes_in(shoal.directory))
