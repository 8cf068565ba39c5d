"""The exceptions of shoal.

The binding chooses the class by the engine's kind of error (`crates/shoal-python/src/errors.rs`). The text comes from
the engine. Exit codes are in `cli/_exit.py`.

    ShoalError                              everything below
    ├─ ObjectsFailedError                   the rest is done; on_error="raise" (the default)
    ├─ ObjectError                          one object failed, or a path that you passed
    │  ├─ NotFoundError                     …does not exist               (also a FileNotFoundError)
    │  ├─ PermissionDeniedError             …permission denied            (also a PermissionError)
    │  ├─ UnsafeNameError                   …has an unsafe name           (also a ValueError)
    │  └─ IntegrityError                    …has wrong bytes
    ├─ RunError                             the run cannot continue; the same call resumes it
    │  ├─ DestinationFullError              …no space, inodes or quota    (also an OSError, with errno)
    │  ├─ CredentialsError                  …the source rejects the credentials
    │  └─ JournalError                      …the journal is unreadable or belongs to another run
    │     └─ JournalLockedError             …another process uses this destination
    └─ ConfigError                          an argument is wrong          (also a ValueError)
       └─ NothingMatchedError               …nothing matches the glob or the patterns

Ctrl-C raises KeyboardInterrupt, as in any Python code. Each class can be pickled, and constructed from one text: the
workers of a PyTorch DataLoader re-raise an exception as `type(error)(text)`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal._report import Failure, Report


class ShoalWarning(UserWarning):
    """The job was finished before, so nothing was done: its source was not listed again (`Report.not_listed`)."""


class ShoalError(Exception):
    """Base of all errors of shoal.

    Attributes:
        kind: Stable name of the error, such as `"destination-full"`; the same in the journal and in JSON.
        name: The object, path or address of the error, if there is one.
        hint: What to do next, if shoal knows.
        report: The report of the run so far, if a run had started.
    """

    kind: str
    name: str | None
    hint: str | None
    report: Report | None

    _kind = "internal"

    def __init__(
        self, message: str, *, kind: str | None = None, name: str | None = None, hint: str | None = None
    ) -> None:
        """Takes one line that says what failed, on what, and why."""
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
    """Objects failed, and the rest is done. Its cause is the first failure, as an `ObjectError`.

    `copy`, `save`, `generate` and `unzip` raise it when the rest is done, and a loop over `read` after the last object.
    Failures that an earlier call recorded count until they are resolved.
    """

    _kind = "objects-failed"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The first failures, those of `report.failures`; `report.failed` is their number."""
        return self.report.failures if self.report else ()


class ObjectError(ShoalError):
    """One object could not be read or stored; the others are not affected.

    Attributes:
        attempts: Number of attempts.
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
        """Takes one line, and the number of attempts."""
        super().__init__(message, kind=kind, name=name, hint=hint)
        self.attempts = attempts


class _SystemError(ShoalError, OSError):
    """An error with an `errno`, which Python stores apart from other attributes."""

    _errno: int

    def __init__(self, message: str, *, errno: int | None = None, **values: Any) -> None:
        """Takes one line and the errno."""
        super().__init__(message, **values)
        self.errno = self._errno if errno is None else errno
        self.filename = self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with errno and filename."""
        return type(self), self.args, {**self.__dict__, "errno": self.errno, "filename": self.filename}


class NotFoundError(_SystemError, ObjectError, FileNotFoundError):
    """An object was listed but no longer exists, or a path that you passed does not exist."""

    _errno = errno.ENOENT


class PermissionDeniedError(_SystemError, ObjectError, PermissionError):
    """The source denies access to an object, or the operating system to a file or directory."""

    _errno = errno.EACCES


class UnsafeNameError(ObjectError, ValueError):
    """The object's name is not safe inside the destination, so it was not fetched."""


class IntegrityError(ObjectError):
    """The bytes of an object do not match its length or checksum; they were not kept."""


class RunError(ShoalError):
    """The run cannot continue. What is committed stays, and the same call resumes."""


class DestinationFullError(_SystemError, RunError):
    """The destination has no space, inodes or quota left; `errno` says which."""

    _kind, _errno = "destination-full", errno.ENOSPC


class CredentialsError(RunError):
    """The source requires credentials, or rejects the given ones."""


class JournalError(RunError):
    """The journal cannot be read or written, or belongs to a run with other options."""


class JournalLockedError(JournalError):
    """Another process uses this destination."""


class ConfigError(ShoalError, ValueError):
    """An argument is wrong; nothing was done."""

    _kind = "config"


class NothingMatchedError(ConfigError):
    """Nothing matches the glob, `include` and `exclude`, or all of a tree was left out; see `allow_empty`."""

    _kind = "nothing-matched"
