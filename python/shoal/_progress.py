"""Progress as text: rates over the last seconds, the time left, the path of the workers, the line of `progress=True`.

Not here: the command line's display with its bar (`cli/_display.py`).
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from shoal._errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shoal._options import ProgressOption
    from shoal._report import Progress, Step

F = TypeVar("F")

WINDOW = 5.0  # s over which a rate is averaged: short enough to follow a change, long enough to be readable
LINE_EVERY = 10.0  # s between lines if a line cannot be redrawn, as in a log
LINE_EVERY_JSON = 1.0  # s between lines of JSON, which programs read and draw
PATH_MAX = 12  # numbers of a path as text: the beginning and the end say what a reader wants, on one line


class Rates:
    """Objects and bytes per second over the last seconds."""

    def __init__(self) -> None:
        """Starts without samples."""
        self._past: deque[tuple[float, int, int]] = deque()
        self.objects = 0.0
        self.bytes = 0.0

    def update(self, progress: Progress) -> None:
        """Takes the next state of the run."""
        self._past.append((progress.seconds, progress.run.written, progress.run.bytes))
        while len(self._past) > 2 and self._past[1][0] < progress.seconds - WINDOW:
            self._past.popleft()
        then, objects, size = self._past[0]
        # A run that has just started is measured from its start.
        if len(self._past) == 1:
            then, objects, size = 0.0, 0, 0
        if progress.seconds > then:
            self.objects = (progress.run.written - objects) / (progress.seconds - then)
            self.bytes = (progress.run.bytes - size) / (progress.seconds - then)

    def seconds_left(self, progress: Progress) -> float | None:
        """Returns the time left at this rate, or None while the total or the rate is not known."""
        if not progress.listing_done or progress.paused or self.objects <= 0:
            return None
        return max(0, progress.listed - progress.done) / self.objects


def bytes_expected(progress: Progress) -> int | None:
    """Returns the bytes of all objects, if the rest are as large as those so far; None while the total is not known."""
    written = progress.before.written + progress.run.written
    if not progress.listing_done or not written:
        return None
    size = progress.before.bytes + progress.run.bytes
    return size + max(0, progress.listed - progress.done) * size // written


def size_text(size: float) -> str:
    """Returns a size with three figures and a decimal unit, as `1.23 GB`."""
    if size < 999.5:
        return f"{size:.0f} {'byte' if round(size) == 1 else 'bytes'}"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size / 1000:,.1f} TB"


def time_text(seconds: float) -> str:
    """Returns a time as `0.4 s`, `59 s`, `4:05` or `1:04:05`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count_text(count: int, word: str = "object") -> str:
    """Returns `1 object`, `12,345 objects`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def path_text(steps: Sequence[Step], *, ascii_only: bool) -> str | None:
    """Returns the path of the workers as `2 → 4 → 8 (in 1.2 s)`; None if their number never changed."""
    if len(steps) < 2:
        return None
    arrow, gap = (" -> ", "...") if ascii_only else (" → ", "…")
    numbers = [str(step.workers) for step in steps]
    if len(numbers) > PATH_MAX:
        numbers[PATH_MAX // 2 : -PATH_MAX // 2] = [gap]
    return f"{arrow.join(numbers)} (in {time_text(steps[-1].seconds)})"


def parts(progress: Progress, rates: Rates) -> list[str]:
    """Returns the parts of a progress line, the most important first."""
    done, listed = progress.done, progress.listed
    far = f"{done:,} of {count_text(listed)}" if progress.listing_done else f"{count_text(done)} of {listed:,} so far"
    size, expected = progress.before.bytes + progress.run.bytes, bytes_expected(progress)
    said = [far, size_text(size) + (f" of about {size_text(expected)}" if expected and expected > size else "")]
    if progress.paused:
        said.append("paused: waiting for the host")
    else:
        said += [f"{rates.objects:,.0f}/s", f"{size_text(rates.bytes)}/s"]
    left = rates.seconds_left(progress)
    if left is not None:
        said.append(f"{time_text(left)} left")
    waiting = progress.run.written + progress.run.skipped + progress.run.failed - progress.committed
    if waiting > 2 * rates.objects:  # always some: a sink commits about once a second
        said.append(f"{waiting:,} not committed yet")
    said += [f"{progress.in_flight} in flight", count_text(progress.workers, "worker")]
    failed = progress.before.failed + progress.run.failed
    for count, word in (
        (progress.retries, "retries" if progress.retries != 1 else "retry"),
        (failed, "failed"),
    ):
        if count:
            said.append(f"{count:,} {word}")
    if waits(progress):
        said.append(waiting_text(progress))
    return said


def waiting_text(progress: Progress) -> str:
    """Returns `2 objects wait for a retry, the next in 8 s`."""
    verb = "waits" if progress.deferred == 1 else "wait"
    return f"{count_text(progress.deferred)} {verb} for a retry, the next in {math.ceil(progress.retry_in or 0)} s"


def waits(progress: Progress) -> bool:
    """Returns whether objects wait for a retry, and not only for their turn: these are due at once."""
    return bool(progress.deferred and progress.retry_in is not None and progress.retry_in >= 1)


def only_waits(progress: Progress) -> bool:
    """Returns whether a run has only objects left that wait for a retry."""
    return waits(progress) and progress.listing_done and not progress.in_flight


class LineDrawer:
    """Draws one line on standard error: over the last one on a terminal, else a new one every 10 s."""

    def __init__(self) -> None:
        """Finds out whether the line goes to a terminal."""
        # The only place outside cli/_display.py that prints: progress=True asks for it, and the line contains no name.
        self._out = sys.stderr  # noqa: TID251
        self._over = self._out is not None and self._out.isatty()
        self._rates = Rates()
        self._next = time.monotonic() if self._over else time.monotonic() + LINE_EVERY
        self._drawn = False

    def __call__(self, progress: Progress) -> None:
        """Draws the state of the run, if it is time."""
        self._rates.update(progress)
        self.draw(lambda: parts(progress, self._rates))

    def draw(self, said: Callable[[], list[str]]) -> None:
        """Draws a line, if it is time."""
        if self._out is None or time.monotonic() < self._next:
            return
        line = ", ".join(said())
        if self._over:
            self._write("\r\x1b[K" + line[: _columns() - 1])
        else:
            self._next = time.monotonic() + LINE_EVERY
            self._write(line + "\n")

    def close(self) -> None:
        """Wipes the line off a terminal."""
        if self._over and self._drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
            self._drawn = True
        except OSError:
            # The reader is gone, which must not stop the run.
            self._next = float("inf")


def _function(option: F | bool | None) -> F | None:
    """Returns a progress function, which may be an object that is false or has no truth value, such as a tqdm bar."""
    if option is None or isinstance(option, bool):
        return None
    if not callable(option):
        raise ConfigError(f"`progress` must be True or a function, got {type(option).__name__}")
    return option


def drawing_records(
    option: bool | Callable[[int, int], object] | None,
) -> tuple[Callable[[int, int], object] | None, Callable[[], None]]:
    """Returns the same for writing records: the function is called with the number of records and bytes so far."""
    if option is not True:
        return _function(option), lambda: None
    drawer, began = LineDrawer(), time.monotonic()

    def draw(records: int, size: int) -> None:
        seconds = max(time.monotonic() - began, 1e-6)
        drawer.draw(lambda: [count_text(records, "record"), size_text(size), f"{records / seconds:,.0f}/s"])

    return draw, drawer.close


def drawing(option: ProgressOption) -> tuple[Callable[[Progress], object] | None, Callable[[], None]]:
    """Returns the function for `progress=`, and one to call when the run has ended."""
    if option is True:
        drawer = LineDrawer()
        return drawer, drawer.close
    return _function(option), lambda: None


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
