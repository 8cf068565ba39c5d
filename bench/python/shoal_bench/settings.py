"""What to run. Not here: what of it a job understands (`jobs/`)."""

import os
import re
from dataclasses import dataclass
from fractions import Fraction

from shoal import ConfigError

UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}


def parse_size(value: int | str, option: str) -> int:
    """Returns a size in bytes: a number, or text such as "100", "10kB", "1.5 MiB".

    Raises:
        ConfigError: It is not a size, or not above 0; `option` is named.
    """
    text = str(value) if type(value) is int else value if isinstance(value, str) else ""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    size = Fraction(found[1]) * UNITS.get(found[2].lower(), 0) if found else 0
    if not 1 <= size < 1 << 63:
        raise ConfigError(
            f"{option} is not a size above 0: {value!r}", hint='write bytes as a number, or "64MiB", "1.5GB"'
        )
    return int(size)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        job: The job, such as "copy".
        count: Objects of the fastest contestants.
        size: Bytes of each object; None where the job makes objects of its own size.
        trials: Rounds that count.
        into: "files", or "null" where the job knows it.
        durable: A final sync is inside the time of each.
        only: Keys of the contestants to run; none: all.
        skip: Keys of contestants to leave out.
        directory: Where files are written, in a new directory.
        keep: Leave the files.
        case: Which of a job's cases, where it has several.
        cold: What is read is not in the page cache, where the job knows that.
        strategies: Functions of the user's own that take part, as MODULE:FUNCTION or FILE.py:FUNCTION.
        full: The sizes of the study; each contestant gets about a second's worth, found in the round that does not
            count.
    """

    job: str
    count: int
    size: int | None
    trials: int = 3
    into: str = "files"
    durable: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    directory: str | os.PathLike[str] | None = None
    keep: bool = False
    case: str = ""
    cold: bool = False
    strategies: tuple[str, ...] = ()
    full: bool = False

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            ConfigError: With the option's name.
        """
        for option, value in (("count", self.count), ("size", self.size), ("trials", self.trials)):
            if value is None and option == "size":
                continue
            if type(value) is not int or value < 1:
                raise ConfigError(f"{option} is not a whole number above 0: {value!r}")
        if self.into not in ("files", "null"):
            raise ConfigError(f"into must be 'files' or 'null', got {self.into!r}")
        if self.case and self.job not in ("copy", "unzip", "records"):
            raise ConfigError(f"the job {self.job} has no cases", hint="leave out --case")
        if self.cold and self.job not in ("unzip", "records"):
            raise ConfigError(f"the job {self.job} has no cold runs", hint="leave out --cold")
        if self.durable and self.into == "null":
            raise ConfigError("discarded data cannot be durable", hint="leave out --durable or --into null")
