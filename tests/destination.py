"""A look at the counts of a run."""

from __future__ import annotations

import shoal as package


def balanced(counts: package.Counts | package.Report) -> bool:
    """Whether nothing was lost from the count."""
    return counts.listed == counts.written + counts.skipped + counts.failed + counts.unfinished
