"""Where headers come from that change or are kept elsewhere: a function, a program, a netrc file.

Not here: when a run asks for them (the engine), which host they are sent to (the sources). Nothing here shows a value.
"""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal._errors import ConfigError, CredentialsError

COMMAND_LIMIT = 60.0  # s that a program may take
COMMAND_PAUSE = 0.01  # s between looks at whether it has ended
LINE_MAX = 200  # characters of what a program says of its failure
Pairs = list[tuple[str, str]]


def ask(function: Callable[[], Any], what: str) -> tuple[Pairs, float | None]:
    """Calls a function for headers or keys. Returns them, and the seconds for which they can be used, if it says so.

    Raises:
        ConfigError: It returned something else. What the function raises is passed on.
        RuntimeError: It raised `StopIteration`, which would end a loop as if all objects had come.
    """
    try:
        given, expiry = function(), None
    except (StopIteration, StopAsyncIteration) as stop:
        raise RuntimeError(f"the function for `{what}` raised {type(stop).__name__}") from stop
    if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[0], tuple | str):
        given, expiry = given
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list | tuple) or not all(_is_pair(one) for one in pairs):
        raise ConfigError(f"the function for `{what}` must return a dict of {what}, got {type(given).__name__}")
    return [(name, value) for name, value in pairs], _seconds(expiry, what)


def _is_pair(one: object) -> bool:
    return isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(text, str) for text in one)


def _seconds(expiry: object, what: str) -> float | None:
    """Returns the time until an expiry.

    Raises:
        ConfigError: It is of another type, or has passed.
    """
    if expiry is None:
        return None
    if isinstance(expiry, datetime):
        expiry = expiry.astimezone(UTC) - datetime.now(UTC)
    if not isinstance(expiry, timedelta):
        why = f"the expiry of {what} must be a datetime or a timedelta"
        raise ConfigError(f"{why}, got {type(expiry).__name__}")
    if (seconds := expiry.total_seconds()) <= 0:
        hint = "is the clock of this machine right?"
        raise ConfigError(f"the function for `{what}` returned {what} that have already expired", hint=hint)
    return seconds


def header_lines(lines: Iterable[str]) -> Pairs:
    """Returns the headers in lines `Name: value`; empty lines are skipped.

    Raises:
        ValueError: A line has no colon. It is not shown: it may be a secret.
    """
    pairs = []
    for line in filter(str.strip, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError('write a header as "Name: value"')
        pairs.append((name.strip(), value.strip()))
    return pairs


class Command:
    """A function for headers that runs a program, without a shell."""

    def __init__(self, text: str) -> None:
        """Splits the text into a program and its arguments.

        Raises:
            ConfigError: It is not a program with arguments.
        """
        try:
            self.arguments = shlex.split(text)
        except ValueError as error:
            raise ConfigError(f"`header_command` cannot be split into arguments: {str(error).lower()}") from None
        if not self.arguments:
            raise ConfigError("`header_command` is empty")

    def __call__(self) -> Pairs:
        """Returns the headers that the program prints.

        Raises:
            CredentialsError: The program fails, takes too long, or prints something else. Its standard output is not
                shown.
        """
        # Arguments may be secrets, so that only the program is named.
        name = f'the program "{self.arguments[0]}" of `header_command`'
        try:
            status, printed, said = _run(self.arguments)
        except subprocess.TimeoutExpired:
            raise _failed(f"{name} did not end within {COMMAND_LIMIT:g} s") from None
        except OSError as error:
            raise _failed(f"{name} cannot be run: {(error.strerror or type(error).__name__).lower()}") from None
        if status != 0:
            how = f"exit status {status}" if status > 0 else f"signal {-status}"
            lines = said.decode(errors="replace").strip().splitlines()
            last = "".join(one if one.isprintable() else "?" for one in lines[-1][:LINE_MAX]) if lines else ""
            raise _failed(f"{name} failed with {how}" + (f": {last}" if last else ""))
        try:
            pairs = header_lines(printed.decode("ascii").splitlines())
        except ValueError:
            pairs = []
        if not pairs:
            raise _failed(f"{name} must print headers as lines `Name: value`")
        return pairs


def _run(arguments: list[str]) -> tuple[int, bytes, bytes]:
    """Runs a program, and returns its status, what it prints, and what it says on standard error.

    It is over when the program has ended: another one that it left in the background may keep its output open.
    """
    with subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        outputs = [pipe for pipe in (program.stdout, program.stderr) if pipe]
        texts = [b"", b""]
        limit = time.monotonic() + COMMAND_LIMIT
        try:
            for pipe in outputs:
                os.set_blocking(pipe.fileno(), False)
            while True:
                status = program.poll()  # before it is read, so that nothing is missed
                texts = [text + (pipe.read() or b"") for text, pipe in zip(texts, outputs, strict=True)]
                if status is not None:
                    return status, texts[0], texts[1]
                if time.monotonic() > limit:
                    raise subprocess.TimeoutExpired(arguments, COMMAND_LIMIT)
                time.sleep(COMMAND_PAUSE)
        except BaseException:
            program.kill()
            raise


def _failed(why: str) -> CredentialsError:
    return CredentialsError(why, kind="credentials", hint="run the same command again to resume")


def logins(path: str | None) -> Pairs:
    """Returns the hosts in a netrc file, and a value of `Authorization` for each. The entry `default` is left out.

    Args:
        path: The file; None for `$NETRC`, or else `~/.netrc`.

    Raises:
        ConfigError: It cannot be read. Its contents are not shown.
    """
    import netrc  # imported here: `import shoal` must be fast

    path = path or os.environ.get("NETRC") or None
    shown = path or "~/.netrc"
    try:
        hosts = netrc.netrc(path).hosts
    except OSError as error:
        raise ConfigError(f'cannot read "{shown}": {(error.strerror or type(error).__name__).lower()}') from None
    except (netrc.NetrcParseError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None)
        where = f" at line {line}" if line else ""
        hint = "is it readable only by its owner?" if "permissive" in str(error) or "owner" in str(error) else None
        raise ConfigError(f'"{shown}" is not a valid netrc file{where}', hint=hint) from None
    plain = {host: f"{login}:{password or ''}" for host, (login, _, password) in hosts.items() if host != "default"}
    return [(host, f"Basic {base64.b64encode(text.encode()).decode()}") for host, text in plain.items()]
