"""Results of reading records: `Scan`, batches of the selected records, and `Groups`, aggregates by a field.

Not here: the selection (`records.py`), the reading (the crate `shoal-records`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from shoal import _shoal
from shoal._progress import drawing_records

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa  # type: ignore[import-untyped]

    from shoal._options import Path

TableFormat = Literal["parquet", "csv", "arrow", "jsonl", "npy"]
Compression = Literal["none", "snappy", "zstd"]

ROWS = 4096  # groups converted to tuples per call: many enough to be cheap, few enough to need little memory


class Scan:
    """Selected records as Arrow batches; returned by `Records.scan`.

    Iterating yields `RecordBatch`es in the order of the records. PyArrow, Polars, DuckDB and pandas read it as an Arrow
    stream. Each reader starts from the beginning. In a forked child, a started one raises RuntimeError.
    """

    def __init__(self, scan: _shoal.RecordScan) -> None:
        """Wraps the engine's plan."""
        self._scan = scan

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self._scan.names)

    def __iter__(self) -> Iterator[_shoal.RecordBatch]:
        """Returns an iterator over the batches, which several threads may share."""
        return iter(self._scan)

    def arrow(self) -> pa.Table:
        """Reads all batches into a PyArrow table."""
        import pyarrow as pa

        return pa.table(self._scan.collect())

    def polars(self) -> pl.DataFrame:
        """Reads all batches into a Polars data frame."""
        import polars as pl

        return pl.DataFrame(self._scan.collect())

    def write(
        self,
        path: Path,
        *,
        format: TableFormat | None = None,  # noqa: A002  # the same name as everywhere in the package
        compression: Compression | None = None,
        durable: bool = False,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> tuple[int, int]:
        """Writes all batches to a table file, as `Records.write` documents.

        Returns:
            The number of records written, and the size of the file in bytes.
        """
        function, end = drawing_records(progress)
        try:
            return self._scan.write(os.fspath(path), format, compression, bool(durable), function)
        finally:
            end()

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""
        return self._scan.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns all batches as an Arrow stream capsule; reading it does not need the interpreter."""
        return self._scan.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Shows the columns."""
        return f"Scan(names={self.names!r})"


class Groups:
    """Aggregates for each value of a field, sorted by value; returned by `Records.aggregate` with `by=`.

    The first column is the key, the others are the aggregates by name. Iterating yields tuples. PyArrow, Polars, DuckDB
    and pandas read it as an Arrow stream, with decimals for whole numbers that do not fit 64 bits.
    """

    def __init__(self, table: _shoal.RecordTable) -> None:
        """Wraps the engine's result."""
        self._table = table

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names: the key, then the aggregates."""
        return tuple(self._table.names)

    def __len__(self) -> int:
        """Returns the number of groups."""
        return len(self._table)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterates over tuples of the key and the aggregates."""
        (groups,) = self._table.batches
        for start in range(0, len(groups), ROWS):
            yield from groups.rows(start, ROWS)

    def numpy(self) -> dict[str, np.ndarray]:
        """Returns the columns as read-only NumPy arrays by name."""
        (groups,) = self._table.batches
        return dict(zip(self.names, groups.arrays(), strict=True))

    def arrow(self) -> pa.Table:
        """Returns a PyArrow table."""
        import pyarrow as pa

        return pa.table(self._table)

    def polars(self) -> pl.DataFrame:
        """Returns a Polars data frame."""
        import polars as pl

        return pl.DataFrame(self._table)

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""
        return self._table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns all groups as an Arrow stream capsule."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Shows the columns and the number of groups."""
        return f"Groups(names={self.names!r}, len={len(self)})"
