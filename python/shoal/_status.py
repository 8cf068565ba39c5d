"""The function `status`: reads a journal. The others are in `_api.py`.

Not here: journals (the engine's `journal/`), the command `shoal status` (`cli/status.py`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shoal import _shoal
from shoal._destinations import PREFIX, destination_form
from shoal._errors import ConfigError

if TYPE_CHECKING:
    from shoal._report import Status
    from shoal._source_types import Destination


def status(
    path: Destination, *, failures: int | None = 100, skipped: int | None = 100, allow_different_listings: bool = False
) -> Status:
    """Reads a journal without changing it; a run may be in progress.

    Args:
        path: The destination of a run, also `"parquet:DIR"` or `shoal.parquet(…)`, or the path given as `journal=`.
        failures: How many failures of each run to read; None reads all of them into memory.
        skipped: How many names of skipped links, pipes and duplicates to read for each run; None reads all that the
            journal has, at most 100,000.
        allow_different_listings: Whether a job may be complete although its parts have listed different names.

    Returns:
        The process that works on the destination, and for each run in its journal the counts, whether it is complete,
        failures with their reasons, and the rate over time. Of a job in parts (`part=`), each part with its run;
        `.complete` is true only if all parts are, and have listed the same names.

    Raises:
        ConfigError: There is no journal, or `failures` or `skipped` is negative.
        JournalError: The journal cannot be read.

    Example:
        >>> with shoal.serve(synthetic="10:10") as service:
        ...     _ = shoal.copy(service.url, "copied/")
        >>> shoal.status("copied/").runs[-1].total.written
        10
    """
    for name, count in (("failures", failures), ("skipped", skipped)):
        if count is not None and count < 0:
            raise ConfigError(f"`{name}` must not be negative, got {count}")
    directory = destination_form(path)[0].removeprefix(PREFIX)
    shown, names = (sys.maxsize if count is None else count for count in (failures, skipped))
    return _shoal.status(directory, shown, names, allow_different_listings)
