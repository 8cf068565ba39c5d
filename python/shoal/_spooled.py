"""`Spooled`: the URLs of an iterable, in a temporary file, so that memory stays flat however many there are.

Not here: lists in files (the engine reads them).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from shoal._errors import ConfigError

UrlItem = str | tuple[str, str]

PICKLED_MAX = 64 << 20  # bytes: a pickle is held in memory, and sent to each process


class Spooled:
    """URLs in a temporary file without a name, which is gone when this object is."""

    def __init__(self, items: Iterable[UrlItem]) -> None:
        """Writes all items.

        Raises:
            ConfigError: An item is neither a URL nor a pair of a name and a URL.
        """
        import hashlib  # imported here: few programs need them
        import tempfile

        digest = hashlib.sha256()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as this object
        self.count = 0
        for item in items:
            line = _line(item, self.count).encode("utf-8", "surrogateescape")
            digest.update(line)
            self._file.write(line)
            self.count += 1
        self._file.flush()
        self.identity = f"items#{digest.hexdigest()[:32]}"
        self.path = f"/proc/self/fd/{self._file.fileno()}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the URLs, for another process.

        Raises:
            TypeError: They are too many.
        """
        if (size := os.fstat(self._file.fileno()).st_size) > PICKLED_MAX:
            raise TypeError(
                f"a list of URLs of {size:,} bytes cannot be pickled, at most {PICKLED_MAX:,} bytes can: write it to a "
                "file, and pass its path to `shoal.urls`"
            )
        text = os.pread(self._file.fileno(), size, 0).decode("utf-8", "surrogateescape")
        return Spooled, ([tuple(line.split("\t")) for line in text.split("\n")[:-1]],)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same URLs in the same order."""
        return self.identity == other.identity if isinstance(other, Spooled) else NotImplemented

    def __hash__(self) -> int:
        """Returns a hash of the URLs."""
        return hash(self.identity)

    def __del__(self) -> None:
        """Closes the file, which removes it."""
        self._file.close()

    def __repr__(self) -> str:
        """Shows how many there are."""
        return f"({self.count:,} URLs)"


def _line(item: object, index: int) -> str:
    parts = (item,) if isinstance(item, str) else item
    if not isinstance(parts, tuple) or len(parts) not in (1, 2) or not all(type(part) is str for part in parts):
        raise ConfigError(f"item {index} of the URLs must be a str or a pair (name, url), got {type(item).__name__}")
    if any(character in part for part in parts for character in "\t\n\r") or not parts[-1].strip():
        raise ConfigError(f"item {index} of the URLs is empty, or contains a tab or a line break")
    return "\t".join(parts) + "\n"
