"""`read`: the objects of a source, as an iterator. The iterator itself is `_shoal.Reader`.

Not here: what an option means for the engine (its `options.rs`), how objects are handed over (its `sink/deliver/`).
"""

from __future__ import annotations

from shoal import _shoal
from shoal._api import points_to_sources, source_options
from shoal._options import (
    MEMORY,
    WORKERS,
    OnError,
    Order,
    Patterns,
    ProgressOption,
    ReadOptions,
    Size,
    Source,
    Workers,
    engine_options,
    read_options,
)
from shoal._watch import Watch, shown


@points_to_sources
def read(
    source: Source,
    *,
    include: Patterns = (),
    exclude: Patterns = (),
    order: Order = "any",
    shard: tuple[int, int] | None = None,
    chunk_size: Size | None = None,
    ignore_vanished: bool = False,
    on_error: OnError = "raise",
    max_failures: int | None = None,
    max_retries: int = 10,
    retry_timeout: float = 180.0,
    timeout: float = 30.0,
    connect_timeout: float = 10.0,
    workers: Workers = WORKERS,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    progress: ProgressOption = None,
) -> _shoal.Reader:
    """Reads every object of a source into memory, some ahead of the caller, and hands them over one by one.

    It is `shoal.copy(source, …)` with the caller as the destination, and no journal. Nothing happens before the first
    object is asked for. Objects come as they are ready, unless `order="source"`. A slow caller holds the readers back:
    at most `memory` bytes wait for it. Leaving the loop early stops them at once; `with shoal.read(…) as reader:` also
    waits until they have ended.

    Args:
        source: A directory, a file, a glob such as `"photos/**/*.jpg"`, an iterable of paths or `shoal.files(…)`; the
            URL of a list/get service or `shoal.list_get(…)`; the entries of archives, `"zip:*.zip"`, `"tar:*.tar.gz"`
            or `shoal.archives(…)`.
        include: Only names that match one of these patterns, which mean what they mean in `.gitignore`: `"*.json"`
            in any directory, `"/a/*.json"` in one, `"logs/"` all below. All rules: `docs/patterns.md`.
        exclude: No name that matches one of these, or lies below a directory that does; looked at after `include`.
        order: `"any"`: objects come as they are ready, which is faster. `"source"`: in the order of the listing, those
            that had to be tried again later at the end.
        shard: `(index, count)`: only this one of so many parts, so that several processes share the work. Each object
            is in exactly one part, by the hash of its name; those of the other parts count as skipped.
        chunk_size: Hand a longer object over in pieces of this many bytes, one after the other (`Object.offset` says
            where each belongs). Other objects may come in between; if one fails in the middle, its first pieces have
            come all the same. By default an object is always whole, and one larger than `memory` is a failure.
        ignore_vanished: Count objects that were listed but are gone as skipped, not as failed.
        on_error: What failed objects mean. `"raise"` gives all the others first, then the loop raises
            `ObjectsFailedError`; with `"record"` only `reader.report` says so; `"stop"` raises the exception of the
            first at once.
        max_failures: Stop the run when more objects than this have failed.
        max_retries: How often one object is tried again.
        retry_timeout: Seconds for which one object is tried again, and for which a host may stay away.
        timeout: Seconds without a byte from the host after which a request counts as failed.
        connect_timeout: Seconds a connection may take to be made.
        workers: How many objects are worked on at once; `"auto"` finds the number from measured throughput.
        memory: Most bytes that wait for the caller: a number, or text such as `"256MiB"`.
        limit_rate: Most bytes a second: a number, or text such as `"10MB"`.
        progress: True draws a line on standard error; a function is called with a `shoal.Progress` about ten times a
            second, while the caller takes objects or waits for them.

    Returns:
        An iterator of `shoal.Object`: `.name`, `.size`, `.data` (a memoryview; nothing is copied), `bytes(obj)`. Its
        `.batches()` gives Arrow record batches instead, for PyArrow, Polars, DuckDB and pandas. `.report` is there
        after the last object.

    Raises:
        ConfigError: An argument is wrong.
        NotFoundError: The source that you named is not there (a `FileNotFoundError`).

        While objects are taken:
        ObjectsFailedError: All that could be read has been given, other objects failed, and `on_error` is `"raise"`. A
            loop that is left early does not raise it.
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot go on (credentials, source unreachable). What came before has been handed over.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     reader = shoal.read(service.url)
        ...     total = sum(obj.size for obj in reader)
        >>> total, reader.report.ok
        (100000, True)
    """
    return reader(
        source,
        read_options(order=order, chunk_size=chunk_size, checksum=None, shard=shard),
        progress,
        workers=workers,
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
    workers: Workers,
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
    """Makes the reader of `read`; for the command line, which also wants checksums.

    Raises:
        ConfigError: An argument is wrong, or the directory is not there.
    """
    options = engine_options(
        workers=workers,
        memory=memory,
        durability="none",
        overwrite="never",
        layout="names",
        keep_times=False,
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
        dry_run=False,
    )
    where = source_options(source)
    watch = Watch(progress, lambda: f"reading {shown(where)}")
    return _shoal.Reader(where, options, own, watch.progress, watch.ended)
