"""`shoal bench advise`: measures a function of the user's own, and says what to run it with.

What counts is what a call is made of, and not only how fast two threads are: on a machine that does something else,
too, throughput says little. Time in the queue for a core is taken out. That it holds the interpreter shows twice: a
second thread that only looks now and then finds it taken, and two threads that both call it wait while they do not with
one. A busy machine hides a part of either, so the larger one counts. Not here: the measuring, in processes of their own
(`probe.py`).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._errors import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
PROBE = Path(__file__).with_name("probe.py")
SECONDS = 8.0  # of calls, in all; with the starts of five interpreters it takes about ten
PARTS = {"look": 0.15, "time": 0.6, "two": 0.25}  # of them: what it does, one and two threads, two processes
SLOWEST = 60.0  # seconds for a call: it would be measured only once in a few minutes
IDS = 100_000  # that are handed over
WAITS = 0.5  # of a call, from which on it is waiting that is to be overlapped
HELD = 0.5  # of its processor time, from which on threads are for nothing
# The same on a busy machine, which hides a part: who gets the interpreter waits for a core and then finds it taken
# again, and who comes from a disk is in the queue for a core without it.
HELD_BUSY = 0.25
READS = 0.5  # of a call that reading its files again takes, from which on reading is what it does
COLD = 0.5  # of the calls that had a disk read something, from which on files are not in the page cache
TINY = 200e-6  # seconds of a call: below it, the interpreter's share of opening a file is most of it
READS_TINY = 0.25  # the same as READS for such calls
GAIN = 1.4  # times one, which at least two of what is recommended should do, where two cores are free
THREADS = 64  # the most that are recommended
WIDTH = 100  # columns


@dataclass(frozen=True)
class Advice:
    """What was measured, and what follows; times in seconds of one call.

    Attributes:
        function: As it was given.
        calls: How many were measured with one thread.
        wall: What a call takes, without the time it was ready and had no core.
        user: On a core, in the program.
        system: On a core, in the system.
        waiting: Neither: for a disk, a network, a lock, a timer.
        queued: Ready, and without a core, besides: what else the machine does.
        children: On a core, in programs that it starts.
        held: Part of the time on a core for which it holds the interpreter; on a busy machine, at least.
        busy: Other programs took as much of the cores as the function got.
        two_threads: How many times as much two threads do as one.
        two_processes: The same for processes.
        reads: Files that a call reads.
        reading: Part of a call that reading its files takes.
        size: Bytes that a call reads.
        writes: Files that a call writes.
        connects: Connections that a call makes.
        returns: The type of what it returns.
        cores: Of this machine.
        use: "threads", "processes", "async", "threads or async", "one", or "shoal.read", "shoal.generate".
        workers: How many, where there is a number.
        because: Why, in sentences.
        besides: What else is to be known, in sentences.
    """

    function: str
    calls: int
    wall: float
    user: float
    system: float
    waiting: float
    queued: float
    children: float
    held: float
    busy: bool
    two_threads: float
    two_processes: float
    reads: float
    reading: float
    size: float
    writes: float
    connects: float
    returns: str
    cores: int
    use: str
    workers: int | None
    because: tuple[str, ...]
    besides: tuple[str, ...]

    def to_json(self) -> str:
        """Returns everything as JSON, with the version of its form as `schema`."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    def text(self) -> str:
        """Returns it in words."""
        lines = [
            f"{self.function}: {self.calls:,} calls, {_time(self.wall)} each",
            f"  on a core      {self._part(self.user + self.system)}  (program {self._part(self.user)}, "
            f"system {self._part(self.system)})",
            f"  waiting        {self._part(self.waiting)}",
            f"  two threads do {self.two_threads:.2f} times as much as one, two processes {self.two_processes:.2f}",
        ]
        if self.waiting < WAITS * self.wall:  # else the little there is says nothing
            least = "at least " if self.busy and self.held < 1 else ""
            lines.insert(3, f"  of its time on a core, it holds the interpreter for {least}{self.held:.0%}")
        if self.reads >= 0.5:
            lines.append(
                f"  reads {self.reads:.1f} files of {self.size / self.reads:,.0f} bytes; that alone takes "
                f"{self.reading:.0%} of its time"
            )
        title = {
            "one": "Leave it as it is",
            "async": f"Use async, {self.workers} at once",
            "threads or async": f"Use threads, {self.workers} of them, or async with as many at once",
            "threads": f"Use threads, {self.workers} of them",
            "processes": f"Use processes, {self.workers} of them",
        }.get(self.use, f"Use {self.use}")
        lines += ["", f"{title}:"]
        for sentence in (*self.because, *self.besides):
            lines.append(textwrap.fill(sentence, WIDTH, initial_indent="- ", subsequent_indent="  "))
        return "\n".join(lines)

    def _part(self, seconds: float) -> str:
        return f"{seconds / self.wall if self.wall else 0:4.0%}"


def ids_of(text: str) -> list[int | str]:
    """Reads ids: "0..1000" are 0, 1, ... 999; else it is a file with an id in each line, whole numbers or text.

    Raises:
        ConfigError: It is neither, or there are none.
    """
    first, dots, last = text.partition("..")
    if dots and first.isdecimal() and last.isdecimal():
        found: list[int | str] = list(range(int(first), min(int(last), int(first) + IDS)))
        if not found:
            raise ConfigError(f"there are no ids from {first} up to {last}", hint="0..1000 are 0, 1, ... 999")
        return found
    try:
        with Path(text).open(encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line, _ in zip(file, range(IDS), strict=False)]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"ids are neither a range nor a file that can be read: {text!r}: {error}",
            hint="write 0..1000, or name a file with an id in each line",
        ) from error
    lines = [line for line in lines if line]
    if not lines:
        raise ConfigError(f"there are no ids in {text!r}")
    # Not int() alone: it would also take ids that are written otherwise, and change them.
    numbers = all(line.isdecimal() and (line == "0" or line[0] != "0") for line in lines)
    return [int(line) for line in lines] if numbers else list(lines)


def advise(function: str, ids: Sequence[int] | Sequence[str] | str, *, seconds: float = SECONDS) -> Advice:
    """Measures a function on a sample of its ids and says whether threads, processes, async or shoal suit it.

    It is called in processes of its own: with one thread, with two, and in two processes.

    Args:
        function: `"MODULE:FUNCTION"` or `"FILE.py:FUNCTION"`; it takes one id.
        ids: The ids, or text such as `"0..1000"`, or the name of a file with an id in each line.
        seconds: How long it is called in all; one call may take longer.

    Returns:
        What was measured and what follows from it; `text()` says it in words.

    Raises:
        shoal.ConfigError: The function cannot be imported, or the ids are none.
        shoal.RunError: The function raises, or takes too long.

    Example:
        >>> shoal.bench.advise("zlib:crc32", ["a"])
        Traceback (most recent call last):
        shoal._errors.RunError: the function 'zlib:crc32' failed: ...
    """
    given = ids_of(ids) if isinstance(ids, str) else list(ids)[:IDS]
    if not given:
        raise ConfigError("there are no ids")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "ids"
        path.write_text(json.dumps(given))

        def start(part: str, *what: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-P", "-B", str(PROBE), function, str(path), str(seconds * PARTS[part]), *what]
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

        looked = _said(start("look", "look"), function)
        timed = _said(start("time", "time", "1,2"), function)
        both = [start("two", "time", "1") for _ in range(2)]
        try:
            two = [_said(process, function) for process in both]
        finally:
            for process in both:
                process.kill()
                process.wait()
    return judge(function, looked, timed, two, len(os.sched_getaffinity(0)))


def _said(process: subprocess.Popen[str], function: str) -> dict[str, Any]:
    """Waits for a probe and returns what it measured."""
    with process:
        try:
            out, talk = process.communicate(timeout=SLOWEST)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RunError(
                f"the function {function!r} did not return for {SLOWEST:.0f} s", hint="give ids that take less time"
            ) from None
        finally:
            process.poll()
    if process.returncode != 0:
        lines = [line for line in talk.splitlines() if line.strip()]
        why = (lines or [f"its process ended with code {process.returncode}"])[-1]
        if why.startswith("Error: "):
            raise ConfigError(f"the function {function!r}: {why.removeprefix('Error: ')}", hint="it takes one id")
        raise RunError(f"the function {function!r} failed: {why}")
    try:
        found = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        raise RunError(f"the function {function!r} ended its process before it returned") from None
    assert isinstance(found, dict)  # noqa: S101  # the probe prints nothing else
    return found


def judge(
    function: str, looked: dict[str, Any], timed: dict[str, Any], two: list[dict[str, Any]], cores: int
) -> Advice:
    """Returns what follows from what the probes measured."""
    ones, pairs = timed["1"], timed["2"]
    user, system, queued = (_each(ones, what) for what in ("user", "system", "queued"))
    cpu = user + system
    waiting = _waiting(ones)
    wall = max(cpu + waiting, 1e-9)
    # With two threads each waits as long as the other one holds the interpreter.
    held = min(1.0, max(_glanced(timed["held"]), _waits_for_work(pairs) - _waits_for_work(ones)))
    alone = statistics.median(turn["rate"] for turn in ones)
    calls = max(1, looked["calls"])
    spent = max(looked["wall"] - looked["queued"], 1e-9)
    measured: dict[str, Any] = {
        "function": function,
        "calls": sum(turn["calls"] for turn in ones),
        "wall": wall,
        "user": user,
        "system": system,
        "waiting": waiting,
        "queued": queued,
        "children": looked["children"] / calls,
        "held": held,
        "busy": _each(pairs, "queued") > _each(pairs, "user") + _each(pairs, "system"),
        "two_threads": statistics.median(pair["rate"] / one["rate"] for one, pair in zip(ones, pairs, strict=True)),
        "two_processes": sum(statistics.median(turn["rate"] for turn in one["1"]) for one in two) / alone,
        "reads": looked["read"] / calls,
        "reading": min(1.0, looked["reading"] / spent),
        "size": looked["size"] / calls,
        "writes": looked["written"] / calls,
        "connects": looked["connected"] / calls,
        "returns": looked["returns"],
        "cores": cores,
    }
    use, workers, because = _use(measured, looked)
    return Advice(
        **measured, use=use, workers=workers, because=tuple(because), besides=tuple(_besides(measured, looked))
    )


def _each(turns: list[dict[str, float]], what: str) -> float:
    """Returns the seconds of a call, over all turns."""
    return sum(turn[what] for turn in turns) / sum(turn["calls"] for turn in turns)


def _waits_for_work(turns: list[dict[str, float]]) -> float:
    """Returns the seconds of waiting for each second on a core, the median turn's."""
    return statistics.median(
        max(0.0, turn["wall"] - turn["user"] - turn["system"] - turn["queued"])
        / max(turn["user"] + turn["system"], 1e-9)
        for turn in turns
    )


def _glanced(turns: list[dict[str, float]]) -> float:
    """Returns how often the interpreter was held, of the times that its thread was not waiting."""
    ready = sum(turn["user"] + turn["system"] + turn["queued"] for turn in turns) / sum(turn["wall"] for turn in turns)
    glances = sum(turn["glances"] for turn in turns)
    return sum(turn["held"] for turn in turns) / glances / ready if glances and ready > 0 else 0.0


def _waiting(turns: list[dict[str, float]]) -> float:
    """Returns the seconds of a call that were spent neither on a core nor in the queue for one; the median turn's."""
    return statistics.median(
        max(0.0, turn["wall"] - turn["user"] - turn["system"] - turn["queued"]) / turn["calls"] for turn in turns
    )


Choice = tuple[str, int | None, list[str]]  # what to use, how many of them, and why


def _use(found: dict[str, Any], looked: dict[str, Any]) -> Choice:
    """Decides."""
    wall, cores = found["wall"], found["cores"]
    cpu = found["user"] + found["system"]
    work = f"{cpu / wall:.0%} of a call is work for a core"
    if _is_reading(found, looked):
        share = f"{found['reading']:.0%} of a call is opening and reading files"
        if looked["from_disk"] >= COLD * looked["calls"]:
            share = "a call waits for files that come from the disk"
        why = (
            f"{share}, which needs no interpreter: shoal.read does it with the interpreter free, finds its own number "
        )
        why += "of workers, and hands over each content."
        return "shoal.read", None, [why, "Give it the directory, and do in the loop what is left to do."]
    if found["children"] > cpu:
        why = f"a call has programs that it starts work for {_time(found['children'])}, and Python for {_time(cpu)}: "
        return "threads", cores, [f"{why}a thread for each of the {cores} cores is enough to wait for them."]
    if found["waiting"] >= WAITS * wall:
        most = max(2, min(THREADS, round(wall / cpu))) if cpu > 0 else THREADS
        why = (
            f"{found['waiting'] / wall:.0%} of a call is waiting, during which the interpreter is free for others. It "
        )
        why += f"needs a core for {_time(cpu)} of {_time(wall)}, so up to {most} at once help, and more do not."
        return "async" if looked["coroutine"] else "threads or async", most, [why]
    if cores == 1:
        return "one", None, [f"{work}, and this machine has one."]
    if found["held"] < (HELD_BUSY if found["busy"] else HELD):
        most = max(2, min(cores, round(1 / max(found["held"], 1 / THREADS))))
        why = f"{work}, and for {1 - found['held']:.0%} of that it lets go of the interpreter, so threads run at the "
        why += f"same time: {most} of them on {cores} cores. Processes would have to hand over the data besides."
        return "threads", most, [why]
    return _several(found, looked, work)


def _is_reading(found: dict[str, Any], looked: dict[str, Any]) -> bool:
    """Whether a call is mostly the reading of files."""
    if found["reads"] < 0.9 or found["connects"] >= 0.5:
        return False
    if looked["from_disk"] >= COLD * looked["calls"] and found["waiting"] >= WAITS * found["wall"]:
        return True
    return bool(found["reading"] >= (READS_TINY if found["wall"] < TINY else READS))


def _several(found: dict[str, Any], looked: dict[str, Any], work: str) -> Choice:
    """Says which kind of processes suits a function that holds the interpreter."""
    cores = found["cores"]
    why = f"{work}, and for {found['held']:.0%} of that it holds the interpreter: two threads do "
    why += f"{found['two_threads']:.2f} times as much as one. Processes have an interpreter each: one for each of the "
    why += f"{cores} cores."
    if looked["content"]:
        then = f"It returns {found['returns']}, and if that is to be a file: shoal.generate runs it in a process for "
        then += "each core, which write their own files, and goes on where it was stopped."
        return "shoal.generate", cores, [why, then]
    if found["writes"] >= 0.9:
        then = "It writes a file in each call. If it returns the content instead, shoal.generate runs it in those "
        then += "processes, writes the files, and goes on where it was stopped."
        return "shoal.generate", cores, [why, then]
    return "processes", cores, [why]


def _besides(found: dict[str, Any], looked: dict[str, Any]) -> list[str]:
    """Says what else is to be known."""
    said = []
    cpu = looked["user"] + looked["system"]
    if found["connects"] >= 0.5:
        said.append(
            f"It makes {found['connects']:.1f} connections in a call: one that is kept costs less. If all it does is "
            "to get objects from a service, shoal.copy does that."
        )
    if looked["others"] > max(0.2 * cpu, 0.01):
        said.append("It has threads of its own that work meanwhile: what is said of its time is said of the caller's.")
    if found["busy"] or found["queued"] > 0.2 * found["wall"]:
        said.append("The machine does something else, too: a call waited for a core besides. That is taken out.")
    if found["waiting"] < WAITS * found["wall"] and max(found["two_threads"], found["two_processes"]) < GAIN:
        said.append(
            f"Neither two threads nor two processes do {GAIN} times as much as one now: something else takes the "
            "cores, or they are not whole ones. Try it when the machine is idle."
        )
    if looked["calls"] < 20:
        said.append(f"Only {looked['calls']} calls could be looked at: believe it less.")
    return said


def _time(seconds: float) -> str:
    """Returns a time in its unit."""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
