"""The function `unzip`: unpacks archives into a directory. The others are in `_api.py`.

Not here: the options of archives (`_sources.archives`, the engine's `source/archive/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from shoal._api import copy, on_clusters
from shoal._errors import ConfigError
from shoal._options import (
    DESTINATIONS,
    MEMORY,
    WORKERS,
    Backslashes,
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
    names,
    points_to_options,
)
from shoal._sources import archives as archives_of

if TYPE_CHECKING:
    from shoal._destinations import Cluster
    from shoal._report import Report
    from shoal._source_types import Destination


@points_to_options(*DESTINATIONS)
@on_clusters
def unzip(
    archives: Path | Iterable[Path],
    destination: Destination,
    *,
    # scripts/signatures.py writes these lines.
    into_subdirectories: bool = False,
    encoding: str = "auto",
    backslashes: Backslashes = "refuse",
    max_size: Size | None = None,
    max_ratio: int = 100,
    max_entries: int = 1_000_000,
    max_depth: int = 100,
    allow_overlap: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    overwrite: Overwrite = "never",
    keep_times: bool | None = None,
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
    """Unpacks archives in one run: `shoal.copy(shoal.archives(archives, …), destination, …)`.

    Every entry of every archive is an object. All workers share the entries of a large archive. Archives are not
    trusted: nothing is written outside the directory, links and devices are not created, checksums and lengths are
    verified, and an archive beyond a limit is rejected before anything of it is written. A journal in the directory
    records what is committed: the same call again continues with the rest.

    **Failures.** A bad entry does not stop the rest: one that is damaged or encrypted, has an unknown compression
    method, or a name that leads out of the directory. A file that is not an archive, is damaged as a whole, or exceeds
    a limit is one failure under its own name. If two entries have one name, the one that is written first stays. The
    other is a failure too, unless it is in another archive and has the same bytes: then it is skipped. Links, devices
    and entries for directories count as skipped; empty directories are created. Files and directories get the
    permissions of their entry, less the umask.

    Args:
        archives: The path of an archive, a glob (`*` stops at `/`, `**` does not), or an iterable of these. The
            first bytes decide whether it is a zip or a tar (plain, or compressed by gzip, zstd, xz or bzip2).
        destination: A directory, created if it does not exist, or `"null:"` to verify every entry and write nothing.
        into_subdirectories: Put the entries of `photos.zip` below `photos/`, or below `photos.zip/` if there is a
            `photos.tar` as well. By default all archives share one directory, and a name that a second archive has too
            is a failure.
        encoding: Encoding of entry names that are not marked as UTF-8: `"auto"`, or the name of an encoding such as
            `"shift_jis"` or `"windows-1251"`.
        backslashes: What to do with a backslash in a name: `"refuse"` makes the entry a failure, `"separator"` reads it
            as `/`.
        max_size: Maximum bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_ratio: How many times its own size an archive may unpack to; checked only beyond 64 MiB.
        max_entries: Maximum number of entries in one archive.
        max_depth: Maximum number of parts in the name of an entry; the file's own name is one.
        allow_overlap: Accept archives in which entries share bytes. Only zip bombs and a few faulty programs make them.
        include: Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory,
            `"/a/*.json"` in one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        exclude: Skip names that match one of these patterns, or are below a directory that does; applied after
            `include`.
        overwrite: What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
            `"always"` replaces it.
        keep_times: Set the modification times that the archives have.
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
        NotFoundError: The archive does not exist (a `FileNotFoundError`).
        ObjectsFailedError: Entries failed, in this call or an earlier one, and the rest is done (`on_error="raise"`).
        ObjectError: The first entry that failed (`on_error="stop"`).
        RunError: The run cannot continue (directory full); the same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact, and the same call resumes the run.

    Note:
        An exception that ends a started run has the report so far as `.report`.

    Example:
        >>> with zipfile.ZipFile("letters.zip", "w") as archive:
        ...     for letter in "abc":
        ...         archive.writestr(f"{letter}.txt", letter * 1000)
        >>> report = shoal.unzip("letters.zip", "letters/")
        >>> report.written, report.bytes, report.ok
        (3, 3000, True)
    """
    others = given(locals())
    if part is not None and not into_subdirectories:
        raise ConfigError(
            "`part` divides the archives, so each needs a directory of its own",
            hint="add `into_subdirectories=True`, or unpack all archives in one run",
        )
    own = {name: others.pop(name) for name in names("archives")}
    del others["archives"], others["cluster"]
    return copy(archives_of(archives, **own), **others)
