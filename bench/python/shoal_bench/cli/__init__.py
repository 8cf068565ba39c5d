"""The commands of `shoal bench`: those of the jobs (`job.py`), and a file for each of the others, such as `compare.py`.

Here: loading them. Not here: shared options (`options.py`), the group itself (`shoal.cli.bench`), the measurements
(`shoal_bench`).
"""

from __future__ import annotations

import importlib

import click

JOBS = ("copy", "save", "read", "unzip", "records")
COMMANDS = (*JOBS, "all", "report", "compare")


def command(name: str) -> click.Command:
    """Returns a command by its name, which `shoal.cli.bench` has in its list."""
    if name in JOBS:
        found = importlib.import_module("shoal_bench.cli.job").job_command(name)
    else:
        found = importlib.import_module(f"shoal_bench.cli.{name}").command
    assert isinstance(found, click.Command)  # noqa: S101  # each of our modules has one
    return found
