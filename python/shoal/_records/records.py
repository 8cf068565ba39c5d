"""`Records`: flat files of fixed-size records. Only here are they opened, read and appended to.

Not here: what an argument may be (`arguments.py`), what comes of a scan (`scan.py`), conditions as objects
(`_expression.py`), and everything about records themselves (the crate `shoal-records`).
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
    """Records of one format, in one file or in many that together are one table.

    Nothing is read before it is asked for, and what is read is read by all cores without the interpreter. A `Records`
    stands for the records that were there when it was made; `refresh()` or `follow=True` finds what was appended since.

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
        format: object = None,  # noqa: A002  # what the struct module calls it
        *,
        names: Iterable[str] | None = None,
        offset: int = 0,
        tail: Tail = "error",
        follow: bool = False,
    ) -> None:
        """Opens files.

        Args:
            path: A file, several of them, or a glob: text with `*`, `?` or `[` stands for all files that match, in the
                order of their names (a `pathlib.Path` never does). Many files are one table, in this order.
            format: A string of the `struct` module such as `"<QII"`, a NumPy dtype, or a PyArrow schema (anything with
                `__arrow_c_schema__`) of fixed-width types, whose columns lie one after the other, little-endian.
                It is needed: a flat file does not say it.
            names: A name for each field of a `struct` string; by default `f0`, `f1`, ….
            offset: Bytes in front of the first record of every file.
            tail: What to do with bytes behind the last whole record: `"error"`, or `"drop"` to leave them out.
            follow: Look for appended records whenever it is used; half a record at the end is one that is still being
                written, and left out. Files that match a glob later are not taken in.

        Raises:
            ConfigError: An argument is wrong, or a file is shorter than `offset`.
            NotFoundError: A file is not there, or none matches.
            IntegrityError: A file ends within a record.
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
        """Bytes of one record, padding included."""
        return self._layout.engine.record_size

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return self._files.paths

    @property
    def format(self) -> str:
        """The format that was given, as text."""
        return self._layout.text

    def __len__(self) -> int:
        """Returns how many records there are."""
        return len(self._now())

    def __repr__(self) -> str:
        """Shows the files, the format and how many records there were."""
        paths = self._files.paths
        shown = repr(paths[0]) if len(paths) == 1 else f"{len(paths)} files"
        return f"Records({shown}, {self.format!r}, names={self.names!r}, len={len(self._files)})"

    @overload
    def __getitem__(self, key: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, key: slice) -> Records: ...
    def __getitem__(self, key: int | slice) -> tuple[Any, ...] | Records:
        """Returns a record as a tuple, or the records of a slice; nothing of a slice is read yet.

        Raises:
            IndexError: There is no such record.
            ConfigError: The slice has a step.
        """
        files = self._now()
        if isinstance(key, slice):
            start, stop, step = key.indices(len(files))
            if step != 1:
                raise ConfigError(
                    f"a slice of records has no step: {step}", hint="take the steps of an array: records.numpy()[::2]"
                )
            return Records._of(self, files.slice(start, max(start, stop)), follow=False)
        place = operator.index(key)
        at = place + len(files) if place < 0 else place
        if not 0 <= at < len(files):
            raise IndexError(f"record {place}: there are {len(files)}")
        return files.get(at)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterates over tuples, as `struct.iter_unpack` gives them, in the order of the files.

        Raises:
            IntegrityError: A file was cut short meanwhile.
        """
        return self._now().tuples()

    def raw(self) -> Iterator[bytes]:
        """Iterates over records as bytes.

        Returns:
            An iterator of `bytes`, each `record_size` long.

        Raises:
            IntegrityError: A file was cut short meanwhile.

        Example:
            >>> _ = shoal.Records.append("raw.bin", b"abcdef", "2s")
            >>> list(shoal.Records("raw.bin", "2s").raw())
            [b'ab', b'cd', b'ef']
        """
        return self._now().raw()

    def columns(self, *, batch_size: int = 65_536, workers: Workers | None = None) -> Iterator[tuple[np.ndarray, ...]]:
        """Iterates over NumPy arrays: for each batch of records a tuple with one array for each field.

        For loops in which a line of Python stands for thousands of records. Workers make the arrays ahead.

        Args:
            batch_size: Records in a batch; the last one of each file may have fewer.
            workers: How many threads; by default one for each core.

        Returns:
            An iterator of tuples. The arrays are in native byte order, and to be read only.

        Raises:
            ConfigError: `batch_size` or `workers` is below 1.
            IntegrityError: A file was cut short meanwhile.

        Example:
            >>> _ = shoal.Records.append("columns.bin", [(n, n * n) for n in range(1000)], "<II")
            >>> records = shoal.Records("columns.bin", "<II")
            >>> sum(int(squares.sum()) for numbers, squares in records.columns(batch_size=100))
            332833500
        """
        scan = self.scan(batch_size=whole_number(batch_size, 1, "batch_size"), workers=workers)
        return (batch.arrays() for batch in scan)

    def numpy(self, *, workers: Workers | None = None) -> np.ndarray:
        """Reads all records into a structured NumPy array, in parallel; it takes as much memory as the records.

        Args:
            workers: How many threads; by default one for each core.

        Returns:
            A new array, of the dtype that was given as the format or one that means the same. Bytes that are not the
            whole of a field of bytes end with zeros, which NumPy does not show.

        Raises:
            IntegrityError: A file was cut short meanwhile.

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
            The table: a column for each field, fixed-size binary for bytes, without nulls.

        Raises:
            IntegrityError: A file was cut short meanwhile.

        Example:
            >>> _ = shoal.Records.append("table.bin", [(1, 2), (3, 4)], "<II")
            >>> shoal.Records("table.bin", "<II").arrow().to_pydict()
            {'f0': [1, 3], 'f1': [2, 4]}
        """
        return self.scan().arrow()

    def polars(self) -> pl.DataFrame:
        """Reads all records into a Polars data frame, converted to columns in parallel.

        Returns:
            The data frame: a column for each field.

        Raises:
            IntegrityError: A file was cut short meanwhile.

        Example:
            >>> _ = shoal.Records.append("frame.bin", [(1, 2), (3, 4)], "<II")
            >>> shoal.Records("frame.bin", "<II").polars()["f1"].sum()
            6
        """
        return self.scan().polars()

    def __arrow_c_schema__(self) -> Any:
        """The type of the rows, as a capsule."""
        return self._layout.engine.schema()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All records as Arrow batches, as a capsule: for PyArrow, Polars, DuckDB, pandas."""
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
        """Chooses records and fields; all cores read, choose and convert, in the order of the records.

        Memory does not grow with the files: workers are at most two batches each ahead of whoever takes them.

        Args:
            where: Only records for which this holds: text such as `"len > 100 and id in (7, 8)"`, or
                `shoal.col("len") > 100`. `and`, `or`, `not`, parentheses, `== != < <= > >=`, `in (…)`, `+ - *`; whole
                numbers are exact; bytes are written `b"…"`; a name that is no plain word stands in backticks.
            columns: Only these fields, in this order.
            limit: At most so many records.
            batch_size: A batch for each so many records that are looked at; by default one for each 4 MiB.
            workers: How many threads; by default one for each core.

        Returns:
            A `Scan`: iterate over its batches, give it to whoever takes Arrow streams, or call `.arrow()` or
            `.polars()`. Nothing is read before that, and each of them begins anew.

        Raises:
            ConfigError: The condition cannot be read or does not fit the format (the text says at which column), or
                there is no such field.

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
        format: TableFormat | None = None,  # noqa: A002  # what the package calls it everywhere
        where: Where = None,
        columns: Iterable[str] | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
        durable: bool = False,
        workers: Workers | None = None,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> int:
        """Writes records to a table file, in their order; all cores read, choose and encode, and memory stays flat.

        The file is put in place when it is whole: one that is there keeps its place until then, and after an error or
        Ctrl-C nothing is left of the new one. A kill (SIGKILL, a power cut) can leave a hidden file beside it, named
        `.NAME.<16 hex digits>.shoal`: on file systems that cannot hold a file without a name (NFS, FUSE) at any
        moment, elsewhere only in the last one. shoal never removes it; you may, when no program writes there.

        Args:
            path: The file; its directory must be there.
            format: `"parquet"`, `"csv"`, `"arrow"` (Arrow IPC), `"jsonl"` or `"npy"`; by default what the path's ending
                says. In `"npy"` bytes are `S`: the file has zeros at their end, and NumPy does not show them.
            where: Only records for which this holds; see `scan`.
            columns: Only these fields, in this order.
            limit: At most so many records.
            compression: Of Parquet: `"snappy"`, which it is by default, `"zstd"` or `"none"`.
            durable: Return only after the file is on the disk, so that not even a power cut loses it.
            workers: How many threads; by default one for each core.
            progress: True draws a line on standard error; a function is called about ten times a second with the
                records and the bytes that are written so far. An exception that it raises ends the writing, and is
                passed on.

        Returns:
            How many records were written.

        Raises:
            ConfigError: An argument is wrong, the format cannot hold a field, or there is no such directory.
            DestinationFullError: The disk is full.
            IntegrityError: A file was cut short meanwhile.

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
        """Counts, adds up, finds the least, the greatest and the mean; of all records or for each value of a field.

        Args:
            *aggregates: `"count"`, `"sum(len)"`, `"min(ts)"`, `"max(ts)"`, `"mean(len)"`, or `shoal.count()`,
                `shoal.col("len").sum()` and so on.
            by: Group by this field, a whole number: a row for each of its values.
            where: Only records for which this holds; see `scan`.
            workers: How many threads; by default one for each core.
            **named: More of them, under names of their own: `total="sum(len)"`.

        Returns:
            A dict by the text or the name of each: whole numbers are exact, however large; sums of floats keep what
            rounding loses (they are compensated), and without `by=` are the same whatever the number of workers; the
            least, greatest and mean of no records are None. With `by=`, the `Groups`.

        Raises:
            ConfigError: There is no such field or aggregate, or the condition does not fit.
            RunError: There are more than 20 million groups.
            IntegrityError: A file was cut short meanwhile.

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
            raise ConfigError(f"`by` is no field: {field!r}")
        return Groups(files.aggregate_by(field, asked, condition, threads))

    def refresh(self) -> Records:
        """Looks at the last file's length again.

        Returns:
            New `Records` that have what was appended meanwhile. Half a record at the end is one that is being written,
            and left out. A slice stays as it is.

        Raises:
            IntegrityError: The file has become shorter.

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
        """Appends records to a file, all of them or none; it is made if it is not there.

        Several programs may append at once: each waits for the others. A reader sees whole records only meanwhile. If
        this fails, the file is as long as before (where it could not be cut back, the error says so). What an append
        that was killed has left is cut off by the next one, which returns how much it was. Other bytes behind the last
        whole record are never cut off unless you ask for it: they may be good records of another format.

        Args:
            path: The file.
            rows: Tuples (or other sequences) with a value for each field; a structured NumPy array, whose fields have
                the types in the file or narrower ones; bytes of whole records; or an Arrow table (PyArrow, Polars,
                DuckDB: whatever has `__arrow_c_stream__` or `__arrow_c_array__`), whose columns have the types in the
                file. Columns and fields of an array are found by their names. All are held in memory first.
            format: What a record is made of, as for `Records`.
            names: A name for each field of a `struct` string.
            offset: Bytes in front of the first record; the file must have them already.
            durable: Return only after the records are on the disk, so that not even a power cut loses them.
            tail: What to do if the file ends within a record, and an append that was killed is not the reason:
                `"error"`, or `"cut"` to cut off what is behind the last whole record. File systems without extended
                attributes do not tell shoal the reason, and need `"cut"` after a kill.

        Returns:
            How many records were appended, the place of the first, and how many bytes were cut off before.

        Raises:
            IntegrityError: The file ends within a record; nothing was changed.
            ConfigError: A row does not fit the format (the text says which), bytes are no whole number of records, or
                another argument is wrong.
            DestinationFullError: The disk is full; the file is as before.
            RunError: Another program has held the file's lock for 30 seconds, or the system refuses.

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as what to open: another process opens the files by their paths, and wants as many records."""
        start, stop = self._files.range
        what = (self._files.paths, self._layout.given, self._layout.names, self._offset, self._tail, self._follow)
        return _reopen, (*what, start, stop)


def _reopen(
    paths: list[str],
    format: object,  # noqa: A002
    names: tuple[str, ...] | None,
    offset: int,
    tail: Tail,
    follow: bool,
    start: int,
    stop: int,
) -> Records:
    """Opens what was pickled. Records appended since are left out, as they are of the original."""
    import pathlib

    found = Records(list(map(pathlib.Path, paths)), format, names=names, offset=offset, tail=tail, follow=follow)
    if len(found._files) < stop:
        raise ConfigError(f"{paths[-1]!r}: {stop} records have become {len(found._files)} since this was pickled")
    return found if follow else Records._of(found, found._files.slice(start, stop), follow=False)
