"""What is looked at before a process starts: the function, the ids, the template of the names.

Not here: options that other calls have too (`shoal._options`).
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import operator
import sys
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal._errors import ConfigError

NOWHERE = (
    "define it at the top level of a module or script, and give further arguments with functools.partial: a worker "
    "process finds it by its name"
)


class Job:
    """A function, its ids and their names, all of which a run can be made of."""

    def __init__(self, function: Callable[[Any], object], ids: Sequence[int] | Sequence[str], template: str) -> None:
        """Looks at all of it.

        Raises:
            ConfigError: One of them cannot be used.
        """
        _check_process()
        self.function = _sendable(function)
        self.ids = _sequence(ids)
        self._template = template
        self._check_template()
        self.identity = f"generate:{_title(function)}:{_digest(self.ids)}:{template}"
        self.arguments = _arguments(function)

    def names(self, start: int, stop: int) -> list[str]:
        """Returns the names of some ids, by their places in the sequence.

        Raises:
            ConfigError: The template does not take one of them.
        """
        try:
            return [self._template.format(one) for one in self.ids[start:stop]]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._unnamed(error, start, stop) from error

    def _unnamed(self, error: Exception, start: int, stop: int) -> ConfigError:
        for one in self.ids[start:stop]:
            try:
                self._template.format(one)
            except (ValueError, LookupError, TypeError, AttributeError):
                return ConfigError(
                    f"`name` {self._template!r} does not take the id {one!r}: {error}",
                    hint='a template for str.format with one field, such as "data-{:04d}.csv" or, for text, "{}.csv"',
                )
        return ConfigError(f"`name` {self._template!r} does not take an id: {error}")

    def _check_template(self) -> None:
        if not isinstance(self._template, str):
            raise ConfigError(f"`name` is not text: {type(self._template).__name__}")
        # Two ids are enough to see whether it depends on them at all.
        some = self.names(0, min(2, len(self.ids)))
        if len(some) == 2 and some[0] == some[1] and self.ids[0] != self.ids[1]:
            raise ConfigError(
                f"`name` {self._template!r} calls every object the same: {some[0]!r}",
                hint='it needs a field for the id, such as "data-{:04d}.csv"',
            )


def _check_process() -> None:
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        raise ConfigError(
            "shoal.generate is called while a worker process imports this program",
            hint='put the call under `if __name__ == "__main__":`, so that only the program itself makes it',
        )
    if process.daemon:
        raise ConfigError(
            "shoal.generate is called in a daemonic process, which may not start others",
            hint="a function that shoal.generate calls, or a worker of a pool, cannot use it; shoal.save works there",
        )


def _sendable(function: Callable[[Any], object]) -> bytes:
    """Returns the function as it is sent to a process."""
    if not callable(function):
        raise ConfigError(f"function cannot be called: {type(function).__name__}")
    try:
        sent = bytes(ForkingPickler.dumps(function))
    except Exception as error:  # whatever a user's object raises when it is asked for its state
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the function cannot be sent to worker processes: {_title(function)}: {why}", hint=NOWHERE
        ) from error
    if b"__main__" in sent and not _main_has_a_file():
        raise ConfigError(
            f"worker processes cannot see {_title(function)}: it is defined in a notebook, an interactive session or a "
            "program that is no file",
            hint="put it into a module beside it, such as make.py, and pass it after `from make import ...`",
        )
    return sent


def _main_has_a_file() -> bool:
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return True
    path = getattr(main, "__file__", None)
    return path is not None and Path(path).is_file()


def _title(function: object) -> str:
    """Returns the full name of a function: the same whether its file is run or imported."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None) or "builtins"
    if module == "__main__":
        main = sys.modules.get("__main__")
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        module = spec.name if spec else Path(path).stem if path else module
    return f"{module}.{getattr(named, '__qualname__', type(named).__name__)}"


def _arguments(function: object) -> str:
    """Returns a digest of what a function is bound to: by functools.partial, as a method, as an instance."""
    bound: list[object] = []
    while isinstance(function, functools.partial):
        bound.append((function.args, sorted(function.keywords.items())))
        function = function.func
    instance = getattr(function, "__self__", None) if hasattr(function, "__qualname__") else function
    if instance is not None and not isinstance(instance, type | ModuleType):
        bound.append(instance)
    return hashlib.blake2b(ForkingPickler.dumps(bound), digest_size=16).hexdigest() if bound else "none"


def _sequence(ids: Sequence[int] | Sequence[str]) -> Sequence[int | str]:
    if isinstance(ids, range):
        return ids
    if isinstance(ids, str | bytes) or not (hasattr(ids, "__len__") and hasattr(ids, "__getitem__")):
        raise ConfigError(
            f"ids is not a range or a sequence of whole numbers or texts: {type(ids).__name__}",
            hint="an iterator must become a list; for a number of ids give range(number)",
        )
    plain: list[int | str] = []
    for one in ids:
        try:
            plain.append(one if isinstance(one, str) else operator.index(one))
        except TypeError:
            raise ConfigError(f"ids holds something that is neither a whole number nor text: {one!r}") from None
    return plain


def _digest(ids: Sequence[int | str]) -> str:
    if isinstance(ids, range):
        return repr(ids)
    digest = hashlib.blake2b(digest_size=16)
    for one in ids:
        text = one if isinstance(one, str) else f"#{one}"
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d " % len(raw))
        digest.update(raw)
    return f"{len(ids)} ids {digest.hexdigest()}"
