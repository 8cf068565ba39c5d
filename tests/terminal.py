"""What a command has written to a terminal."""

from __future__ import annotations

import os


def rest_of(leader: int) -> bytes:
    """Reads the leader of a pseudo-terminal until the other end is closed, and closes it."""
    seen = b""
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:  # how Linux says that the other end is closed
        return seen
    finally:
        os.close(leader)
    return seen
