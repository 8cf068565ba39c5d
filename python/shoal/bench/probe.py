"""Measures a function of the user's own, in a process of its own; `adviser.py` starts it and judges.

    python -P probe.py SPEC IDS SECONDS look        what it does: files, connections, programs, results
    python -P probe.py SPEC IDS SECONDS time N,N    what its calls take with so many threads, in turn

IDS is a file of JSON. It prints one line of JSON. Times that a thread was ready and had no core are taken out, since
they say something about the machine and nothing about the function.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from shoal.bench.caller import UnusableError, fits, load

TURNS = 4  # of each number of threads: they take turns, because the machine changes
MOST_FILES = 2000  # that are read again, to see what reading alone takes
ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
GLANCE = (0.001, 0.008)  # seconds between two glances: by chance, so as not to fall into step with the function
OTHERS = ("/proc/", "/sys/", "/dev/")


@dataclass
class Cost:
    """What some calls took, in seconds of one thread; added up over threads, all of it is.

    Attributes:
        calls: How many.
        wall: From begin to end.
        user: On a core, in the program.
        system: On a core, in the system.
        queued: Ready, and without a core.
    """

    calls: int = 0
    wall: float = 0.0
    user: float = 0.0
    system: float = 0.0
    queued: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Adds two up."""
        return Cost(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Cost)))


def queued() -> float:
    """Returns the seconds for which this thread was ready and had no core; 0 where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Clock:
    """What this thread took since the clock was made."""

    def __init__(self) -> None:
        """Starts it."""
        self._queued = queued()
        self._used = resource.getrusage(resource.RUSAGE_THREAD)
        self._began = time.perf_counter()

    def cost(self, calls: int) -> Cost:
        """Returns it."""
        wall = time.perf_counter() - self._began
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return Cost(
            calls,
            wall,
            used.ru_utime - self._used.ru_utime,
            used.ru_stime - self._used.ru_stime,
            queued() - self._queued,
        )


def turn(function: Callable[[Any], object], ids: Sequence[Any], threads: int, seconds: float) -> tuple[Cost, float]:
    """Calls it in so many threads for some time; returns what that took, and the time of the slowest thread."""
    costs: list[Cost] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def work(first: int) -> None:
        try:
            barrier.wait()
            clock, until = Clock(), time.perf_counter() + seconds
            calls, at = 0, first
            while True:
                function(ids[at % len(ids)])
                calls, at = calls + 1, at + threads
                if time.perf_counter() >= until:
                    break
            costs.append(clock.cost(calls))
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]
    return sum(costs, Cost()), max(cost.wall for cost in costs)


def timed(
    function: Callable[[Any], object], ids: Sequence[Any], seconds: float, numbers: Sequence[int]
) -> dict[str, Any]:
    """Measures it with several numbers of threads, in turn; returns the turns of each."""
    function(ids[0])  # what is imported and opened once is not what a call takes
    each = seconds / TURNS / (len(numbers) + 1)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (*map(str, numbers), "held")}
    began = time.perf_counter()
    for turns in range(TURNS):
        for number in numbers:
            cost, wall = turn(function, ids, number, each)
            found[str(number)].append({**asdict(cost), "rate": cost.calls / wall})
        if len(numbers) > 1:
            found["held"].append(glanced(function, ids, each))
        # A call may take longer than a turn.
        if turns and time.perf_counter() - began > seconds:
            break
    return found


def glanced(function: Callable[[Any], object], ids: Sequence[Any], seconds: float) -> dict[str, float]:
    """Looks from a second thread, now and then, whether the thread that calls it holds the interpreter.

    A thread that wakes up and finds it taken goes to sleep once more, which the system counts. However long it then has
    to wait for a core: it had to sleep again only if the interpreter was held at that moment. Times would say less, as
    on a busy machine most of them are the queue for a core.
    """
    costs: list[Cost] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            costs.append(turn(function, ids, 1, seconds)[0])
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    working = threading.Thread(target=work)
    working.start()
    glances = held = 0
    chance = random.Random(0)  # noqa: S311 (no secret)
    while working.is_alive():
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        time.sleep(chance.uniform(*GLANCE))
        held += resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before > 1
        glances += 1
    working.join()
    if errors:
        raise errors[0]
    return {**asdict(costs[0]), "glances": glances, "held": held}


class Watch:
    """Counts what the interpreter tells of: files opened, connections made, programs started."""

    def __init__(self) -> None:
        """Begins; there is no way to end it but the process's."""
        self.on = False
        self.read: list[str] = []
        self.written = self.connected = self.started = 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, _, flags = arguments
            name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
            if not name or name.startswith(OTHERS):
                return
            if isinstance(flags, int) and flags & ACCESS != os.O_RDONLY:
                self.written += 1
            elif len(self.read) < MOST_FILES:
                self.read.append(name)
        elif event == "socket.connect":
            self.connected += 1
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"):
            self.started += 1


def looked(function: Callable[[Any], object], ids: Sequence[Any], seconds: float) -> dict[str, Any]:
    """Calls it for some time, and says what it does besides."""
    result = function(ids[0])
    watch = Watch()
    blocks, from_disk = resource.getrusage(resource.RUSAGE_THREAD).ru_inblock, 0
    children, process, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time(), Clock()
    began = time.perf_counter()
    calls = 0
    watch.on = True
    while time.perf_counter() - began < seconds and len(watch.read) < MOST_FILES:
        result = function(ids[calls % len(ids)])
        calls += 1
        before, blocks = blocks, resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
        from_disk += blocks > before
    watch.on = False
    cost = clock.cost(calls)
    whole = time.process_time() - process
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    size, reading = read_again(watch.read)
    return {
        **asdict(cost),
        "others": max(0.0, whole - cost.user - cost.system),
        "children": after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime,
        "read": len(watch.read),
        "from_disk": from_disk,
        "written": watch.written,
        "connected": watch.connected,
        "started": watch.started,
        "size": size,
        "reading": reading,
        "returns": type(result).__name__,
        "content": is_content(result),
    }


def read_again(paths: Sequence[str]) -> tuple[int, float]:
    """Opens, reads and closes the same files as they are; returns their bytes, and the seconds but those in a queue."""
    clock, size = Clock(), 0
    for path in paths:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 (Path costs as much as the read)
                size += len(file.read())
        except OSError:
            continue  # gone since
    cost = clock.cost(1)
    return size, max(0.0, cost.wall - cost.queued)


def is_content(result: object) -> bool:
    """Whether `shoal.generate` could save what a function returned."""
    if isinstance(result, str | bytes | bytearray | memoryview):
        return True
    return any(hasattr(result, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "__array__"))


def in_a_loop(function: Callable[[Any], Coroutine[Any, Any, object]]) -> Callable[[Any], object]:
    """Returns what runs a coroutine function to its end; each thread keeps its event loop for the next call."""
    own = threading.local()

    def called(one: Any) -> object:
        if not hasattr(own, "runner"):
            own.runner = asyncio.Runner()
        found: object = own.runner.run(function(one))
        return found

    return called


def main() -> None:
    """Runs it and prints one line of JSON."""
    spec, path, seconds, what = sys.argv[1:5]
    ids = json.loads(Path(path).read_text())
    function = load(spec)
    fits(function, ("id",))
    called = in_a_loop(function) if inspect.iscoroutinefunction(function) else function
    if what == "look":
        found = looked(called, ids, float(seconds)) | {"coroutine": inspect.iscoroutinefunction(function)}
    else:
        found = timed(called, ids, float(seconds), [int(number) for number in sys.argv[5].split(",")])
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except UnusableError as error:
        sys.exit(f"Error: {error}")
