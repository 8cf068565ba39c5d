"""Names of entries, from the table that all formats share and in code pages; and what becomes of each in an archive."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hostile.archives.case import COLLIDES, TOO_DEEP, UNSAFE, Expected

TABLE = Path(__file__).parents[2] / "names.json"
DEPTH_MAX = 100  # components: what `--max-depth` is by default
SEVERAL = 12  # names in one archive: its report carries the first 20 failures
DATA = b"hostile"


def rows(group: str) -> list[str]:
    """Returns the names of one group of the table."""
    table = json.loads(TABLE.read_text("utf-8"))[group]
    return [row if isinstance(row, str) else row[0] * row[1] + "".join(row[2:]) for row in table]


def several(names: list[str]) -> list[list[str]]:
    """Cuts names into archives."""
    return [names[start : start + SEVERAL] for start in range(0, len(names), SEVERAL)]


def content(name: str) -> bytes:
    """Returns the bytes under this name: the name itself, so that no two have the same."""
    return name.encode("utf-8", "surrogateescape") + b"\n"


# In an archive a name that ends in a slash is a directory; these are the ones of the table that are safe then.
DIRECTORIES = {"a/": "a"}
UNSAFE_FILES = [name for name in rows("unsafe") if name not in DIRECTORIES]


@dataclass(frozen=True)
class Sorted:
    """What is expected of some names of the table."""

    written: dict[str, bytes]
    failed: dict[str, frozenset[str]]

    @property
    def expected(self) -> Expected:
        """Returns it as the end of a run."""
        return Expected(self.written, self.failed)


def as_legal(names: list[str]) -> Sorted:
    """Names that are legal elsewhere: in an archive a backslash is refused, and so is a depth over the limit."""
    written, failed = {}, {}
    for name in names:
        if "\\" in name:
            failed[name] = UNSAFE
        elif name.count("/") >= DEPTH_MAX:
            failed[name] = TOO_DEEP
        else:
            written[name] = content(name)
    return Sorted(written, failed)


def as_unsafe(names: list[str]) -> Expected:
    """Names that are legal nowhere. (Some also collide with another one of the table, as `..` and `../x` do.)"""
    return Expected(failed=dict.fromkeys(names, ANY | COLLIDES))


ANY = UNSAFE | TOO_DEEP  # a name that is unsafe and too deep may be called either

# A name with backslashes, and what it is with `--backslashes separator` (None: refused all the same).
BACKSLASHES: dict[str, str | None] = {
    "a\\b": "a/b",
    "C:\\x": "C:/x",
    "deep\\er/still\\x": "deep/er/still/x",
    "..\\x": None,
    "a\\..\\..\\x": None,
    "\\x": None,
    "\\\\server\\share": None,
    "a\\\\b": None,
    ".\\x": None,
    "..\\..\\..\\..\\..\\..\\tmp\\shoal-escaped": None,
    ".shoal\\journal.db": None,
    "a/..\\..\\x": None,
}

# Two names that cannot both be: what arrives, and what fails with it. The second one fails.
COLLISIONS: dict[str, tuple[list[str], str]] = {
    "the-same-twice": (["a", "a"], "a"),
    "file-then-below-it": (["a", "a/b"], "a/b"),
    "below-it-then-file": (["a/b", "a"], "a"),
    "far-below-it-then-file": (["a/b/c/d", "a/b"], "a/b"),
    "file-then-far-below-it": (["a/b", "a/b/c/d"], "a/b/c/d"),
    "file-then-directory": (["a", "a/"], "a"),
}
COLLISION_KINDS = COLLIDES | {"exists"}
