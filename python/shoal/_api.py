"""The functions archives, copy, files, list_get, serve and status. Each checks its arguments and makes one call down.

Not here: what an option means for the engine (its `options.rs`), the result types (`_report.py`).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._options import (
    MEMORY,
    WORKERS,
    ArchiveOptions,
    Archives,
    Backslashes,
    Durability,
    Files,
    FilesOptions,
    Layout,
    ListGet,
    ListGetOptions,
    OnError,
    Overwrite,
    Path,
    Patterns,
    Pipeline,
    ProgressOption,
    Resume,
    Size,
    Source,
    SourceOptions,
    Workers,
    archive_options,
    engine_options,
    header_pairs,
    hosts,
    pipeline_depth,
    without_secrets,
)
from shoal._watch import Watch, shown

if TYPE_CHECKING:
    from shoal._report import Report, Status


def list_get(
    url: str,
    *,
    list_path: str = "/list",
    get_path: str = "/get/{name}",
    names_field: str = "FileNames",
    name: str = "{name}",
    next_field: str | Sequence[str] = ("NextMarker", "NextFile"),
    marker_param: str = "next-marker",
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    expect_type: str | None = None,
    encode_slash: bool = False,
    ca_file: Path | None = None,
    insecure: bool = False,
    allow_host: str | Sequence[str] = (),
    pipeline: Pipeline = "auto",
) -> ListGet:
    """Describes a list/get service, for use as the source of `shoal.copy`.

    Such a service answers `GET /list` with a page of names as JSON and a marker for the next page, and `GET /get/NAME`
    with the bytes of an object. A plain URL given to `shoal.copy` stands for `list_get(url)`.

    Args:
        url: Where the service is: `http://host:port` or `https://host:port`, with a base path if it has one.
        list_path: The path that answers with a page of names.
        get_path: The path that answers with an object; `{name}` is replaced by its name.
        names_field: The field of a page that holds the names, an array of texts or whole numbers. Of a list of objects,
            the way to the name in each: `"data[].id"`, `"result.files[].path"`. Of a page that is an array itself:
            `"[]"`, `"[].id"`.
        name: What an object is called at the destination, with `{name}` for its name: `"{name}.json"`. Patterns of
            `include` and `exclude` are about the name that this makes.
        next_field: The field of a page that holds the marker of the next one; of several, the first that is there.
            `"none"`: there is no next page. A page without one ends the listing, unless another of its fields looks
            as if it went on (`cursor`, `IsTruncated`, …): that is an error which names the field.
        marker_param: The query parameter in which that marker is sent.
        headers: Headers sent with every request, such as `{"Authorization": "Bearer …"}`. Kept out of the journal, of
            messages and of `repr`.
        expect_type: A pattern that the content type of an object must match, such as `"image/*"`; an answer of another
            type is a failure. `"*"` accepts every type. By default an object of any type is saved, but an HTML page
            that comes after objects that were none, under a name that does not end in `.html`, `.htm` or `.xhtml`, is
            a failure.
        encode_slash: Send `/` inside a name as `%2F`.
        ca_file: A file of certificates (PEM) that are trusted besides those of the machine.
        insecure: Trust any certificate. Whoever is in between can then read and change everything, headers too; the
            report says so.
        allow_host: Other hosts (`"host"` or `"host:port"`) to which a redirect may lead. Your headers are not sent
            there. By default a redirect is followed only where it stays with the same scheme, host and port.
        pipeline: Whether requests are sent before the answers to earlier ones are there. `"auto"`: where each answer
            echoes its request's `Shoal-Request-Id`, as `shoal serve` does, so that no answer can be taken for another.
            A number from 2 to 256: so many on one connection wherever no id says otherwise, after a comparison at that
            depth with at least 16 different objects, and for as long as samples agree. That cannot find a service that
            answers out of order only now and then, so use it only for services known to answer in order. `"off"`: one
            at a time, and no ids are sent.

    Returns:
        A value for `shoal.copy`.

    Raises:
        ConfigError: A header that HTTP does not allow, a host that is none, or a `pipeline` that is none. What only the
            run can see (a path without `{name}`, a `name` that is not safe) is raised by `shoal.copy`.

    Example:
        >>> reports = shoal.list_get(
        ...     "https://reports.example/v2",
        ...     list_path="/reports?limit=500",  # {"data": [{"id": 17, "title": "May"}, …], "cursor": "x9"}
        ...     names_field="data[].id",
        ...     next_field="cursor",
        ...     marker_param="after",
        ...     get_path="/reports/{name}/content",
        ...     name="{name}.json",
        ...     headers={"Authorization": "Bearer TOKEN"},
        ... )
        >>> reports.names_field
        'data[].id'
    """
    return ListGet(
        url=url,
        list_path=list_path,
        get_path=get_path,
        names_field=names_field,
        name=name,
        next_field=(next_field,) if isinstance(next_field, str) else tuple(next_field),
        marker_param=marker_param,
        headers=header_pairs(headers),
        expect_type=expect_type,
        encode_slash=encode_slash,
        ca_file=ca_file,
        insecure=bool(insecure),
        allow_host=hosts(allow_host),
        pipeline=pipeline_depth(pipeline),
    )


def files(paths: Path | Iterable[Path], *, follow_links: bool = False) -> Files:
    """Describes files, for use as the source of `shoal.read` and `shoal.copy`.

    A path given to them stands for `files(path)`.

    Args:
        paths: A directory, all of whose files are meant, also those in directories below; a file; a glob (`*` stops at
            `/`, `**` does not); or an iterable of paths of files, which is held in memory. An object's name is its path
            below the directory, or below the part of a glob that has no pattern in it.
        follow_links: Read what symbolic links point to, and walk into the directories they point to. By default they
            are skipped and counted, as are devices, pipes and sockets.

    Returns:
        A value for `shoal.read` and `shoal.copy`.

    Raises:
        ConfigError: Something that is given is no path.

    Example:
        >>> shoal.files("photos/**/*.jpg", follow_links=True)
        files('photos/**/*.jpg', follow_links=True)
    """
    if isinstance(paths, str | os.PathLike):
        return Files(paths=_path_text(paths), follow_links=bool(follow_links))
    return Files(paths=tuple(_path_text(path) for path in paths), follow_links=bool(follow_links))


def archives(
    archives: Path | Iterable[Path],
    *,
    into_subdirectories: bool = False,
    encoding: str = "auto",
    backslashes: Backslashes = "refuse",
    max_size: Size | None = None,
    max_ratio: int = 100,
    max_entries: int = 1_000_000,
    max_depth: int = 100,
    allow_overlap: bool = False,
) -> Archives:
    """Describes archives whose entries are the objects, for use as the source of `shoal.copy` and `shoal.read`.

    The texts `"zip:PATTERN"` and `"tar:PATTERN"` given to them stand for `archives("zip:PATTERN")` and the same of tar.

    Args:
        archives: The path of an archive, a glob (`*` stops at `/`, `**` does not), or an iterable of such. Whether one
            is a zip or a tar (plain or compressed by gzip, zstd, xz or bzip2) is told by its first bytes; with
            `"zip:"` or `"tar:"` in front of a path or glob only that kind is taken.
        into_subdirectories: The entries of `photos.zip` get names below `photos/`. Without it all entries lie together,
            and a name that a second archive has too is a failure.
        encoding: What the names of entries are written in that do not say so themselves: `"auto"`, or the name of an
            encoding such as `"shift_jis"` or `"windows-1251"`.
        backslashes: What a backslash in a name is: `"refuse"` makes the entry a failure, `"separator"` makes it a `/`.
        max_size: Most bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_ratio: How many times its own size an archive may unpack to; looked at only beyond 64 MiB.
        max_entries: Most entries of one archive.
        max_depth: Most directories in which an entry may lie, one in another.
        allow_overlap: Read archives in which entries share bytes. Only bombs and a few broken programs make such.

    Returns:
        A value for `shoal.copy` and `shoal.read`.

    Raises:
        ConfigError: An argument is wrong.

    Example:
        >>> shoal.archives("photos-*.zip", into_subdirectories=True).into_subdirectories
        True
    """
    given = _path_text(archives) if isinstance(archives, str | os.PathLike) else tuple(map(_path_text, archives))
    options = archive_options(
        into_subdirectories=into_subdirectories,
        encoding=encoding,
        backslashes=backslashes,
        max_size=max_size,
        max_ratio=max_ratio,
        max_entries=max_entries,
        max_depth=max_depth,
        allow_overlap=allow_overlap,
    )
    return Archives(paths=given, **options)


def _path_text(path: Path) -> str:
    given: object = path  # typed callers give nothing else; others are told
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str) or not text:
        raise ConfigError(f"not the path of a file: {path!r}")
    if text.startswith(SERVICES):
        raise ConfigError(
            f"a URL where paths are expected: {without_secrets(text)!r}",
            hint="a list of URLs is no source yet; the URL of a list/get service is given alone, not in a list",
        )
    return text


F = TypeVar("F", bound=Callable[..., object])


def points_to_sources(function: F) -> F:
    """Makes the TypeError for an option of a source, such as `copy(url, out, list_path=…)`, say where it belongs."""

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        for describe, of in (("list_get", ListGetOptions), ("files", FilesOptions), ("archives", ArchiveOptions)):
            for name in options.keys() & of.__annotations__.keys():
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}: it is an option of the "
                    f"source, shoal.{describe}(…, {name}=…)"
                )
        return function(*args, **options)

    return cast("F", call)


def destination_text(destination: Path) -> str:
    """Returns a destination as text.

    Raises:
        ConfigError: It is no path.
    """
    given: object = destination  # typed callers give nothing else; others are told
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str):
        raise ConfigError(f"destination is not a path: {given!r}")
    return text


NO_PATHS = (bytes, bytearray, dict)  # iterable, but not of paths
SERVICES = ("http://", "https://")
FORMATS = ("zip:", "tar:")  # the engine knows what they mean


def source_options(source: Source) -> SourceOptions:
    """Returns what stands for a source, in the form that the binding takes.

    Raises:
        ConfigError: It is nothing that stands for a source.
    """
    text: str | None = None
    paths: tuple[str, ...] | None = None
    own_service, own_files, own_archives = list_get("http://localhost"), files("."), archives(".")
    entries = False
    given: object = source  # typed callers give nothing else; others are told
    if isinstance(given, ListGet):
        text, own_service = given.url, given
    elif isinstance(given, Archives):
        own_archives = given
        text, paths = (given.paths, None) if isinstance(given.paths, str) else (None, given.paths)
        entries = text is None or not text.startswith(FORMATS)
    elif isinstance(given, str) and given.startswith(SERVICES + FORMATS):
        text = given
    elif isinstance(given, Files | str | os.PathLike | Iterable) and type(given) not in NO_PATHS:
        own_files = given if isinstance(given, Files) else files(given)
        text, paths = (own_files.paths, None) if isinstance(own_files.paths, str) else (None, own_files.paths)
    else:
        raise ConfigError(
            "source is neither a URL, a path, paths, shoal.files(…), shoal.archives(…) nor shoal.list_get(…): "
            f"{type(given).__name__}"
        )
    return SourceOptions(
        text=text,
        paths=paths,
        entries=entries,
        list_get=own_service.options(),
        files={"follow_links": own_files.follow_links},
        archives=own_archives.options(),
    )


@points_to_sources
def copy(
    source: Source,
    destination: Path,
    *,
    include: Patterns = (),
    exclude: Patterns = (),
    overwrite: Overwrite = "never",
    layout: Layout = "names",
    keep_times: bool | None = None,
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    dry_run: bool = False,
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
) -> Report:
    """Copies every object of a source into a directory, and goes on where an earlier call was stopped.

    What was committed is kept in a journal inside the destination. The same call again does what is left; when nothing
    is left it returns at once, with `completed_before` set.

    Files and directories keep the permission bits of a source of files or archives, less the umask; set-id and sticky
    bits are dropped, and directories stay open to their owner. Objects of a service follow the umask. Empty directories
    are made; they count as skipped.

    Args:
        source: The URL of a list/get service, or `shoal.list_get(url, …)` for one with other paths and fields; or a
            directory, a file, a glob such as `"photos/**/*.jpg"`, an iterable of paths or `shoal.files(…)`; or the
            entries of archives: `"zip:*.zip"`, `"tar:*.tar.gz"`, `shoal.archives(…)`.
        destination: A directory (made if it is not there), or `"null:"` to count the bytes and drop them.
        include: Only names that match one of these patterns, which mean what they mean in `.gitignore`: `"*.json"`
            in any directory, `"/a/*.json"` in one, `"logs/"` all below. All rules: `docs/patterns.md`.
        exclude: No name that matches one of these, or lies below a directory that does; looked at after `include`.
        overwrite: What happens to a file that shoal did not write: `"never"` keeps it and counts a failure, `"always"`
            replaces it.
        layout: Where objects lie in a directory: `"names"` under their own names, `"partition"` under the number of
            their partition, such as `out/00/0012/34/name`: the fastest there is, at most 100 objects to a directory.
            Objects that had to be tried again later lie under `out/retried/`. A name that is listed twice is found
            only within a partition. Partitions are numbered by the listing, so a directory takes one job.
        keep_times: Give files the time at which the source says they were last changed, where it says so. By
            default those of files and archives, not of a service. Where those of a service were kept, an update asks
            it only for what has changed since.
        durability: When an object counts as done: `"batch"` after one barrier for many objects, `"file"` after a sync
            of each file, `"none"` as soon as it is in the page cache.
        journal: Where the journal lives, instead of inside the destination. This is how `"null:"` can have one.
        resume: What is done about earlier calls. `"auto"` goes on where the last one stopped; when that one was done
            but for failures, tries those again; when nothing is left, returns at once without a look at the source.
            `"failed"` tries only the failures again. `"relist"` lists from the start instead of from the journal's
            place, and skips what is committed. `"update"` lists everything and copies what is new or differs.
            `"restart"` copies everything anew. The last two may have other filters and another layout.
        dry_run: Copy nothing, and create nothing, not even the destination: the report says what would be copied.
        ignore_vanished: Count objects that were listed but are gone as skipped, not as failed.
        on_error: What failed objects mean. `"raise"` does all the rest first, then raises `ObjectsFailedError`;
            `"record"` returns the report, which says so; `"stop"` ends at the first and raises its exception. All
            write what failed to the journal.
        max_failures: Stop the run when more objects than this have failed.
        max_retries: How often one object is tried again.
        retry_timeout: Seconds for which one object is tried again, and for which a host may stay away.
        timeout: Seconds without a byte from the host after which a request counts as failed.
        connect_timeout: Seconds a connection may take to be made.
        workers: How many objects are worked on at once; `"auto"` finds the number from measured throughput.
        memory: Most bytes held in memory at once: a number, or text such as `"256MiB"`.
        limit_rate: Most bytes a second: a number, or text such as `"10MB"`.
        progress: True draws a line on standard error; a function is called with a `shoal.Progress` about ten times a
            second. An exception that it raises stops the run and is passed on.

    Returns:
        The report: `report.ok` says whether everything arrived.

    Raises:
        ConfigError: An argument is wrong.
        NotFoundError: The source that you named is not there (a `FileNotFoundError`).
        PermissionDeniedError: The source or the destination may not be opened (a `PermissionError`).
        ObjectsFailedError: Objects failed, in this call or an earlier one; all the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot go on (destination full, credentials, source unreachable); the same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact and the same call goes on.

        Those that end a run already begun carry what it had done as `.report`.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     report = shoal.copy(service.url, "out/")
        >>> report.written, report.bytes, report.ok
        (1000, 100000, True)
    """
    options = engine_options(
        workers=workers,
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        layout=layout,
        keep_times=keep_times,
        journal=journal,
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
        resume=resume,
        dry_run=dry_run,
    )
    where, target = source_options(source), destination_text(destination)
    with Watch(progress, lambda: f"copying {shown(where)} to {target}") as watch:
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
    """Starts a list/get service, in threads of this process.

    What a listing of a changing directory shows, and what a browser may ask, is in docs/serve.md.

    Args:
        directory: The directory whose files are served; never a path outside it.
        synthetic: `"COUNT:SIZE"`, served instead of a directory: COUNT objects `object-000000000`… of SIZE bytes each,
            whose content is their name and a newline, repeated.
        host: The address to listen on, in numbers, or `"localhost"`.
        port: The port to listen on; 0 takes a free one.
        page_size: Names on one page of the listing; a page of 1 MiB has as many as fit.
        access_log: A file to which one line for each request is added.
        allow_host: Names, without a port, under which the service may be asked too. On loopback it answers to
            `localhost` and loopback addresses, elsewhere to any address and to this machine's own names; a web page
            could reach it under any other name (DNS rebinding).

    Returns:
        The running service: `.url`, `.port`, `.stats`, `.stop()`. As a context manager it stops at the end of the
        block.

    Raises:
        ConfigError: Neither or both of `directory` and `synthetic` are given, or one of the arguments is wrong.
        RunError: The directory cannot be read, or the address cannot be listened on.

    Example:
        >>> with shoal.serve(synthetic="3:20") as service:
        ...     urllib.request.urlopen(f"{service.url}/get/object-000000002").read()[:16]
        b'object-000000002'
    """
    if (directory is None) == (synthetic is None):
        raise ConfigError("give either a directory or synthetic, not both and not neither")
    for value, least, most, option in ((port, 0, 65535, "port"), (page_size, 1, 1 << 31, "page_size")):
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"`{option}` is not a whole number from {least} to {most}: {value!r}")
    # The one name that means the same everywhere; any other would have to be looked up, and might mean several.
    address = "127.0.0.1" if host == "localhost" else host
    return _shoal.Server(directory, synthetic, address, port, page_size, access_log, hosts(allow_host))


def status(path: Path, *, failures: int | None = 100, skipped: int | None = 100) -> Status:
    """Reads what a journal says, without touching it; a run may be at work on it meanwhile.

    Args:
        path: The destination of a run, or the journal named with `journal=`.
        failures: How many failures of each run are read, the first ones; None reads all, and needs memory for them.
        skipped: How many names are read of what each run left out without being asked for (links, pipes, names met
            before), the first ones; None reads all that the journal has, 100,000 at the most.

    Returns:
        Who works on the destination, and for each run in its journal the counts, whether it is complete, failures with
        their reasons and the history of its rate.

    Raises:
        ConfigError: There is no journal, or `failures` or `skipped` is below 0.
        JournalError: It cannot be read.

    Example:
        >>> with shoal.serve(synthetic="10:10") as service:
        ...     _ = shoal.copy(service.url, "copied/")
        >>> shoal.status("copied/").runs[-1].total.written
        10
    """
    for name, count in (("failures", failures), ("skipped", skipped)):
        if count is not None and count < 0:
            raise ConfigError(f"{name} is below 0: {count}")
    shown = [sys.maxsize if count is None else count for count in (failures, skipped)]
    return _shoal.status(path, *shown)
