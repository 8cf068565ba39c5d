"""Prints for the commands: data on standard output, all else on standard error. Control characters are escaped."""

from __future__ import annotations

import json
import sys
from typing import Any


def safe(text: str) -> str:
    """Escapes control characters; line ends stay."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def out(text: str) -> None:
    """Prints data."""
    print(safe(text))


def out_json(value: dict[str, Any]) -> None:
    """Prints data as one line of JSON, in ASCII."""
    print(json.dumps(value).replace("\x7f", "\\u007f"))


def talk(text: str) -> None:
    """Prints a message."""
    print(safe(text), file=sys.stderr)
