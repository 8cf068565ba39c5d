"""The functions that describe a destination: `parquet`; and where a job runs: `cluster`.

Not here: what `parquet` returns (`_source_types.py`), the options themselves (the engine's).
"""

from __future__ import annotations

from shoal import _shoal
from shoal._errors import ConfigError
from shoal._options import DESTINATIONS, Path, Size, given, path_text
from shoal._source_types import Described, Destination, DestinationForm, Parquet
from shoal._value import Value

PREFIX = "parquet:"


def parquet(
    directory: Path,
    *,
    # scripts/signatures.py writes these lines.
    shard_size: Size = "128MiB",
    shard_age: float = 300.0,
    group_rows: int = 100_000,
    # End.
) -> Parquet:
    """Describes a directory of Parquet files, for use as the destination of `shoal.copy` and the others.

    Each object is a row. They take the text `"parquet:DIR"` as `parquet("DIR")`; `docs/parquet.md` has the format.

    Args:
        directory: The directory, created if it does not exist.
        shard_size: About how many bytes a file has, as a number or text such as `"128MiB"`.
        shard_age: Seconds after which a file is finished although it is smaller.
        group_rows: About how many rows a row group has at most: it ends with the partition that reaches this number.
            With fewer, readers decompress less for a single row.

    Returns:
        A destination.

    Raises:
        ConfigError: An argument is wrong.

    Example:
        >>> with shoal.serve(synthetic="1000:100") as service:
        ...     report = shoal.copy(service.url, shoal.parquet("packed/", shard_size="16MiB"))
        >>> report.written
        1000
    """
    options = _shoal.checked("parquet", given(locals()))
    return Parquet(what=path_text(directory, "parquet needs the path of a directory", PREFIX), options=options)


class Cluster(Value):
    """A cluster with how a job runs there; returned by `shoal.cluster`."""

    address: str
    parts: int | None
    allow_unlocked: bool


def cluster(address: str, *, parts: int | None = None, allow_unlocked: bool = False) -> Cluster:
    """Describes a cluster that runs all parts of a job (`docs/clusters.md`). Needs `pip install "shoal[ray]"`.

    Args:
        address: `"ray"`, or the address of a Ray cluster as `"ray://HOST:PORT"`.
        parts: The number of parts; by default eight for each that can run at once.
        allow_unlocked: Continue although locks of the destination do not reach all nodes.

    Returns:
        A value for `cluster=` of `shoal.copy`, `shoal.unzip` and `shoal.generate`, which take the text `"ray"` as
        `cluster("ray")`.

    Raises:
        ConfigError: An argument is wrong.

    Example:
        >>> shoal.cluster("ray", parts=64).parts
        64
    """
    if address != "ray" and not str(address).startswith("ray://"):
        raise ConfigError(f"`cluster` must be 'ray' or 'ray://HOST:PORT', got {address!r}")
    if parts is not None and (type(parts) is not int or parts < 1):
        raise ConfigError(f"`parts` must be a whole number of at least 1, got {parts!r}")
    return Cluster(address=address, parts=parts, allow_unlocked=bool(allow_unlocked))


def destination_form(destination: Destination) -> DestinationForm:
    """Returns a destination in the form that the binding takes.

    Raises:
        ConfigError: It is not a destination.
    """
    if isinstance(destination, Described) and destination.function in DESTINATIONS:
        prefix = PREFIX if isinstance(destination, Parquet) else ""
        return f"{prefix}{destination.what}", destination.options
    if isinstance(destination, str):
        return destination, {}  # the binding knows what a text may be, and says so
    return path_text(destination, "`destination` must be a path or shoal.parquet(…)"), {}
