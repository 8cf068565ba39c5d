"""The lab: every strategy for a job, on this machine, beside shoal.

    import shoal.bench
    results = shoal.bench.copy(count=2000, trials=1, only=["shoal", "threads-10"])
    print(results.table())

`jobs/` names the contestants of each job, `strategies/` are programs in plain Python that can be taken away, `limits/`
what the machine can do; `measure.py` runs one and looks at what it took, `verify.py` at what it wrote, `contest.py`
runs them in turn, `results.py` and `table.py` say what came of it. How it measures, and how to read it: docs/bench.md.
Not here: the command line (`cli/bench.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.bench.contest import Settings, run
from shoal.bench.results import Results, Row, Trial

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

__all__ = ["Results", "Row", "Settings", "Trial", "copy", "run"]


def copy(
    *,
    count: int = 60_000,
    size: int = 100,
    trials: int = 3,
    into: str = "files",
    durable: bool = False,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    keep: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs every way to copy from a list/get service against the same `shoal serve` on this machine.

    The contestants take turns, each into a fresh directory, and every byte is compared after each run. Slow ones get
    fewer objects, about a second's worth: rates are compared.

    Args:
        count: Objects of the fastest contestants.
        size: Bytes of each object.
        trials: Rounds that count; one more is run before them and thrown away, unless there is only one.
        into: `"files"`, or `"null"`: bodies are thrown away, and wrk is the limit.
        durable: A final sync is inside the time of each; shoal runs with its default durability.
        only: Keys of the contestants to run; by default all that can be.
        skip: Keys of contestants to leave out.
        directory: Where the files are written, in a new directory that is removed at the end; by default here.
        keep: Leave the files.
        progress: Called with a line of text before each run.

    Returns:
        The rows, fastest first, with every trial; contestants that could not be run are there with the reason.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.

    Example:
        >>> results = shoal.bench.copy(count=200, trials=1, only=["shoal"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('shoal', 200)
    """
    settings = Settings(
        job="copy",
        count=count,
        size=size,
        trials=trials,
        into=into,
        durable=durable,
        only=tuple(only),
        skip=tuple(skip),
        directory=directory,
        keep=keep,
    )
    return run(settings, progress or (lambda _: None))
