"""Validates the function, the ids and the name template before a process starts.

Not here: options that other calls have too (`shoal._options`).
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import operator
import re
import sys
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal._errors import ConfigError

NOWHERE = (
    "define it at the top level of a module or script, because a worker process imports it by its name; pass further "
    "arguments with functools.partial"
)


class Job:
    """A valid function, its ids and their names."""

    def __init__(self, function: Callable[[Any], object], ids: Sequence[int] | Sequence[str], template: str) -> None:
        """Validates the arguments.

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
        """Returns the names of the ids at these positions of the sequence.

        Raises:
            ConfigError: The template cannot format one of them.
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
                    f"`name` {self._template!r} cannot format the id {one!r}: {error}",
                    hint='use a str.format template with one field, such as "data-{:04d}.csv" or, for text, "{}.csv"',
                )
        return ConfigError(f"`name` {self._template!r} cannot format an id: {error}")

    def _check_template(self) -> None:
        if not isinstance(self._template, str):
            raise ConfigError(f"`name` must be a str, got {type(self._template).__name__}")
        # Two ids are enough to see whether the name depends on the id.
        some = self.names(0, min(2, len(self.ids)))
        if len(some) == 2 and some[0] == some[1] and self.ids[0] != self.ids[1]:
            raise ConfigError(
                f"`name` {self._template!r} gives every id the same name: {some[0]!r}",
                hint='add a field for the id, such as "data-{:04d}.csv"',
            )


def _check_process() -> None:
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        raise ConfigError(
            "shoal.generate was called while a worker process imports this program",
            hint='put the call under `if __name__ == "__main__":`, so that only the main program runs it',
        )
    if process.daemon:
        raise ConfigError(
            "shoal.generate was called in a daemonic process, which cannot start processes",
            hint="in a worker of a pool, or in a function that shoal.generate calls, use shoal.save",
        )


def _sendable(function: Callable[[Any], object]) -> bytes:
    """Returns the pickled function."""
    if not callable(function):
        raise ConfigError(f"`function` must be callable, got {type(function).__name__}")
    try:
        sent = bytes(ForkingPickler.dumps(function))
    except Exception as error:  # the object may raise anything
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the function cannot be pickled for the worker processes: {_title(function)}: {why}", hint=NOWHERE
        ) from error
    if b"__main__" in sent and not _main_has_a_file():
        raise ConfigError(
            f"worker processes cannot import {_title(function)}: it is defined in a notebook, an interactive session "
            "or a program without a file",
            hint="move it to a module, such as make.py, and import it from there: `from make import ...`",
        )
    return sent


def _main_has_a_file() -> bool:
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return True
    path = getattr(main, "__file__", None)
    return path is not None and Path(path).is_file()


def _title(function: object) -> str:
    """Returns the full name of a function, the same whether its file is run or imported."""
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
    owner = getattr(function, "__self__", function) if hasattr(function, "__qualname__") else function
    if owner is not function and isinstance(owner, type):
        # An inherited class method has the name of its base.
        if not _title(function).startswith(f"{_title(owner)}."):
            bound.append(_title(owner))
    elif not isinstance(owner, ModuleType) and not (owner is function and _is_named(owner)):
        bound.append(owner)
    if not bound:
        return "none"
    digests = []
    for _ in range(3):
        content = ForkingPickler.dumps(bound)
        digests.append(hashlib.blake2b(content, digest_size=16).hexdigest())
        bound = ForkingPickler.loads(content)
    # A copy may differ without harm: equal texts become one, and a set has another order, which a second copy undoes.
    if len(set(digests)) == len(digests):
        raise ConfigError(
            f"what {_title(function)} is bound to is pickled differently each time, so the job could not be recognised",
            hint="pass a function with a name of its own, at the top level of a module, that makes the object itself",
        )
    return digests[0]


def _is_named(function: object) -> bool:
    """Returns whether an object is what its module has under its name, so that its name tells what it is."""
    found = sys.modules.get(getattr(function, "__module__", None) or "builtins")
    for part in getattr(function, "__qualname__", "<instance>").split("."):
        found = getattr(found, part, None)
    return found is function


def _sequence(ids: Sequence[int] | Sequence[str]) -> Sequence[int | str]:
    if isinstance(ids, range):
        return ids
    if isinstance(ids, str | bytes) or not (hasattr(ids, "__len__") and hasattr(ids, "__getitem__")):
        raise ConfigError(
            f"`ids` must be a range or a sequence of int or str, got {type(ids).__name__}",
            hint="make a list of an iterator; for a number of ids pass range(number)",
        )
    plain: list[int | str] = []
    for one in ids:
        try:
            plain.append(one if isinstance(one, str) else operator.index(one))
        except TypeError:
            raise ConfigError(f"`ids` must contain only int or str, got {one!r}") from None
    return plain


def _digest(ids: Sequence[int | str]) -> str:
    if isinstance(ids, range):
        return repr(ids)
    digest = hashlib.blake2b(digest_size=16)
    for one in ids:
        text = one if isinstance(one, str) else f"#{one}"
        if isinstance(one, str) and re.fullmatch(r"#+-?[0-9]+", one):
            text = f"#{one}"  # not what a number has
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d " % len(raw))
        digest.update(raw)
    return f"{len(ids)} ids {digest.hexdigest()}"
