"""The functions that describe a source: archives, files, list_get and urls. Each validates its arguments.

Not here: what they return (`_source_types.py`), the checks that options of a run share (`_options.py`).
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast, get_args

from shoal._errors import ConfigError
from shoal._options import (
    Backslashes,
    Path,
    Pipeline,
    Size,
    at_least_one,
    check_url_list,
    header_pairs,
    hosts,
    one_of,
    parse_size,
    per_second,
    pipeline_depth,
)
from shoal._source_types import (
    ArchiveOptions,
    Archives,
    Files,
    FilesOptions,
    ListGet,
    ListGetOptions,
    Source,
    SourceOptions,
    Urls,
    UrlsOptions,
    without_secrets,
)
from shoal._spooled import Spooled, UrlItem

NO_PATHS = (bytes, bytearray, dict)  # iterable, but not of paths
SERVICES = ("http://", "https://")
ARCHIVE_FORMATS = ("zip:", "tar:")  # the engine interprets them
FORMATS = (*ARCHIVE_FORMATS, "parquet:")  # the binding interprets the last


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
    require_length: bool = False,
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
        get_path: The path of an object; `{name}`, which it has once, is replaced by its name.
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
        require_length: Fail objects whose answer does not say how long it is, instead of counting them as
            `unverified`: if such an answer is cut off, nothing tells.
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
        require_length=bool(require_length),
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
    require_length: bool = False,
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
        require_length: Fail objects whose answer does not say how long it is; see `shoal.list_get`.
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
        require_length=bool(require_length),
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
            devices, pipes and sockets. A link with a target that does not exist is always skipped. One with a target
            that cannot be looked at is a failure.

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
    """Describes archives, for use as the source of `shoal.copy` and `shoal.read`. Their entries are the objects.

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


def archive_options(
    *,
    into_subdirectories: bool,
    encoding: str,
    backslashes: Backslashes,
    max_size: Size | None,
    max_ratio: int,
    max_entries: int,
    max_depth: int,
    allow_overlap: bool,
) -> ArchiveOptions:
    """Validates the options of archives and returns them in the form that the binding takes.

    Raises:
        ConfigError: A value is not valid. The engine checks the encoding.
    """
    one_of(backslashes, get_args(Backslashes), "backslashes")
    if type(encoding) is not str or not encoding:
        raise ConfigError(f"`encoding` must be 'auto' or the name of an encoding, got {encoding!r}")
    return ArchiveOptions(
        into_subdirectories=bool(into_subdirectories),
        encoding=encoding,
        backslashes=backslashes,
        max_size=None if max_size is None else parse_size(max_size, "max_size"),
        max_ratio=at_least_one(max_ratio, "max_ratio"),
        max_entries=at_least_one(max_entries, "max_entries"),
        max_depth=at_least_one(max_depth, "max_depth"),
        allow_overlap=bool(allow_overlap),
    )


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


F = TypeVar("F", bound=Callable[..., object])

# Options of sources, and where they are.
OF_SOURCES = {
    name: f"it is an option of the source, shoal.{describe}(…, {name}=…)"
    for describe, of in reversed(
        [("list_get", ListGetOptions), ("files", FilesOptions), ("archives", ArchiveOptions), ("urls", UrlsOptions)]
    )
    for name in of.__annotations__
}
# Options that functions with a destination had, and what to write instead.
GONE = {"layout": 'to pack objects into few files, use the destination "parquet:DIR"'}


def points_elsewhere(function: F) -> F:
    """Makes the TypeError for an option that is elsewhere, such as `copy(url, out, list_path=…)`, say where."""
    own = inspect.signature(function).parameters
    elsewhere = (OF_SOURCES if "source" in own else {}) | (GONE if "destination" in own else {})

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        for name in options.keys() & elsewhere.keys() - own.keys():
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}: {elsewhere[name]}")
        return function(*args, **options)

    return cast("F", call)
