"""The archives that the contestants of `unzip` work on, made of files that this machine has.

Regular files with ASCII names, fifty in a row from one place after the other, always the same ones while the machine
has them; where they do not suffice they are taken again, under another directory. A corpus is made once for a contest,
and kept beside it where the lab is given a directory. Not here: how an archive is packed (`pack.py`).
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from shoal import RunError
from shoal_bench import pack
from shoal_bench.pack import Entry

VERSION = 1  # of what is made: another number, so that older data is not mistaken for it
CASES = ("many", "one", "tiny", "skewed")
PER_ARCHIVE = 1250  # entries: 40 archives have 50,000
MEAN = 40_000  # largest average size of an entry, in bytes; that of /usr is about 30,000
AHEAD = 0.25  # of all bytes: as far may large files be ahead of that average, less and less towards the end
LARGEST = 64 << 20  # bytes of a file that is taken
PACKED = (".bz2", ".gz", ".xz", ".zst")  # manual pages and the like, which no archive has so many of
ROW = 50  # files that are taken from one place before the next one's turn
ONE = 1_000_000_000  # bytes of the entry of the case `one`
SMALL = 99  # small archives of the case `skewed`
GIANT = "giant"  # name of the large entry
PACKERS = 2  # processes
TIMEOUT = 1800.0  # seconds for a process to pack its part
LISTED = 200_000  # files examined, at most


@dataclass(frozen=True)
class Corpus:
    """Archives, and what is in them.

    Attributes:
        directory: Where they are; nothing else is there.
        archives: The archives, in the order of their names.
        entries: Size and SHA-256 of every entry, by name.
        packed: Bytes of the archives.
        rounds: How often the machine's files were taken to have enough of them.
    """

    directory: Path
    archives: tuple[Path, ...]
    entries: dict[str, tuple[int, str]]
    packed: int
    rounds: int

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(size for size, _ in self.entries.values())


def roots() -> list[Path]:
    """Returns the directories whose files are taken, none inside another."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    wanted = [Path(sys.base_prefix) / "lib", Path("/usr/lib"), Path("/usr/share"), home / "registry" / "src"]
    found = {path.resolve() for path in wanted if path.is_dir()}
    return sorted(path for path in found if not any(other in path.parents for other in found))


def _below(directory: str) -> Iterator[tuple[str, int]]:
    """Yields path and size of the files below a directory that can be taken, in the order of their names."""
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return  # not for us
    for entry in found:
        if not entry.name.isascii() or not entry.name.isprintable() or "\\" in entry.name:
            continue  # so that every unpacker writes the same name, whatever the locale
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(PACKED):
            size = entry.stat(follow_symlinks=False).st_size
            if size <= LARGEST and os.access(entry.path, os.R_OK):
                yield entry.path, size


def files(places: list[Path] | None = None) -> Iterator[tuple[str, int]]:
    """Yields path and size of files of this machine, a row from each place in turn, each file once."""
    turns = []
    for root in roots() if places is None else places:
        below = sorted(str(path) for path in root.iterdir() if path.is_dir() and not path.is_symlink())
        turns += [_below(path) for path in below]
    while turns:
        rows = [(turn, list(itertools.islice(turn, ROW))) for turn in turns]
        for _, row in rows:
            yield from row
        turns = [turn for turn, row in rows if row]


def choose(count: int, places: list[Path] | None = None) -> tuple[list[Entry], int]:
    """Returns so many entries made of one file each, and how often the machine's files were taken.

    Raises:
        RunError: This machine has none.
    """
    chosen: list[Entry] = []
    size = 0
    candidates: Iterator[tuple[str, int]] = itertools.islice(files(places), LISTED)
    for number in itertools.count(1):
        seen = []
        for path, bytes_ in candidates:
            seen.append((path, bytes_))
            done = len(chosen) / count
            allowed = (len(chosen) + 1) * MEAN + AHEAD * (1 - done) * count * MEAN
            if size + bytes_ <= allowed * number:  # where large files are all there is, they are taken in the end
                name = path.lstrip("/")
                chosen.append(Entry(name if number == 1 else f"again-{number}/{name}", bytes_, (path,)))
                size += bytes_
            if len(chosen) == count:
                return chosen, number
        if not seen:
            raise RunError("this machine has no files to make archives of")
        candidates = iter(seen)
    raise AssertionError("itertools.count has an end")


def _spread(entries: list[Entry], archives: int, name: str) -> list[tuple[str, list[Entry]]]:
    """Cuts a list of entries into archives."""
    cuts = [len(entries) * at // archives for at in range(archives + 1)]
    return [(name.format(at), entries[cuts[at] : cuts[at + 1]]) for at in range(archives)]


def _giant(size: int) -> tuple[Entry, int]:
    """Returns an entry of so many bytes, made of as many files as that takes."""
    chosen, rounds = choose(max(2, size // MEAN))
    full = tuple(entry.files[0] for entry in chosen if entry.size)
    if len(full) < 2:
        raise RunError("the files of this machine are too few or empty: a large entry cannot be made of them")
    return Entry(GIANT, size, full), rounds


def contents(case: str, count: int, size: int | None) -> tuple[list[tuple[str, list[Entry]]], int]:
    """Returns the archives of a case by name, and how often the machine's files were taken for them."""
    if case == "one":
        entry, rounds = _giant(size or ONE)
        return [("one.zip", [entry])], rounds
    if case == "tiny":
        # As many bytes as a short line has: 20 to 200.
        made = [Entry(f"tiny/{at // 1000:04}/{at:06}.txt", 20 + at * 7919 % 181, ()) for at in range(count)]
        return [("tiny.zip", made)], 1
    chosen, rounds = choose(count)
    if case == "many":
        return _spread(chosen, max(2, round(count / PER_ARCHIVE)), "archive-{:03}.zip"), rounds
    # Its name is the last one: a program that takes the archives as they come begins with it last.
    entry, _ = _giant(size or max(1, sum(one.size for one in chosen)))
    small = _spread(chosen, min(SMALL, count), "small-{:02}.zip")
    return [*small, ("zz-giant.zip", [entry])], rounds


def _pack(directory: Path, archives: list[tuple[str, list[Entry]]]) -> dict[str, tuple[int, str]]:
    """Has the archives packed, by processes of about the same work."""
    shares: list[list[tuple[str, list[Entry]]]] = [[] for _ in range(PACKERS)]
    work = [0] * PACKERS
    for name, entries in sorted(archives, key=lambda one: -sum(entry.size for entry in one[1])):
        at = work.index(min(work))
        work[at] += sum(entry.size for entry in entries)
        shares[at].append((str(directory / name), entries))
    with ExitStack() as stack:
        running = []
        for share in shares:
            plan = stack.enter_context(tempfile.TemporaryFile("w+"))  # a pipe would have to be fed meanwhile
            plan.write(pack.plan(share))
            plan.seek(0)
            command = [sys.executable, "-c", f"from {pack.__name__} import main; main()"]
            process = subprocess.Popen(command, stdin=plan, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)  # before it is waited for, if the other one has failed
            running.append(process)
        found: dict[str, tuple[int, str]] = {}
        for process in running:
            said, _ = process.communicate(timeout=TIMEOUT)
            if process.returncode != 0:
                raise RunError(f"the archives could not be made: a process ended with code {process.returncode}")
            found |= json.loads(said)
    return found


def names(archive: Path) -> list[str]:
    """Returns the names of an archive's entries."""
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def make(case: str, count: int, size: int | None, directory: Path) -> Corpus:
    """Makes the archives of a case in a new directory, or takes those that an earlier contest has left there.

    Raises:
        RunError: They could not be made.
    """
    known = directory / "manifest.json"
    if not known.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Made beside it and renamed at the end: half a corpus is never taken for one.
        with tempfile.TemporaryDirectory(prefix="making-", dir=directory.parent) as place:
            made = Path(place) / "made"
            (made / "archives").mkdir(parents=True)
            archives, rounds = contents(case, count, size)
            entries = _pack(made / "archives", archives)
            (made / "manifest.json").write_text(json.dumps({"entries": entries, "rounds": rounds}))
            made.rename(directory)
    found = json.loads(known.read_text())
    paths = tuple(sorted((directory / "archives").iterdir()))
    entries = {name: (size, digest) for name, (size, digest) in found["entries"].items()}
    packed = sum(path.stat().st_size for path in paths)
    return Corpus(directory / "archives", paths, entries, packed, found["rounds"])
