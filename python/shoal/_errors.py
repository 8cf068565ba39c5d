"""The exceptions of shoal, and nothing else.

The binding chooses the class from the engine's kind of error (`crates/shoal-python/src/errors.rs`); what the text says
comes from the engine. Exit codes are in `cli/_exit.py`.

    ShoalError                              everything below
    ├─ ObjectError                          one object failed; raised only with on_error="raise"
    │  ├─ NotFoundError                     …listed, but gone             (also a FileNotFoundError)
    │  ├─ PermissionDeniedError             …refused by source or sink    (also a PermissionError)
    │  ├─ UnsafeNameError                   …no safe place for its name   (also a ValueError)
    │  └─ IntegrityError                    …not the bytes that were promised
    ├─ RunError                             the run cannot go on; the same call resumes it
    │  ├─ DestinationFullError              …no space, inodes or quota    (also an OSError, with errno)
    │  ├─ CredentialsError                  …the source asks for others
    │  └─ JournalError                      …the journal is unreadable or belongs to another run
    │     └─ JournalLockedError             …another process works on this destination
    └─ ConfigError                          an argument is wrong          (also a ValueError)

A run that is stopped by Ctrl-C raises KeyboardInterrupt, as any other Python code does.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal._report import Report


class ShoalError(Exception):
    """Base of all errors of shoal.

    Attributes:
        kind: Stable name of what went wrong, such as `"destination-full"`; the same in the journal and in JSON.
        name: The object, path or address it happened on, if there is one.
        hint: What to do next, if shoal knows.
        report: What the run had done until then, if a run had begun.
    """

    kind: str
    name: str | None
    hint: str | None
    report: Report | None

    def __init__(
        self, message: str, *, kind: str = "internal", name: str | None = None, hint: str | None = None
    ) -> None:
        """Takes the one line that says what failed, on what, and why."""
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.name = name
        self.hint = hint
        self.report = None

    def __str__(self) -> str:
        """Returns the line, and the hint on a second one."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ObjectError(ShoalError):
    """One object could not be had or stored; the others are not touched by it.

    Attributes:
        attempts: How often it was tried.
    """

    attempts: int

    def __init__(
        self,
        message: str,
        *,
        kind: str = "internal",
        name: str | None = None,
        hint: str | None = None,
        attempts: int = 0,
    ) -> None:
        """Takes the one line, and how often the object was tried."""
        super().__init__(message, kind=kind, name=name, hint=hint)
        self.attempts = attempts


class NotFoundError(ObjectError, FileNotFoundError):
    """The object was listed, but was gone when it was asked for."""


class PermissionDeniedError(ObjectError, PermissionError):
    """The source refuses this object, or the destination this file."""


class UnsafeNameError(ObjectError, ValueError):
    """The object's name cannot be stored inside the destination, so it was not fetched."""


class IntegrityError(ObjectError):
    """The bytes that arrived are not the ones that were promised; none of them were kept."""


class RunError(ShoalError):
    """The run cannot go on. What is committed stays, and the same call continues there."""


class DestinationFullError(RunError, OSError):
    """No space, inodes or quota is left at the destination; `errno` says which."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "destination-full",
        name: str | None = None,
        hint: str | None = None,
        errno: int | None = errno.ENOSPC,
    ) -> None:
        """Takes the one line and the operating system's number."""
        super().__init__(message, kind=kind, name=name, hint=hint)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with the number too, which Python keeps apart from other attributes."""
        return type(self), self.args, {**self.__dict__, "errno": self.errno}


class CredentialsError(RunError):
    """The source asks for credentials, or refuses those it was given."""


class JournalError(RunError):
    """The journal cannot be read or written, or belongs to a run with other options."""


class JournalLockedError(JournalError):
    """Another process works on this destination."""


class ConfigError(ShoalError, ValueError):
    """An argument is wrong; nothing was done."""

    def __init__(self, message: str, *, kind: str = "config", name: str | None = None, hint: str | None = None) -> None:
        """Takes the one line that says which argument, and what it may be."""
        super().__init__(message, kind=kind, name=name, hint=hint)
