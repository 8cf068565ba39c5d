"""The command line: `shoal COMMAND`. One file for each command, loaded only when it is run.

Here: the list of commands and the way in. Not here: options (`_options.py`), what is printed (`_display.py`), a
standard output that takes no more (`_output.py`), exit codes and signals (`_exit.py`).
"""

from __future__ import annotations

import importlib
import sys

import click

from shoal._errors import ShoalError
from shoal._shoal import __version__
from shoal.cli import _display, _exit, _output

# Command, and the one line that the list of commands shows; a test compares it with the command's own.
COMMANDS = {
    "copy": "Copy every object of a source into a directory; resumes.",
    "generate": "Save what a function returns, a file for each id; resumes.",
    "read": "Read everything; count it, and on request its checksums.",
    "unzip": "Unpack archives, many as one job; resumes.",
    "records": "Look into flat files of fixed-size records.",
    "serve": "Serve a directory, or made-up objects, to be copied.",
    "status": "Say what is done, what failed and why.",
    "bench": "Measure every strategy for a job on this machine.",
}


class Commands(click.Group):
    """A group whose commands are imported when they are asked for: `--help` must not wait for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click calls it so
        """Returns the names in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"shoal.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101  # each of our modules has one
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command, or says which one was meant."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command {args[0]!r}: {meant}", ctx)
        return super().resolve_command(ctx, args)


EXAMPLES = """\b
Examples:
  shoal copy http://files.local:8080 out/     one file for each object; again to resume
  shoal read photos/                          how much is it, how fast does it come?
  shoal unzip downloads/*.zip -d out/         all of them as one job; --test only checks
  shoal generate make:table 2000 tables/      what a Python function returns for 0, 1, 2, ...
  shoal records index.bin --format '<QII'     the first of many records; count, sum, filter them
  shoal status out/                           what is done, and what failed
  shoal serve --synthetic 1000000:100         something to try it on
  shoal bench copy                            every way to do it, on this machine

\b
Exit codes:
  0  all done                       2  the command line is wrong
  1  some objects failed            3  it cannot go on (disk full, source away, output lost, ...)
  130, 143  stopped by Ctrl-C or a signal; the same command resumes
"""


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="shoal %(version)s")
def app() -> None:
    """Move very many files as fast as the hardware allows.

    Every run keeps a journal in its destination: the same command again goes on where it was stopped, and `shoal
    status` tells what failed and why.
    """


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        code = app.main(arguments, prog_name="shoal", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "shoal"
        _display.usage_error(error.format_message(), f"{command} --help", as_json="--json" in arguments)
        return _exit.USAGE
    except click.ClickException as error:
        _display.usage_error(error.format_message(), "shoal --help", as_json="--json" in arguments)
        return _exit.USAGE
    except click.Abort:
        return _exit.INTERRUPTED
    except ShoalError as error:
        _display.command_failed(error, as_json="--json" in arguments)
        return _exit.code_of(error)
    return code if isinstance(code, int) else _exit.DONE


def main() -> None:
    """Runs the command line of this process; what `shoal` and `python -m shoal` call."""
    _display.prepare()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _exit.INTERRUPTED
    except _output.OutputError:
        code = _exit.CANNOT_GO_ON  # what is wrong is said at the end
    except Exception:  # noqa: BLE001  # Python's own exit code would be 1, which here means something else
        _display.defect()
        code = _exit.CANNOT_GO_ON
    # A command has not done what was asked if its output is lost, whatever its own code says.
    sys.exit(code if _display.finish() else _exit.CANNOT_GO_ON)
