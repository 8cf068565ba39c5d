"""What the functions that describe a source or a destination return, such as `shoal.list_get`.

Not here: those functions (`_sources.py`, `_destinations.py`), the options themselves (the engine's).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal._options import Path, tables
from shoal._spooled import Spooled
from shoal._value import Value


class Described(Value):
    """A source or a destination with its options, which are attributes too. Its `repr` shows no secrets."""

    what: str | tuple[str, ...] | Spooled
    options: dict[str, Any]
    function: str = ""  # describes it; the table of its options has the same name

    def __getattr__(self, name: str) -> Any:
        """Returns an option.

        Raises:
            AttributeError: There is no such option.
        """
        try:
            return self.__dict__["options"][name]
        except KeyError:
            raise AttributeError(f"{self.function}(…) has no option {name!r}") from None

    def __repr__(self) -> str:
        """Shows every option except the values of secrets, and of many paths only their number."""
        if isinstance(self.what, str):
            what = repr(without_secrets(self.what) if "://" in self.what else self.what)
        else:
            what = f"({len(self.what):,} paths)" if isinstance(self.what, tuple) else repr(self.what)
        secret = {option["name"] for option in tables()[self.function] if option["secret"]} | {"credentials"}
        shown = (f"{name}={_hidden(value) if name in secret else repr(value)}" for name, value in self.options.items())
        return f"{self.function}({', '.join((what, *shown))})"


def _hidden(value: object) -> str:
    """Shows what a secret is, and the names of headers."""
    if isinstance(value, tuple):
        return repr([f"{key}: ***" for key, _ in value])
    return repr(value if value is None else "***")


class ListGet(Described):
    """A list/get service; returned by `shoal.list_get`."""

    what: str
    options: dict[str, Any]
    function = "list_get"


class S3(Described):
    """Objects of a store; returned by `shoal.s3`."""

    what: str
    options: dict[str, Any]
    function = "s3"


class Files(Described):
    """Files; returned by `shoal.files`."""

    what: str | tuple[str, ...]
    options: dict[str, Any]
    function = "files"


class Archives(Described):
    """Archives; returned by `shoal.archives`."""

    what: str | tuple[str, ...]
    options: dict[str, Any]
    function = "archives"


class Urls(Described):
    """A list of URLs; returned by `shoal.urls`."""

    what: str | Spooled
    options: dict[str, Any]
    function = "urls"


class Parquet(Described):
    """Parquet files as a destination; returned by `shoal.parquet`."""

    what: str
    options: dict[str, Any]
    function = "parquet"


Source = Path | ListGet | S3 | Files | Archives | Urls | Iterable[Path]
Destination = Path | Parquet
# The binding's forms: function, what and options of a source; text and options of a destination.
SourceForm = tuple[str | None, str | tuple[str, ...] | Spooled, dict[str, Any]]
DestinationForm = tuple[str, dict[str, Any]]


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
