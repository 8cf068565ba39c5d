"""The function `unzip`: unpacks archives into a directory. The others are in `_api.py`.

Not here: the options of archives (`_sources.archives`, the engine's `source/archive/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._api import copy, on_clusters
from shoal._errors import ConfigError
from shoal._options import (
    MEMORY,
    SHARD_AGE,
    SHARD_SIZE,
    WORKERS,
    Backslashes,
    Durability,
    OnError,
    Overwrite,
    Part,
    Path,
    Patterns,
    ProgressOption,
    Resume,
    Size,
    Workers,
)
from shoal._sources import archives as archives_of
from shoal._sources import points_elsewhere

if TYPE_CHECKING:
    from shoal._report import Report

# Options without effect here: there is no network. The engine's defaults.
UNUSED = ("max_retries", "retry_timeout", "timeout", "connect_timeout")


@points_elsewhere
@on_clusters
def unzip(
    archives: Path | Iterable[Path],
    destination: Path,
    *,
    into_subdirectories: bool = False,
    encoding: str = "auto",
    backslashes: Backslashes = "refuse",
    max_size: Size | None = None,
    max_ratio: int = 100,
    max_entries: int = 1_000_000,
    max_depth: int = 100,
    allow_overlap: bool = False,
    include: Patterns = (),
    exclude: Patterns = (),
    overwrite: Overwrite = "never",
    keep_times: bool = True,
    shard_size: Size = SHARD_SIZE,
    shard_age: float = SHARD_AGE,
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    dry_run: bool = False,
    part: Part | None = None,
    allow_different_listings: bool = False,
    cluster: str | None = None,  # noqa: ARG001  # `on_clusters` runs it
    parts: int | None = None,  # noqa: ARG001  # likewise
    allow_unlocked: bool = False,  # noqa: ARG001  # likewise
    ignore_vanished: bool = False,
    on_error: OnError = "raise",
    max_failures: int | None = None,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
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
        into_subdirectories: Unpack `photos.zip` into `destination/photos/`. By default all archives share the
            destination.
        encoding: Encoding of entry names that are not marked as UTF-8: `"auto"`, or the name of an encoding such as
            `"shift_jis"` or `"windows-1251"`.
        backslashes: What to do with a backslash in a name: `"refuse"` makes the entry a failure, `"separator"` reads it
            as `/`.
        max_size: Maximum bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_ratio: How many times its own size an archive may unpack to; checked only beyond 64 MiB.
        max_entries: Maximum number of entries in one archive.
        max_depth: Maximum number of parts in the name of an entry; the name of the file itself is one.
        allow_overlap: Accept archives in which entries share bytes. Only zip bombs and a few faulty programs make them.
        include: Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory,
            `"/a/*.json"` in one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        exclude: Skip names that match one of these patterns, or are below a directory that does; applied after
            `include`.
        overwrite: What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
            `"always"` replaces it.
        keep_times: Set the modification time of the entry on files; not on directories.
        shard_size: Of `parquet:DIR`: about how many bytes a file has, as a number or text such as `"128MiB"`.
        shard_age: Of `parquet:DIR`: seconds after which a file is finished although it is smaller.
        durability: When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of
            each file, `"none"` as soon as it is in the page cache.
        journal: Path of the journal, if it is not to be inside the directory.
        resume: How to use the journal of earlier calls. `"auto"` continues where the last call stopped. If only
            failures are left, it retries them; if nothing is left, it returns at once without listing the source.
            `"failed"` retries only the failures. `"relist"` lists from the start and skips what is committed.
            `"update"` lists everything and unpacks what is new or differs. `"restart"` reads everything
            again, compares all bytes and unpacks what differs. The last two accept other filters.
        dry_run: Unpack nothing and create nothing, not even the destination. The report has what would be unpacked.
        part: `(index, count)`: do only this part of the job, such as `(3, 16)`, so that several processes or machines
            share it. Parts count from 0, and divide whole archives. Needs `into_subdirectories`, so that no two parts
            have one name. `docs/clusters.md` has the rules.
        allow_different_listings: Whether a part may be complete although other parts have listed different names, for
            a source that changes meanwhile. One that has listed nothing beside others that have is always an error.
        cluster: `"ray"`, or the address of a Ray cluster as `"ray://HOST:PORT"`: run all parts of the job there
            (`docs/clusters.md`). Needs `pip install "shoal[ray]"`.
        parts: With `cluster`, the number of parts; by default eight for each that can run at once.
        allow_unlocked: With `cluster`: continue although locks of the destination do not reach all
            nodes (`docs/clusters.md`).
        ignore_vanished: Count archives that were listed but are gone as skipped, not as failed.
        on_error: What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`;
            `"record"` returns the report, which has the failures; `"stop"` ends at the first failure and raises its
            exception. All of them record failures in the journal.
        max_failures: Stop the run when more objects than this have failed.
        workers: Number of objects in progress at once; `"auto"` finds it by measuring throughput.
        nice: Leave the machine to others: use at most half of the cores, at the lowest I/O priority and a low priority.
            Only threads of this call change.
        memory: Maximum bytes held in memory at once: a number, or text such as `"256MiB"`.
        limit_rate: Maximum bytes per second: a number, or text such as `"10MB"`.
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
    if part is not None and not into_subdirectories:
        raise ConfigError(
            "`part` divides the archives, so each needs a directory of its own",
            hint="add `into_subdirectories=True`, or unpack all archives in one run",
        )
    source = archives_of(
        archives,
        into_subdirectories=into_subdirectories,
        encoding=encoding,
        backslashes=backslashes,
        max_size=max_size,
        max_ratio=max_ratio,
        max_entries=max_entries,
        max_depth=max_depth,
        allow_overlap=allow_overlap,
    )
    defaults = _shoal.default_options()
    return copy(
        source,
        destination,
        workers=workers,
        nice=nice,
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        keep_times=keep_times,
        shard_size=shard_size,
        shard_age=shard_age,
        journal=journal,
        include=include,
        exclude=exclude,
        limit_rate=limit_rate,
        max_failures=max_failures,
        on_error=on_error,
        ignore_vanished=ignore_vanished,
        resume=resume,
        allow_different_listings=allow_different_listings,
        dry_run=dry_run,
        part=part,
        progress=progress,
        **{name: defaults[name] for name in UNUSED},
    )
