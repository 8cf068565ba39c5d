"""`read`: the objects of a source, as an iterator. The iterator itself is `_shoal.Reader`.

Not here: the effect of an option in the engine (its `options.rs`), delivering objects (its `sink/deliver/`).
"""

from __future__ import annotations

from shoal import _shoal
from shoal._options import (
    MEMORY,
    SHARD_AGE,
    SHARD_SIZE,
    WORKERS,
    OnError,
    Order,
    Part,
    Patterns,
    ProgressOption,
    ReadOptions,
    Size,
    Workers,
    engine_options,
    read_options,
)
from shoal._source_types import Source
from shoal._sources import points_elsewhere, source_options
from shoal._watch import Watch, shown


@points_elsewhere
def read(
    source: Source,
    *,
    include: Patterns = (),
    exclude: Patterns = (),
    order: Order = "any",
    part: Part | None = None,
    chunk_size: Size | None = None,
    ignore_vanished: bool = False,
    on_error: OnError = "raise",
    max_failures: int | None = None,
    max_retries: int = 10,
    retry_timeout: float = 180.0,
    timeout: float = 30.0,
    connect_timeout: float = 10.0,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
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
        order: `"any"`: objects arrive as they are ready, which is faster. `"source"`: in the order of the listing, with
            objects that were retried later at the end.
        part: `(index, count)`: read only this part, so that several processes share the work. Parts count from 0. Each
            object is in exactly one part, by the hash of its name. Objects of other parts do not count as listed.
        chunk_size: Deliver a larger object in chunks of this many bytes, in order (`Object.offset` has the position).
            Other objects may arrive in between. If an object fails in the middle, its first chunks have already
            arrived. By default an object is delivered whole, and one larger than `memory` is a failure.
        ignore_vanished: Count objects that were listed but are gone as skipped, not as failed.
        on_error: What to do about failed objects. `"raise"` delivers all others, then the loop raises
            `ObjectsFailedError`; `"record"` only records them in `reader.report`; `"stop"` raises the exception of the
            first failure at once.
        max_failures: Stop the run when more objects than this have failed.
        max_retries: How often to retry one object.
        retry_timeout: Seconds for which to retry one object, and for which a host may be unavailable.
        timeout: Seconds without a byte from the host after which a request has failed.
        connect_timeout: Seconds after which an attempt to connect has failed.
        workers: Number of objects in progress at once; `"auto"` finds it by measuring throughput.
        nice: Leave the machine to others: use at most half of the cores, at the lowest I/O priority and a low priority.
            Only threads of this call change.
        memory: Maximum bytes that wait for the caller: a number, or text such as `"256MiB"`.
        limit_rate: Maximum bytes per second: a number, or text such as `"10MB"`.
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
    return reader(
        source,
        read_options(order=order, chunk_size=chunk_size, checksum=None),
        progress,
        part=part,
        workers=workers,
        nice=nice,
        memory=memory,
        max_retries=max_retries,
        retry_timeout=retry_timeout,
        timeout=timeout,
        connect_timeout=connect_timeout,
        include=include,
        exclude=exclude,
        limit_rate=limit_rate,
        max_failures=max_failures,
        on_error=on_error,
        ignore_vanished=ignore_vanished,
    )


def reader(
    source: Source,
    own: ReadOptions,
    progress: ProgressOption,
    *,
    part: Part | None,
    workers: Workers,
    nice: bool,
    memory: Size,
    max_retries: int,
    retry_timeout: float,
    timeout: float,
    connect_timeout: float,
    include: Patterns,
    exclude: Patterns,
    limit_rate: Size | None,
    max_failures: int | None,
    on_error: OnError,
    ignore_vanished: bool,
) -> _shoal.Reader:
    """Creates the reader of `read`; used by the command line, which also computes checksums.

    Raises:
        ConfigError: An argument is wrong, or the directory does not exist.
    """
    options = engine_options(
        workers=workers,
        nice=nice,
        memory=memory,
        durability="none",
        overwrite="never",
        keep_times=False,
        shard_size=SHARD_SIZE,
        shard_age=SHARD_AGE,
        journal=None,
        max_retries=max_retries,
        retry_timeout=retry_timeout,
        timeout=timeout,
        connect_timeout=connect_timeout,
        include=include,
        exclude=exclude,
        limit_rate=limit_rate,
        max_failures=max_failures,
        on_error=on_error,
        ignore_vanished=ignore_vanished,
        resume="auto",
        allow_different_listings=False,  # it keeps no journal to compare
        dry_run=False,
        part=part,
    )
    where = source_options(source)
    watch = Watch(progress, lambda: f"reading {shown(where)}")
    return _shoal.Reader(where, options, own, watch.progress, watch.ended)
