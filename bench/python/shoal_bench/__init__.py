"""The lab: every strategy for a job, on this machine, beside shoal.

    import shoal_bench
    results = shoal_bench.copy(count=2000, trials=1, only=["shoal", "threads-10"])
    print(results.table())

`jobs/` names the contestants of each job and checks them, `strategies/` are programs in plain Python that can be taken
away, `peers/` such in other languages, `limits/` what the machine can do, `ours/` calls of shoal; `measure.py` runs one
and looks at what it took, `verify.py` at what it wrote, `contest.py` runs them in turn, `everything.py` all jobs one
after the other, `removal.py` removes what they wrote. `sweep.py` runs programs at several numbers of workers
(`families.py`), which are curves (`curve.py`); `own.py` has contestants of functions that a user gives, `full.py` those
of the studies' sizes. `results.py` and `table.py` say what came of
it, `recommendation.py` what to use, `comparison.py` how two results differ; `page/` makes the report as HTML,
`markdown.py` as Markdown, `plot.py` pictures, `stored.py` reads results again. How it measures, and how to read it:
docs/bench.md. Not here: the command line (`cli/bench.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal_bench.comparison import Comparison, compare
from shoal_bench.contest import run
from shoal_bench.everything import run_all as all  # noqa: A004  # it is what is said: shoal_bench.all
from shoal_bench.outputs import report
from shoal_bench.results import Results, Row, Trial
from shoal_bench.settings import Settings, parse_size
from shoal_bench.stored import Collection, load
from shoal_bench.sweep import Sweep, curves

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

__all__ = [
    "Collection",
    "Comparison",
    "Results",
    "Row",
    "Settings",
    "Sweep",
    "Trial",
    "all",
    "compare",
    "copy",
    "curves",
    "load",
    "read",
    "records",
    "report",
    "run",
    "save",
    "unzip",
]


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
        The rows, fastest first, with every trial; contestants that could not be run, or failed, are there with the
        reason.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.

    Example:
        >>> results = shoal_bench.copy(count=200, trials=1, only=["shoal"])
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


def save(
    *,
    count: int = 1_000,
    trials: int = 3,
    durable: bool = False,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    keep: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs every way to save the files of "Save thousands of files" (SuperFastPython, 2023).

    As in `copy`, the contestants take turns, each into a fresh directory, and every byte is compared after each run.

    Args:
        count: Files of the fastest contestants; slow ones get about a second's worth.
        trials: Rounds that count; one more is run before them and thrown away, unless there is only one.
        durable: A final sync is inside the time of each; shoal runs with its default durability.
        only: Keys of the contestants to run; by default all that can be.
        skip: Keys of contestants to leave out.
        directory: Where the files are written, in a new directory that is removed at the end; by default here.
        keep: Leave the files.
        progress: Called with a line of text before each run.

    Returns:
        The rows, as of `copy`.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.

    Example:
        >>> results = shoal_bench.save(count=20, trials=1, only=["limit"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('limit', 20)
    """
    settings = Settings(
        job="save",
        count=count,
        size=None,
        trials=trials,
        durable=durable,
        only=tuple(only),
        skip=tuple(skip),
        directory=directory,
        keep=keep,
    )
    return run(settings, progress or (lambda _: None))


def read(
    *,
    count: int = 50_000,
    size: int | str = 10_000,
    trials: int = 3,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    keep: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs every way to read the same files, which it makes, from the page cache into a program.

    The contestants take turns. In a round before those that count, each proves every name and every byte; in those that
    count, objects and bytes are compared.

    Args:
        count: Files, in eight directories.
        size: Bytes of each, as a number or as text such as `"1MB"`.
        trials: Rounds that count.
        only: Keys of the contestants to run; by default all that can be.
        skip: Keys of contestants to leave out.
        directory: Where the files are made, in a new directory that is removed at the end; by default here.
        keep: Leave the files.
        progress: Called with a line of text before each run.

    Returns:
        The rows, as of `copy`.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.

    Example:
        >>> results = shoal_bench.read(count=20, size="1kB", trials=1, only=["limit"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('limit', 20)
    """
    settings = Settings(
        job="read",
        count=count,
        size=parse_size(size, "size"),
        trials=trials,
        only=tuple(only),
        skip=tuple(skip),
        directory=directory,
        keep=keep,
    )
    return run(settings, progress or (lambda _: None))


def unzip(
    *,
    count: int = 7_500,
    size: int | str | None = None,
    case: str = "many",
    trials: int = 3,
    into: str = "files",
    durable: bool = False,
    cold: bool = False,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    keep: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs every way to unpack the same zip archives, which it makes of files of this machine.

    The contestants take turns, each into a fresh directory, and every byte is compared after each run; the
    larger files are then cut to nothing, since they would fill the disk.

    Args:
        count: Entries, 1,250 to an archive.
        size: Bytes of the large entry of the cases `"one"` and `"skewed"`, as a number or as text such as `"1GB"`; by
            default 1 GB, or as many as all others have.
        case: `"many"` archives of about the same size; `"one"` archive of one large entry; one archive of `"tiny"`
            entries; or `"skewed"`: 99 small archives, and a large entry in one more.
        trials: Rounds that count; one more is run before them and thrown away, unless there is only one.
        into: `"files"`, or `"null"`: every entry is unpacked and checked, and nothing is written.
        durable: A final sync is inside the time of each; shoal runs with its default durability.
        cold: The archives are taken out of the page cache before each run, and it is looked whether they are.
        only: Keys of the contestants to run; by default all that can be.
        skip: Keys of contestants to leave out.
        directory: Where the files are written, in a new directory that is removed at the end; by default here. The
            archives stay there, in `shoal-bench-archives`, for the next time; by default they are removed, too.
        keep: Leave the files.
        progress: Called with a line of text before each run.

    Returns:
        The rows, as of `copy`.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.
        shoal.RunError: The archives could not be made, or stay in the page cache.

    Example:
        >>> results = shoal_bench.unzip(count=20, trials=1, only=["limit"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('limit', 20)
    """
    settings = Settings(
        job="unzip",
        count=count,
        size=None if size is None else parse_size(size, "size"),
        trials=trials,
        into=into,
        durable=durable,
        only=tuple(only),
        skip=tuple(skip),
        directory=directory,
        keep=keep,
        case=case,
        cold=cold,
    )
    return run(settings, progress or (lambda _: None))


def records(
    *,
    count: int = 10_000_000,
    case: str = "touch",
    trials: int = 3,
    cold: bool = False,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    keep: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs every way to go through a flat file of 16-byte records, which it makes, or to find something in it.

    The contestants take turns. What each has found is compared with what the file is known to hold.

    Args:
        count: Records. The study has 93,368,320.
        case: `"touch"`: every record passes through a loop, which the study measures; `"sum"` of one field; `"filter"`:
            one record in a hundred, as Arrow; `"group"`: sums by one of a million ids; or `"convert"`: all of it as
            Parquet.
        trials: Rounds that count; one more is run before them and thrown away, unless there is only one.
        cold: The file is taken out of the page cache before each run, and it is looked whether it is.
        only: Keys of the contestants to run; by default all that can be.
        skip: Keys of contestants to leave out.
        directory: Where the files are made, in a new directory that is removed at the end; by default here.
        keep: Leave the files.
        progress: Called with a line of text before each run.

    Returns:
        The rows, as of `copy`.

    Raises:
        shoal.ConfigError: An argument is wrong, or no contestant is left.
        shoal.RunError: The disk is almost full, or the file stays in the page cache.

    Example:
        >>> results = shoal_bench.records(count=2000, trials=1, only=["limit"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('limit', 2000)
    """
    settings = Settings(
        job="records",
        count=count,
        size=None,
        trials=trials,
        only=tuple(only),
        skip=tuple(skip),
        directory=directory,
        keep=keep,
        case=case,
        cold=cold,
    )
    return run(settings, progress or (lambda _: None))
