"""What is said between the run, the supervisor and its workers. Types only."""

from __future__ import annotations

from shoal._options import EncodeOptions, Path

# The path of a destination, when its run began, and the mode of a file there.
Session = tuple[int, int, int, int | None, bool, bool]
Place = tuple[Path, list[Session], int, int, bool, bool]

# How a worker writes: durability, overwrite, the bytes that may wait in it, and how tables are encoded.
Writing = tuple[str, str, int, EncodeOptions]

# An id for a worker: the token of its object, the id, its name, and whether something of it may be there already: 1 if
# an earlier session may have made it, 2 if a worker of this one has died over it.
Item = tuple[int, int | str, bytes, int]

# An object that is written: its token, its bytes, and false where another had its name.
Written = tuple[int, int, bool]

# One that is not: its token, the kind and text of the error, a hint, and the operating system's number.
Failed = tuple[int, str, str, str | None, int | None]
