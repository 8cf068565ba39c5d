"""The function `save`: writes items of this process to a directory. The others are in `_api.py`.

Not here: the types of data and their encoding (the binding's `data.rs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._destinations import destination_form
from shoal._errors import ConfigError
from shoal._options import (
    DESTINATIONS,
    MEMORY,
    WORKERS,
    Durability,
    OnError,
    Overwrite,
    Path,
    ProgressOption,
    Resume,
    Size,
    Workers,
    given,
    one_of,
    points_to_options,
)
from shoal._watch import Watch

if TYPE_CHECKING:
    from shoal._report import Report
    from shoal._source_types import Destination


@points_to_options(*DESTINATIONS)
def save(
    items: Iterable[tuple[str | bytes | os.PathLike[str], object]] | Mapping[str, object],
    destination: Destination,
    *,
    source_id: str | None = None,
    # scripts/signatures.py writes these lines.
    header: bool = True,
    final_newline: bool = True,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    overwrite: Overwrite = "never",
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    allow_empty: bool = False,
    max_failures: int | None = None,
    keep_going: bool | None = None,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    on_error: OnError = "raise",
    # End.
    progress: ProgressOption = None,
) -> Report:
    """Saves `(name, data)` pairs as files: `shoal.copy` with the items of this process as its source.

    This thread only iterates; threads that do not need the interpreter write the files. An item is requested only when
    there is room for it, and the first one when the destination is ready.

    **Data** is `bytes`, `str` (saved as UTF-8) or anything with a buffer of bytes, such as `bytearray`, `memoryview` or
    `mmap`: these are saved unchanged. The suffix of the name decides what else is accepted:

    - `.csv`: a table, or an array of up to two dimensions
    - `.parquet` (Snappy), `.arrow` or `.feather` (both the Arrow IPC file format): a table
    - `.jsonl` or `.ndjson`: a table, or a list of dicts or dataclasses
    - `.json`: a dict, a list or a dataclass, of what JSON has: dicts with text as keys, lists, text, numbers (also
      NumPy's), `True`, `False`, `None`; dates and times become text (ISO 8601)
    - `.npy`: an array
    - `.npz`: an array, or a dict of arrays by name; uncompressed
    - any other, or none: an array or buffer is saved as its bytes in C order, and a table is a failure

    A table is any object with `__arrow_c_stream__` or `__arrow_c_array__` (Polars, PyArrow, pandas, DuckDB). An array
    is any other object with `__array_interface__` or `__array__`. Data that a suffix does not accept, or that its
    format cannot hold, is a failure of its object; so is a masked array. NaN and infinity become `null` in JSON. A
    stream that was already read makes a file without rows.

    Mutable data is copied before the next item is requested, so you can reuse an array, or run the next query. Only
    `bytes`, `str`, objects of `shoal.read`, and arrays and views of these are not copied.

    **Names** are relative paths: `str`, `bytes` or `os.PathLike`. A name that leads out of the destination, or that a
    file cannot have, is a failure of its object.

    If `items` raises, everything before it is saved, and the exception is raised here. The same holds for the
    `TypeError` for an item that is not a pair, or with data of an unknown type. After Ctrl-C this takes at most 1.5 s.
    A note on the exception says how many objects were saved, and `.report` has the report.

    Args:
        items: An iterable of pairs, or a dict of data by name. A generator is never asked for more items than there is
            room for.
        destination: A directory, created if it does not exist; `"parquet:DIR"` to pack the objects as rows of Parquet
            files in DIR (`docs/parquet.md`); or `"null:"` to count the bytes and discard them.
        source_id: A name for the items, which promises the same order and the same data each time. A later call with
            the same name iterates from the start, skips the committed items, retries those that failed, and continues.
            An item that failed and has another name now, or does not come any more, stays a failure. Without
            `source_id`, every call starts from the beginning, and a file that an earlier call wrote is a failure
            `exists`.
        header: Begin a `.csv` file of a table with the names of its columns. (An array's columns have no names.)
        final_newline: End a `.csv` or `.jsonl` file with a newline. (A last line that is empty, a null, always has
            one.)
        include: Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory,
            `"/a/*.json"` in one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        exclude: Skip names that match one of these patterns, or are below a directory that does; applied after
            `include`.
        overwrite: What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
            `"always"` replaces it.
        durability: When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of
            each file, `"none"` as soon as it is in the page cache.
        journal: Path of the journal, if it is not to be inside the destination. `"null:"` has a journal only with this.
        resume: `"auto"` continues with the same `source_id`; `"restart"` saves everything again, also with other
            options.
        allow_empty: Accept that nothing matches: a glob without a file, patterns that leave out all objects, a tree of
            links. By default it is an error, until the job has copied something once.
        max_failures: Stop the run when more objects than this have failed. By default it stops only if 100 objects from
            a network or of a program have failed in the same way and nothing has succeeded, in a list of many hosts on
            ten of them.
        keep_going: Do not stop if the first 100 objects fail in the same way. It is the default with
            `on_error="record"`.
        workers: Number of objects in progress at once; `"auto"` finds it by measuring throughput.
        nice: Leave the machine to others: use at most half of the cores, at the lowest I/O priority and a low priority.
            Only threads of this call change.
        memory: Maximum bytes held in memory at once: a number, or text such as `"256MiB"`. `items` waits while this is
            used up.
        limit_rate: Maximum bytes per second: a number, or text such as `"10MB"`.
        on_error: What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`;
            `"record"` returns the report, which has the failures; `"stop"` ends at the first failure and raises its
            exception. All of them record failures in the journal.
        progress: True draws a line on standard error. A function is called with a `shoal.Progress` about ten times a
            second, between items; an exception that it raises stops the run and is raised here.

    Returns:
        The report; `report.ok` is true if everything arrived.

    Raises:
        ConfigError: An argument is wrong.
        TypeError: `items` is not iterable, or an item is not a pair of a name and data that can be saved.
        ObjectsFailedError: Objects failed, and the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot continue (destination full, other items under the same `source_id`).
        KeyboardInterrupt: Ctrl-C. The journal is intact.

    Note:
        An exception that ends a started run has the report so far as `.report`.

    Example:
        >>> report = shoal.save(((f"{n:04}.txt", f"number {n}") for n in range(1000)), "numbers/")
        >>> report.written, report.ok
        (1000, True)
    """
    one_of(resume, ("auto", "restart"), "resume")
    options, target = given(locals()), destination_form(destination)
    if source_id is not None and (type(source_id) is not str or not source_id.isprintable() or not source_id):
        raise ConfigError(f"`source_id` must be printable text, got {source_id!r}")
    if isinstance(items, Mapping):
        items = items.items()
    with Watch(progress, lambda: f"saving to {target[0]}") as watch:
        return watch.ended(_shoal.save(items, target, options, source_id, watch.progress))
