"""What `parquet:DIR` holds is what DuckDB, Polars, PyArrow and Hugging Face `datasets` read: each row is compared.

Not here: interruptions and options (`test_parquet.py`).
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import shoal as package

os.environ["HF_HUB_OFFLINE"] = "1"  # datasets reads it when it is imported, and else asks its maker's server

COUNT = 700
PAGE = 100
LONG_AGO = datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)
# Columns in the order of the files, each row sorted by its name; times as nanoseconds since 1970.
Row = tuple[str, int, bytes, int | None, str | None]
EVERY_BYTE = bytes(range(256))
NAMES = [
    "ascii",
    "größe/日本語",
    "emoji 🐟",
    "e\u0301 and \u00e9",
    "عربى",
    "quote\"'\\",
    "zero-width\u200b",
    "\U0010ffff",
]


def wanted() -> list[Row]:
    """The objects that are served: some are empty, some have every byte, a third has no time. No source tells a tag."""
    rows: list[Row] = []
    for number in range(COUNT):
        name = f"{NAMES[number % len(NAMES)]}/{number}"
        data = b"" if number % 50 == 0 else EVERY_BYTE + random.Random(number).randbytes(number * 3)
        modified = None if number % 3 == 0 else int((LONG_AGO + timedelta(seconds=number)).timestamp()) * 10**9
        rows.append((name, len(data), data, modified, None))
    return sorted(rows)


OBJECTS = {name: (data, modified) for name, _, data, modified, _ in wanted()}


class Handler(BaseHTTPRequestHandler):
    """A list/get service: it tells the time of an object if it has one."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet: the second would wait for an acknowledgement

    def do_GET(self) -> None:
        if self.path.startswith("/list"):
            page = int(self.path.partition("=")[2] or 0)
            listed: dict[str, object] = {"FileNames": list(OBJECTS)[page : page + PAGE]}
            if page + PAGE < COUNT:
                listed["NextMarker"] = str(page + PAGE)
            body, modified = json.dumps(listed).encode(), None
        else:
            body, modified = OBJECTS[unquote(self.path.removeprefix("/get/"))]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if modified is not None:
            when = datetime.fromtimestamp(modified // 10**9, UTC)
            self.send_header("Last-Modified", format_datetime(when, usegmt=True))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Prints nothing."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that `shoal copy` has written, with several files."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    directory = tmp_path_factory.mktemp("parquet")
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        report = package.copy(url, package.parquet(directory, shard_size="100kB"), keep_times=True, memory="8MiB")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert report.written == COUNT
    assert len(list(directory.glob("*.parquet"))) >= 3
    return directory


def duckdb_rows(directory: Path) -> list[Row]:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    query = "select name, size, data, epoch_ns(last_modified), e_tag from read_parquet(?)"
    with duckdb.connect() as connection:
        rows: list[Row] = connection.execute(query, [f"{directory}/*.parquet"]).fetchall()
    return rows


def polars_rows(directory: Path) -> list[Row]:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    frame = polars.scan_parquet(f"{directory}/*.parquet").with_columns(polars.col("last_modified").dt.epoch("ns"))
    return list(frame.collect().rows())


def pyarrow_rows(directory: Path) -> list[Row]:
    pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    dataset = pytest.importorskip("pyarrow.dataset")
    # A directory: what begins with a dot, such as `.shoal`, is left out.
    table = dataset.dataset(directory, format="parquet").to_table()
    times = table["last_modified"].cast("int64").to_pylist()
    columns = [table[name].to_pylist() for name in ("name", "size", "data")]
    return list(zip(*columns, times, table["e_tag"].to_pylist(), strict=True))


def hugging_face_rows(directory: Path) -> list[Row]:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    cache = directory.with_name("cache")
    loaded = datasets.load_dataset("parquet", data_dir=str(directory), split="train", cache_dir=str(cache))
    table = loaded.with_format("arrow")[:]
    times = table["last_modified"].cast("int64").to_pylist()
    return [
        (row["name"], row["size"], row["data"], when, row["e_tag"]) for row, when in zip(loaded, times, strict=True)
    ]


@pytest.mark.parametrize("read", [duckdb_rows, polars_rows, pyarrow_rows, hugging_face_rows])
def test_a_reader_finds_each_object_once_with_its_bytes(dataset: Path, read: Callable[[Path], list[Row]]) -> None:
    assert sorted(read(dataset), key=lambda row: row[0]) == wanted()
