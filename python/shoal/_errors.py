"""The exceptions of shoal, and nothing else.

The binding chooses the class from the engine's kind of error (`crates/shoal-python/src/errors.rs`); what the text says
comes from the engine. Exit codes are in `cli/_exit.py`.

    ShoalError                              everything below
    ├─ ObjectsFailedError                   all the rest is done; on_error="raise" (the default)
    ├─ ObjectError                          one object failed, or a path that you named
    │  ├─ NotFoundError                     …is not there                 (also a FileNotFoundError)
    │  ├─ PermissionDeniedError             …refused by its system        (also a PermissionError)
    │  ├─ UnsafeNameError                   …no safe place for its name   (also a ValueError)
    │  └─ IntegrityError                    …not the bytes that were promised
    ├─ RunError                             the run cannot go on; the same call resumes it
    │  ├─ DestinationFullError              …no space, inodes or quota    (also an OSError, with errno)
    │  ├─ CredentialsError                  …the source asks for others
    │  └─ JournalError                      …the journal is unreadable or belongs to another run
    │     └─ JournalLockedError             …another process works on this destination
    └─ ConfigError                          an argument is wrong          (also a ValueError)

A run that is stopped by Ctrl-C raises KeyboardInterrupt, as any other Python code does. Each class can be pickled, and
made from one text: the workers of a PyTorch DataLoader hand an exception on as `type(error)(text)`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal._report import Failure, Report


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

    _kind = "internal"

    def __init__(
        self, message: str, *, kind: str | None = None, name: str | None = None, hint: str | None = None
    ) -> None:
        """Takes the one line that says what failed, on what, and why."""
        super().__init__(message)
        self.message = message
        self.kind = kind or self._kind
        self.name = name
        self.hint = hint
        self.report = None

    def __str__(self) -> str:
        """Returns the line, and the hint on a second one."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ObjectsFailedError(ShoalError):
    """Objects failed, and all the rest is done. Its cause is the first failure, as an `ObjectError`.

    `copy`, `save`, `generate` and `unzip` raise it when they have done what they could, and a loop over `read` when it
    has given all that could be read. Failures that an earlier call recorded count, as long as they stand.
    """

    _kind = "objects-failed"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The first failures, those of `report.failures`; `report.failed` says how many there are."""
        return self.report.failures if self.report else ()


class ObjectError(ShoalError):
    """One object could not be read or stored; the others are not affected.

    Attributes:
        attempts: How often it was tried.
    """

    attempts: int

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        name: str | None = None,
        hint: str | None = None,
        attempts: int = 0,
    ) -> None:
        """Takes the one line, and how often the object was tried."""
        super().__init__(message, kind=kind, name=name, hint=hint)
        self.attempts = attempts


class _SystemError(ShoalError, OSError):
    """What the operating system has a number for: `errno`, which Python keeps apart from other attributes."""

    _errno: int

    def __init__(self, message: str, *, errno: int | None = None, **values: Any) -> None:
        """Takes the one line and the operating system's number."""
        super().__init__(message, **values)
        self.errno = self._errno if errno is None else errno
        self.filename = self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with what Python keeps apart."""
        return type(self), self.args, {**self.__dict__, "errno": self.errno, "filename": self.filename}


class NotFoundError(_SystemError, ObjectError, FileNotFoundError):
    """The object was listed, but was gone when it was asked for; or a path that you named is not there."""

    _errno = errno.ENOENT


class PermissionDeniedError(_SystemError, ObjectError, PermissionError):
    """The source refuses this object, or the system this file or directory."""

    _errno = errno.EACCES


class UnsafeNameError(ObjectError, ValueError):
    """The object's name cannot be stored inside the destination, so it was not fetched."""


class IntegrityError(ObjectError):
    """The bytes that arrived are not the ones that were promised; none of them were kept."""


class RunError(ShoalError):
    """The run cannot go on. What is committed stays, and the same call continues there."""


class DestinationFullError(_SystemError, RunError):
    """No space, inodes or quota is left at the destination; `errno` says which."""

    _kind, _errno = "destination-full", errno.ENOSPC


class CredentialsError(RunError):
    """The source asks for credentials, or refuses those it was given."""


class JournalError(RunError):
    """The journal cannot be read or written, or belongs to a run with other options."""


class JournalLockedError(JournalError):
    """Another process works on this destination."""


class ConfigError(ShoalError, ValueError):
    """An argument is wrong; nothing was done."""

    _kind = "config"
