"""The types of sources: what `shoal.list_get`, `files`, `archives` and `urls` return, and their forms for the binding.

Not here: those functions (`_sources.py`), the options of a run (`_options.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict, TypeVar, cast

from shoal._options import Backslashes, Path, Pipeline
from shoal._spooled import Spooled
from shoal._value import Value

UrlFormat = Literal["lines", "items", "csv", "tsv", "jsonl", "parquet"]


class FilesOptions(TypedDict):
    """The binding's options for files."""

    follow_links: bool


class ArchiveOptions(TypedDict):
    """The binding's options for archives; sizes in bytes."""

    into_subdirectories: bool
    encoding: str
    backslashes: Backslashes
    max_size: int | None
    max_ratio: int
    max_entries: int
    max_depth: int
    allow_overlap: bool


class SourceOptions(TypedDict):
    """The binding's description of a source: a text or paths, and the options of each kind."""

    text: str | None
    paths: tuple[str, ...] | None
    entries: bool  # of archives of any format, at `text` or `paths`
    urls: UrlsOptions | None
    list_get: ListGetOptions
    files: FilesOptions
    archives: ArchiveOptions


class ListGetOptions(TypedDict):
    """The binding's options for a list/get service."""

    list_path: str
    get_path: str
    names_field: str
    name: str
    next_field: tuple[str, ...]
    marker_param: str
    headers: tuple[tuple[str, str], ...]
    expect_type: str | None
    require_length: bool
    encode_slash: bool
    ca_file: Path | None
    insecure: bool
    allow_host: tuple[str, ...]
    pipeline: Pipeline


class UrlsOptions(TypedDict):
    """The binding's options for a list of URLs; without a path, it is on standard input."""

    list: str | None
    identity: str | None
    format: UrlFormat
    url_field: str
    name_field: str | None
    name: str
    per_host: int
    limit_requests: float | None
    headers: tuple[tuple[str, str], ...]
    expect_type: str | None
    require_length: bool
    ca_file: Path | None
    insecure: bool
    allow_host: tuple[str, ...]
    pipeline: Pipeline


T = TypeVar("T")


def options_of(source: Value, form: type[T]) -> T:
    """Returns a source's values in a form that the binding takes, which has the same names."""
    return cast("T", {field: getattr(source, field) for field in form.__annotations__})


class ListGet(Value):
    """A list/get service with its options; returned by `shoal.list_get`. Its `repr` shows no secrets."""

    url: str
    list_path: str
    get_path: str
    names_field: str
    name: str
    next_field: tuple[str, ...]
    marker_param: str
    headers: tuple[tuple[str, str], ...]
    expect_type: str | None
    require_length: bool
    encode_slash: bool
    ca_file: Path | None
    insecure: bool
    allow_host: tuple[str, ...]
    pipeline: Pipeline

    def __repr__(self) -> str:
        """Shows every value except those of headers and the password of the URL."""
        shown = [repr(without_secrets(self.url))]
        for field in ListGetOptions.__annotations__:
            value = getattr(self, field)
            shown.append(f"{field}={[f'{name}: ***' for name, _ in value] if field == 'headers' else value!r}")
        return f"list_get({', '.join(shown)})"

    def options(self) -> ListGetOptions:
        """Returns the form that the binding takes."""
        return options_of(self, ListGetOptions)


class Files(Value):
    """Files with their options; returned by `shoal.files`."""

    paths: str | tuple[str, ...]
    follow_links: bool

    def __repr__(self) -> str:
        """Shows every value, and of many paths only their number."""
        what = repr(self.paths) if isinstance(self.paths, str) else f"({len(self.paths):,} paths)"
        return f"files({what}, follow_links={self.follow_links})"


class Archives(Value):
    """Archives with their options; returned by `shoal.archives`."""

    paths: str | tuple[str, ...]
    into_subdirectories: bool
    encoding: str
    backslashes: Backslashes
    max_size: int | None
    max_ratio: int
    max_entries: int
    max_depth: int
    allow_overlap: bool

    def __repr__(self) -> str:
        """Shows every value, and of many paths only their number."""
        what = repr(self.paths) if isinstance(self.paths, str) else f"({len(self.paths):,} paths)"
        shown = (f"{field}={getattr(self, field)!r}" for field in ArchiveOptions.__annotations__)
        return f"archives({what}, {', '.join(shown)})"

    def options(self) -> ArchiveOptions:
        """Returns the form that the binding takes."""
        return options_of(self, ArchiveOptions)


class Urls(Value):
    """A list of URLs with its options; returned by `shoal.urls`. Its `repr` shows no URL and no secrets."""

    list: str | Spooled
    url_field: str
    name_field: str | None
    name: str
    per_host: int
    limit_requests: float | None
    headers: tuple[tuple[str, str], ...]
    expect_type: str | None
    require_length: bool
    ca_file: Path | None
    insecure: bool
    allow_host: tuple[str, ...]
    pipeline: Pipeline

    def __repr__(self) -> str:
        """Shows every value except those of headers, and of URLs that were passed only their number."""
        shown = [repr(self.list)]
        for field in list(Urls.__annotations__)[1:]:
            value = getattr(self, field)
            shown.append(f"{field}={[f'{name}: ***' for name, _ in value] if field == 'headers' else value!r}")
        return f"urls({', '.join(shown)})"

    def options(self) -> UrlsOptions:
        """Returns the form that the binding takes."""
        path = self.list.path if isinstance(self.list, Spooled) else self.list
        own = {field: getattr(self, field) for field in Urls.__annotations__}
        own["list"] = None if path == "-" else path
        own["identity"] = self.list.identity if isinstance(self.list, Spooled) else None
        own["format"] = "items" if own["identity"] else url_format(path)
        return cast("UrlsOptions", own)


# The format of a list by the end of its name; others are plain lines.
URL_FORMATS: dict[str, UrlFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def url_format(path: str) -> UrlFormat:
    """Returns the format of a list of URLs, by the end of its name."""
    return next((kind for end, kind in URL_FORMATS.items() if path.lower().endswith(end)), "lines")


Source = Path | ListGet | Files | Archives | Urls | Iterable[Path]


def without_secrets(url: str) -> str:
    """Returns a URL without user, password, query and fragment."""
    from urllib.parse import urlsplit, urlunsplit  # imported here: it takes a tenth of the time of `import shoal`

    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    host = parts.netloc.rpartition("@")[2]
    if not parts.scheme or not parts.netloc:
        return url.partition("?")[0]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
