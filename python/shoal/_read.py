"""`read`: the objects of a source, as an iterator. The iterator itself is `_shoal.Reader`.

Not here: the effect of an option in the engine (its `options.rs`), delivering objects (its `sink/deliver/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal import _shoal
from shoal._options import (
    MEMORY,
    SOURCES,
    WORKERS,
    OnError,
    Order,
    Part,
    ProgressOption,
    Size,
    Workers,
    given,
    points_to_options,
)
from shoal._source_types import Source
from shoal._sources import source_form
from shoal._watch import Watch, shown


@points_to_options(*SOURCES)
def read(
    source: Source,
    *,
    # scripts/signatures.py writes these lines.
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    part: Part | None = None,
    allow_empty: bool = False,
    ignore_vanished: bool = False,
    max_failures: int | None = None,
    keep_going: bool | None = None,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    order: Order = "any",
    chunk_size: Size | None = None,
    on_error: OnError = "raise",
    # End.
    progress: ProgressOption = None,
) -> _shoal.Reader:
    """Returns an iterator over the objects of a source, which are read ahead in threads.

    It is `shoal.copy(source, …)` with the caller as the destination, and without a journal. Reading starts with the
    first iteration. Objects arrive as they are ready, unless `order="source"`. At most `memory` bytes wait for a slow
    caller. Leaving the loop early stops the threads; `with shoal.read(…) as reader:` also waits until they have ended.

    Args:
        source: A directory, a file, a glob such as `"photos/**/*.jpg"`, an iterable of paths or `shoal.files(…)`; the
            URL of a list/get service or `shoal.list_get(…)`; the entries of archives, `"zip:*.zip"`, `"tar:*.tar.gz"`
            or `shoal.archives(…)`; the rows of Parquet files, `"parquet:DIR"` (`docs/parquet.md`); or a list of URLs,
            `shoal.urls(…)` (`docs/urls.md`).
        include: Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory,
            `"/a/*.json"` in one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        exclude: Skip names that match one of these patterns, or are below a directory that does; applied after
            `include`.
        part: `(index, count)`: read only this part, so that several processes share the work. Parts count from 0. Each
            object is in exactly one part, by the hash of its name. Objects of other parts do not count as listed.
        allow_empty: Accept that nothing matches: a glob without a file, patterns that leave out all objects, a tree of
            links. By default it is an error, until the job has copied something once.
        ignore_vanished: Count objects that were listed but are gone as skipped, not as failed.
        max_failures: Stop the run when more objects than this have failed. By default it stops only if 100 objects from
            a network or of a program have failed in the same way and nothing has succeeded, in a list of many hosts on
            ten of them.
        keep_going: Do not stop if the first 100 objects fail in the same way. It is the default with
            `on_error="record"`.
        workers: Number of objects in progress at once; `"auto"` finds it by measuring throughput.
        nice: Leave the machine to others: use at most half of the cores, at the lowest I/O priority and a low priority.
            Only threads of this call change.
        memory: Maximum bytes held in memory at once: a number, or text such as `"256MiB"`.
        limit_rate: Maximum bytes per second: a number, or text such as `"10MB"`.
        order: `"any"`: objects arrive as they are ready, which is faster. `"source"`: in the order of the listing, with
            objects that were retried later at the end.
        chunk_size: Deliver larger objects in chunks of about this many bytes, in order, each with its `.offset`. Other
            objects may arrive in between. If an object fails in the middle, its first chunks have already arrived. By
            default an object is delivered whole, and one larger than `memory` is a failure.
        on_error: What to do about failed objects. `"raise"` delivers all others, then the loop raises
            `ObjectsFailedError`; `"record"` only records them in `reader.report`; `"stop"` raises the exception of the
            first failure at once.
        progress: True draws a line on standard error. A function is called with a `shoal.Progress` about ten times a
            second, while the caller iterates.

    Returns:
        An iterator of `shoal.Object`: `.name`, `.size`, `.data` (a memoryview without a copy), `bytes(obj)`. Its
        `.batches()` returns Arrow record batches instead, for PyArrow, Polars, DuckDB and pandas. `.report` is
        available after the last object.

    Raises:
        ConfigError: An argument is wrong.
        NotFoundError: The source does not exist (a `FileNotFoundError`).
        ObjectsFailedError: At the end of the iteration, if objects failed and `on_error` is `"raise"`. A loop that is
            left early does not raise it.
        ObjectError: During the iteration, for the first object that failed (`on_error="stop"`).
        RunError: During the iteration: the run cannot continue (credentials, source unreachable). Earlier objects have
            been delivered.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     reader = shoal.read(service.url)
        ...     total = sum(obj.size for obj in reader)
        >>> total, reader.report.ok
        (100000, True)
    """
    return reader(source, given(locals()), progress)


def reader(source: Source, options: dict[str, Any], progress: ProgressOption) -> _shoal.Reader:
    """Creates the reader of `read`; used by the command line, which also computes checksums."""
    where = source_form(source)
    watch = Watch(progress, lambda: f"reading {shown(where)}")
    return _shoal.Reader(where, options, watch.progress, watch.ended)
