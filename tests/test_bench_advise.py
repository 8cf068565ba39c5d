"""What the lab advises for functions of which it is known; on a busy machine, too, as no test is of speed."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
import shoal.bench
from shoal.bench import adviser, probe
from shoal.cli.bench_advise import EXAMPLES, command

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command

FUNCTIONS = """
import asyncio, hashlib, os, subprocess, sys, time, zlib

DATA = os.urandom(1 << 20)

def counting(number):
    total = 0
    for one in range(20_000):
        total += one * number
    return total

def made(number):
    return str(counting(number))

def sleeping(number):
    time.sleep(0.01)

async def sleeping_in_a_loop(number):
    await asyncio.sleep(0.01)

def packing(number):
    return len(zlib.compress(DATA, 6))

def hashing(number):
    return hashlib.sha256(DATA).digest()[0]

def reading(path):
    with open(path, "rb") as file:
        return file.read()

def starting(number):
    code = "for one in range(2_000_000): pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)

def raising(number):
    raise LookupError(f"no {number}")

def leaving(number):
    os._exit(0)

def two(first, second):
    pass
"""

# The answer, and what else must be so.
ANSWERS: dict[str, tuple[set[str], str]] = {
    "counting": ({"processes"}, "it holds the interpreter"),
    "made": ({"shoal.generate"}, "it returns str"),
    "sleeping": ({"threads or async"}, "of a call is waiting"),
    "sleeping_in_a_loop": ({"async"}, "of a call is waiting"),
    "packing": ({"threads"}, "lets go of the interpreter"),
    "hashing": ({"threads"}, "lets go of the interpreter"),
    "reading": ({"shoal.read"}, "opening and reading files"),
    "starting": ({"threads"}, "programs that it starts"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    (tmp_path / "files").mkdir()
    for number in range(300):
        (tmp_path / f"files/{number}").write_bytes(os.urandom(5000))
    (tmp_path / "names").write_text("".join(f"files/{number}\n" for number in range(300)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core nothing runs at the same time")
@pytest.mark.parametrize("name", ANSWERS)
def test_a_function_of_which_the_answer_is_known(name: str, place: Path) -> None:
    advice = shoal.bench.advise(f"mine.py:{name}", "names" if name == "reading" else range(100), seconds=4)
    uses, word = ANSWERS[name]
    assert advice.use in uses, advice.text()
    said = " ".join(advice.text().lower().split())
    assert word.lower() in said
    assert advice.calls > 0
    assert advice.wall == pytest.approx(advice.user + advice.system + advice.waiting)


def test_it_says_it_in_words_and_in_json(shoal: Command, place: Path) -> None:
    done = shoal.run("bench", "advise", "mine:sleeping", "0..50", "--seconds", "2", "--json", "advice.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine:sleeping: ")
    assert "Use threads, " in done.stdout
    assert "two threads do " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    found = json.loads((place / "advice.json").read_text())
    assert (found["schema"], found["use"], found["function"]) == (1, "threads or async", "mine:sleeping")
    assert found["waiting"] >= 0.009, "a sleep of 10 ms is at least that"
    assert found["workers"] >= 2
    assert found["because"]


@pytest.mark.parametrize(
    ("function", "ids", "code", "message"),
    [
        ("mine:raising", "0..5", 3, "the function 'mine:raising' failed: LookupError: 'no 0'"),
        ("mine:leaving", "0..5", 3, "ended its process before it returned"),
        ("mine:two", "0..5", 2, "it takes (first, second), and is given (id)"),
        ("mine:nothing", "0..5", 2, "there is no 'nothing' in 'mine'"),
        ("nothing.py:mine", "0..5", 2, "there is no file 'nothing.py'"),
        ("mine", "0..5", 2, "not MODULE:FUNCTION"),
        ("mine:made", "5..5", 2, "there are no ids from 5 up to 5"),
        ("mine:made", "nowhere", 2, "neither a range nor a file"),
        ("mine:made", "/dev/null", 2, "there are no ids in '/dev/null'"),
    ],
)
def test_what_cannot_be_measured_is_a_clear_error(
    shoal: Command, place: Path, function: str, ids: str, code: int, message: str
) -> None:
    done = shoal.run("bench", "advise", function, ids, "--seconds", "1")
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split()) or message.replace("'", "") in done.stderr.replace("'", "")


def test_a_call_that_does_not_return_is_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "mine.py").write_text("import time\ndef slow(number):\n    time.sleep(1000)\n")
    monkeypatch.setattr(adviser, "SLOWEST", 2.0)
    with pytest.raises(package.RunError, match="did not return for 2 s"):
        shoal.bench.advise("mine:slow", range(3), seconds=1)


def test_ids_are_a_range_or_the_lines_of_a_file(tmp_path: Path) -> None:
    assert adviser.ids_of("3..6") == [3, 4, 5]
    (tmp_path / "numbers").write_text("7\n8\n")
    assert adviser.ids_of(str(tmp_path / "numbers")) == [7, 8]
    (tmp_path / "texts").write_text("07\n8\n\nü x\n")
    assert adviser.ids_of(str(tmp_path / "texts")) == ["07", "8", "ü x"]
    assert len(adviser.ids_of("0..1000000000000")) == adviser.IDS


def turns(rate: float, wall: float, user: float, queued: float) -> list[dict[str, float]]:
    one = {"calls": 100, "wall": wall, "user": user, "system": 0.0, "queued": queued, "rate": rate}
    return [one] * 3


def judged(
    waiting: float, held: bool, queued: float, cores: int = 2, glanced: bool = False, **looked: Any
) -> adviser.Advice:
    """What is said of a function that needs 1 s on a core for 100 calls, on a machine as busy as one likes."""
    one = turns(100, 1 + waiting + queued, 1, queued)
    two = turns(100, 2 + 2 * waiting + (2 if held else 0) + queued, 2, queued)
    two = [{**turn, "calls": 200} for turn in two]
    plain = {"calls": 100, "wall": 1.0, "queued": 0.0, "user": 1.0, "system": 0.0, "children": 0.0, "others": 0.0}
    plain |= {"read": 0, "written": 0, "connected": 0, "started": 0, "size": 0, "reading": 0.0, "from_disk": 0}
    about: dict[str, Any] = {"returns": "int", "content": False, "coroutine": False}
    timed = {"1": one, "2": two, "held": [{**one[0], "glances": 100, "held": 90 if glanced else 0}]}
    return adviser.judge("a:b", plain | about | looked, timed, [{"1": one}, {"1": one}], cores)


@pytest.mark.parametrize("queued", [0.0, 5.0])
def test_what_follows_does_not_depend_on_what_else_the_machine_does(queued: float) -> None:
    assert judged(0, True, queued).use == "processes"
    assert judged(0, False, queued).use == "threads"
    assert judged(3, False, queued).use == "threads or async"
    assert judged(3, False, queued, coroutine=True).use == "async"
    assert judged(0, True, queued, content=True).use == "shoal.generate"
    assert judged(0, True, queued, written=100).use == "shoal.generate"
    assert "writes a file in each call" in " ".join(judged(0, True, queued, written=100).because)
    assert judged(0, False, queued, glanced=True).use == "processes"
    assert judged(0, False, queued, read=100, reading=0.7).use == "shoal.read"
    assert ("waited for a core" in " ".join(judged(0, True, queued).besides)) == (queued > 0)


def test_more_at_once_than_a_core_can_serve_is_not_advised() -> None:
    assert judged(3, False, 0).workers == 4, "a call needs a core for a quarter of its time"
    assert judged(1000, False, 0).workers == adviser.THREADS
    assert judged(0, True, 0, cores=1).use == "one"
    assert judged(0, False, 0, cores=16).workers == 16
    assert judged(0, True, 0, cores=16).workers == 16


def test_a_function_that_waits_for_the_disk_reads() -> None:
    assert judged(3, False, 0, read=100, reading=0.1, from_disk=90).use == "shoal.read"
    assert judged(3, False, 0, read=100, reading=0.1, from_disk=5).use == "threads or async"


def test_what_could_be_saved_is_content() -> None:
    assert all(map(probe.is_content, ("text", b"bytes", bytearray(), memoryview(b""))))
    assert not any(map(probe.is_content, (None, 5, 1.5, ["a"], {"a": 1})))


def test_a_coroutine_is_called_in_a_loop_that_stays() -> None:
    loops = []

    async def one(number: int) -> int:
        loops.append(asyncio.get_running_loop())
        return number

    called = probe.in_a_loop(one)
    try:
        assert [called(number) for number in (1, 2)] == [1, 2]
        assert loops[0] is loops[1]
    finally:
        loops[0].close()


def test_the_help_explains_itself_and_its_examples_work(shoal: Command) -> None:
    done = shoal.run("bench", "advise", "--help")
    assert done.returncode == 0
    assert "shoal bench advise" in done.stdout
    lines = [line.strip().split("   ")[0] for line in EXAMPLES.splitlines() if line.strip().startswith("shoal ")]
    assert len(lines) == 3
    for line in lines:
        command.make_context("advise", shlex.split(line)[3:])
