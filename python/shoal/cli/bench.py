"""`shoal bench`: the way into the lab, which is a distribution of its own (`shoal-bench`, in the folder `bench/`)."""

from __future__ import annotations

import click

from shoal._errors import ConfigError
from shoal._shoal import __version__


@click.command(
    "bench",
    short_help="Measure every strategy for a job on this machine.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def missing(arguments: tuple[str, ...]) -> int:  # noqa: ARG001  # whatever they are
    """Say how to install the lab."""
    raise ConfigError(
        "shoal bench needs the package shoal-bench, which is not installed",
        hint=f"pip install shoal-bench=={__version__}",
    )


def lab() -> click.Command:
    """Returns the command of the lab, or the one that says how to install it."""
    try:
        from shoal_bench.cli import command
    except ModuleNotFoundError as error:
        if error.name != "shoal_bench":
            raise
        return missing
    return command


command = lab()
