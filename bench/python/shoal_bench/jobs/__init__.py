"""The jobs of the lab, one file each: the contestants, what they work on, what must come of it."""

from dataclasses import fields
from typing import Any

from shoal import ConfigError
from shoal_bench import tree
from shoal_bench.contestants import Job
from shoal_bench.jobs import copy, read, records, save, unzip
from shoal_bench.settings import Settings, parse_size

JOBS: dict[str, Job] = {"copy": copy, "save": save, "read": read, "unzip": unzip, "records": records}
# Of cases with other objects than those of their job: how many, and bytes of each.
DEFAULTS = {("copy", tree.CASE): (tree.COUNT, tree.SIZE)}


def named(name: str) -> Job:
    """Returns a job by its name.

    Raises:
        ConfigError: There is no such job.
    """
    if name not in JOBS:
        raise ConfigError(f"there is no job {name!r}", hint=f"there are {', '.join(JOBS)}")
    return JOBS[name]


def settings(job: str, **given: Any) -> Settings:
    """Returns settings of a job from what a caller gives: sizes may be text, keys any sequence; None is the default.

    Raises:
        ConfigError: There is no such job or setting, or a size is invalid.
    """
    chosen = named(job)
    known = {one.name for one in fields(Settings)} - {"job"}
    if unknown := given.keys() - known:
        raise ConfigError(f"there is no setting {min(unknown)!r}", hint=f"there are {', '.join(sorted(known))}")
    given = {name: value for name, value in given.items() if value is not None}
    given |= {name: tuple(given[name]) for name in ("only", "skip", "strategies") if name in given}
    if "size" in given:
        given["size"] = parse_size(given["size"], "size")
    count, size = DEFAULTS.get((job, given.get("case", "")), (chosen.COUNT, chosen.SIZE))
    given = {"count": count, "size": size} | given
    return Settings(job=job, **given)
