"""Checksums of all objects of a source, computed by the engine; for `shoal read` and `shoal verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import _read

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal._options import Checksum, ProgressOption
    from shoal._report import Report
    from shoal._source_types import Source

SIZE = 8  # bytes of the little-endian size before each checksum (the engine's `sink/digest.rs`)


def each_checksum(
    source: Source,
    checksum: Checksum,
    progress: ProgressOption,
    options: dict[str, Any],
    function: Callable[[str, int, bytes], object],
) -> Report:
    """Calls the function with name, size and checksum of each object, and returns the report.

    The report has the objects that could not be read. `options` are those of `shoal.read` that were given.
    """
    with _read.reader(source, {"on_error": "record", **options, "checksum": checksum}, progress) as reader:
        for one in reader:
            function(one.name, int.from_bytes(one.data[:SIZE], "little"), bytes(one.data[SIZE:]))
    assert reader.report is not None  # noqa: S101  # the reader is closed
    return reader.report
