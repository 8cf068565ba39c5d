"""The functions that describe a source: archives, files, list_get, s3 and urls.

Not here: what they return (`_source_types.py`), the options themselves (the engine's).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._options import (
    SOURCES,
    Addressing,
    Archived,
    Backslashes,
    Decode,
    Headers,
    Links,
    ListFormat,
    PageForm,
    Path,
    Pipeline,
    Size,
    given,
    path_text,
)
from shoal._s3 import Credentials, keys_function
from shoal._source_types import (
    S3,
    Archives,
    Described,
    Files,
    ListGet,
    Parquet,
    Source,
    SourceForm,
    Urls,
    without_secrets,
)
from shoal._spooled import Spooled, UrlItem

NO_PATHS = (bytes, bytearray, dict)  # iterable, but not of paths
SERVICES = ("http://", "https://")


def list_get(
    url: str,
    *,
    # scripts/signatures.py writes these lines.
    list_path: str = "/list",
    get_path: str = "/get/{name}",
    names_field: str = "FileNames",
    list_format: ListFormat = "json",
    pages: PageForm = "marker",
    next_field: str | Sequence[str] = ("NextMarker", "NextFile"),
    page_param: str | None = None,
    first_page: int | None = None,
    name: str = "{name}",
    marker_param: str = "next-marker",
    encode_slash: bool = False,
    index: bool = False,
    headers: Headers = (),
    header_command: str | None = None,
    netrc: bool | Path = False,
    expect_type: str | None = None,
    require_length: bool = False,
    decode: Decode = "auto",
    allow_host: str | Sequence[str] = (),
    pipeline: Pipeline = "auto",
    ca_file: Path | None = None,
    insecure: bool = False,
    proxy: str | None = None,
    timeout: float = 30.0,
    connect_timeout: float = 10.0,
    max_retries: int = 10,
    retry_timeout: float = 180.0,
    # End.
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
        list_format: What a page of the listing is: one JSON value (`"json"`), a JSON value on each line for one name
            (`"jsonl"`; `names_field` is the field of each with the name, by default each is a name), or a name on each
            line (`"lines"`).
        pages: How the pages of the listing follow each other. `"marker"`: `next_field` has a marker, which is sent as
            `marker_param`. `"url"`: `next_field` has the URL of the next page. `"link"`: the header `Link` has it.
            `"header"`: the header that `next_field` names has the marker. `"number"` and `"offset"`: pages are counted
            in `page_param`, up to one without names. `"one"`: there is one page. A first page that would end the
            listing, although something in it looks as if there were more, is an error that names what it is.
        next_field: The field of a page that has the marker or the URL of the next one, or the path to it:
            `"paging.next.after"`. Of several, the first that exists. The listing ends at a page without it, or where it
            is null, false, 0, -1 or empty. For `pages="url"`, the usual names are tried by default; for
            `pages="header"`, it is the name of the header. `"none"` is the same as `pages="one"`.
        page_param: The query parameter for the number or the offset of a page. By default `page` or `offset`.
        first_page: The number or offset of the first page. By default, the first page is requested without one. Where
            pages are numbered, shoal then finds out whether they begin at 0 or 1.
        name: The name of an object at the destination, such as `"{name}.json"`. Patterns of `include` and `exclude`
            match this name.
        marker_param: The query parameter for the marker.
        encode_slash: Send `/` inside a name as `%2F`.
        index: The URL is a directory on a web server: shoal reads the pages on which the server lists its files, from
            this directory down, as nginx, Apache, lighttpd, Caddy and `python -m http.server` make them. Links to other
            places are not followed. A directory with a page that cannot be read is a failure; the same command tries it
            again.
        headers: Headers to send with every request, such as `{"Authorization": "Bearer …"}`; not to hosts that a
            redirect leads to. Or a function that returns such headers, or `(headers, expiry)` with a `datetime` or
            `timedelta`; it is called again when they expire or are refused (docs/services.md). Headers are kept out of
            the journal, of messages and of `repr`.
        header_command: A program and its arguments, which prints headers as lines `Name: value`, in addition to
            `headers`. It is run without a shell, for at most 60 seconds, and again when the headers are refused.
        netrc: Send the name and password that `$NETRC` or `~/.netrc` has for a host, or the file at this path. A
            password in the URL and a header `Authorization` replace them. An entry `default` is not used.
        expect_type: A pattern that the content type of an object must match, such as `"image/*"`; an answer of another
            type is a failure. `"*"` accepts every type. By default every type is accepted, with two exceptions. An HTML
            page, or JSON, is a failure if the name or the URL ends in the suffix of something else, such as `.jpg`. So
            is an HTML page of a list/get service after objects that were not HTML, unless its name ends in `.html` or
            the like.
        require_length: Fail objects whose answer does not say how long it is, instead of counting them as `unverified`:
            if such an answer is cut off, nothing tells.
        decode: What to do with bodies that are encoded (`Content-Encoding`), which shoal asks no service for. `"auto"`:
            a body is kept as it was sent, as browsers and curl do, if the suffix of the name or the URL, or the content
            type, is that of the encoding, such as `.gz` or `application/gzip`. Others are decoded if they are gzip or
            deflate, and fail if not. `"always"` decodes all; `"never"` keeps all as they were sent.
        allow_host: Other hosts (`"host"` or `"host:port"`) to which redirects and the URLs of next pages are followed,
            without your headers. By default a redirect of a service is followed only to the same scheme, host and port,
            and one of a public host of a list to any public host.
        pipeline: Whether to send requests before the earlier answers have arrived (HTTP pipelining). `"auto"`: only if
            each answer echoes its request's `Shoal-Request-Id`, as `shoal serve` does, so that answers cannot be mixed
            up. A number from 2 to 256: that many requests on one connection also without ids. shoal first compares at
            least 16 different objects at that depth, and then samples. This cannot find a service that answers out of
            order only now and then, so use it only for services known to answer in order. `"off"`: one request at a
            time, without ids.
        ca_file: A PEM file of certificates that are trusted in addition to those of the machine.
        insecure: Accept any certificate. Others on the network can then read and change everything, including headers;
            the report says so.
        proxy: The proxy for all requests: `"http://HOST:PORT"`, or with `USER:PASSWORD@` before the host. By default
            the variables `http_proxy`, `https_proxy` and `all_proxy` apply, but never for this machine itself. `"none"`
            uses no proxy. `no_proxy` applies always.
        timeout: Seconds without a byte from the host after which a request has failed.
        connect_timeout: Seconds after which an attempt to connect has failed.
        max_retries: How often to retry one object.
        retry_timeout: Seconds for which to retry one object, and for which a host may be unavailable.

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
    options = _shoal.checked("list_get", given(locals()))
    return ListGet(what=path_text(url, "list_get needs the URL of a service"), options=options)


def s3(
    url: str,
    *,
    credentials: Credentials | None = None,
    # scripts/signatures.py writes these lines.
    endpoint: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    anonymous: bool = False,
    requester_pays: bool = False,
    addressing: Addressing = "auto",
    archived: Archived = "fail",
    ca_file: Path | None = None,
    insecure: bool = False,
    proxy: str | None = None,
    timeout: float = 30.0,
    connect_timeout: float = 10.0,
    max_retries: int = 10,
    retry_timeout: float = 180.0,
    # End.
) -> S3:
    """Describes objects of S3, or of a store that speaks its protocol, for use as the source of `shoal.copy`.

    Keys and settings come from where the AWS command line has them, if botocore is installed (`shoal[s3]`): profiles,
    roles, SSO, containers, machines. Without it, from the environment and from keys in the profile files. The page
    "Object stores" of the documentation says more.

    Args:
        url: `s3://BUCKET` for all objects, `s3://BUCKET/PREFIX` for those below `PREFIX/`, named by what follows it, or
            a glob such as `s3://BUCKET/logs/2026-*/**/*.json`.
        credentials: The keys: `{"access_key": …, "secret_key": …, "token": …}`, where only temporary keys have a token;
            a function that returns them, or `(keys, expiry)` with a `datetime` or `timedelta`, which is called again
            when they expire; or a session of botocore or boto3. Keys are kept out of the journal, of messages and of
            `repr`.
        endpoint: The URL of the store, such as `"http://127.0.0.1:9000"`. By default that of the environment or the
            profile, else AWS.
        region: The region in which the bucket is. By default, AWS is asked for it; for other stores, the environment or
            the profile says it, or it is `"us-east-1"`.
        profile: The profile of the AWS configuration files that has the credentials and settings.
        anonymous: Send no credentials: for public buckets.
        requester_pays: Agree to pay for the requests and the transfer, which the owner of the bucket may demand.
        addressing: How requests name the bucket: in the `"path"`, or in the name of the host (`"virtual"`). `"auto"` is
            virtual at AWS if the name has no dots, and path elsewhere.
        archived: What to do about objects in an archive (GLACIER, DEEP_ARCHIVE) that are not restored. `"fail"`: each
            is a failure `archived`. `"skip"`: they are left out, and the report counts them.
        ca_file: A PEM file of certificates that are trusted in addition to those of the machine.
        insecure: Accept any certificate. Others on the network can then read and change everything, including headers;
            the report says so.
        proxy: The proxy for all requests: `"http://HOST:PORT"`, or with `USER:PASSWORD@` before the host. By default
            the variables `http_proxy`, `https_proxy` and `all_proxy` apply, but never for this machine itself. `"none"`
            uses no proxy. `no_proxy` applies always.
        timeout: Seconds without a byte from the host after which a request has failed.
        connect_timeout: Seconds after which an attempt to connect has failed.
        max_retries: How often to retry one object.
        retry_timeout: Seconds for which to retry one object, and for which a host may be unavailable.

    Returns:
        A source for `shoal.copy`.

    Raises:
        ConfigError: `credentials` is something else, or an option is not valid. `shoal.copy` raises errors that only a
            run can detect.

    Example:
        >>> frames = shoal.s3("s3://films/frames", endpoint="http://127.0.0.1:9000", anonymous=True)
        >>> frames.endpoint
        'http://127.0.0.1:9000'
    """
    arguments = given(locals())
    function = arguments.pop("credentials")
    options = _shoal.checked("s3", arguments)
    if function is not None:
        options["credentials"] = keys_function(function)
    return S3(what=path_text(url, "s3 needs the address of a bucket, s3://BUCKET/PREFIX"), options=options)


def urls(
    urls: Path | Iterable[UrlItem],
    *,
    # scripts/signatures.py writes these lines.
    url_field: str = "url",
    name_field: str | None = None,
    name: str = "{name}",
    per_host: int = 6,
    limit_requests: float | None = None,
    headers: Headers = (),
    header_command: str | None = None,
    netrc: bool | Path = False,
    expect_type: str | None = None,
    require_length: bool = False,
    decode: Decode = "auto",
    allow_host: str | Sequence[str] = (),
    pipeline: Pipeline = "auto",
    ca_file: Path | None = None,
    insecure: bool = False,
    proxy: str | None = None,
    timeout: float = 30.0,
    connect_timeout: float = 10.0,
    max_retries: int = 10,
    retry_timeout: float = 180.0,
    # End.
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
            the list, from 0), as in `"{host}/{path}"`, and columns or fields of the list, as in `"{shop}/{id}.jpg"`.
            Two objects with one name are a failure.
        per_host: Maximum number of connections to one host.
        limit_requests: Maximum number of requests per second to one host.
        headers: Headers to send with every request, such as `{"Authorization": "Bearer …"}`; not to hosts that a
            redirect leads to. Or a function that returns such headers, or `(headers, expiry)` with a `datetime` or
            `timedelta`; it is called again when they expire or are refused (docs/services.md). Headers are kept out of
            the journal, of messages and of `repr`.
        header_command: A program and its arguments, which prints headers as lines `Name: value`, in addition to
            `headers`. It is run without a shell, for at most 60 seconds, and again when the headers are refused.
        netrc: Send the name and password that `$NETRC` or `~/.netrc` has for a host, or the file at this path. A
            password in the URL and a header `Authorization` replace them. An entry `default` is not used.
        expect_type: A pattern that the content type of an object must match, such as `"image/*"`; an answer of another
            type is a failure. `"*"` accepts every type. By default every type is accepted, with two exceptions. An HTML
            page, or JSON, is a failure if the name or the URL ends in the suffix of something else, such as `.jpg`. So
            is an HTML page of a list/get service after objects that were not HTML, unless its name ends in `.html` or
            the like.
        require_length: Fail objects whose answer does not say how long it is, instead of counting them as `unverified`:
            if such an answer is cut off, nothing tells.
        decode: What to do with bodies that are encoded (`Content-Encoding`), which shoal asks no service for. `"auto"`:
            a body is kept as it was sent, as browsers and curl do, if the suffix of the name or the URL, or the content
            type, is that of the encoding, such as `.gz` or `application/gzip`. Others are decoded if they are gzip or
            deflate, and fail if not. `"always"` decodes all; `"never"` keeps all as they were sent.
        allow_host: Other hosts (`"host"` or `"host:port"`) to which redirects and the URLs of next pages are followed,
            without your headers. By default a redirect of a service is followed only to the same scheme, host and port,
            and one of a public host of a list to any public host.
        pipeline: Whether to send requests before the earlier answers have arrived (HTTP pipelining). `"auto"`: only if
            each answer echoes its request's `Shoal-Request-Id`, as `shoal serve` does, so that answers cannot be mixed
            up. A number from 2 to 256: that many requests on one connection also without ids. shoal first compares at
            least 16 different objects at that depth, and then samples. This cannot find a service that answers out of
            order only now and then, so use it only for services known to answer in order. `"off"`: one request at a
            time, without ids.
        ca_file: A PEM file of certificates that are trusted in addition to those of the machine.
        insecure: Accept any certificate. Others on the network can then read and change everything, including headers;
            the report says so.
        proxy: The proxy for all requests: `"http://HOST:PORT"`, or with `USER:PASSWORD@` before the host. By default
            the variables `http_proxy`, `https_proxy` and `all_proxy` apply, but never for this machine itself. `"none"`
            uses no proxy. `no_proxy` applies always.
        timeout: Seconds without a byte from the host after which a request has failed.
        connect_timeout: Seconds after which an attempt to connect has failed.
        max_retries: How often to retry one object.
        retry_timeout: Seconds for which to retry one object, and for which a host may be unavailable.

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
    options = _shoal.checked("urls", given(locals()))
    if isinstance(urls, str) and urls.startswith(SERVICES):
        raise ConfigError(
            f"a URL where a list is expected: {without_secrets(urls)!r}", hint="pass a path, or several URLs in a list"
        )
    if _are_several(urls):
        return Urls(what=Spooled(urls), options=options)
    return Urls(what=path_text(urls, "`urls` must be a path or an iterable of URLs"), options=options)


def files(
    paths: Path | Iterable[Path],
    *,
    # scripts/signatures.py writes these lines.
    links: Links | None = None,
    # End.
) -> Files:
    """Describes files, for use as the source of `shoal.read` and `shoal.copy`.

    Both take a path as `files(path)`.

    Args:
        paths: A directory with all files below it, a file, a glob (`*` stops at `/`, `**` does not), or an iterable of
            paths of files, which is held in memory. The name of an object is its path below the directory, or below the
            fixed part of a glob.
        links: What to do with symbolic links. `"copy"` copies them as links; it is the default into a directory.
            Elsewhere the default is to read the files that links lead to, and to skip links to directories. `"inside"`
            does the same, and a link to a file outside of the source is a failure. `"follow"` reads files and
            directories that links lead to. `"skip"` skips links. A link that is followed and leads to nothing is a
            failure, `"vanished"`.

    Returns:
        A source for `shoal.read` and `shoal.copy`.

    Raises:
        ConfigError: An argument is not a path.

    Example:
        >>> shoal.files("photos/**/*.jpg", links="follow")
        files('photos/**/*.jpg', links='follow')
    """
    options = _shoal.checked("files", given(locals()))
    return Files(what=_path_texts(paths, "paths"), options=options)


def archives(
    archives: Path | Iterable[Path],
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
    # End.
) -> Archives:
    """Describes archives, for use as the source of `shoal.copy` and `shoal.read`. Their entries are the objects.

    Both take the texts `"zip:PATTERN"` and `"tar:PATTERN"` as `archives("zip:PATTERN")` and `archives("tar:PATTERN")`.

    Args:
        archives: The path of an archive, a glob (`*` stops at `/`, `**` does not), or an iterable of these. The
            first bytes decide whether it is a zip or a tar (plain, or compressed by gzip, zstd, xz or bzip2); with
            the prefix `"zip:"` or `"tar:"`, only that kind is accepted.
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

    Returns:
        A source for `shoal.copy` and `shoal.read`.

    Raises:
        ConfigError: An argument is wrong.

    Example:
        >>> shoal.archives("photos-*.zip", into_subdirectories=True).into_subdirectories
        True
    """
    options = _shoal.checked("archives", given(locals()))
    return Archives(what=_path_texts(archives, "archives"), options=options)


def _are_several(given: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike, *NO_PATHS))


def _path_texts(paths: object, name: str) -> str | tuple[str, ...]:
    if _are_several(paths):
        return tuple(_path_text(path, name) for path in paths)
    return _path_text(paths, name)


def _path_text(path: object, name: str) -> str:
    text = path_text(path, f"`{name}` must be a path or an iterable of paths")
    if text.startswith(SERVICES):
        raise ConfigError(
            f"a URL where paths are expected: {without_secrets(text)!r}",
            hint="use shoal.urls(…) for URLs of objects; pass the URL of a list/get service by itself, not in a list",
        )
    return text


def source_form(source: Source) -> SourceForm:
    """Returns a source in the form that the binding takes.

    Raises:
        ConfigError: It is not a source.
    """
    if _are_several(source):
        source = files(source)
    if isinstance(source, Described) and source.function in SOURCES:
        return source.function, source.what, source.options
    if isinstance(source, Parquet):
        raise ConfigError("shoal.parquet(…) is a destination", hint=f'use "parquet:{source.what}" as the source')
    functions = ", ".join(f"shoal.{function}(…)" for function in SOURCES)
    return None, path_text(source, f"`source` must be a URL, a path, paths or one of {functions}"), {}
