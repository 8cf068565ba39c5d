"""What is read of records: `Scan`, batches of those that were chosen; `Groups`, aggregates for each value of a field.

Not here: what is chosen (`records.py`), how (the crate `shoal-records`).
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

ROWS = 4096  # groups that become tuples at once: enough that the call costs nothing, few enough to need no memory


class Scan:
    """Chosen records as Arrow batches; `Records.scan` makes one.

    Iterating gives `RecordBatch`es in the order of the records; PyArrow, Polars, DuckDB and pandas take the whole as an
    Arrow stream. Each of them begins anew. In a forked child one that was begun raises RuntimeError.
    """

    def __init__(self, scan: _shoal.RecordScan) -> None:
        """Takes the engine's plan."""
        self._scan = scan

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self._scan.names)

    def __iter__(self) -> Iterator[_shoal.RecordBatch]:
        """Begins to read: an iterator over the batches, from which several threads may take."""
        return iter(self._scan)

    def arrow(self) -> pa.Table:
        """Reads all of it into a PyArrow table."""
        import pyarrow as pa

        return pa.table(self._scan.collect())

    def polars(self) -> pl.DataFrame:
        """Reads all of it into a Polars data frame."""
        import polars as pl

        return pl.DataFrame(self._scan.collect())

    def write(
        self,
        path: Path,
        *,
        format: TableFormat | None = None,  # noqa: A002  # what the package calls it everywhere
        compression: Compression | None = None,
        durable: bool = False,
        progress: bool | Callable[[int, int], object] | None = None,
    ) -> tuple[int, int]:
        """Writes all of it to a table file; `Records.write` says all of it.

        Returns:
            How many records were written, and how many bytes the file has.
        """
        function, end = drawing_records(progress)
        try:
            return self._scan.write(os.fspath(path), format, compression, bool(durable), function)
        finally:
            end()

    def __arrow_c_schema__(self) -> Any:
        """The type of the rows, as a capsule."""
        return self._scan.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Begins to read: all batches, as a capsule; taking from it needs no interpreter."""
        return self._scan.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Shows the columns."""
        return f"Scan(names={self.names!r})"


class Groups:
    """Aggregates for each value of a field, in the order of these values; `Records.aggregate` with `by=` makes one.

    The first column is the key, the others are the aggregates under their names. Iterating gives tuples; PyArrow,
    Polars, DuckDB and pandas take it as an Arrow stream. Whole numbers that 64 bits do not hold are decimals there.
    """

    def __init__(self, table: _shoal.RecordTable) -> None:
        """Takes the engine's result."""
        self._table = table

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names: the key, then the aggregates."""
        return tuple(self._table.names)

    def __len__(self) -> int:
        """Returns how many groups there are."""
        return len(self._table)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterates over tuples: the key, then the aggregates."""
        (groups,) = self._table.batches
        for start in range(0, len(groups), ROWS):
            yield from groups.rows(start, ROWS)

    def numpy(self) -> dict[str, np.ndarray]:
        """Returns the columns as NumPy arrays by their names; to be read only."""
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
        """The type of the rows, as a capsule."""
        return self._table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All groups, as a capsule."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Shows the columns and the number of groups."""
        return f"Groups(names={self.names!r}, len={len(self)})"
