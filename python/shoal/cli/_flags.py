"""Rewrites a Python option as a flag: `resume="update"` in a message of the engine becomes `--update`.

The engine writes options in backticks, as in a Python call: `max_failures`, `overwrite="always"`, or several separated
by commas. Everything else stays as it is. Not here: the flags themselves (`_options.py`).
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
from typing import Any

from shoal._options import tables

# The flag of each way to resume; without one it is "auto".
RESUME_FLAGS = {
    "once": ("--once", "Do not list a finished directory again."),
    "update": ("--update", "Copy what is new or has changed at the source."),
    "failed": ("--retry-failed", "Retry only what failed."),
    "relist": ("--relist", "List from the start; skip what is done."),
    "restart": ("--restart", "Start over: do everything again and compare all bytes."),
}

# Text in quotes may be the name of an object, which is never changed; inside backticks, quotes are values.
_PARTS = re.compile(r'`[^`\n]+`|"(?:[^"\\\n]|\\.)*"')


@functools.cache
def all_flags() -> frozenset[str]:
    """Returns the flags of all commands of this package."""
    import click

    from shoal.cli import COMMANDS, app

    commands = (app.get_command(click.Context(app), name) for name in COMMANDS if name != "bench")
    return frozenset(flag for command in commands if command for one in command.params for flag in one.opts)


def in_flags(text: str) -> str:
    """Returns the text with every option in backticks rewritten as its flag."""
    return _PARTS.sub(lambda found: _flags(found[0]), text) if "`" in text else text


def options_in(text: str) -> list[tuple[str, ast.expr | None]] | None:
    """Parses a text in backticks as options with values; returns None if it is something else."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(call, ast.Call) or not (call.args or call.keywords):
        return None
    found: list[tuple[str, ast.expr | None]] = []
    for one in call.args:
        if not isinstance(one, ast.Name):
            return None
        found.append((one.id, None))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        found.append((keyword.arg, keyword.value))
    return found


def _flags(part: str) -> str:
    options = options_in(part[1:-1]) if part.startswith("`") else None
    if not options or not {long_flag(name) for name, _ in options} <= all_flags() | {"--resume"}:
        return part
    return " ".join(_flag(name, value) for name, value in options)


def long_flag(name: str) -> str:
    """Returns the flag of an option."""
    other = {one["name"]: one["flag"] for table in tables().values() for one in table}
    return "--" + other.get(name, name.replace("_", "-"))


def _flag(name: str, value: ast.expr | None) -> str:
    flag = long_flag(name)
    if value is None:
        return flag
    if not isinstance(value, ast.Constant | ast.Dict | ast.Tuple | ast.List):
        return f"{flag} {ast.unparse(value)}"  # a placeholder, such as journal=PATH
    given: Any = ast.literal_eval(value)
    if name == "resume":
        return RESUME_FLAGS[given][0] if given in RESUME_FLAGS else flag
    if given is True:
        return flag
    if given is False:
        return flag.replace("--", "--no-", 1)
    if isinstance(given, dict):
        return " ".join(f"{flag} {shlex.quote(f'{key}: {text}')}" for key, text in given.items())
    if isinstance(given, tuple | list):
        return f"{flag} {shlex.quote(','.join(map(str, given)) or 'none')}"
    return f"{flag} {shlex.quote(str(given))}"
