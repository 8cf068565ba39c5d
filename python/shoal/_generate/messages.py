"""Types of the messages between the run, the supervisor and its workers."""

from __future__ import annotations

from typing import Any

from shoal._options import Path

# The path of a destination, when its run began, the mode of a file there, and the part of a job.
Session = tuple[int, int, int, int | None, bool, bool]
Place = tuple[Path, list[Session], int, int, bool, bool, tuple[int, int] | None]

# How a worker writes: the options of the run, and the bytes that may wait to be written.
Writing = tuple[dict[str, Any], int]

# An id for a worker: the token of its object, the id, its name, and whether the file may exist already: 1 if an earlier
# session may have written it, 2 if a worker of this session died while it ran this id.
Item = tuple[int, int | str, bytes, int]

# A written object: its token, its bytes, and false if the name was taken.
Written = tuple[int, int, bool]

# A failed object: its token, the kind and text of the error, a hint, and errno.
Failed = tuple[int, str, str, str | None, int | None]
