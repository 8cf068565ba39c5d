"""The functions archives, copy, files, list_get, serve, status, urls. Each validates its arguments, calls the engine.

Not here: the effect of an option in the engine (its `options.rs`), the result types (`_report.py`).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._options import (
    MEMORY,
    SHARD_AGE,
    SHARD_SIZE,
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
    Part,
    Path,
    Patterns,
    Pipeline,
    ProgressOption,
    Resume,
    Size,
    Source,
    SourceOptions,
    Urls,
    UrlsOptions,
    Workers,
    archive_options,
    at_least_one,
    check_url_list,
    engine_options,
    header_pairs,
    hosts,
    per_second,
    pipeline_depth,
    without_secrets,
)
from shoal._spooled import Spooled, UrlItem
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
    with the bytes of an object. `shoal.copy` takes a plain URL as `list_get(url)`.

    Args:
        url: The address of the service: `http://host:port` or `https://host:port`, with a base path if it has one.
        list_path: The path of the listing.
        get_path: The path of an object; `{name}` is replaced by its name.
        names_field: The field of a page with the names, an array of strings or whole numbers. For a list of objects,
            the path to the name in each: `"data[].id"`, `"result.files[].path"`. For a page that is an array itself:
            `"[]"`, `"[].id"`.
        name: The name of an object at the destination, such as `"{name}.json"`. Patterns of `include` and `exclude`
            match this name.
        next_field: The field of a page with the marker of the next one; of several, the first that exists. `"none"` if
            there is no next page. A page without the field ends the listing. If another of its fields looks like a next
            page (`cursor`, `IsTruncated`, …), that is an error that names the field.
        marker_param: The query parameter for the marker.
        headers: Headers to send with every request, such as `{"Authorization": "Bearer …"}`. They are kept out of the
            journal, of messages and of `repr`.
        expect_type: A pattern that the content type of an object must match, such as `"image/*"`; an answer of another
            type is a failure. `"*"` accepts every type. By default every type is accepted, with one exception: an HTML
            page after objects that were not HTML is a failure, unless its name ends in `.html`, `.htm` or `.xhtml`.
        encode_slash: Send `/` inside a name as `%2F`.
        ca_file: A PEM file of certificates that are trusted in addition to those of the machine.
        insecure: Accept any certificate. Others on the network can then read and change everything, including
            headers; the report says so.
        allow_host: Other hosts (`"host"` or `"host:port"`) to which redirects are followed, without your headers. By
            default a redirect is followed only to the same scheme, host and port.
        pipeline: Whether to send requests before the earlier answers have arrived (HTTP pipelining). `"auto"`: only if
            each answer echoes its request's `Shoal-Request-Id`, as `shoal serve` does, so that answers cannot be mixed
            up. A number from 2 to 256: that many requests on one connection also without ids. shoal first compares at
            least 16 different objects at that depth, and then samples. This cannot find a service that answers out of
            order only now and then, so use it only for services known to answer in order. `"off"`: one request at a
            time, without ids.

    Returns:
        A source for `shoal.copy`.

    Raises:
        ConfigError: A header, a host or `pipeline` is not valid. `shoal.copy` raises errors that only a run can detect
            (a path without `{name}`, a `name` that is not safe).

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


def urls(
    urls: Path | Iterable[UrlItem],
    *,
    url_field: str = "url",
    name_field: str | None = None,
    name: str = "{name}",
    per_host: int = 6,
    limit_requests: float | None = None,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    expect_type: str | None = None,
    ca_file: Path | None = None,
    insecure: bool = False,
    allow_host: str | Sequence[str] = (),
    pipeline: Pipeline = "auto",
) -> Urls:
    """Describes a list of URLs, for use as the source of `shoal.copy` and `shoal.read`.

    `docs/urls.md` has the rules for names, hosts and redirects. A line that is not a URL is a failure.

    Args:
        urls: The path of the list, `"-"` for standard input, or an iterable of URLs or of pairs `(name, url)`, which
            are kept in a temporary file. A list is a file with a URL on each line, or a name, a tab and a URL. Lines
            that are empty or begin with `#` are skipped. Files that end in `.csv`, `.tsv`, `.jsonl`, `.ndjson` or
            `.parquet` have columns or fields.
        url_field: The column or field with the URL.
        name_field: The column or field with the name of the object, if the list has one.
        name: The name of an object at the destination: `"{name}"` is the one in the list, or else the path of the URL,
            decoded. Also `"{path}"`, `"{host}"`, `"{hash}"` (of the URL), `"{index}"` and `"{index:09d}"` (the place in
            the list, from 0), as in `"{host}/{path}"`. Two objects with one name are a failure.
        per_host: Maximum number of connections to one host.
        limit_requests: Maximum number of requests per second to one host.
        headers: Headers to send with every request to a host of the list, but not to one that a redirect leads to.
        expect_type: A pattern that the content type of an object must match, such as `"image/*"`; an answer of another
            type is a failure.
        ca_file: A PEM file of certificates that are trusted in addition to those of the machine.
        insecure: Accept any certificate. Others on the network can then read and change everything.
        allow_host: Private hosts (`"host"` or `"host:port"`) to which redirects from public hosts are followed. The
            list itself may name private hosts.
        pipeline: Whether to send requests before the earlier answers have arrived; see `shoal.list_get`.

    Returns:
        A source for `shoal.copy` and `shoal.read`.

    Raises:
        ConfigError: An argument is wrong. `shoal.copy` raises errors that only a run can detect.

    Example:
        >>> with shoal.serve(synthetic="3:20") as service:
        ...     pages = shoal.urls(f"{service.url}/get/object-00000000{n}" for n in range(3))
        ...     report = shoal.copy(pages, "pages/")
        >>> report.written
        3
    """
    check_url_list(url_field=url_field, name_field=name_field, name=name)
    given: object = urls  # typed callers pass nothing else; others get an error
    if not isinstance(given, str | os.PathLike | Iterable) or type(given) in NO_PATHS:
        raise ConfigError(f"a list of URLs must be a path or an iterable of URLs, got {type(given).__name__}")
    if isinstance(urls, str) and urls.startswith(SERVICES):
        raise ConfigError(
            f"a URL where a list is expected: {without_secrets(urls)!r}", hint="pass a path, or several URLs in a list"
        )
    return Urls(
        list=_path_text(urls) if isinstance(urls, str | os.PathLike) else Spooled(urls),
        url_field=url_field,
        name_field=name_field,
        name=name,
        per_host=at_least_one(per_host, "per_host"),
        limit_requests=per_second(limit_requests, "limit_requests"),
        headers=header_pairs(headers),
        expect_type=expect_type,
        ca_file=ca_file,
        insecure=bool(insecure),
        allow_host=hosts(allow_host),
        pipeline=pipeline_depth(pipeline),
    )


def files(paths: Path | Iterable[Path], *, follow_links: bool = False) -> Files:
    """Describes files, for use as the source of `shoal.read` and `shoal.copy`.

    Both take a path as `files(path)`.

    Args:
        paths: A directory with all files below it, a file, a glob (`*` stops at `/`, `**` does not), or an iterable of
            paths of files, which is held in memory. The name of an object is its path below the directory, or below the
            fixed part of a glob.
        follow_links: Follow symbolic links to files and directories. By default they are skipped and counted, like
            devices, pipes and sockets.

    Returns:
        A source for `shoal.read` and `shoal.copy`.

    Raises:
        ConfigError: An argument is not a path.

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

    Both take the texts `"zip:PATTERN"` and `"tar:PATTERN"` as `archives("zip:PATTERN")` and `archives("tar:PATTERN")`.

    Args:
        archives: The path of an archive, a glob (`*` stops at `/`, `**` does not), or an iterable of these. The
            first bytes decide whether it is a zip or a tar (plain, or compressed by gzip, zstd, xz or bzip2); with
            the prefix `"zip:"` or `"tar:"`, only that kind is accepted.
        into_subdirectories: Put the entries of `photos.zip` below `photos/`. By default all archives share one
            directory, and a name that a second archive has too is a failure.
        encoding: Encoding of entry names that are not marked as UTF-8: `"auto"`, or the name of an encoding such as
            `"shift_jis"` or `"windows-1251"`.
        backslashes: What to do with a backslash in a name: `"refuse"` makes the entry a failure, `"separator"` reads it
            as `/`.
        max_size: Maximum bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_ratio: How many times its own size an archive may unpack to; checked only beyond 64 MiB.
        max_entries: Maximum number of entries in one archive.
        max_depth: Maximum number of parts in the name of an entry; the file's own name is one.
        allow_overlap: Accept archives in which entries share bytes. Only zip bombs and a few faulty programs make them.

    Returns:
        A source for `shoal.copy` and `shoal.read`.

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
    given: object = path  # typed callers pass nothing else; others get an error
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str) or not text:
        raise ConfigError(f"not the path of a file: {path!r}")
    if text.startswith(SERVICES):
        raise ConfigError(
            f"a URL where paths are expected: {without_secrets(text)!r}",
            hint="use shoal.urls(…) for URLs of objects; pass the URL of a list/get service by itself, not in a list",
        )
    return text


F = TypeVar("F", bound=Callable[..., object])


def points_to_sources(function: F) -> F:
    """Makes the TypeError for an option of a source, such as `copy(url, out, list_path=…)`, name the right function."""

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        for describe, of in (
            ("list_get", ListGetOptions),
            ("files", FilesOptions),
            ("archives", ArchiveOptions),
            ("urls", UrlsOptions),
        ):
            for name in options.keys() & of.__annotations__.keys():
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}: it is an option of the "
                    f"source, shoal.{describe}(…, {name}=…)"
                )
        return function(*args, **options)

    return cast("F", call)


def on_clusters(function: F) -> F:
    """Lets a function run the parts of its job on a cluster, if `cluster` is given."""

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        if options.get("cluster") is not None:
            from shoal._cluster import Job, run  # imported here: `import shoal` must be fast

            return run(Job(cast("Any", function), args, options))
        if options.get("parts") is not None:
            raise ConfigError("`parts` needs `cluster`", hint="for one part of a job, use `part`")
        return function(*args, **options)

    return cast("F", call)


def destination_text(destination: Path) -> str:
    """Returns a destination as text.

    Raises:
        ConfigError: It is not a path.
    """
    given: object = destination  # typed callers pass nothing else; others get an error
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str):
        raise ConfigError(f"`destination` must be a path, got {given!r}")
    return text


NO_PATHS = (bytes, bytearray, dict)  # iterable, but not of paths
SERVICES = ("http://", "https://")
ARCHIVE_FORMATS = ("zip:", "tar:")  # the engine interprets them
FORMATS = (*ARCHIVE_FORMATS, "parquet:")  # the binding interprets the last


def source_options(source: Source) -> SourceOptions:
    """Returns a source in the form that the binding takes.

    Raises:
        ConfigError: It is not a source.
    """
    text: str | None = None
    paths: tuple[str, ...] | None = None
    own_service, own_files, own_archives = list_get("http://localhost"), files("."), archives(".")
    entries, url_list = False, None
    given: object = source  # typed callers pass nothing else; others get an error
    if isinstance(given, ListGet):
        text, own_service = given.url, given
    elif isinstance(given, Urls):
        text = given.list if isinstance(given.list, str) else repr(given.list)
        url_list = given.options()
    elif isinstance(given, Archives):
        own_archives = given
        text, paths = (given.paths, None) if isinstance(given.paths, str) else (None, given.paths)
        entries = text is None or not text.startswith(ARCHIVE_FORMATS)
    elif isinstance(given, str) and given.startswith(SERVICES + FORMATS):
        text = given
    elif isinstance(given, Files | str | os.PathLike | Iterable) and type(given) not in NO_PATHS:
        own_files = given if isinstance(given, Files) else files(given)
        text, paths = (own_files.paths, None) if isinstance(own_files.paths, str) else (None, own_files.paths)
    else:
        raise ConfigError(
            "source must be a URL, a path, paths, shoal.files(…), shoal.archives(…), shoal.urls(…) or "
            f"shoal.list_get(…), got {type(given).__name__}"
        )
    return SourceOptions(
        text=text,
        paths=paths,
        entries=entries,
        urls=url_list,
        list_get=own_service.options(),
        files={"follow_links": own_files.follow_links},
        archives=own_archives.options(),
    )


@points_to_sources
@on_clusters
def copy(
    source: Source,
    destination: Path,
    *,
    include: Patterns = (),
    exclude: Patterns = (),
    overwrite: Overwrite = "never",
    layout: Layout = "names",
    keep_times: bool | None = None,
    shard_size: Size = SHARD_SIZE,
    shard_age: float = SHARD_AGE,
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    dry_run: bool = False,
    part: Part | None = None,
    cluster: str | None = None,  # noqa: ARG001  # `on_clusters` runs it
    parts: int | None = None,  # noqa: ARG001  # likewise
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
        layout: Paths of the files: `"names"` uses the names, `"partition"` the number of the partition, such as
            `out/00/0012/34/name`, with at most 100 files per directory, which is fastest. Objects that were retried
            later are below `out/retried/`. Duplicate names are found only within a partition. The listing numbers the
            partitions, so a directory can have only one job.
        keep_times: Set the modification time that the source has for a file, if it has one. By default for files and
            archives, not for a service. If the times of a service were kept, an update fetches only what has changed
            since.
        shard_size: Of `parquet:DIR`: about how many bytes a file has, as a number or text such as `"128MiB"`.
        shard_age: Of `parquet:DIR`: seconds after which a file is finished although it is smaller.
        durability: When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of
            each file, `"none"` as soon as it is in the page cache.
        journal: Path of the journal, if it is not to be inside the destination. `"null:"` has a journal only with this.
        resume: How to use the journal of earlier calls. `"auto"` continues where the last call stopped. If only
            failures are left, it retries them; if nothing is left, it returns at once without listing the source.
            `"failed"` retries only the failures. `"relist"` lists from the start and skips what is committed.
            `"update"` lists everything and copies what is new or differs. `"restart"` copies everything
            again. The last two accept other filters and another layout.
        dry_run: Copy nothing and create nothing, not even the destination. The report has what would be copied.
        part: `(index, count)`: do only this part of the job, such as `(3, 16)`, so that several processes or machines
            share it. Parts count from 0. Each has a journal of its own in the destination; `docs/clusters.md` has the
            rules.
        cluster: `"ray"`, or the address of a Ray cluster as `"ray://HOST:PORT"`: run all parts of the job there
            (`docs/clusters.md`). Needs `pip install "shoal[ray]"`.
        parts: With `cluster`, the number of parts; by default eight for each that can run at once.
        ignore_vanished: Count objects that were listed but are gone as skipped, not as failed.
        on_error: What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`;
            `"record"` returns the report, which has the failures; `"stop"` ends at the first failure and raises its
            exception. All of them record failures in the journal.
        max_failures: Stop the run when more objects than this have failed.
        max_retries: How often to retry one object.
        retry_timeout: Seconds for which to retry one object, and for which a host may be unavailable.
        timeout: Seconds without a byte from the host after which a request has failed.
        connect_timeout: Seconds after which an attempt to connect has failed.
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
        NotFoundError: The source does not exist (a `FileNotFoundError`).
        PermissionDeniedError: No permission to open the source or the destination (a `PermissionError`).
        ObjectsFailedError: Objects failed, in this call or an earlier one, and the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot continue (destination full, credentials, source unreachable); the same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact, and the same call resumes the run.

    Note:
        An exception that ends a started run has the report so far as `.report`.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     report = shoal.copy(service.url, "out/")
        >>> report.written, report.bytes, report.ok
        (1000, 100000, True)
    """
    options = engine_options(
        workers=workers,
        nice=nice,
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        layout=layout,
        keep_times=keep_times,
        shard_size=shard_size,
        shard_age=shard_age,
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
        part=part,
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
    for value, least, most, option in ((port, 0, 65535, "port"), (page_size, 1, 1 << 31, "page_size")):
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"`{option}` must be a whole number from {least} to {most}, got {value!r}")
    # The only name that is the same everywhere; any other would need a lookup, and may have several addresses.
    address = "127.0.0.1" if host == "localhost" else host
    return _shoal.Server(directory, synthetic, address, port, page_size, access_log, hosts(allow_host))


def status(path: Path, *, failures: int | None = 100, skipped: int | None = 100) -> Status:
    """Reads a journal without changing it; a run may be in progress.

    Args:
        path: The destination of a run (`"parquet:DIR"` too), or the path given as `journal=`.
        failures: How many failures of each run to read; None reads all of them into memory.
        skipped: How many names of skipped links, pipes and duplicates to read for each run; None reads all that the
            journal has, at most 100,000.

    Returns:
        The process that works on the destination, and for each run in its journal the counts, whether it is complete,
        failures with their reasons, and the rate over time. Of a job in parts (`part=`), each part with its run;
        `.complete` is true only if all parts are.

    Raises:
        ConfigError: There is no journal, or `failures` or `skipped` is negative.
        JournalError: The journal cannot be read.

    Example:
        >>> with shoal.serve(synthetic="10:10") as service:
        ...     _ = shoal.copy(service.url, "copied/")
        >>> shoal.status("copied/").runs[-1].total.written
        10
    """
    for name, count in (("failures", failures), ("skipped", skipped)):
        if count is not None and count < 0:
            raise ConfigError(f"`{name}` must not be negative, got {count}")
    if isinstance(path, str):
        path = path.removeprefix("parquet:")
    shown = [sys.maxsize if count is None else count for count in (failures, skipped)]
    return _shoal.status(path, *shown)
