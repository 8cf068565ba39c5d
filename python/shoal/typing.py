"""The types of arguments, for annotations in your own functions.

Example:
    >>> from shoal.typing import Source, Workers
    >>> def backup(source: Source, workers: Workers = "auto") -> shoal.Report:
    ...     return shoal.copy(source, "backup/", workers=workers)
"""

from shoal._options import (
    Backslashes,
    Decode,
    Durability,
    Headers,
    Links,
    ListFormat,
    OnError,
    Order,
    Overwrite,
    PageForm,
    Part,
    Path,
    Pipeline,
    ProgressOption,
    Resume,
    Size,
    Workers,
)
from shoal._source_types import Destination, Source

__all__ = [
    "Backslashes",
    "Decode",
    "Destination",
    "Durability",
    "Headers",
    "Links",
    "ListFormat",
    "OnError",
    "Order",
    "Overwrite",
    "PageForm",
    "Part",
    "Path",
    "Pipeline",
    "ProgressOption",
    "Resume",
    "Size",
    "Source",
    "Workers",
]
