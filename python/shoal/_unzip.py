"""The function `unzip`: archives into a directory. The others are in `_api.py`.

Not here: what an option of archives means (`_api.archives`, the engine's `source/archive/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._api import archives as archives_of
from shoal._api import copy
from shoal._options import (
    MEMORY,
    WORKERS,
    Backslashes,
    Durability,
    Layout,
    OnError,
    Overwrite,
    Path,
    Patterns,
    ProgressOption,
    Resume,
    Size,
    Workers,
)

if TYPE_CHECKING:
    from shoal._report import Report

# Options of a run that mean nothing here: there is no network. The engine's defaults.
UNUSED = ("max_retries", "retry_timeout", "timeout", "connect_timeout")


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
    layout: Layout = "names",
    keep_times: bool = True,
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    dry_run: bool = False,
    ignore_vanished: bool = False,
    on_error: OnError = "raise",
    max_failures: int | None = None,
    workers: Workers = WORKERS,
    memory: Size = MEMORY,
    limit_rate: Size | None = None,
    progress: ProgressOption = None,
) -> Report:
    """Unpacks archives as one job: `shoal.copy(shoal.archives(archives, …), destination, …)`.

    Every entry of every archive is an object. Entries of one large archive are unpacked by all workers, and what an
    archive holds can do no harm: no file outside the directory, no links and no devices are ever made, checksums and
    lengths are checked, and an archive that unpacks to far more than is sane is refused before anything of it is
    written. What was committed is kept in a journal inside the directory: the same call again does what is left.

    **What fails.** An entry that is damaged, encrypted, packed by an unknown method, or has a name that leads out of
    the directory, fails alone. An archive that is none, that is damaged as a whole or goes beyond a limit counts as
    one failure under its own name. A name that comes a second time, in the same archive or in another one, is a
    failure too; the first stays. Links and devices count as skipped, and so do entries for directories; empty
    directories are made. Files and directories get the permissions that the archive has for them, less the umask.

    Args:
        archives: The path of an archive, a glob (`*` stops at `/`, `**` does not), or an iterable of such. Whether one
            is a zip or a tar (plain or compressed by gzip, zstd, xz or bzip2) is told by its first bytes.
        destination: Where to, made if it is not there; or `"null:"` to check every entry and keep none.
        into_subdirectories: What `photos.zip` holds goes to `destination/photos/`. Without it all archives share
            the destination.
        encoding: What the names of entries are written in that do not say so themselves: `"auto"`, or the name of an
            encoding such as `"shift_jis"` or `"windows-1251"`.
        backslashes: What a backslash in a name is: `"refuse"` makes the entry a failure, `"separator"` makes it a `/`.
        max_size: Most bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_ratio: How many times its own size an archive may unpack to; looked at only beyond 64 MiB.
        max_entries: Most entries of one archive.
        max_depth: Most directories in which an entry may lie, one in another.
        allow_overlap: Read archives in which entries share bytes. Only bombs and a few broken programs make such.
        include: Only names that match one of these patterns, which mean what they mean in `.gitignore`: `"*.json"`
            in any directory, `"/a/*.json"` in one, `"logs/"` all below. All rules: `docs/patterns.md`.
        exclude: No name that matches one of these, or lies below a directory that does; looked at after `include`.
        overwrite: What happens to a file that shoal did not write: `"never"` keeps it and counts a failure, `"always"`
            replaces it.
        layout: Where objects lie in a directory: `"names"` under their own names, `"partition"` under the number of
            their partition, such as `out/00/0012/34/name`, at most 100 objects to a directory; see `shoal.copy`.
        keep_times: Give files the time at which the archive says they were last changed; directories do not get it.
        durability: When an object counts as done: `"batch"` after one barrier for many objects, `"file"` after a sync
            of each file, `"none"` as soon as it is in the page cache.
        journal: Where the journal lives, instead of inside the directory.
        resume: What is done about earlier calls. `"auto"` goes on where the last one stopped; when that one was done
            but for failures, tries those again; when nothing is left, returns at once without a look at the source.
            `"failed"` tries only the failures again. `"relist"` lists from the start instead of from the journal's
            place, and skips what is committed. `"update"` lists everything and unpacks what is new or differs.
            `"restart"` unpacks everything anew. The last two may have other filters and another layout.
        dry_run: Unpack nothing, and create nothing, not even the destination: the report says what would be unpacked.
        ignore_vanished: Count what was listed but is gone as skipped, not as failed.
        on_error: What failed objects mean. `"raise"` does all the rest first, then raises `ObjectsFailedError`;
            `"record"` returns the report, which says so; `"stop"` ends at the first and raises its exception. All
            write what failed to the journal.
        max_failures: Stop the run when more objects than this have failed.
        workers: How many objects are worked on at once; `"auto"` finds the number from measured throughput.
        memory: Most bytes held in memory at once: a number, or text such as `"256MiB"`.
        limit_rate: Most bytes a second: a number, or text such as `"10MB"`.
        progress: True draws a line on standard error; a function is called with a `shoal.Progress` about ten times a
            second. An exception that it raises stops the run and is passed on.

    Returns:
        The report: `report.ok` says whether everything arrived.

    Raises:
        ConfigError: An argument is wrong.
        NotFoundError: No archive has that name (a `FileNotFoundError`).
        ObjectsFailedError: Entries failed, in this call or an earlier one; all the rest is done (`on_error="raise"`).
        ObjectError: The first entry that failed (`on_error="stop"`).
        RunError: The run cannot go on (directory full); the same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact and the same call goes on.

        Those that end a run already begun carry what it had done as `.report`.

    Example:
        >>> with zipfile.ZipFile("letters.zip", "w") as archive:
        ...     for letter in "abc":
        ...         archive.writestr(f"{letter}.txt", letter * 1000)
        >>> report = shoal.unzip("letters.zip", "letters/")
        >>> report.written, report.bytes, report.ok
        (3, 3000, True)
    """
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
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        layout=layout,
        keep_times=keep_times,
        journal=journal,
        include=include,
        exclude=exclude,
        limit_rate=limit_rate,
        max_failures=max_failures,
        on_error=on_error,
        ignore_vanished=ignore_vanished,
        resume=resume,
        dry_run=dry_run,
        progress=progress,
        **{name: defaults[name] for name in UNUSED},
    )
