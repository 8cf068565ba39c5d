"""The function `save`: items of this process into a directory. The others are in `_api.py`.

Not here: what may be data and how it becomes bytes (the binding's `data.rs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._api import destination_text
from shoal._errors import ConfigError
from shoal._options import (
    MEMORY,
    WORKERS,
    Durability,
    EncodeOptions,
    Layout,
    OnError,
    Overwrite,
    Path,
    Patterns,
    ProgressOption,
    Resume,
    Size,
    Workers,
    engine_options,
    one_of,
)
from shoal._watch import Watch

if TYPE_CHECKING:
    from shoal._report import Report

# Options of a run that mean nothing here: there is no network, and items have no times and are there only once.
# The engine's defaults.
UNUSED = (
    "dry_run",
    "keep_times",
    "max_retries",
    "retry_timeout",
    "timeout",
    "connect_timeout",
    "ignore_vanished",
)


def save(
    items: Iterable[tuple[str | bytes | os.PathLike[str], object]],
    destination: Path,
    *,
    source_id: str | None = None,
    header: bool = True,
    final_newline: bool = True,
    include: Patterns = (),
    exclude: Patterns = (),
    overwrite: Overwrite = "never",
    layout: Layout = "names",
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    on_error: OnError = "raise",
    max_failures: int | None = None,
    workers: Workers = WORKERS,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    progress: ProgressOption = None,
) -> Report:
    """Saves `(name, data)` pairs as files: `shoal.copy` with the items of this process as its source.

    This thread only iterates; files are written by threads that do not need the interpreter. An item is asked for only
    while there is room for it, the first one when the destination is ready.

    **Data** is `bytes`, `str` (saved as UTF-8) or anything with a buffer of bytes, such as `bytearray`, `memoryview` or
    `mmap`: these are saved as they are. What else an object can be is said by the ending of its name:

    - `.csv`: a table, or an array of up to two dimensions
    - `.parquet` (Snappy), `.arrow` or `.feather` (both the Arrow IPC file format): a table
    - `.jsonl` or `.ndjson`: a table, or a list of dicts
    - `.json`: a dict or a list of what JSON has: dicts with text as keys, lists, text, numbers, `True`, `False`, `None`
    - `.npy`: an array
    - `.npz`: an array, or a dict of arrays by name; uncompressed
    - any other, or none: an array or buffer is saved as its bytes in C order, and a table is a failure

    A table is whatever has `__arrow_c_stream__` or `__arrow_c_array__` (Polars, PyArrow, pandas, DuckDB), an array
    whatever has `__array_interface__` or `__array__` and is no table. What an ending does not take, or cannot hold, is
    a failure of its object; so is a masked array. JSON has no NaN and no infinity: they are `null`. A stream that was
    used up before gives a file without rows.

    Whatever can change is copied before the next item is asked for, so that it may be filled again, or a stream or
    result be followed by the next. Only `bytes`, `str`, what `shoal.read` gave, and arrays and views of those are not.

    **Names** are relative paths: `str`, `bytes` or `os.PathLike`. One that leads out of the destination, or that no
    file can have, is a failure of its object.

    An exception raised by `items` is passed on, after what came before it has been saved; so is the `TypeError` for an
    item that is no pair, or whose data no ending takes. After Ctrl-C that takes at most 1.5 s. A note on the exception
    says how many were saved, and `.report` says all of it.

    Args:
        items: Any iterable of pairs; a generator is never asked for more than there is room for.
        destination: A directory (made if it is not there), or `"null:"` to count the bytes and drop them.
        source_id: A name for the items, promising that they come in the same order each time with the same data. A
            later call with the same name goes on behind what is committed: those items are asked for and passed over.
            Without it every call starts anew, and a file that an earlier one wrote is a failure `exists`.
        header: A `.csv` file of a table begins with the names of its columns. (An array's columns have none.)
        final_newline: A `.csv` or `.jsonl` file ends with a line end. (An empty last line, a null, always does.)
        include: Only names that match one of these patterns, which mean what they mean in `.gitignore`: `"*.json"`
            in any directory, `"/a/*.json"` in one, `"logs/"` all below. All rules: `docs/patterns.md`.
        exclude: No name that matches one of these, or lies below a directory that does; looked at after `include`.
        overwrite: What happens to a file that this job did not write: `"never"` keeps it and counts a failure,
            `"always"` replaces it.
        layout: Where objects lie in a directory: `"names"` under their own names, `"partition"` under the number of
            their partition, such as `out/00/0012/34/name`, at most 100 objects to a directory; see `shoal.copy`.
        durability: When an object counts as done: `"batch"` after one barrier for many objects, `"file"` after a sync
            of each file, `"none"` as soon as it is in the page cache.
        journal: Where the journal lives, instead of inside the destination.
        resume: `"auto"` goes on behind what is committed under this `source_id`; `"restart"` saves everything anew,
            also with other options.
        on_error: What failed objects mean. `"raise"` does all the rest first, then raises `ObjectsFailedError`;
            `"record"` returns the report, which says so; `"stop"` ends at the first and raises its exception. All
            write what failed to the journal.
        max_failures: Stop the run when more objects than this have failed.
        workers: How many objects are worked on at once; `"auto"` finds the number from measured throughput.
        memory: Most bytes held in memory at once: a number, or text such as `"256MiB"`. `items` waits while its data
            fills it.
        limit_rate: Most bytes a second: a number, or text such as `"10MB"`.
        progress: True draws a line on standard error; a function is called with a `shoal.Progress` about ten times a
            second, between items. An exception that it raises stops the run and is passed on.

    Returns:
        The report: `report.ok` says whether everything arrived.

    Raises:
        ConfigError: An argument is wrong.
        TypeError: `items` is not iterable, or an item is not a pair of a name and data that can be saved.
        ObjectsFailedError: Objects failed; all the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot go on (destination full, other items under the same `source_id`).
        KeyboardInterrupt: Ctrl-C. The journal is intact.

        Those that end a run already begun carry what it had done as `.report`.

    Example:
        >>> report = shoal.save(((f"{n:04}.txt", f"number {n}") for n in range(1000)), "numbers/")
        >>> report.written, report.ok
        (1000, True)
    """
    defaults = _shoal.default_options()
    options = engine_options(
        workers=workers,
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        layout=layout,
        journal=journal,
        include=include,
        exclude=exclude,
        limit_rate=limit_rate,
        max_failures=max_failures,
        on_error=on_error,
        resume=one_of(resume, ("auto", "restart"), "resume"),
        **{name: defaults[name] for name in UNUSED},
    )
    if source_id is not None and (type(source_id) is not str or not source_id.isprintable() or not source_id):
        raise ConfigError(f"source_id is not text that can be shown: {source_id!r}")
    target = destination_text(destination)
    encode = EncodeOptions(header=bool(header), final_newline=bool(final_newline))
    with Watch(progress, lambda: f"saving to {target}") as watch:
        return watch.ended(_shoal.save(items, target, options, source_id, encode, watch.progress))
