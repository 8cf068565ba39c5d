"""What the tests of `shoal.save` share."""

from __future__ import annotations

from collections.abc import Iterator


def numbered(count: int) -> Iterator[tuple[str, bytes]]:
    """Small items."""
    return ((f"{n:06}", b"%d" % n) for n in range(count))
