"""The command line: `shoal COMMAND`. Each command is a file, loaded only when it is run.

Here: the list of commands and the entry point. Not here: how the list is shown (`_group.py`), options (`_options.py`),
printing (`_display.py`), failing writes to standard output (`_output.py`), exit codes and signals (`_exit.py`).
"""

from __future__ import annotations

import sys
import warnings

import click

from shoal._errors import ShoalError, ShoalWarning
from shoal._shoal import __version__
from shoal.cli import _display, _exit, _output
from shoal.cli._group import Commands

# Command, and its line in the list of commands; a test compares it with the command's own.
COMMANDS = {
    "copy": "Copy every object of a source into a directory; resumes.",
    "generate": "Save the results of a function, one file per id; resumes.",
    "read": "Read everything and count it; print checksums on request.",
    "unzip": "Unpack archives, many as one job; resumes.",
    "records": "Show, filter and sum fixed-size records in flat files.",
    "serve": "Serve a directory, or synthetic objects, over HTTP.",
    "status": "Show what is done, what failed and why.",
    "verify": "Verify files against a manifest, or Parquet files of objects.",
    "bench": "Measure shoal and other programs on this machine.",
    "completion": "Print the script that completes commands in your shell.",
}

# The name in other programs, and what to type here.
ELSEWHERE = {
    **dict.fromkeys(("cp", "get", "download", "fetch"), "use shoal copy"),
    **dict.fromkeys(("sync", "rsync", "mirror"), "use shoal copy --update"),
    **dict.fromkeys(("extract", "untar", "tar"), "use shoal unzip"),
    **dict.fromkeys(
        ("ls", "list"),
        "shoal unzip --list ARCHIVE lists an archive; in Python, shoal.list_objects(SRC) lists any source",
    ),
    "cat": "use shoal read",
    **dict.fromkeys(("hash", "sha256sum"), "use shoal read --checksum sha256"),
    "check": "use shoal verify",
    "resume": "run the same command again to resume",
}

EXAMPLES = """\b
Examples:
  shoal copy http://files.local:8080 out/     one file per object; run it again to resume
  shoal copy photos/ backup/ --update         copy what is new or has changed
  shoal read photos/                          count it and measure the speed
  shoal unzip downloads/*.zip -d out/         all of them as one job
  shoal generate make:table 2000 tables/ --name {}.csv
                                              save table(0), table(1), ... of make.py
  shoal records index.bin --format '<QII'     the first records; also count, sum, filter
  shoal status out/                           what is done, and what failed
  shoal serve --synthetic 1000000:100         objects to try shoal on
  shoal bench copy                            every strategy for copying, on this machine

\b
Exit codes:
  0  all done                       2  the command line is wrong
  1  some objects failed            3  cannot continue (disk full, source away, output lost, ...)
  130, 143  stopped by Ctrl-C or a signal; the same command resumes
"""


@click.group(
    cls=Commands,
    table=COMMANDS,
    package="shoal.cli",
    elsewhere=ELSEWHERE,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="shoal %(version)s")
def app() -> None:
    """Move very many files as fast as the hardware allows.

    Every run keeps a journal in its destination. Run the same command again to resume, and `shoal status` to see what
    failed and why.
    """


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    as_json = "--json" in arguments
    try:
        code = app.main(arguments, prog_name="shoal", standalone_mode=False)
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        hint = getattr(error, "hint", None) or f"{ctx.command_path if ctx else 'shoal'} --help lists the options"
        _display.usage_error(error.format_message(), hint, as_json=as_json)
        return _exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        _display.interrupted(as_json=as_json)
        return _exit.INTERRUPTED
    except ShoalError as error:
        _display.command_failed(error, as_json=as_json)
        return _exit.code_of(error)
    return code if isinstance(code, int) else _exit.DONE


def main() -> None:
    """Runs the command line of this process; the entry point of `shoal` and `python -m shoal`."""
    _display.prepare()
    warnings.simplefilter("ignore", ShoalWarning)  # the summary says the same
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _exit.INTERRUPTED
    except _output.OutputError:
        code = _exit.CANNOT_GO_ON  # the error is printed at the end
    except Exception:  # noqa: BLE001  # Python's own exit code would be 1, which here means something else
        _display.defect(as_json="--json" in sys.argv)
        code = _exit.CANNOT_GO_ON
    # A command fails if its output is lost, whatever its own exit code.
    sys.exit(code if _display.finish() else _exit.CANNOT_GO_ON)
