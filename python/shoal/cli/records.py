"""`shoal records FILE...`. Not here: printing (`_display.py`), reading records (`shoal._records`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import click

import shoal
from shoal._progress import count_text, size_text
from shoal._records.arguments import Tail
from shoal.cli import _display, _exit
from shoal.cli._groups import Hinting
from shoal.cli._summary import shown_name

SIZES = (16,)  # bytes of a record in the hex view without --size
HEX_RECORDS = 8  # records of each size in the hex view: enough to see which bytes are constant
HEX_BYTES = 64  # bytes of a record shown there: with their characters, three lines of a terminal
ALIGNED = 1000  # records that determine the column widths; a later one may be wider

EXAMPLES = """\b
Examples:
  shoal records index.bin                                     the bytes in hex, to find the format
  shoal records index.bin --format '<QII'                     the first records, and their number
  shoal records index.bin --format '<QII' --names ts,id,len --where 'len>100 and id in (7, 8)'
  shoal records index.bin --format '<QII' --names ts,id,len --count --sum len --max ts
  shoal records 'day-*.bin' --format '<QII' --sum f2 --by f1 --head all
  shoal records 'day-*.bin' --format '<QII' --names ts,id,len --to out.parquet
"""


def _split(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


def _how_many(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor 'all'")
    return int(value)


@click.command(
    "records", cls=Hinting, short_help="Show, filter and sum fixed-size records in flat files.", epilog=EXAMPLES
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format", "layout", metavar="FORMAT", help="Format of a record, as in Python's struct module, such as '<QII'."
)
@click.option("--names", metavar="NAME,...", callback=_split, help="Names of the fields; by default f0, f1, f2.")
@click.option("--offset", type=int, default=0, show_default=True, metavar="N", help="Bytes before the first record.")
@click.option(
    "--tail",
    type=click.Choice(get_args(Tail)),
    default="error",
    show_default=True,
    help="Bytes after the last whole record: fail, or ignore them.",
)
@click.option(
    "--size",
    "sizes",
    type=int,
    multiple=True,
    metavar="N",
    help="Without --format: show records of N bytes; repeatable.",
)
@click.option("--where", metavar="CONDITION", help="Only records that match, such as 'len > 100 and id == 7'.")
@click.option("--columns", metavar="NAME,...", callback=_split, help="Only these fields.")
@click.option(
    "--head",
    default="10",
    show_default=True,
    metavar="N|all",
    callback=_how_many,
    help="Number of records or groups to show.",
)
@click.option("--count", "count", is_flag=True, help="Print the number of records.")
@click.option("--sum", "sums", multiple=True, metavar="NAME", help="Print the sum of a field; repeatable.")
@click.option("--min", "mins", multiple=True, metavar="NAME", help="Print the minimum of a field.")
@click.option("--max", "maxs", multiple=True, metavar="NAME", help="Print the maximum of a field.")
@click.option("--mean", "means", multiple=True, metavar="NAME", help="Print the mean of a field.")
@click.option("--by", metavar="NAME", help="Group by this field, a whole number.")
@click.option("--to", "target", metavar="OUT", help="Write records to OUT.parquet, .csv, .arrow, .jsonl or .npy.")
@click.option("-j", "--workers", type=int, metavar="N", help="Number of threads; by default one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON; the last is the report or the error.")
def command(
    files: tuple[str, ...],
    layout: str | None,
    names: list[str] | None,
    offset: int,
    tail: Tail,
    sizes: tuple[int, ...],
    where: str | None,
    columns: list[str] | None,
    head: int | None,
    count: bool,
    sums: tuple[str, ...],
    mins: tuple[str, ...],
    maxs: tuple[str, ...],
    means: tuple[str, ...],
    by: str | None,
    target: str | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Show, count, filter and sum fixed-size records in flat FILEs.

    FILE is a file or a glob in quotes; several files form one table, in order. FORMAT is a format of Python's struct
    module: < or > for the byte order, then a letter for each field: B H I Q for unsigned integers of 1 2 4 8 bytes,
    b h i q for signed ones, e f d for floats, ? for a boolean, 16s for bytes, x for padding.

    Without --format, the bytes of the first records are shown, for every --size.

    A CONDITION may use field names, numbers, b"bytes", == != < <= > >=, in (...), + - *, and, or, not and parentheses.
    Each count or sum is printed as a line with name, tab and value. With --by there is a line for each group, after a
    line of names. --to writes the records to a table file instead: all of them, or the first --head.
    """
    functions = {"sum": sums, "min": mins, "max": maxs, "mean": means}
    asked = ["count"] * count + [f"{function}({field})" for function, fields in functions.items() for field in fields]
    _check(layout, sizes, asked, by, columns, where or names or target, target)
    with _exit.Signals(lambda: None) as signals:
        try:
            if layout is None:
                _show_hex(files, sizes or SIZES, offset, as_json=as_json)
                return _exit.DONE
            records = shoal.Records(files, layout, names=names, offset=offset, tail=tail)
            if by is not None:
                _show_groups(records.aggregate(*asked, by=by, where=where, workers=workers), head, as_json=as_json)
            elif asked:
                _show_values(records.aggregate(*asked, where=where, workers=workers), as_json=as_json)
            elif target is not None:
                given = click.get_current_context().get_parameter_source("head")
                limit = None if given is click.core.ParameterSource.DEFAULT else head
                _write(records.scan(where, columns=columns, limit=limit, workers=workers), target, as_json=as_json)
            else:
                scan = records.scan(where, columns=columns, limit=head, workers=workers)
                _show_records(records, scan, as_json=as_json)
        except shoal.ShoalError as error:
            _display.command_failed(error, as_json=as_json)
            return _exit.code_of(error)
        except KeyboardInterrupt:
            _display.interrupted(as_json=as_json)
            return signals.code or _exit.INTERRUPTED
    return _exit.DONE


def _check(
    layout: str | None,
    sizes: Sequence[int],
    asked: list[str],
    by: str | None,
    columns: list[str] | None,
    other: object,
    target: str | None,
) -> None:
    """Rejects options that do not work together."""
    if layout is None and (asked or by or columns or other):
        raise click.UsageError("pass the format of a record, such as --format '<QII'")
    if layout is not None and sizes:
        raise click.UsageError("--size works only without --format, which defines the size")
    if any(size < 1 for size in sizes):
        raise click.UsageError("--size must be 1 or more")
    if by is not None and not asked:
        raise click.UsageError("--by needs one of --count, --sum, --min, --max or --mean")
    if target is not None and asked:
        raise click.UsageError("--to writes records: it does not work with counts and sums")
    if columns is not None and asked:
        raise click.UsageError("--columns does not work with counts and sums")


def _text(value: object) -> str:
    """Returns a value for a cell of a table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-" if value is None else str(value)


def _fields(names: Iterable[str], row: Iterable[object]) -> dict[str, object]:
    """A record as JSON has it: bytes in hex, and no number that JSON does not have."""
    plain = (one.hex() if isinstance(one, bytes) else one if one == one else None for one in row)
    return {
        name: str(one) if one in (float("inf"), float("-inf")) else one for name, one in zip(names, plain, strict=True)
    }


def _show_records(records: shoal.Records, scan: shoal.Scan, *, as_json: bool) -> None:
    rows = itertools.chain.from_iterable(_pages(scan))
    if as_json:
        for row in rows:
            _display.out_json({"type": "record", "values": _fields(scan.names, row)})
        _report(_summary(records))
        return
    _table(scan.names, rows)
    total = len(records)
    many = len(records.paths)
    where = f" in {many:,} files" if many > 1 else ""
    _display.talk(
        f"{count_text(total, 'record')} of {count_text(records.record_size, 'byte')}{where}, "
        f"{size_text(total * records.record_size)}"
    )


def _summary(records: shoal.Records) -> dict[str, Any]:
    size = records.record_size
    return {"records": len(records), "record_size": size, "bytes": len(records) * size, "files": len(records.paths)}


def _report(fields: dict[str, Any]) -> None:
    """Prints the last line of JSON."""
    _display.out_json({"type": "report", "ok": True, **fields})


def _pages(scan: shoal.Scan) -> Iterator[list[tuple[Any, ...]]]:
    """Yields the rows of a scan in blocks."""
    for batch in scan:
        for start in range(0, len(batch), ALIGNED):
            yield batch.rows(start, ALIGNED)


def _table(names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Prints rows in columns: numbers to the right, the rest to the left."""
    widths: list[int] = []
    lefts: list[bool] = []
    while page := list(itertools.islice(rows, ALIGNED)):
        lines = [[_text(value) for value in row] for row in page]
        if not widths:
            widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
            lefts = [isinstance(value, (bytes, bool)) for value in page[0]]
            lines.insert(0, list(names))
        _display.out("\n".join(_line(line, widths, lefts) for line in lines))
    if not widths:
        _display.out("  ".join(names))


def _line(values: list[str], widths: list[int], lefts: list[bool]) -> str:
    columns = zip(values, widths, lefts, strict=True)
    return "  ".join(value.ljust(width) if left else value.rjust(width) for value, width, left in columns).rstrip()


def _show_values(values: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _report({"values": _fields(values, values.values())})
        return
    _display.out_rows((name, _text(value)) for name, value in values.items())


def _show_groups(groups: shoal.Groups, head: int | None, *, as_json: bool) -> None:
    rows = itertools.islice(groups, head)
    if as_json:
        for row in rows:
            _display.out_json({"type": "group", "values": _fields(groups.names, row)})
        _report({"groups": len(groups)})
        return
    _display.out_rows([groups.names])
    while page := list(itertools.islice(rows, ALIGNED)):
        _display.out_rows(map(_text, row) for row in page)
    _display.talk(count_text(len(groups), "group"))


def _write(scan: shoal.Scan, target: str, *, as_json: bool) -> None:
    records, size = scan.write(target, progress=_display.is_terminal())
    _display.talk(f"wrote {count_text(records, 'record')}, {size_text(size)}, to {shown_name(target)}")
    if as_json:
        _report({"path": target, "records": records, "bytes": size})


def _show_hex(files: Sequence[str], sizes: Sequence[int], offset: int, *, as_json: bool) -> None:
    """Prints the bytes of the first records for each size, and the number of records."""
    summaries = []
    for size in sizes:
        records = shoal.Records(files, f"{size}s", offset=offset, tail="drop")
        summaries.append(_summary(records))
        if not as_json:
            _display.out(f"records of {count_text(size, 'byte')}: {len(records):,}")
        for at, record in enumerate(itertools.islice(records.raw(), HEX_RECORDS)):
            place = offset + at * size
            if as_json:
                _display.out_json({"type": "bytes", "record_size": size, "offset": place, "hex": record.hex()})
                continue
            shown = record[:HEX_BYTES]
            more = " ..." if len(record) > HEX_BYTES else ""
            signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in shown)
            _display.out(f"{place:>10}  {shown.hex(' ')}{more}  {signs}")
    if as_json:
        _report({"sizes": summaries})
    else:
        _display.talk("hint: pass their fields with --format, such as '<QII': see shoal records --help")
