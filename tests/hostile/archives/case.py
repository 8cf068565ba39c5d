"""The words for what is expected of an archive: `Case` is the archive, `Expected` one permitted end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

# Kinds of failures, where more than one is a fair name for what is wrong.
DAMAGED = frozenset({"archive", "integrity"})  # the archive contradicts itself
REFUSED = frozenset({"archive", "too-large"})  # the archive as a whole is not touched
UNSAFE = frozenset({"unsafe-name", "name-too-long"})
TOO_DEEP = frozenset({"archive", "too-large", "unsafe-name"})
COLLIDES = frozenset({"repeated", "name-conflict"})
UNSUPPORTED = frozenset({"unsupported"})
# An archive, or what makes it: a large one is made by the test that uses it, not when tests are collected.
Content = bytes | Callable[[], bytes]
ARCHIVE = "x.zip"  # the file's name, unless the case has another


@dataclass(frozen=True)
class Expected:
    """One permitted end of a run.

    Attributes:
        written: Every file that is there afterwards.
        failed: Every entry that fails, with the kinds that may stand for it.
        refused: The archive fails as a whole, under its own name, with one of these kinds.
        skipped: Entries left out on purpose: directories, links, devices.
        empty: Directories that are there afterwards with nothing in them.
        said: What the messages must contain.
    """

    written: Mapping[str, bytes] = field(default_factory=dict)
    failed: Mapping[str, Collection[str]] = field(default_factory=dict)
    refused: Collection[str] = ()
    skipped: int = 0
    empty: Collection[str] = ()
    said: Collection[str] = ()

    @property
    def code(self) -> int:
        """Returns the exit code."""
        return 1 if self.failed or self.refused else 0


@dataclass(frozen=True)
class Case:
    """An archive and what may come of it; where several ends are permitted, the first is the one to hope for."""

    name: str
    content: Content
    ends: tuple[Expected, ...]
    options: tuple[str, ...] = ()
    file: str = ARCHIVE

    def __str__(self) -> str:
        return self.name

    @property
    def archive(self) -> bytes:
        """Returns the bytes of the archive."""
        return self.content if isinstance(self.content, bytes) else self.content()


def refused(name: str, archive: Content, *options: str, said: Collection[str] = (), file: str = ARCHIVE) -> Case:
    """An archive that fails as a whole; nothing of it is written."""
    return Case(name, archive, (Expected(refused=REFUSED, said=said),), options, file)


def unpacked(name: str, archive: Content, written: Mapping[str, bytes], *options: str, file: str = ARCHIVE) -> Case:
    """An archive that is odd and harmless, and arrives whole."""
    return Case(name, archive, (Expected(written),), options, file)


def either(name: str, archive: Content, *ends: Expected, options: tuple[str, ...] = (), file: str = ARCHIVE) -> Case:
    """An archive for which several ends are permitted."""
    return Case(name, archive, ends, options, file)
