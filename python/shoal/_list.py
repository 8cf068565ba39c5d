"""The function `list_objects`: lists a source without copying it. The others are in `_api.py`.

Not here: how a source lists (the engine's `source/`), the meaning of patterns (its `engine/filter.rs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import _shoal
from shoal._options import SOURCES, given, points_to_options
from shoal._report import Failure
from shoal._sources import source_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal._report import ListedObject
    from shoal._source_types import Source


@points_to_options(*SOURCES)
def list_objects(
    source: Source,
    *,
    # scripts/signatures.py writes these lines.
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    # End.
) -> Iterator[ListedObject]:
    """Lists the objects that `shoal.copy` of the same source would copy. Nothing is fetched, unpacked or written.

    Objects are yielded while the source is listed, in the order of a run, so memory use does not grow. Entries of
    archives and buckets have a size and a time; objects of other sources have only a name.

    Args:
        source: As for `shoal.copy`: a directory, a glob, a URL, `shoal.archives(…)`, …
        include: Only names that match one of these patterns, as for `shoal.copy`.
        exclude: Skip names that match one of these patterns.

    Returns:
        An iterator of `shoal.ListedObject`.

    Raises:
        ConfigError: An argument is wrong.
        ObjectError: Something could not be listed: a damaged archive, a directory that cannot be read. It is raised
            after everything else has been listed.
        RunError: The listing cannot continue.

    Example:
        >>> with zipfile.ZipFile("letters.zip", "w") as archive:
        ...     archive.writestr("a.txt", "aaa")
        >>> [(one.name, one.size) for one in shoal.list_objects(shoal.archives("letters.zip"))]
        [('a.txt', 3)]
    """
    listing = listing_of(source, given(locals()), raises=True)
    return (one for batch in listing for one in batch if not isinstance(one, Failure))


def listing_of(source: Source, options: dict[str, Any], *, raises: bool) -> _shoal.Listing:
    """Starts a listing. What cannot be listed is raised at its end with `raises`, else yielded as a `shoal.Failure`.

    Raises:
        ConfigError: An argument is wrong.
    """
    return _shoal.Listing(source_form(source), options, raises)
