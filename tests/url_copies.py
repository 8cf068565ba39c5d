"""What tests of lists of URLs have in common: writing a list, and copying what it names.

Not here: random lists (`url_lists.py`), the server (`servers/url_server.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *lines: str | bytes) -> Path:
    """Writes a list, and returns its path."""
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n")
    return path


def copy(source: Any, out: Path | str, **options: Any) -> package.Report:
    """Copies what a list names; failures are in the report."""
    return package.copy(source, out, on_error="record", **options)
