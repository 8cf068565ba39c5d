"""The functions copy and serve. Each validates its arguments and calls the engine.

Not here: the sources (`_sources.py`), the effect of an option in the engine (its `options.rs`), the result types
(`_report.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shoal import _shoal
from shoal._destinations import destination_form
from shoal._errors import ConfigError
from shoal._options import (
    DESCRIBED,
    MEMORY,
    WORKERS,
    Durability,
    OnError,
    Overwrite,
    Part,
    Path,
    ProgressOption,
    Resume,
    Size,
    Workers,
    given,
    points_to_options,
)
from shoal._sources import source_form
from shoal._watch import Watch, shown

if TYPE_CHECKING:
    from shoal._destinations import Cluster
    from shoal._report import Report
    from shoal._source_types import Destination, Source

F = TypeVar("F", bound=Callable[..., object])


def on_clusters(function: F) -> F:
    """Lets a function run the parts of its job on a cluster, if `cluster` is given."""

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        if options.get("cluster") is not None:
            from shoal._cluster import Job, run  # imported here: `import shoal` must be fast

            return run(Job(cast("Any", function), args, options))
        return function(*args, **options)

    return cast("F", call)


@points_to_options(*DESCRIBED)
@on_clusters
def copy(
    source: Source,
    destination: Destination,
    *,
    # scripts/signatures.py writes these lines.
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    overwrite: Overwrite = "never",
    keep_times: bool | None = None,
    exact: bool = False,
    hard_links: bool = False,
    strict_attributes: bool = False,
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    dry_run: bool = False,
    part: Part | None = None,
    allow_different_listings: bool = False,
    allow_empty: bool = False,
    ignore_vanished: bool = False,
    max_failures: int | None = None,
    keep_going: bool | None = None,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    on_error: OnError = "raise",
    # End.
    cluster: str | Cluster | None = None,  # `on_clusters` runs it
    progress: ProgressOption = None,
) -> Report:
    """Copies every object of a source into a directory, and resumes an earlier call that was stopped.

    A journal in the destination records what is committed. The same call again continues with the rest; if nothing is
    left, it returns at once, with `completed_before` set.

    Files and directories from files or archives keep their permission bits, less the umask. Set-id and sticky bits are
    dropped, and directories stay open to their owner. Objects of a service follow the umask. Empty directories are
    created, and count as skipped.

    Args:
        source: The URL of a list/get service, or `shoal.list_get(url, …)` for one with other paths and fields; or a
            directory, a file, a glob such as `"photos/**/*.jpg"`, an iterable of paths or `shoal.files(…)`; or the
            entries of archives: `"zip:*.zip"`, `"tar:*.tar.gz"`, `shoal.archives(…)`; the rows of Parquet files:
            `"parquet:DIR"`; or a list of URLs, `shoal.urls(…)`.
        destination: A directory, created if it does not exist; `"parquet:DIR"` to pack the objects as rows of Parquet
            files in DIR (`docs/parquet.md`); or `"null:"` to count the bytes and discard them.
        include: Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory,
            `"/a/*.json"` in one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        exclude: Skip names that match one of these patterns, or are below a directory that does; applied after
            `include`.
        overwrite: What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
            `"always"` replaces it.
        keep_times: Set the modification time that the source has for a file, if it has one. By default for files,
            archives and buckets, not for a service. If the times of a service were kept, an update fetches only what
            has changed since.
        exact: Copy files of this machine exactly: permissions with set-id and sticky, owner and group by number (owners
            as root), ACLs, extended attributes and hard links. What the destination cannot hold is counted in a note.
        hard_links: Make names of one file of this machine names of one file at the destination, too. By default each
            becomes a file. `exact` includes it.
        strict_attributes: Fail a file if the destination cannot hold its owner, permissions, ACL, attributes or hard
            link.
        durability: When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of
            each file, `"none"` as soon as it is in the page cache.
        journal: Path of the journal, if it is not to be inside the destination. `"null:"` has a journal only with this.
        resume: How to use the journal of earlier calls. `"auto"` continues where the last call stopped. A finished copy
            of a local directory or glob into a directory is updated. Of other finished runs, it retries the failures;
            without any, it returns at once and does not list the source, as `"once"` always does. `"failed"` retries
            only the failures. `"relist"` lists from the start and skips what is committed. `"update"` lists everything
            and copies what is new or differs. `"restart"` reads everything again, compares all bytes and copies what
            differs. The last two accept other filters.
        dry_run: Copy nothing and create nothing, not even the destination. The report has what would be copied.
        part: `(index, count)`: do only this part of the job, such as `(3, 16)`, so that several processes or machines
            share it. Parts count from 0. Each has a journal of its own in the destination; `docs/clusters.md` has the
            rules.
        allow_different_listings: Whether a part may be complete although other parts have listed different names, for a
            source that changes meanwhile. One that has listed nothing beside others that have is always an error.
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
        on_error: What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`;
            `"record"` returns the report, which has the failures; `"stop"` ends at the first failure and raises its
            exception. All of them record failures in the journal.
        cluster: `"ray"` or `shoal.cluster(…)`: run all parts of the job on a Ray cluster (`docs/clusters.md`).
        progress: True draws a line on standard error. A function is called with a `shoal.Progress` about ten times a
            second; an exception that it raises stops the run and is raised here.

    Returns:
        The report; `report.ok` is true if everything arrived.

    Raises:
        ConfigError: An argument is wrong.
        NotFoundError: The source does not exist (a `FileNotFoundError`).
        PermissionDeniedError: No permission to open the source or the destination (a `PermissionError`).
        ObjectsFailedError: Objects failed, in this call or an earlier one, and the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot continue (destination full, credentials, source unreachable); the same call resumes it.
            Or the parts of the job have listed different names (kind `"different-listings"`).
        KeyboardInterrupt: Ctrl-C. The journal is intact, and the same call resumes the run.

    Note:
        An exception that ends a started run has the report so far as `.report`.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     report = shoal.copy(service.url, "out/")
        >>> report.written, report.bytes, report.ok
        (1000, 100000, True)
    """
    options, where, target = given(locals()), source_form(source), destination_form(destination)
    with Watch(progress, lambda: f"copying {shown(where)} to {target[0]}") as watch:
        return watch.ended(_shoal.copy(where, target, options, watch.progress))


def serve(
    directory: Path | None = None,
    *,
    synthetic: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    page_size: int = 1000,
    access_log: Path | None = None,
    allow_host: str | Sequence[str] = (),
) -> _shoal.Server:
    """Starts a list/get service in threads of this process.

    docs/serve.md has the rules for directories that change, and for requests by browsers.

    Args:
        directory: The directory to serve. Paths outside it are never served.
        synthetic: `"COUNT:SIZE"` instead of a directory: COUNT objects `object-000000000`… of SIZE bytes each, with
            their name and a newline, repeated, as contents. `"COUNT:SIZE:random"` has contents that do not compress;
            both are the same on every machine.
        host: The numeric address to listen on, or `"localhost"`.
        port: The port to listen on; 0 for a free one.
        page_size: Maximum number of names on a page of the listing; a page has at most about 1 MiB.
        access_log: A file to which a line is appended for each request.
        allow_host: Further host names, without a port, that the service answers to. On loopback it answers to
            `localhost` and loopback addresses, elsewhere to any address and this machine's own names. Under any other
            name, a web page could reach it (DNS rebinding).

    Returns:
        The running service: `.url`, `.port`, `.stats`, `.stop()`. As a context manager, it stops at the end of the
        block.

    Raises:
        ConfigError: Neither or both of `directory` and `synthetic` are given, or another argument is wrong.
        RunError: The directory cannot be read, or the service cannot listen on the address.

    Example:
        >>> with shoal.serve(synthetic="3:20") as service:
        ...     urllib.request.urlopen(f"{service.url}/get/object-000000002").read()[:16]
        b'object-000000002'
    """
    if (directory is None) == (synthetic is None):
        raise ConfigError("pass exactly one of `directory` and `synthetic`")
    others = (allow_host,) if isinstance(allow_host, str) else tuple(allow_host)
    for name in others:
        if type(name) is not str or not name:
            raise ConfigError(f"`allow_host` must contain hosts, got {name!r}")
    for value, least, most, option in ((port, 0, 65535, "port"), (page_size, 1, 1 << 31, "page_size")):
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"`{option}` must be a whole number from {least} to {most}, got {value!r}")
    # The only name that is the same everywhere; any other would need a lookup, and may have several addresses.
    address = "127.0.0.1" if host == "localhost" else host
    return _shoal.Server(directory, synthetic, address, port, page_size, access_log, others)
