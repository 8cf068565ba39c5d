"""`shoal bench JOB`: every strategy on this machine. Not here: how it measures (`shoal_bench`).

What can stand in the place of JOB, such as `compare`, has a file of its own, `compare.py`.
"""

from __future__ import annotations

import functools
import importlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import shoal
from shoal_bench.cli import printing

if TYPE_CHECKING:
    from shoal_bench.results import Results

EXAMPLES = """\b
Examples:
  shoal bench copy                              every way to copy from a list/get service
  shoal bench copy --list                       the contestants, and which cannot run here
  shoal bench copy --only shoal,curl,combo --trials 5 --json results.json
  shoal bench save --durable --dir /mnt/disk    a final sync inside the time of each
  shoal bench unzip --into null --cold          every entry checked, the archives not in the page cache
  shoal bench records --case sum                one field added up
  shoal bench read --workers 1..64 --sizes 10KB,1MB,3.6MB --only threads,java,shoal
  shoal bench save --workers 1,2x10,4x10        processes, and processes with 10 threads each
  shoal bench save --full                       as many files as the study has
  shoal bench run --strategy mine.py:save save
                                                a function of your own in the same table
  shoal bench save --plot save.svg --report save.html
  shoal bench all -o report.html                every job, one report
  shoal bench report copy.json save.json -o report.html
  shoal bench compare before.json after.json    the same contestants side by side
"""

# Exit codes, as of each command of shoal.
USAGE, CANNOT_GO_ON, INTERRUPTED, TERMINATED = 2, 3, 130, 143
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stoppable(command: Callable[..., int]) -> Callable[..., int]:
    """Lets Ctrl-C, SIGTERM and SIGHUP end a measurement, which then removes what it has written."""

    @functools.wraps(command)
    def stopped(*given: Any, **options: Any) -> int:
        code = INTERRUPTED

        def stop(number: int, _frame: object) -> None:
            nonlocal code
            code = INTERRUPTED if number == signal.SIGINT else TERMINATED
            for other in before:
                signal.signal(other, signal.SIG_DFL)  # a second one ends it at once
            raise KeyboardInterrupt

        # One that was ignored before stays so: `nohup` and background jobs of a shell rely on it.
        before = {one: signal.getsignal(one) for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
        for one in before:
            signal.signal(one, stop)
        try:
            return command(*given, **options)
        except KeyboardInterrupt:
            return code
        except shoal.ShoalError as error:
            # Said here and not by shoal, which would print JSON: the option --json names a file in these commands.
            printing.talk(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
            return USAGE if isinstance(error, shoal.ConfigError) else CANNOT_GO_ON
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    return stopped


# What stands in the place of JOB and has options of its own, in a module of that name; loaded when it is asked for.
ACTIONS = ("all", "compare", "report")


class Bench(click.Command):
    """The command for a job, which hands over to that of an action where one is named."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Reads the command line, or lets the action read it."""
        if args and args[0] in ACTIONS:
            action = importlib.import_module(f"shoal_bench.cli.{args[0]}").command
            assert isinstance(action, click.Command)  # noqa: S101  # each of our modules has one
            return action.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        # `run` may be said: with --strategy before the job it reads better.
        return super().make_context(info_name, args[1:] if args[:1] == ["run"] else args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command that has read the command line."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


# Written out, so that `shoal --help` need not load the lab; a test compares.
DEFAULTS = "60000 for copy, 1000 for save, 50000 for read, 7500 for unzip, 10000000 for records"
SIZES = "100 for copy, 10kB for read; save, unzip and records have objects of their own size"
CASES = ("many", "one", "tiny", "skewed", "touch", "sum", "filter", "group", "convert")


def keys(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    """Reads a list of keys."""
    return tuple(key.strip() for key in value.split(",") if key.strip())


# Options that `all` has, too.
only = click.option("--only", default="", metavar="KEY,...", callback=keys, help="Only these contestants.")
skip = click.option("--skip", default="", metavar="KEY,...", callback=keys, help="All but these contestants.")
directory = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where files are written, in a new directory that is removed at the end; by default here.",
)
plot = click.option("--plot", type=click.Path(path_type=Path), help="Draw the rates to this file: .png or .svg.")


@click.command("bench", cls=Bench, short_help="Measure every strategy for a job on this machine.", epilog=EXAMPLES)
@click.argument("job", metavar="JOB", type=click.Choice(["copy", "save", "read", "unzip", "records"]))
@click.option(
    "--count", type=click.IntRange(1), show_default=DEFAULTS, help="Number of objects for the fastest contestants."
)
@click.option("--size", metavar="SIZE", show_default=SIZES, help="Bytes of each object, such as 100 or 1MB.")
@click.option(
    "--trials", type=click.IntRange(1), show_default="3; of read --full 20 for small files", help="Rounds that count."
)
@click.option(
    "--into",
    type=click.Choice(["files", "null"]),
    default="files",
    show_default=True,
    help="null = nothing is written; of copy, each gets 10 or 50 times the objects.",
)
@click.option("--durable", is_flag=True, help="A final sync is inside the time of each.")
@click.option(
    "--case",
    type=click.Choice(CASES),
    help="Of unzip: many archives (the default), one entry of 1 GB, tiny entries, 99 small archives and a giant. "
    "Of records: touch each (the default), sum, filter, group, convert to Parquet.",
)
@click.option("--cold", is_flag=True, help="Of unzip and records: what is read is not in the page cache.")
@click.option(
    "--full",
    is_flag=True,
    help="The sizes of the study; each contestant gets about a second's worth of them, of read and records all.",
)
@click.option(
    "--workers",
    metavar="N,...|N..M|NxT",
    help="A curve over numbers of workers for each program that takes one: 1,2,8 or 1..64, which doubles (1, 2, 4, ... "
    "64), or a grid such as 2x10 or 1..4x10: processes with threads in each. One worker is always measured too.",
)
@click.option(
    "--sizes",
    metavar="SIZE,...",
    help="Of copy and read: a contest for each of these sizes, such as 10KB,1MB,3.6MB, of 200 MB each without --count.",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="A function of your own takes part, of a module or as FILE.py:FUNCTION; may be given several times.",
)
@only
@skip
@click.option(
    "--list", "as_list", is_flag=True, help="List the contestants, and what is missing for those that cannot run."
)
@directory
@click.option("--keep", is_flag=True, help="Leave the files that were written.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every trial to this file as JSON.")
@plot
@click.option("--report", type=click.Path(path_type=Path), help="Write a report to this file: .html or .md.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but the table.")
@stoppable
def command(
    job: str,
    size: str | None,
    sizes: str | None,
    workers: str | None,
    full: bool,
    as_list: bool,
    json_file: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Measure every strategy for a JOB on this machine, beside shoal.

    JOB is `copy`: from a list/get service (`shoal serve`, started for it) into a directory; `save`: files that a Python
    function makes, into a directory; `read`: files, made for it, into a program; `unzip`: archives, made of this
    machine's files, into a directory; or `records`: a flat file of 16-byte records, through a loop.

    The contestants take turns, each into a fresh directory, after a round that does not count; every byte is compared.
    One that fails or is wrong loses its row, and the exit code is then 1. Nothing is deleted before the end, since a
    file system that has just freed files is slow to make new ones.

    With --workers or --sizes it is a scan: a table for each size has the workers across, the best of each line
    is marked, and --only names programs without their number (threads, not threads-8).

    In the place of JOB: `all` runs every job; `report` makes a report of what --json has written, `compare` lays two
    such files side by side. Each has a --help.

    Close other programs, and do not run it within two minutes of deleting many files.
    """
    from shoal_bench import contest, curves, jobs, reports, scans, sizing, text
    from shoal_bench.contest import chosen
    from shoal_bench.results import Collection
    from shoal_bench.settings import parse_size

    results: Results | scans.Scan
    study = sizing.study(job) if full else None
    if study is not None and (given["count"] is not None or size is not None or sizes is not None):
        raise shoal.ConfigError("--full says how many and how large", hint="leave out --count, --size and --sizes")
    if size is not None and sizes is not None:
        raise shoal.ConfigError("--sizes names all sizes", hint="leave out --size")
    counted = given["count"] is not None or full
    trials = given["trials"]
    given |= {"count": study.count} if study else {}
    bytes_ = None if size is None else parse_size(size, "--size")
    settings = jobs.settings(job, size=bytes_, full=full, **given)
    points = curves.points(workers) if workers is not None else ()
    wanted = scans.sizes(sizes) if sizes is not None else (study.sizes if study else ())
    if as_list:
        some = [family.at(None) for family in scans.families_of(settings, points)] if points else chosen(settings)
        for one in some:
            lacks = one.missing()
            printing.out(f"{one.key:<24}{one.title}" + (f"   (cannot run: {lacks})" if lacks else ""))
        return 0
    reports.check(json_file, plot, report)
    talk = (lambda _: None) if quiet else printing.talk
    if points or wanted:
        results = scans.run(settings, points, wanted, talk, counted=counted, trials=trials)
    else:
        results = contest.run(settings, talk)
    # Before anything is printed: minutes of measuring must not depend on standard output.
    if json_file is not None:
        json_file.write_text(results.to_json() + "\n")
    printing.out(text.table(results))
    contests = list(results.contests) if isinstance(results, scans.Scan) else [results]
    reports.draw(Collection(contests), picture=plot, path=report)
    return 1 if results.failed else 0
