"""What a job is called in sentences and titles, and how a time is said. Not here: what it does (`jobs/`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Of one job.

    Attributes:
        title: What it is, as a heading.
        noun: What it counts, in the plural.
        study: Where its strategies come from; empty: nowhere.
    """

    title: str
    noun: str
    study: str


WORDS = {
    "copy": Words(
        "Copy objects of a list/get service into files", "objects", "Downloading a Billion Files in Python (PyCon 2019)"
    ),
    "save": Words(
        "Save files that a Python function makes", "files", "Save thousands of files (SuperFastPython, 2023)"
    ),
    "read": Words("Read many files into a program", "files", "Multi Threaded File IO (2019, in Java)"),
    "unzip": Words("Unpack many zip archives", "entries", "a memo of KZKY (2013, in Python and Ruby)"),
    "records": Words("Read the records of one large file", "records", "I/O performance in Python (2010s)"),
}


def of(job: str) -> Words:
    """Returns the words of a job; of one that is not known, such that fit any."""
    return WORDS.get(job, Words(f"The job {job}", "objects", ""))


def micros(seconds: float) -> str:
    """Returns a short time in microseconds, with the digits that count."""
    cpu = seconds * 1e6
    return f"{cpu:.3f}" if cpu < 1 else f"{cpu:.1f}" if cpu < 1000 else f"{cpu:,.0f}"
