"""The jobs of the lab, one file each: who takes part, what they work on, what must come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal import ConfigError
from shoal_bench.jobs import copy, read, records, save, unzip

if TYPE_CHECKING:
    from shoal_bench.arena import Job

JOBS: dict[str, Job] = {"copy": copy, "save": save, "read": read, "unzip": unzip, "records": records}


def named(name: str) -> Job:
    """Returns a job by its name.

    Raises:
        ConfigError: There is none.
    """
    if name not in JOBS:
        raise ConfigError(f"there is no job {name!r}", hint=f"there are {', '.join(JOBS)}")
    return JOBS[name]
