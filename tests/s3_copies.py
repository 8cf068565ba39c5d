"""What tests of object stores have in common: naming a store, and asking rows of what arrived.

Not here: the stores (`servers/s3_store.py`, `s3_real.py`), copies that record their failures (`url_copies.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

import shoal as package
from servers.s3_real import RealStore
from servers.s3_store import S3Store
from servers.signatures import Key


def source(store: S3Store | RealStore, path: str = "", **options: Any) -> Any:
    """Describes what is below a path of the bucket; its key is given by a function unless `options` say otherwise."""
    given: dict[str, Any] = {"endpoint": store.url, "region": "us-east-1", "credentials": Key().given, "max_retries": 3}
    return package.s3(f"s3://{store.bucket}/{path}", **given | options)


def flags(store: S3Store | RealStore) -> list[str]:
    """Returns the options of a command for a store."""
    return ["--endpoint", store.url, "--region", "us-east-1"]


def rows(directory: Path) -> dict[str, bytes]:
    """Returns the rows of `parquet:DIR`, name to bytes; fails if a name is there twice."""
    with duckdb.connect() as connection:
        found = connection.sql(f"select name, data from '{directory}/*.parquet'").fetchall()
    as_names = dict(found)
    assert len(as_names) == len(found), "a name has two rows"
    return as_names


def failed(report: package.Report) -> dict[str, str]:
    """Returns the kind of each failure, by name."""
    return {failure.name: failure.kind for failure in report.failures}
