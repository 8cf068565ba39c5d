"""`shoal verify DIR [SHA256SUMS]`.

Not here: reading the manifest (`shoal._manifest`), the check without one (`_dataset.py`), printing (`_display.py`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

import shoal
from shoal import _options as options_of_python
from shoal._progress import count_text, size_text, time_text
from shoal.cli import _dataset, _display, _exit, _options, _summary
from shoal.cli._checksums import each_checksum
from shoal.cli._display import Display
from shoal.cli._flags import in_flags
from shoal.cli._groups import ERRORS, SOURCE, Command, Usage

if TYPE_CHECKING:
    from shoal._manifest import Manifest
    from shoal._report import Report

EXAMPLES = """\b
Examples:
  shoal read photos/ --checksum sha256 > SHA256SUMS    make the manifest
  shoal verify backup/ SHA256SUMS                      verify another copy with it
  shoal verify backup/ SHA256SUMS --strict             fail also for files that are not in the manifest
  shoal verify parquet:out/                            verify the Parquet files in a directory, without a manifest
"""

FAILED = ("different", "missing", "unreadable")  # a file is in one of these states, or good, or extra


@click.command(
    "verify",
    cls=Command,
    short_help="Verify files against a manifest, or Parquet files of objects.",
    epilog=EXAMPLES,
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("manifest", metavar="[SHA256SUMS]", required=False, type=click.Path(path_type=Path))
@_options.flag(
    SOURCE,
    ["--checksum"],
    type=click.Choice(get_args(options_of_python.Checksum)),
    metavar="|".join(get_args(options_of_python.Checksum)),
    help="Type of the checksums; by default told by their length.",
)
@_options.flag(ERRORS, ["--strict"], is_flag=True, help="Fail if there are files that are not in the manifest.")
@_options.some("links", "workers", "nice", "memory")
@_options.output_options
def command(
    directory: Path,
    manifest: Path | None,
    checksum: options_of_python.Checksum | None,
    strict: bool,
    links: options_of_python.Links | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
    progress: str,
    **options: Any,
) -> int:
    """Verify every file of DIR against the manifest SHA256SUMS, and print those that are missing or different.

    The manifest is the output of `shoal read DIR --checksum sha256`, or of `sha256sum` in DIR; xxh3 and crc32 are told
    by their length. A manifest that is empty, malformed or ends within a line is an error. Files that are not in it are
    printed, but are a failure only with --strict. The exit code is 1 if a file is missing, different or unreadable.

    Without a manifest, DIR is `parquet:DIR`, or has the files that a copy to `parquet:DIR` writes. This checks every
    page, checksum and size, and that no name is there twice. The exit code is 1 if anything is wrong.
    """
    from shoal._manifest import Manifest

    options = _options.given(options)
    dataset = _dataset_of(directory, manifest, checksum, strict=strict, links=links)
    display = Display(as_json=as_json, quiet=quiet, verbose=verbose, log_format=log_format, progress=progress)
    with _exit.Signals(display.stopping) as signals:
        try:
            if manifest is None:
                display.begins(str(directory), None)
                good = _dataset.check(dataset, display, options, as_json=as_json)
                return _exit.DONE if good else _exit.SOME_FAILED
            wanted = Manifest(manifest, checksum)
            if not directory.is_dir():
                raise shoal.ConfigError(f"no such directory: {str(directory)!r}")
            display.begins(str(directory), None)
            found, report = _compare(directory, wanted, links, as_json, display, options)
        except shoal.ShoalError as error:
            display.failed(error)
            return _exit.code_of(error)
        except KeyboardInterrupt as stopped:
            display.interrupted(getattr(stopped, "report", None), resumes=False)
            return signals.code or _exit.INTERRUPTED
        # A failure for a name that is not in the manifest counts too: a directory could not be read.
        ok = not any(found[state] for state in FAILED) and report.ok and not (strict and found["extra"])
        fields = {
            "ok": ok,
            "listed": wanted.listed,
            **{state: found[state] for state in ("good", *FAILED, "extra")},
            "failed": report.failed,
            "bytes": report.bytes,
            "seconds": round(report.seconds, 6),
            "checksum": wanted.checksum,
        }
        display.ended(_words(report, wanted, found), fields)
    return _exit.DONE if ok else _exit.SOME_FAILED


def _dataset_of(
    directory: Path,
    manifest: Path | None,
    checksum: options_of_python.Checksum | None,
    *,
    strict: bool,
    links: options_of_python.Links | None,
) -> str:
    """Returns the directory of Parquet files to check, if there is no manifest.

    Raises:
        Usage: It is neither, or a flag is for the other.
    """
    named = _dataset.directory_of(str(directory))
    if manifest is not None and named is not None:
        raise Usage("`parquet:DIR` is verified without a manifest", hint=f"shoal verify {directory}")
    if manifest is not None:
        return ""
    if named is None and not _dataset.is_dataset(directory):
        made = f"shoal read {directory} --checksum sha256 > SHA256SUMS makes one"
        hint = f"{made}; for Parquet files, pass parquet:{directory}"
        raise Usage("missing argument SHA256SUMS, the manifest", hint=hint)
    flags = {"--checksum": checksum is not None, "--strict": strict, "--links": links is not None}
    for flag, given in flags.items():
        if given:
            raise Usage(f"{flag} needs a manifest", hint="leave it out to check Parquet files")
    return named if named is not None else str(directory)


def _compare(
    directory: Path,
    wanted: Manifest,
    links: options_of_python.Links | None,
    as_json: bool,
    display: Display,
    options: dict[str, Any],
) -> tuple[Counter[str], Report]:
    """Reads every file and prints those that are not good; returns the number of files in each state."""
    found: Counter[str] = Counter()

    def tell(state: str, name: str, reason: str = "") -> None:
        found[state] += 1
        if as_json:
            _display.out_json({"type": "file", "state": state, "name": name, **({"reason": reason} if reason else {})})
        else:
            _display.out(f"{state}: {_summary.shown_name(name)}" + (f": {reason}" if reason else ""))

    def compare(name: str, _size: int, digest: bytes) -> None:
        state = wanted.take(name, digest)
        if state == "good":
            found[state] += 1
        elif state != "extra" or not _same(directory / name, wanted.path):
            tell(state, name)

    assert wanted.checksum is not None  # noqa: S101  # its first line says so
    source = shoal.files(directory, links=links)
    # A link that leads to nothing is missing if the manifest has it, and nothing to verify if not.
    options = {**options, "ignore_vanished": True}
    report = each_checksum(source, wanted.checksum, display.progress, options, compare)
    reasons = {one.name: in_flags(one.reason) for one in report.failures}
    for name, state in wanted.rest(directory):
        tell(state, name, reasons.pop(name, ""))
    for name, reason in reasons.items():
        tell("unreadable", name, reason)  # not in the manifest; its state is unknown
    return found, report


def _same(one: Path, other: Path) -> bool:
    """Returns whether a file is the manifest itself, which may be in the directory."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _words(report: Report, wanted: Manifest, found: Counter[str]) -> list[str]:
    seconds, size = max(report.seconds, 1e-6), report.run.bytes
    lines = [
        f"verified {count_text(report.written, 'file')}, {size_text(size)}, in {time_text(report.seconds)}: "
        f"{report.written / seconds:,.0f}/s, {size_text(size / seconds)}/s"
    ]
    bad = [f"{found[state]:,} {state}" for state in FAILED if found[state]]
    if bad:
        lines.append(f"of {count_text(wanted.listed, 'file')} in the manifest: {', '.join(bad)}")
    if found["extra"]:
        lines.append(f"note: {count_text(found['extra'], 'file')} not in the manifest")
    return lines
