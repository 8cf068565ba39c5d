"""Keep very many tiny objects of a service as rows of Parquet files; query them with DuckDB.

python tiny_objects.py http://127.0.0.1:8080 DIRECTORY

A billion files do not fit on a usual file system; a billion rows do. The same command resumes.
"""

import sys

import duckdb

import shoal


def fetch(url: str, directory: str) -> shoal.Report:
    """Copies each object into a row with its name, size and bytes."""
    return shoal.copy(url, f"parquet:{directory}")


def query(directory: str, name: str) -> tuple[int, int, bytes]:
    """Returns the number of objects, their bytes, and the contents of one of them."""
    rows = duckdb.read_parquet(f"{directory}/*.parquet")
    count, size = rows.aggregate("count(*), sum(size)").fetchall()[0]
    # DuckDB skips row groups by their smallest and largest name, so it reads little.
    (data,) = rows.filter(
        duckdb.ColumnExpression("name") == duckdb.ConstantExpression(name)
    ).fetchall()[0][2:3]
    return count, size, data


if __name__ == "__main__":
    fetch(*sys.argv[1:])
    count, size, data = query(sys.argv[2], "object-000000017")
    print(f"{count:,} objects, {size:,} bytes; object-000000017 begins with {data[:16]!r}")
