"""`shoal bench`: runs the lab, which is a separate distribution (`shoal-bench`, in the folder `bench/`).

Here: the list of its commands, which is printed even if the lab is not installed. Not here: the commands
(`shoal_bench.cli`).
"""

from __future__ import annotations

import importlib
import importlib.util

import click

from shoal._errors import ConfigError
from shoal._shoal import __version__
from shoal.cli._group import Commands

# Command of the lab, and its line of help; a test of the lab compares.
COMMANDS = {
    "copy": "Copy from a list/get service into a directory.",
    "save": "Save the files that a Python function makes.",
    "read": "Read files into a program.",
    "unzip": "Unpack archives into a directory.",
    "records": "Loop over a flat file of 16-byte records.",
    "all": "Measure every job and make one report.",
    "report": "Make a report of results.",
    "compare": "Compare two results.",
}

EXAMPLES = """\b
Examples:
  shoal bench copy                              every strategy for copying from a list/get service
  shoal bench copy --list                       the programs, and which cannot run here
  shoal bench copy --only shoal,curl --trials 5 --results copy.json
  shoal bench read --workers 1..64 --sizes 10KB,1MB,3.6MB --only threads,java,shoal
  shoal bench save --strategy mine.py:save      your own function in the same table
  shoal bench all -o report.html                every job, one report
  shoal bench report copy.json save.json -o report.html
  shoal bench compare before.json after.json    the same programs side by side
"""

INSTALL = f"pip install shoal-bench=={__version__}"


class Lab(Commands):
    """The commands of the lab, if it is installed."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command, or explains how to install the lab."""
        if cmd_name not in COMMANDS:
            return None
        if not is_installed():
            raise ConfigError("shoal bench needs the package shoal-bench, which is not installed", hint=INSTALL)
        command = importlib.import_module("shoal_bench.cli").command(cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101  # the lab's function says so
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, and how to install the lab if it is missing."""
        super().format_epilog(ctx, formatter)
        if not is_installed():
            with formatter.section("The lab is not installed"):
                formatter.write_text(INSTALL)


def is_installed() -> bool:
    """Returns whether the lab is installed."""
    return importlib.util.find_spec("shoal_bench") is not None


@click.group(
    "bench",
    cls=Lab,
    table=COMMANDS,
    package="shoal_bench.cli",
    short_help="Measure shoal and other programs on this machine.",
    epilog=EXAMPLES,
)
def command() -> None:
    """Compare every strategy for a job with shoal, on this machine.

    The programs take turns, each in a fresh directory, after a warm-up round. Every byte is compared. Each command has
    a --help.
    """
