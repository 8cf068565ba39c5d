"""Calls a function of the user's own as a strategy, in a process of its own; `own.py` starts it.

    python -P caller.py '{"job": "save", "spec": "mine.py:save", "check": true}'
    python -P caller.py '{"job": "save", "spec": "mine.py:save", "directory": "out", "count": 100}'

With `check` it only says whether the function is there and takes what the job gives. It prints one line of JSON, as
each strategy does. It needs nothing of shoal, so that what the user's modules are called does not matter.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# What a job gives a function.
CONTRACTS: dict[str, tuple[str, ...]] = {
    "copy": ("base_url", "names", "directory"),
    "save": ("make", "ids", "directory"),
    "read": ("paths",),
    "unzip": ("archives", "directory"),
}


class UnusableError(Exception):
    """The function cannot be imported, or does something forbidden; the message says it all."""


def load(spec: str) -> Callable[..., Any]:
    """Imports a function: of a module as `python -m` would find it here, or of a file.

    Raises:
        UnusableError: With the reason.
    """
    where, colon, name = spec.rpartition(":")
    if not colon or not where or not name:
        raise UnusableError(f"not MODULE:FUNCTION or FILE.py:FUNCTION: {spec!r}")
    if os.getcwd() not in sys.path:  # noqa: PTH109  # as text, like the others there
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    module, file = where, None
    if where.endswith(".py") or os.sep in where:
        file = Path(where).resolve()
        if not file.is_file():
            raise UnusableError(f"there is no file {where!r}")
        module = file.stem
        if not module.isidentifier():
            raise UnusableError(f"{file.name!r} cannot be imported: its name is not one that Python can import")
        sys.path.insert(0, str(file.parent))
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # importing it may raise anything
        raise UnusableError(f"cannot import {where!r}: {type(error).__name__}: {error}") from error
    if file is not None and Path(getattr(found, "__file__", None) or "/").resolve() != file:
        raise UnusableError(f"another module is called {module!r}: {found!r}; rename {where!r}")
    for part in name.split("."):
        if not hasattr(found, part):
            raise UnusableError(f"there is no {name!r} in {where!r}")
        found = getattr(found, part)
    if not callable(found):
        raise UnusableError(f"{spec!r} cannot be called: it is of type {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def fits(function: Callable[..., Any], parameters: tuple[str, ...]) -> None:
    """Raises UnusableError if a function does not take these arguments, by place."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, and silent about it
        return
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise UnusableError(f"it takes {signature}, and is given ({', '.join(parameters)}): {error}") from error


def call(function: Callable[..., Any], *arguments: object) -> Any:
    """Calls a function, or runs a coroutine function to its end."""
    if inspect.iscoroutinefunction(function):
        return asyncio.run(function(*arguments))
    return function(*arguments)


def counted(found: Any, *, may_be_none: bool) -> tuple[int | None, int | None]:
    """Returns the objects and bytes that a function says it has worked on.

    Raises:
        UnusableError: It returned something else.
    """
    if found is None and may_be_none:
        return None, None
    if isinstance(found, tuple | list) and len(found) == 2 and all(type(one) is int and one >= 0 for one in found):
        return found[0], found[1]
    said = repr(found)
    said = said if len(said) <= 60 else f"{said[:60]}..."
    raise UnusableError(f"it returned {said}, not (objects, bytes){' or None' if may_be_none else ''}")


def make(number: int) -> str:
    """Returns the content of a file of the study of saving: 5,000 lines of 10 whole numbers each."""
    return "\n".join([",".join([str(number + line + column) for column in range(10)]) for line in range(5000)])


def files(directory: str) -> list[str]:
    """Returns the path of every file below a directory."""
    return [os.path.join(place, name) for place, _, names in os.walk(directory) for name in names]  # noqa: PTH118


def consumed(pairs: Iterable[Any], directory: str, verify: bool) -> tuple[int, int, int]:
    """Takes path and content one by one; returns their count, their bytes and a proof of both.

    Raises:
        UnusableError: It yields something else.
    """
    objects = size = proven = 0
    for pair in pairs:
        try:
            path, data = pair
            objects, size = objects + 1, size + memoryview(data).nbytes
            if verify:
                name = os.fsencode(os.path.relpath(path, directory))
                proven += zlib.crc32(data, zlib.crc32(name))
        except (TypeError, ValueError) as error:
            raise UnusableError(f"it yielded {type(pair).__name__}, not (path, content): {error}") from error
    return objects, size, proven


def run(job: str, function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Has the function do a job; returns what is to be printed."""
    directory = given.get("directory")
    began = time.perf_counter()
    if job == "copy":
        names = Path(given["names"]).read_text().splitlines()
        began = time.perf_counter()
        found = call(function, given["url"], names, directory)
    elif job == "save":
        found = call(function, make, range(given["count"]), directory)
    elif job == "unzip":
        archives = sorted(str(path) for path in Path(given["archives"]).glob("*.zip"))
        began = time.perf_counter()
        found = call(function, archives, directory)
    else:  # the walk is in the time, as it is in that of the strategies
        found = call(function, files(given["directory"]))
        if inspect.isgenerator(found):
            objects, size, proven = consumed(found, given["directory"], given["verify"])
            proof = {"proof": proven} if given["verify"] else {}
            return {"objects": objects, "bytes": size, "seconds": time.perf_counter() - began, **proof}
    seconds = time.perf_counter() - began
    # What was written is compared; where nothing was, the function must say how much it was.
    count, total = counted(found, may_be_none=job != "read" and directory is not None)
    return {"objects": count, "bytes": total, "seconds": seconds}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    try:
        function = load(given["spec"])
        if given.get("check"):
            fits(function, CONTRACTS[given["job"]])
            print(json.dumps({"yields": inspect.isgeneratorfunction(function)}))
        else:
            print(json.dumps(run(given["job"], function, given)))
    except UnusableError as error:
        sys.exit(f"Error: {error}")
