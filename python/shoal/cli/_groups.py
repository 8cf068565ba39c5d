"""Commands with options in groups, and hints for flags of other programs.

Here: the classes of commands and options. Not here: the flags (`_options.py`).
"""

from __future__ import annotations

import re
from typing import Any

import click

from shoal.cli import _display

SOURCE = "Source"
DESTINATION = "Destination"
ERRORS = "Errors and resuming"
SPEED = "Speed"
OUTPUT = "Output"
SERVICES = "Services"
STORES = "Object stores"
URLS = "Lists of URLs"
ARCHIVES = "Archives"
GROUPS = (SOURCE, DESTINATION, ERRORS, SPEED, OUTPUT, SERVICES, STORES, URLS, ARCHIVES)
FIRST_COLUMN = 30  # characters: the longest flag with its value

# Flags of other programs, or of this one in the past, and what to type here: in every command, and in each.
_EVERYWHERE = {
    **dict.fromkeys(("--threads", "--jobs", "--parallel", "--transfers", "-P"), "use --workers"),
    **dict.fromkeys(
        ("--resume", "--continue"), "run the same command again to resume; --update lists the source again"
    ),
    **dict.fromkeys(("--force", "-f"), "use --overwrite always"),
    "--again": "use --update to list the source again, or --restart to start over",
    "--bwlimit": "use --limit-rate",
    "--layout": "to pack objects into few files, of about --shard-size bytes, use the destination parquet:DIR",
    "-u": "use --update",
    "-x": "use --exclude",
}
_LAST = "pass the destination as the last argument"
ELSEWHERE = {
    # cp, rsync, wget, curl, aria2c
    "copy": {
        **dict.fromkeys(("--recursive", "-r", "-R"), "directories are always copied with their contents"),
        **dict.fromkeys(
            ("--archive", "-a", "-p"),
            "links, permissions and times are kept without a flag; --exact keeps owners, ACLs and hard links, too",
        ),
        **dict.fromkeys(("-A", "-X", "--acls", "--xattrs", "--owner", "--preserve"), "use --exact"),
        **dict.fromkeys(("-S", "--sparse"), "holes are kept without a flag"),
        **dict.fromkeys(("-L", "--copy-links", "--follow-links"), "use --links follow"),
        **dict.fromkeys(("--checksum", "-c"), "--update compares size and time; `shoal verify` compares checksums"),
        "--delete": "shoal deletes nothing at the destination; rsync can",
        "-C": "run the same command again to resume",
        "-P": "progress is shown, and the same command resumes; for more objects at once, use --workers",
        **dict.fromkeys(("-O", "-d", "-o"), _LAST),
        "--no-sign-request": "use --anonymous",
        "--endpoint-url": "use --endpoint",
        "--request-payer": "use --requester-pays",
        "-i": "use --urls if the source is a list of URLs; files are replaced only with --overwrite always",
        "-t": f"{_LAST}; modification times are kept without a flag",
        "-x": "use --exclude to leave out names; --per-host limits the connections to a host",
    },
    # seq, make, parallel
    "generate": {
        "-n": "pass the number of ids as the second argument",
        "-o": _LAST,
        "-u": "use --restart to do everything again and compare",
    },
    # cat, head, sha256sum
    "read": {
        **dict.fromkeys(("--recursive", "-r", "-R"), "directories are always read with their contents"),
        "-a": "every file is read, also hidden ones",
        "-c": "`shoal verify` compares checksums",
        **dict.fromkeys(("-n", "-o"), "shoal read writes nothing; use shoal copy to keep the objects"),
    },
    # xxd, od, hexdump, head, wc
    "records": {
        **dict.fromkeys(("-C", "-x"), "without --format, records are shown in hex"),
        "-a": "use --head all",
        "-c": "use --count for the number of records, or --columns for some of their fields",
        **dict.fromkeys(("-f", "-t"), "use --format"),
        "-l": "use --count",
        "-n": "use --head N",
        "-o": "use --to OUT",
        "-s": "use --offset",
        "-w": "use --size for the bytes of a record",
    },
    # http.server, http-server, miniserve
    "serve": {
        **dict.fromkeys(("-p", "-l", "--listen"), "use --port"),
        **dict.fromkeys(("-b", "--bind", "-a", "-i"), "use --host"),
        **dict.fromkeys(("-d", "--directory"), "pass the directory as the argument"),
        **dict.fromkeys(("-u", "-w"), "clients can only read: the service accepts no uploads"),
        "-C": "the service speaks only HTTP; for HTTPS, put a proxy in front of it",
        **dict.fromkeys(("-j", "-P", "--workers"), "requests are answered in parallel without a flag"),
        "-n": "use --synthetic to serve objects without files",
        "-o": "open the URL that is printed",
    },
    # git, watch
    "status": {
        "-C": "pass the destination as the argument",
        **dict.fromkeys(("-a", "-v", "--verbose"), "use --failures all, and --skipped all"),
        "-j": "use --json",
        "-n": "use --failures N",
        "-o": "redirect the output: shoal status DST > FILE",
        "-w": "watch shoal status DST repeats it",
    },
    # Info-ZIP, tar, 7z
    "unzip": {
        "-C": "use -d DIR",
        "-P": "shoal cannot unpack encrypted entries",
        "-a": "entries are written byte for byte; shoal converts no text",
        "-f": "pass archives without a flag; to replace files, use --overwrite always",
        "-o": "use --overwrite always to replace files, and -d DIR to name the directory",
        "-p": "entries are written to files; in Python, shoal.read('zip:ARCHIVE') returns them",
        "-t": "use --test to check every entry, or --list to list them",
        "-x": "archives are unpacked without a flag; to leave out entries, use --exclude",
    },
    # sha256sum, shasum
    "verify": {
        "-a": "use --checksum sha256",
        **dict.fromkeys(("-b", "-t"), "files are read byte for byte"),
        "-c": "pass the manifest as the second argument: shoal verify DIR SHA256SUMS",
        "-n": "shoal verify changes nothing",
    },
}


class Option(click.Option):
    """An option that knows its group."""

    def __init__(self, *given: Any, group: str, **more: Any) -> None:
        """Takes the group, and click's own arguments."""
        super().__init__(*given, **more)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Returns flag and help; `--x / --no-x` is shortened, and a default is not in parentheses."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        return re.sub(r"--([a-z-]+) / --no-\1", r"--[no-]\1", record[0]), re.sub(
            r"default: \((.*)\)\]", r"default: \1]", record[1]
        )


class Hinting(click.Command):
    """A command that says what to type for a flag of another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line."""
        message = None
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = {flag for param in self.params for flag in param.opts}
            meant = (_EVERYWHERE | ELSEWHERE.get(self.name or "", {})).get(error.option_name)
            if meant is not None and known.issuperset(re.findall(r"(?<!\S)--?[a-z][a-z-]*", meant)):
                raise Usage(f"no such option: {error.option_name}", hint=meant, ctx=ctx) from None
            raise
        except click.MissingParameter as error:
            message, rest = error, []
        taken = ctx.params.get("workers")
        given = ctx.get_parameter_source("workers") is click.core.ParameterSource.COMMANDLINE
        if given and isinstance(taken, str) and taken != "auto":
            hint = f"-j is --workers, and took {taken!r} as its number: write -j 8, or leave it out"
            kept = "; entries always keep their directories" if self.name == "unzip" else ""
            why = message.format_message() if message else f'--workers must be "auto" or a whole number, got {taken!r}'
            raise Usage(why, hint=hint + kept, ctx=ctx)
        if message:
            raise message
        return rest


class Command(Hinting):
    """A command that shows its options in groups, some of them only with `--help-all`."""

    def __init__(self, *given: Any, later: tuple[str, ...] = (), **more: Any) -> None:
        """Takes the groups that only `--help-all` shows, and click's own arguments."""
        super().__init__(*given, **more)
        self._later = later
        if later:
            what = f"Show every option, also of {later[0].lower()} and others."
            self.params.append(
                Option(
                    ["--help-all"],
                    group=OUTPUT,
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=self._help_all,
                    help=what,
                )
            )

    def _help_all(self, ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            self._later = ()
            _display.out(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, a section for each group, with all flags in one column."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(param, "group", OUTPUT), []).append(record)
        for group in dict.fromkeys([*GROUPS, *groups]):  # those that are not known here last
            if group in groups and group not in self._later:
                with formatter.section(group):
                    formatter.write_dl([(flag.ljust(FIRST_COLUMN), text) for flag, text in groups[group]])


class Usage(click.UsageError):
    """A wrong command line, with what to do."""

    def __init__(self, message: str, *, hint: str, ctx: click.Context | None = None) -> None:
        """Takes the message and the hint."""
        super().__init__(message, ctx)
        self.hint = hint
