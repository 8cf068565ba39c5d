"""Whether a Parquet file holds the records of the flat file, written as the comparison asks. Not here: its writers."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal_bench import flat

TYPES = ("uint64", "uint32", "uint32")
ENCODINGS = {True: ["PLAIN", "RLE", "RLE_DICTIONARY"], False: ["PLAIN", "RLE"]}


def fault(path: Path, count: int, compression: str, dictionary: bool, rows: int) -> str | None:
    """Returns how a file differs from what it should be; None: not at all. It needs the package pyarrow.

    Args:
        path: The file.
        count: How many of the records it must hold.
        compression: That of every column.
        dictionary: Whether columns have, or begin with, a dictionary of their values. All say what is in each page.
        rows: Rows of every group but the last.
    """
    import pyarrow.parquet as pq  # type: ignore[import-untyped,import-not-found,unused-ignore]

    others = [name for name in os.listdir(path.parent) if name != path.name]  # noqa: PTH208 (names are all it needs)
    if others or not path.exists():
        return f"it left {', '.join(others) or 'nothing'} instead of {path.name} alone"
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        if (tuple(schema.names), tuple(str(kind) for kind in schema.types)) != (flat.NAMES, TYPES):
            return f"its columns are {schema}"
        about = file.metadata
        groups = [about.row_group(at) for at in range(about.num_row_groups)]
        sizes = [rows] * (count // rows) + [count % rows] * (count % rows > 0)
        if [group.num_rows for group in groups] != sizes:
            return f"its row groups have {[group.num_rows for group in groups]} rows and not {sizes}"
        for column in (group.column(at) for group in groups for at in range(len(flat.NAMES))):
            if column.compression.lower() != compression:
                return f"a column's compression is {column.compression} and not {compression}"
            if column.has_dictionary_page != dictionary:
                return f"a column has {'no' if dictionary else 'a'} dictionary"
            if sorted(column.encodings) != ENCODINGS[dictionary]:
                return f"a column's encodings are {column.encodings}"
            if not column.has_column_index:
                return "a column has no index of its pages"
        found = [0, 0, 0]
        for columns in _columns(file):
            found = [zlib.crc32(column, before) for column, before in zip(columns, found, strict=True)]
    return None if found == flat.column_proofs(count) else "it has the wrong values"


def _columns(file: Any) -> Iterator[list[Any]]:
    """Yields the columns of each row group."""
    for number in range(file.metadata.num_row_groups):
        table = file.read_row_group(number)
        yield [table.column(name).to_numpy() for name in flat.NAMES]
