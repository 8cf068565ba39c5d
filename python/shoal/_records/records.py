"""`Records`: opens, reads and appends to flat files of fixed-size records.

Not here: validation of arguments (`arguments.py`), results of a scan (`scan.py`), conditions as objects
(`_expression.py`), and the reading itself (the crate `shoal-records`).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, overload

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._expression import Aggregate, Column
from shoal._records.appended import Appended
from shoal._records.arguments import (
    AppendTail,
    Layout,
    Tail,
    Where,
    asked_of,
    cuts_tail,
    field_names,
    paths_of,
    tail_of,
    where_of,
    whole_number,
    worker_count,
)
from shoal._records.scan import Compression, Groups, Scan, TableFormat

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa  # type: ignore[import-untyped]

    from shoal._options import Path, Workers


class Records:
    """Records of one format, in one file or in many files that form one table.

    Opening reads nothing. Reading uses all cores, without the interpreter. A `Records` covers the records that existed
    when it was opened; `refresh()` or `follow=True` also finds records that were appended later.

    Example:
        >>> _ = shoal.Records.append("index.bin", [(1, 7, 512), (2, 8, 90)], "<QII", names=("ts", "id", "len"))
        >>> records = shoal.Records("index.bin", "<QII", names=("ts", "id", "len"))
        >>> len(records), records[-1]
        (2, (2, 8, 90))
        >>> records.aggregate("count", "sum(len)", where="len > 100")
        {'count': 1, 'sum(len)': 512}
        >>> [length for ts, id, length in records]
        [512, 90]
    """

    def __init__(
        self,
        path: Path | Iterable[Path],
        format: object = None,  # noqa: A002  # the struct module's name
        *,
        names: Iterable[str] | None = None,
        offset: int = 0,
        tail: Tail = "error",
        follow: bool = False,
    ) -> None:
        """Opens files.

        Args:
            path: A file, several files, or a glob. Text with `*`, `?` or `[` matches files, sorted by name; a
                `pathlib.Path` is always one file. Several files form one table, in this order.
            format: A `struct` string such as `"<QII"`, a NumPy dtype, or a PyArrow schema (any object with
                `__arrow_c_schema__`) of fixed-width types, packed and little-endian. It is required, because a flat
                file does not describe its records.
            names: A name for each field of a `struct` string; by default `f0`, `f1`, ….
            offset: Bytes before the first record of every file.
            tail: What to do with bytes after the last whole record: `"error"`, or `"drop"` to ignore them.
            follow: Look for appended records in all files at every use, as `refresh` does. An incomplete record at the
                end is ignored, because it is still being written. New files that match the glob are not added.

        Raises:
            ConfigError: An argument is wrong, or a file is shorter than `offset`.
            NotFoundError: A file does not exist, or no file matches.
            IntegrityError: A file ends within a record, or is in doubt after an interrupted append (see `recover`).
        """
        self._layout = Layout(format, names)
        self._offset = whole_number(offset, 0, "offset")
        self._tail = tail_of(tail)
        self._follow = bool(follow)
        drop = self._follow or self._tail == "drop"
        self._files = _shoal.RecordFiles(paths_of(path), self._layout.engine, self._offset, drop)

    @classmethod
    def _of(cls, other: Records, files: _shoal.RecordFiles, follow: bool) -> Self:
        made = cls.__new__(cls)
        made._layout, made._offset, made._tail = other._layout, other._offset, other._tail
        made._follow, made._files = follow, files
        return made

    def _now(self) -> _shoal.RecordFiles:
        if self._follow:
            self._files = self._files.refresh()
        return self._files

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, in order."""
        return tuple(self._layout.engine.names)

    @property
    def record_size(self) -> int:
        """Size of one record in bytes, including padding."""
        return self._layout.engine.record_size

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return self._files.paths

    @property
    def format(self) -> str:
        """The format as text."""
        return self._layout.text

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._now())

    def __repr__(self) -> str:
        """Shows the files, the format and the number of records."""
        paths = self._files.paths
        shown = repr(paths[0]) if len(paths) == 1 else f"{len(paths)} files"
        return f"Records({shown}, {self.format!r}, names={self.names!r}, len={len(self._files)})"

    @overload
    def __getitem__(self, key: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: slice) -> Records: ...
    def __getitem__(self, key: int | slice) -> tuple[Any, ...] | Records:
        """Returns a record as a tuple, or the records of a slice; slicing reads nothing.

        Raises:
            IndexError: There is no such record.
            ConfigError: The slice has a step.
        """
        files = self._now()
        if isinstance(key, slice):
            start, stop, step = key.indices(len(files))
            if step != 1:
                raise ConfigError(
                    f"a slice of records cannot have a step, got {step}",
                    hint="slice an array instead: records.numpy()[::2]",
                )
            return Records._of(self, files.slice(start, max(start, stop)), follow=False)
        place = operator.index(key)
        at = place + len(files) if place < 0 else place
        if not 0 <= at < len(files):
            raise IndexError(f"record {place} is out of range: there are {len(files)}")
        return files.get(at)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterates over tuples, like `struct.iter_unpack`, in the order of the files.

        Raises:
            IntegrityError: A file was truncated meanwhile.
        """
        return self._now().tuples()

    def raw(self) -> Iterator[bytes]:
        """Iterates over records as bytes.

        Returns:
            An iterator of `bytes`, each `record_size` long.

        Raises:
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("raw.bin", b"abcdef", "2s")
            >>> list(shoal.Records("raw.bin", "2s").raw())
            [b'ab', b'cd', b'ef']
        """
        return self._now().raw()

    def columns(self, *, batch_size: int = 65_536, workers: Workers | None = None) -> Iterator[tuple[np.ndarray, ...]]:
        """Iterates over batches of records, each a tuple with one NumPy array per field.

        For loops that process thousands of records in one line of Python. Workers read ahead.

        Args:
            batch_size: Records in a batch; the last batch of each file may have fewer.
            workers: Number of threads; by default one per core.

        Returns:
            An iterator of tuples. The arrays are read-only and in native byte order.

        Raises:
            ConfigError: `batch_size` or `workers` is below 1.
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("columns.bin", [(n, n * n) for n in range(1000)], "<II")
            >>> records = shoal.Records("columns.bin", "<II")
            >>> sum(int(squares.sum()) for numbers, squares in records.columns(batch_size=100))
            332833500
        """
        scan = self.scan(batch_size=whole_number(batch_size, 1, "batch_size"), workers=workers)
        return (batch.arrays() for batch in scan)

    def numpy(self, *, workers: Workers | None = None) -> np.ndarray:
        """Reads all records into a structured NumPy array, in parallel; it needs as much memory as the records.

        Args:
            workers: Number of threads; by default one per core.

        Returns:
            A new array of the given dtype, or of an equivalent of the given format. NumPy does not show trailing zeros
            of a bytes field.

        Raises:
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("array.bin", [(1, 2.5), (3, 4.5)], "<Id", names=("id", "x"))
            >>> array = shoal.Records("array.bin", "<Id", names=("id", "x")).numpy()
            >>> array["x"].mean()
            np.float64(3.5)
        """
        import numpy as np

        files = self._now()
        array = np.empty(len(files), self._layout.dtype())
        if len(files):
            files.read_into(array.view(np.uint8), worker_count(workers))
        return array

    def arrow(self) -> pa.Table:
        """Reads all records into a PyArrow table, converted to columns in parallel.

        Returns:
            The table, with a column for each field; bytes fields are fixed-size binary. There are no nulls.

        Raises:
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("table.bin", [(1, 2), (3, 4)], "<II")
            >>> shoal.Records("table.bin", "<II").arrow().to_pydict()
            {'f0': [1, 3], 'f1': [2, 4]}
        """
        return self.scan().arrow()

    def polars(self) -> pl.DataFrame:
        """Reads all records into a Polars data frame, converted to columns in parallel.

        Returns:
            The data frame, with a column for each field.

        Raises:
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("frame.bin", [(1, 2), (3, 4)], "<II")
            >>> shoal.Records("frame.bin", "<II").polars()["f1"].sum()
            6
        """
        return self.scan().polars()

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""
        return self._layout.engine.schema()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns all records as an Arrow stream capsule, for PyArrow, Polars, DuckDB and pandas."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def scan(
        self,
        where: Where = None,
        *,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        batch_size: int | None = None,
        workers: Workers | None = None,
    ) -> Scan:
        """Selects records and fields. All cores read, filter and convert; the order of the records is kept.

        Memory use does not grow with the files: each worker reads at most two batches ahead of the consumer.

        Args:
            where: Only records that match this condition: text such as `"len > 100 and id in (7, 8)"`, or
                `shoal.col("len") > 100`. It may use `and`, `or`, `not`, parentheses, `== != < <= > >=`, `in (…)` and
                `+ - *`. Whole numbers are exact, bytes are written `b"…"`, and a name that is not a plain word needs
                backticks.
            columns: Only these fields, in this order.
            limit: Maximum number of records.
            batch_size: Number of records to read for each batch, before the condition; by default 4 MiB of records.
            workers: Number of threads; by default one per core.

        Returns:
            A `Scan`. Iterate over its batches, pass it to any consumer of Arrow streams, or call `.arrow()` or
            `.polars()`. Nothing is read before that, and each of them reads from the start.

        Raises:
            ConfigError: The condition cannot be parsed or does not fit the format (the message has the column), or
                a field does not exist.

        Example:
            >>> _ = shoal.Records.append("scan.bin", [(n, n % 10) for n in range(1000)], "<QI", names=("ts", "id"))
            >>> records = shoal.Records("scan.bin", "<QI", names=("ts", "id"))
            >>> records.scan("id == 7 and ts < 30", columns=["ts"]).arrow().to_pydict()
            {'ts': [7, 17, 27]}
        """
        chosen = None if columns is None else field_names(columns, "columns")
        most = None if limit is None else whole_number(limit, 0, "limit")
        batch = None if batch_size is None else whole_number(batch_size, 1, "batch_size")
        return Scan(self._now().scan(where_of(where), chosen, most, batch, worker_count(workers)))

    def write(
        self,
        path: Path,
        *,
        format: TableFormat | None = None,  # noqa: A002  # the same name as everywhere in the package
        where: Where = None,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
        durable: bool = False,
        workers: Workers | None = None,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> int:
        """Writes records to a table file, in their order. All cores read, filter and encode; memory use is constant.

        The file is published atomically when it is complete. Until then an existing file stays as it is, and an error
        or Ctrl-C leaves nothing of the new file. A kill (SIGKILL, a power cut) can leave a hidden file next to it,
        named `.NAME.<16 hex digits>.shoal`: at any time on file systems without unnamed files (NFS, FUSE), elsewhere
        only while the file is published. shoal never removes it; you can, while no program writes there.

        Args:
            path: The file; its directory must exist.
            format: `"parquet"`, `"csv"`, `"arrow"` (Arrow IPC), `"jsonl"` or `"npy"`; by default the path's suffix
                decides. In `"npy"`, bytes fields have type `S`: NumPy does not show their trailing zeros.
            where: Only records that match this condition; see `scan`.
            columns: Only these fields, in this order.
            limit: Maximum number of records.
            compression: Compression of Parquet: `"snappy"` (default), `"zstd"` or `"none"`.
            durable: Sync the file and its directory before returning, so that it survives a power cut.
            workers: Number of threads; by default one per core.
            progress: True draws a line on standard error. A function is called about ten times a second with the
                records and the bytes written so far; an exception that it raises stops the writing and is raised here.

        Returns:
            The number of records written.

        Raises:
            ConfigError: An argument is wrong, the format cannot hold a field, or the directory does not exist.
            DestinationFullError: The disk is full.
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("write.bin", [(n, n % 10) for n in range(1000)], "<QI", names=("ts", "id"))
            >>> records = shoal.Records("write.bin", "<QI", names=("ts", "id"))
            >>> records.write("chosen.csv", where="id == 7", limit=2)
            2
            >>> with open("chosen.csv") as file:
            ...     file.read().split()
            ['ts,id', '7,7', '17,7']
        """
        scan = self.scan(where, columns=columns, limit=limit, workers=workers)
        return scan.write(path, format=format, compression=compression, durable=durable, progress=progress)[0]

    @overload
    def aggregate(
        self,
        *aggregates: str | Aggregate,
        by: None = None,
        where: Where = None,
        workers: Workers | None = None,
        **named: str | Aggregate,
    ) -> dict[str, int | float | None]: ...
    @overload
    def aggregate(
        self,
        *aggregates: str | Aggregate,
        by: str | Column,
        where: Where = None,
        workers: Workers | None = None,
        **named: str | Aggregate,
    ) -> Groups: ...
    def aggregate(
        self,
        *aggregates: str | Aggregate,
        by: str | Column | None = None,
        where: Where = None,
        workers: Workers | None = None,
        **named: str | Aggregate,
    ) -> dict[str, int | float | None] | Groups:
        """Computes count, sum, min, max and mean, of all records or grouped by a field.

        Args:
            *aggregates: `"count"`, `"sum(len)"`, `"min(ts)"`, `"max(ts)"`, `"mean(len)"`, or `shoal.count()`,
                `shoal.col("len").sum()` and so on.
            by: Group by this field, which must be a whole number; there is one row for each value.
            where: Only records that match this condition; see `scan`.
            workers: Number of threads; by default one per core.
            **named: More aggregates, with names for the result: `total="sum(len)"`.

        Returns:
            Without `by=`, a dict with the text or the name of each aggregate as key. With `by=`, `Groups`. Whole
            numbers are exact, however large. Sums of floats are compensated for rounding, and without `by=` do not
            depend on the number of workers. Min, max and mean of no records are None.

        Raises:
            ConfigError: A field or aggregate does not exist, or the condition does not fit the format.
            RunError: There are more than 20 million groups.
            IntegrityError: A file was truncated meanwhile.

        Example:
            >>> _ = shoal.Records.append("sums.bin", [(n % 3, n) for n in range(9)], "<II", names=("id", "len"))
            >>> records = shoal.Records("sums.bin", "<II", names=("id", "len"))
            >>> records.aggregate("count", "mean(len)", most=shoal.col("len").max())
            {'count': 9, 'mean(len)': 4.0, 'most': 8}
            >>> list(records.aggregate("sum(len)", by="id", where=shoal.col("len") > 0))
            [(0, 9), (1, 12), (2, 15)]
        """
        asked = asked_of(aggregates, named)
        files, condition, threads = self._now(), where_of(where), worker_count(workers)
        if by is None:
            values = files.aggregate(asked, condition, threads)
            return {name: value for (_, _, name), value in zip(asked, values, strict=True)}
        field = by.name if isinstance(by, Column) else by
        if not isinstance(field, str):
            raise ConfigError(f"`by` must be a field name, got {field!r}")
        return Groups(files.aggregate_by(field, asked, condition, threads))

    def refresh(self) -> Records:
        """Reads the lengths of all files again.

        Returns:
            New `Records` that include records appended meanwhile. After a file that grew, records have higher indices
            than before. An incomplete record at the end is ignored, because it is still being written. A slice stays
            as it is.

        Raises:
            IntegrityError: A file has become shorter, or is in doubt after an interrupted append (see `recover`).

        Example:
            >>> _ = shoal.Records.append("grows.bin", [(1,)], "<I")
            >>> before = shoal.Records("grows.bin", "<I")
            >>> _ = shoal.Records.append("grows.bin", [(2,), (3,)], "<I")
            >>> len(before), len(before.refresh())
            (1, 3)
        """
        return Records._of(self, self._files.refresh(), self._follow)

    @staticmethod
    def append(
        path: Path,
        rows: object,
        format: object,  # noqa: A002
        *,
        names: Iterable[str] | None = None,
        offset: int = 0,
        durable: bool = False,
        tail: AppendTail = "error",
    ) -> Appended:
        """Appends records to a file, all of them or none. Creates the file if it does not exist.

        Several programs may append at once: a lock makes each wait for the others. Readers see only whole records. If
        this fails, the file is as long as before; if it could not be truncated to that length, the error says so. The
        next append truncates what a killed append has left, and returns how many bytes that was. If another program
        may have written to the file since, this is an error: see `recover`. Other bytes after the last whole record
        are never truncated unless you ask for it, because they may be good records of another format.

        Args:
            path: The file.
            rows: One of these. Tuples (or other sequences) with a value for each field. A structured NumPy array; its
                fields have the types in the file or narrower ones. Bytes of whole records. An Arrow table (PyArrow,
                Polars, DuckDB: any object with `__arrow_c_stream__` or `__arrow_c_array__`); its columns have the
                types in the file. Fields and columns are matched by name. All rows are held in memory first.
            format: The format of a record, as for `Records`.
            names: A name for each field of a `struct` string.
            offset: Bytes before the first record; the file must have them already.
            durable: Sync the file before returning, so that the records survive a power cut.
            tail: What to do if the file ends within a record for another reason than a killed append: `"error"`, or
                `"cut"` to truncate the file after the last whole record. File systems without extended attributes
                cannot record the reason, and need `"cut"` after a kill.

        Returns:
            The number of records appended, the index of the first, and how many bytes were truncated before.

        Raises:
            IntegrityError: The file ends within a record, or is in doubt after an interrupted append; nothing was
                changed. Or another program wrote to the file during this append; nothing was truncated.
            ConfigError: A row does not fit the format (the message says which), the bytes are not whole records, or
                another argument is wrong.
            DestinationFullError: The disk is full; the file is unchanged.
            RunError: Another program has held the file's lock for 30 seconds, or the operating system refuses.

        Example:
            >>> shoal.Records.append("log.bin", [(1, b"start"), (2, b"ended")], "<Q5s")
            Appended(records=2, first=0, cut=0)
            >>> list(shoal.Records("log.bin", "<Q5s"))
            [(1, b'start'), (2, b'ended')]
        """
        layout = Layout(format, names)
        start, cuts, data = whole_number(offset, 0, "offset"), cuts_tail(tail), layout.encode(rows)
        records, first, cut = _shoal.append_records(os.fspath(path), data, layout.engine, start, bool(durable), cuts)
        return Appended(records=records, first=first, cut=cut)

    @staticmethod
    def recover(path: Path, *, keep: bool) -> int:
        """Decides about a file that is in doubt after an interrupted append: keeps its bytes, or truncates it.

        A file is in doubt if an append was killed and another program may have written to the file since. Reading it
        and appending to it raise `IntegrityError` until you call this. Without a doubt it is not needed: readers
        ignore what a killed append has left, and the next append truncates it.

        Args:
            path: The file.
            keep: True keeps all bytes; some may be of the interrupted append. False truncates the file to its length
                before that append, also if another program wrote those bytes.

        Returns:
            How many bytes were truncated; 0 also if no append was interrupted.

        Raises:
            NotFoundError: The file does not exist.
            RunError: Another program has held the file's lock for 30 seconds, or the operating system refuses.

        Example:
            >>> _ = shoal.Records.append("sound.bin", [(1,), (2,)], "<I")
            >>> shoal.Records.recover("sound.bin", keep=True)
            0
        """
        return _shoal.recover_records(os.fspath(path), bool(keep))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arguments: another process opens the files by path and expects as many records in each."""
        files = self._files
        what = (files.paths, self._layout.given, self._layout.names, self._offset, self._tail, self._follow)
        return _reopen, (*what, files.counts, *files.range)


def _reopen(
    paths: list[str],
    format: object,  # noqa: A002
    names: tuple[str, ...] | None,
    offset: int,
    tail: Tail,
    follow: bool,
    counts: list[int],
    start: int,
    stop: int,
) -> Records:
    """Opens pickled `Records`, without records that were appended later."""
    import pathlib

    found = Records(list(map(pathlib.Path, paths)), format, names=names, offset=offset, tail=tail, follow=follow)
    for path, before, now in zip(paths, counts, found._files.counts, strict=True):
        if now < before:
            raise ConfigError(f"{path!r} had {before} records when this was pickled, and has {now} now")
    files = found._files.first_of_each(counts).slice(start, stop)
    return found if follow else Records._of(found, files, follow=False)
