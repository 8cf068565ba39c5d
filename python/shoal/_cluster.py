"""A job in parts on a cluster (`cluster=`): what is sent to the nodes, and how what they return is added up.

Not here: the cluster itself (`ray.py`), what a part is (the engine).
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shoal import _shoal
from shoal._destinations import Cluster, cluster, destination_form
from shoal._errors import ConfigError, ObjectsFailedError
from shoal._report import Counts, NodeProgress, Progress, Report
from shoal._source_types import S3, Archives, Described, ListGet, Urls
from shoal._value import Value

if TYPE_CHECKING:
    from shoal._options import Part

V = TypeVar("V", bound=Value)

PARTS_PER_SLOT = 8  # parts for each that can run at once: one slow part then delays the end by little
FAILURES_SHOWN = 20
COUNTS = tuple(Counts.__annotations__)
PATHS_SEEN = 100  # paths of a list of paths that are looked at on each node
# What may be at a path of the source; also a glob is missing. If the driver sees one of these, a node may see more.
MISSING, EMPTY = "nothing", "an empty directory"
PREFIXES = ("parquet:", "zip:", "tar:")


class Job:
    """One call of `copy`, `unzip` or `generate`, as each part makes it on its node."""

    def __init__(self, function: Callable[..., Report], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Makes relative paths absolute, since a node has another working directory.

        Raises:
            ConfigError: An option does not work on a cluster.
        """
        bound = inspect.signature(function).bind(*args, **options)
        self.name = function.__name__
        self.arguments: dict[str, Any] = dict(bound.arguments)
        where = self.arguments.pop("cluster")
        self.cluster: Cluster = where if isinstance(where, Cluster) else cluster(where)
        self.allows_different = bool(self.arguments.get("allow_different_listings"))
        self.progress = self.arguments.pop("progress", None)
        for option in ("part", "journal", "dry_run"):
            if self.arguments.pop(option, None):
                raise ConfigError(f"`{option}` does not work with `cluster`", hint=f"leave out `{option}`")
        for argument in ("source", "archives"):
            if argument in self.arguments:
                self.arguments[argument] = absolute(self.arguments[argument])
        self.arguments["destination"] = absolute(self.arguments["destination"])
        made = self.arguments.get("function")
        if made is not None and getattr(made, "__module__", None) == "__main__":
            raise ConfigError(
                "the function is defined in the script itself, which the nodes cannot import",
                hint="move it into a module that all nodes can import",
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the progress function on this machine."""
        return {**self.__dict__, "progress": None}

    @property
    def directory(self) -> Path | None:
        """The directory at the destination; None for `null:`."""
        text = destination_form(self.arguments["destination"])[0]
        return None if text == "null:" else Path(text.removeprefix("parquet:"))

    def source_facts(self) -> dict[str, str]:
        """Returns what this machine sees of the paths of the source. Of many paths, only of the first."""
        source = self.arguments.get("source", self.arguments.get("archives"))
        if isinstance(source, Urls) and isinstance(source.what, str):
            # A list that changes meanwhile is compared only if it should not.
            return {source.what: fact(source.what, whole=not self.allows_different)}
        paths = getattr(source, "what", source)
        if isinstance(paths, str | os.PathLike):
            paths = [paths]
        if isinstance(source, ListGet | S3) or paths is None:
            return {}
        texts = map(str, itertools.islice(paths, PATHS_SEEN))
        return {text: fact(without_prefix(text)) for text in texts if "://" not in text}

    def share_limits(self, running: int) -> list[str]:
        """Divides limits of bytes, and of each host, over the parts that run at once. Returns notes for the report."""
        notes, at_once = [], f"since {running} ran at once"
        limit, source = self.arguments.get("limit_rate"), self.arguments.get("source")
        if limit is not None:
            own = max(1, _shoal.parse_size(limit, "limit_rate") // running)
            self.arguments["limit_rate"] = own
            notes.append(f"`limit_rate`: each part was limited to {own:,} bytes per second, {at_once}")
        if isinstance(source, Urls) and running > 1:
            shares: dict[str, Any] = {"per_host": max(1, source.per_host // running)}
            if source.limit_requests is not None:
                shares["limit_requests"] = source.limit_requests / running
            self.arguments["source"] = changed(source, options=source.options | shares)
            told = ", ".join(f"`{name}` {value:g}" for name, value in shares.items())
            notes.append(f"each part had {told}, {at_once}")
        return notes

    def run(self, part: Part, progress: Callable[[Progress], object]) -> Report:
        """Runs one part, on a node."""
        import shoal  # here, because this module is a part of it

        function: Callable[..., Report] = getattr(shoal, self.name)
        return function(**self.arguments, part=part, progress=progress)


def fact(path: str, *, whole: bool = False) -> str:
    """Returns what there is at a path of the source; of the `whole` file, its size and a hash."""
    try:
        if Path(path).is_dir():
            with os.scandir(path) as entries:
                return "a directory with contents" if any(True for _ in entries) else EMPTY
        with Path(path).open("rb") as file:
            if not whole:
                return "a file"
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
            return f"a file of {file.tell():,} bytes with hash {digest}"
    except OSError as error:
        return MISSING if isinstance(error, FileNotFoundError) else f"an error ({error.strerror})"


def without_prefix(text: str, prefixes: tuple[str, ...] = PREFIXES) -> str:
    """Returns a path without the prefix that says what it is."""
    return text.removeprefix(next((prefix for prefix in prefixes if text.startswith(prefix)), ""))


def changed(value: V, **fields: Any) -> V:
    """Returns a value with some other fields."""
    return type(value)(**{name: getattr(value, name) for name in type(value)._fields} | fields)


def absolute(source: Any, prefixes: tuple[str, ...] = PREFIXES) -> Any:
    """Returns a source or a destination with absolute paths. Only `prefixes` say what they are; others are in names."""
    if isinstance(source, ListGet | S3):
        return source
    if isinstance(source, Urls) and (not isinstance(source.what, str) or source.what == "-"):
        raise ConfigError(
            "on a cluster, a list of URLs must be a file", hint="write the list to a file that all nodes can read"
        )
    if isinstance(source, Described):
        return changed(source, what=absolute(source.what, PREFIXES if isinstance(source, Archives) else ()))
    if not isinstance(source, str | os.PathLike):
        return tuple(absolute(path, ()) for path in source)
    text = os.fspath(source)
    if "://" in text or text == "null:":
        return text
    path = without_prefix(text, prefixes)
    # Not resolved: a link may lead to another place on each node. A `/` at the end has no meaning.
    return text.removesuffix(path) + str(Path.cwd() / path)


def run(job: Job) -> Report:
    """Runs all parts of a job on its cluster.

    Raises:
        ConfigError: The cluster is not known, or what it needs is not installed.
    """
    try:
        from shoal import ray
    except ModuleNotFoundError as missing:
        if missing.name != "ray":
            raise
        raise ConfigError("Ray is not installed", hint='pip install "shoal[ray]"') from None
    return ray.run(job)


def facts() -> dict[str, str]:
    """Returns what must be the same on all nodes, and the name of this one."""
    import platform

    return {"shoal": _shoal.__version__, "Python": platform.python_version(), "host": socket.gethostname()}


def add_up(reports: Mapping[int, Report], parts: int, began: float, notes: Iterable[str]) -> Report:
    """Returns the report of a job from those of its parts, by their numbers.

    Raises:
        RuntimeError: The counts do not balance. That would be a bug.
    """
    all_of = list(reports.values())

    def counts(of: str) -> Counts:
        return Counts(**{name: sum(getattr(getattr(report, of), name) for report in all_of) for name in COUNTS})

    def total(field: str) -> int:
        return sum(getattr(report, field) for report in all_of)

    run, whole = counts("run"), counts("total")
    for one in (run, whole):
        if one.listed != one.written + one.skipped + one.failed + one.unfinished:
            raise RuntimeError(f"the counts of the parts do not balance: {one!r}")
    failures = [failure for _, report in sorted(reports.items()) for failure in report.failures]
    before = [report.completed_before for report in all_of]
    said = Counter(note for report in all_of for note in report.notes)
    last = all_of[-1] if all_of else None
    return Report(
        listed=run.listed,
        written=run.written,
        skipped=run.skipped,
        failed=whole.failed,
        unfinished=run.unfinished,
        bytes=run.bytes,
        run=run,
        total=whole,
        seconds=time.monotonic() - began,
        retries=total("retries"),
        unverified=total("unverified"),
        wasted=total("wasted"),
        duplicates=total("duplicates"),
        unchanged=total("unchanged"),
        edited=total("edited"),
        dry_run=False,
        complete=len(reports) == parts and all(report.complete for report in all_of),
        completed_before=max(filter(None, before)) if len(before) == parts and all(before) else None,
        not_listed=last.not_listed if last and all(before) else None,
        resumed_from=total("resumed_from"),
        workers=total("workers"),
        workers_reason=f"the sum over {parts:,} parts",
        concurrency=(),
        durability=last.durability if last else "",
        publish=last.publish if last else "",
        paused=sum(report.paused for report in all_of),
        failures=tuple(failures[:FAILURES_SHOWN]),
        notes=(*notes, *(f"{note} ({times} parts)" if times > 1 else note for note, times in said.items())),
    )


def add_progress(
    running: Mapping[int, tuple[str, Progress]],
    done: Mapping[int, Report],
    nodes: Mapping[str, Counter[str]],
    parts: int,
    began: float,
) -> Progress:
    """Returns the progress of a job.

    Args:
        running: The node and the progress of each part that runs.
        done: The reports of those that have ended.
        nodes: `parts`, `objects` and `bytes` of those, by their node.
        parts: The number of parts of the job.
        began: When it began, by the monotonic clock.
    """
    states = [state for _, state in running.values()]

    def node(name: str) -> NodeProgress:
        own, ended = [state for where, state in running.values() if where == name], nodes.get(name, Counter())
        return NodeProgress(
            name=name,
            running=len(own),
            done=ended["parts"],
            written=ended["objects"] + sum(state.run.written for state in own),
            bytes=ended["bytes"] + sum(state.run.bytes or 0 for state in own),
            paused=bool(own) and all(state.paused for state in own),
        )

    def counts(of: str) -> Counts:
        def one(name: str) -> int:
            total: int = sum(getattr(getattr(state, of), name) for state in states)
            for report in done.values():
                own: int = getattr(report.run, name)
                total += own if of == "run" else getattr(report.total, name) - own
            return total

        return Counts(**{name: one(name) for name in COUNTS})

    retry = [state.retry_in for state in states if state.retry_in is not None]
    return Progress(
        run=counts("run"),
        before=counts("before"),
        listing_done=len(states) + len(done) == parts and all(state.listing_done for state in states),
        in_flight=sum(state.in_flight for state in states),
        workers=sum(state.workers for state in states),
        retries=sum(state.retries for state in states) + sum(report.retries for report in done.values()),
        deferred=sum(state.deferred for state in states),
        retry_in=min(retry, default=None),
        committed=sum(state.committed for state in states) + sum(report.run.written for report in done.values()),
        paused=bool(running) and all(state.paused for state in states),
        seconds=time.monotonic() - began,
        nodes=tuple(map(node, sorted({*nodes, *(where for where, _ in running.values())}))),
    )


def failed_objects(report: Report) -> ObjectsFailedError:
    """Returns what is raised for failed objects of a job that is done otherwise."""
    first = report.failures[0] if report.failures else None
    what = f'; the first: "{_shoal.escape(first.name)}": {first.reason}' if first else ""
    error = ObjectsFailedError(
        f"{report.failed:,} of {report.total.listed:,} objects failed{what}",
        hint='`resume="failed"` retries them',
    )
    error.report = report
    return error
