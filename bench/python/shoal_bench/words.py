"""What a job is called in sentences and titles, and how a time is said. Not here: what it does (`jobs/`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Of one job.

    Attributes:
        title: What it is, as a heading.
        noun: What it counts, in the plural.
        study: Where its strategies come from; empty: nowhere.
        source: Which server the objects come from, as the end of a sentence.
    """

    title: str
    noun: str
    study: str
    source: str = ""


WORDS = {
    "copy": Words(
        "Copy objects of a list/get service into files",
        "objects",
        "Downloading a Billion Files in Python (PyCon 2019)",
        " from `shoal serve` on the same machine",
    ),
    "copy tree": Words("Copy a directory of this machine", "files", ""),
    "save": Words(
        "Save files that a Python function makes", "files", "Save thousands of files (SuperFastPython, 2023)"
    ),
    "read": Words("Read many files into a program", "files", "Multi Threaded File IO (2019, in Java)"),
    "unzip": Words("Unpack many zip archives", "entries", "a memo of KZKY (2013, in Python and Ruby)"),
    "records": Words("Read the records of one large file", "records", "I/O performance in Python (2010s)"),
}


def of(job: str, case: str) -> Words:
    """Returns the words of a job, or of its case that has other objects; of one that is not known, such that fit."""
    return WORDS.get(f"{job} {case}") or WORDS.get(job, Words(f"The job {job}", "objects", ""))


def micros(seconds: float) -> str:
    """Returns a short time in microseconds, with the digits that count."""
    cpu = seconds * 1e6
    return f"{cpu:.3f}" if cpu < 1 else f"{cpu:.1f}" if cpu < 1000 else f"{cpu:,.0f}"


def seconds(moment: float | None) -> str:
    """Returns a time in seconds, as three digits or so tell it."""
    if moment is None:
        return ""
    return f"{moment:.2f}" if moment < 10 else f"{moment:.1f}" if moment < 100 else f"{moment:,.0f}"


def duration(seconds: float) -> str:
    """Returns a time in the unit in which people would say it."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def size(count: int) -> str:
    """Returns a size as people say it."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count} B"
