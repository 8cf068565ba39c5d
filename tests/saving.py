"""What the tests of `shoal.save` share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import shoal as package
from trees import tree_of_raw_names


def numbered(count: int) -> Iterator[tuple[str, bytes]]:
    """Small items."""
    return ((f"{n:06}", b"%d" % n) for n in range(count))


def saved(tmp_path: Path, name: str, data: object, **options: Any) -> Path:
    """Saves one item, and returns where its file lies."""
    given = {"durability": "none", "overwrite": "always", **options}
    report = package.save([(name, data)], tmp_path / "out", **given, on_error="record")
    assert report.ok, report.failures
    return tmp_path / "out" / name


def saved_bytes(tmp_path: Path, name: str, data: object, **options: Any) -> bytes:
    """Saves one item, and returns the bytes of its file."""
    return saved(tmp_path, name, data, **options).read_bytes()


def refused(tmp_path: Path, name: str, data: object) -> str:
    """Saves it between two others, and returns why it alone is a failure, which leaves no file."""
    items = [("before.bin", b""), (name, data), ("after.bin", b"x")]
    report = package.save(items, tmp_path / "out", durability="none", overwrite="always", on_error="record")
    assert (report.failed, report.listed) == (1, 3)
    (failure,) = report.failures
    assert failure.kind == "encoding"
    assert (tmp_path / "out/after.bin").read_bytes() == b"x"
    assert not (tmp_path / "out" / name).exists()
    return failure.reason


def all_saved(directory: Path, items: Mapping[str, object]) -> dict[str, str]:
    """Saves items by name, and returns the reasons of those that are failures, which have left no file."""
    report = package.save(items.items(), directory, durability="none", on_error="record")
    assert report.written + report.failed == report.listed == len(items)
    (run,) = package.status(directory, failures=None).runs
    assert {failure.kind for failure in run.failures} <= {"encoding"}
    reasons = {failure.name: failure.reason for failure in run.failures}
    assert len(reasons) == report.failed
    assert {os.fsdecode(name) for name in tree_of_raw_names(directory)} == items.keys() - reasons.keys()
    return reasons
