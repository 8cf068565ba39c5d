"""A program that uses every function with options. Nothing runs it: `make check` looks at its types.

A line that must be an error says so with `type: ignore`; mypy reports those that are not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import shoal
from shoal.typing import Destination, Durability, Size, Source, Workers


def everything(source: Source, destination: Destination, workers: Workers = "auto", memory: Size = "1GiB") -> None:
    durability: Durability = "file"
    service = shoal.list_get("https://h", headers={"A": "b"}, next_field=("a", "b"), timeout=5, pipeline="off")
    urls = shoal.urls(["https://h/1", ("name", "https://h/2")], per_host=2, limit_requests=0.5, ca_file=Path("ca.pem"))
    bucket = shoal.s3("s3://b/p", region="eu-west-1", credentials=lambda: {"access_key": "a", "secret_key": "b"})
    archives = shoal.archives(["a.zip", Path("b.tar")], max_size="20GB", backslashes="separator")
    files = shoal.files("tree", links="follow")
    packed = shoal.parquet(Path("packed"), shard_size="64MiB", shard_age=60)
    cluster = shoal.cluster("ray", parts=64)
    assert_type(shoal.copy(source, destination, workers=workers, memory=memory, durability=durability), shoal.Report)
    assert_type(shoal.copy(service, packed, include="*.json", limit_rate=None, part=(3, 16)), shoal.Report)
    assert_type(shoal.copy(urls, "null:", cluster=cluster), shoal.Report)
    assert_type(shoal.copy(bucket, destination), shoal.Report)
    assert_type(shoal.unzip("a.zip", "out", max_ratio=3, keep_times=False, on_error="record"), shoal.Report)
    assert_type(shoal.save([("a", b"1")], packed, source_id="x", header=False), shoal.Report)
    assert_type(shoal.generate(str, range(3), "out", name="{}", workers=2, nice=True), shoal.Report)
    assert_type(shoal.status("out", failures=None), shoal.Status)
    with shoal.serve(synthetic="1:1", port=0) as running:
        assert_type(running.url, str)
    for listed in shoal.list_objects(archives, exclude=("a", "b")):
        assert_type(listed, shoal.ListedObject)
    with shoal.read(files, order="source", chunk_size=1 << 20) as reader:
        assert_type(next(iter(reader)), shoal.Object)

    shoal.copy(source, destination, durability="never")  # type: ignore[arg-type]
    shoal.copy(source, destination, max_failures="3")  # type: ignore[arg-type]
    shoal.copy(source, destination, timeout=5)  # type: ignore[call-arg]
    shoal.list_get("https://h", insecure=None)  # type: ignore[arg-type]
    shoal.urls("list", per_host="6")  # type: ignore[arg-type]
    shoal.archives("a.zip", max_entries=None)  # type: ignore[arg-type]
    shoal.files("tree", link="follow")  # type: ignore[call-arg]
    shoal.files("tree", links="all")  # type: ignore[arg-type]
    shoal.parquet("packed", shard_age="60")  # type: ignore[arg-type]
    shoal.read(files, order="any", overwrite="never")  # type: ignore[call-arg]
