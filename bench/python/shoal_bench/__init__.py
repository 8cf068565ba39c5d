"""The lab: every strategy for a job, on this machine, beside shoal.

    import shoal_bench
    results = shoal_bench.run("copy", count=2000, trials=1, only=["shoal", "threads-10"])
    print(shoal_bench.table(results))

`jobs/` names the contestants of each job and checks what they did. `strategies/` are programs in plain Python that can
be taken away, `peers/` such in other languages, `limits/` what the machine can do, `ours/` calls of shoal. `contest.py`
runs contestants in turn, `everything.py` all jobs, `scans.py` one program at several numbers of workers. `results.py`
is what came of it, `text.py` and `reports.py` show it. How it measures, and how to read it: the README of the
distribution. Not here: the command line (`cli/`).
"""

from collections.abc import Callable
from typing import Any

from shoal_bench import contest, jobs
from shoal_bench.comparison import Comparison, compare
from shoal_bench.everything import run_all as all  # noqa: A004  # as it is said: shoal_bench.all
from shoal_bench.reports import report
from shoal_bench.results import Collection, Results, Row, Trial, load, schema
from shoal_bench.scans import Scan, scan
from shoal_bench.settings import Settings
from shoal_bench.text import table

__all__ = [
    "Collection",
    "Comparison",
    "Results",
    "Row",
    "Scan",
    "Settings",
    "Trial",
    "all",
    "compare",
    "load",
    "report",
    "run",
    "scan",
    "schema",
    "table",
]


def run(job: str, *, progress: Callable[[str], object] | None = None, **settings: Any) -> Results:
    """Runs every way to do a job, in turn, and checks each after every run.

    Args:
        job: `"copy"`, `"save"`, `"read"`, `"unzip"` or `"records"`.
        progress: Called with a line of text before each run.
        **settings: Fields of `shoal_bench.Settings`, such as `count`, `trials`, `only` and `directory`; those that are
            not given have the job's defaults. A size may be text such as `"1MB"`.

    Returns:
        The rows, fastest first, with every trial; contestants that could not run, or failed, are there with the reason.

    Raises:
        shoal.ConfigError: A setting is wrong, no contestant is left, or the disk has no room.
        shoal.RunError: What the contestants work on could not be made.

    Example:
        >>> results = shoal_bench.run("save", count=20, trials=1, only=["limit"])
        >>> results.rows[0].key, results.rows[0].trials[0].objects
        ('limit', 20)
    """
    return contest.run(jobs.settings(job, **settings), progress or (lambda _: None))
