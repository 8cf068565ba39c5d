"""Manifests: lists of checksums as `shoal read --checksum` and GNU's `sha256sum` write them.

Here: parsing a manifest and comparing files with it. Not here: hashing, which the engine does, and messages
(`cli/verify.py`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from shoal._errors import ConfigError, RunError
from shoal._options import Checksum

# Characters of a checksum in hex -> the algorithm.
LENGTHS: dict[int, Checksum] = {64: "sha256", 16: "xxh3", 8: "crc32"}
OTHERS = {32: "MD5", 40: "SHA-1", 56: "SHA-224", 96: "SHA-384", 128: "SHA-512"}

# A leading backslash means that the name has escapes; the second space is a * for files read as binary.
LINE = re.compile(rb"(\\?)([0-9a-fA-F]+) [ *](.+)", re.DOTALL)
ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


class ManifestError(RunError):
    """A manifest that cannot be used: truncated, empty or malformed."""


class Manifest:
    """Checksums by name. It needs about 250 bytes of memory per file."""

    def __init__(self, path: Path, checksum: Checksum | None = None) -> None:
        """Reads the manifest.

        Args:
            path: The file.
            checksum: The algorithm; by default, the length of the checksums decides.

        Raises:
            ConfigError: The file does not exist or cannot be read.
            ManifestError: It is truncated, empty or malformed.
        """
        self.path = path
        self._wanted: dict[bytes, bytes] = {}
        self.checksum = checksum
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    self._take(number, line)
        except OSError as error:
            raise ConfigError(f"cannot read the checksums in {str(path)!r}: {error.strerror}") from None
        if not self._wanted:
            raise ManifestError(f"{str(path)!r} has no checksums: it is empty", kind="manifest")
        self.listed = len(self._wanted)

    def _take(self, number: int, line: bytes) -> None:
        def wrong(why: str, hint: str | None = None) -> ManifestError:
            return ManifestError(f"line {number} of {str(self.path)!r} {why}", kind="manifest", hint=hint)

        if not line.endswith(b"\n"):
            raise wrong("does not end with a newline: the manifest is truncated", "create or copy the manifest again")
        if line.startswith(b"#"):
            return  # a comment, as in sha256sum
        found = LINE.fullmatch(line.removesuffix(b"\n").removesuffix(b"\r"))
        if found is None:
            raise wrong("is not a checksum, two spaces and a name")
        length = len(found[2])
        if length not in LENGTHS:
            what = OTHERS.get(length, f"a checksum of {length} characters")
            raise wrong(f"has {what}", "shoal verifies sha256, xxh3 and crc32")
        if self.checksum is None:
            self.checksum = LENGTHS[length]
        if LENGTHS[length] != self.checksum:
            raise wrong(f"is not a checksum of {self.checksum}")
        name = _unescaped(found[3]) if found[1] else found[3]
        if name is None:
            raise wrong("has an escape that is not \\\\, \\n or \\r")
        name = os.path.normpath(name)
        digest = bytes.fromhex(found[2].decode())
        if self._wanted.setdefault(name, digest) != digest:
            raise wrong("has the name of an earlier line, with another checksum")

    def take(self, name: str, digest: bytes) -> str:
        """Compares one file, once, and returns `"good"`, `"different"` or `"extra"`."""
        wanted = self._wanted.pop(os.fsencode(name), None)
        return "extra" if wanted is None else "good" if wanted == digest else "different"

    def rest(self, directory: Path) -> Iterator[tuple[str, str]]:
        """Yields the names that were not compared, each with `"missing"` or `"unreadable"`."""
        for name in sorted(self._wanted):
            inside = not name.startswith((b"/", b"../"))
            there = inside and _is_file(bytes(directory) + b"/" + name)
            yield os.fsdecode(name), "unreadable" if there else "missing"


def _unescaped(name: bytes) -> bytes | None:
    parts = re.split(rb"(\\.)", name, flags=re.DOTALL)
    if any(part.startswith(b"\\") and part not in ESCAPES for part in parts):
        return None
    return b"".join(ESCAPES.get(part, part) for part in parts)


def _is_file(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
