"""The engine, as Python sees it. Use `shoal`, which checks what it is given; only it calls this module."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, final

from shoal._options import ListGetOptions, Options, Path
from shoal._report import Failure, Progress, Report, ServerStats, Status

__all__ = [
    "DEBUG_BUILD",
    "Server",
    "__version__",
    "copy",
    "default_options",
    "each_failure",
    "escape",
    "kinds",
    "limit_copy",
    "save",
    "status",
]

__version__: Final[str]
"""Version of engine, binding and package, which are one."""

DEBUG_BUILD: Final[bool]
"""Whether the engine was built without optimisation: its speed then says nothing."""

def copy(
    source: str,
    sink: str,
    options: Options,
    list_get: ListGetOptions,
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Copies every object of the source into the sink. `shoal.copy` says all of it."""

def save(
    items: Iterable[tuple[object, object]],
    sink: str,
    options: Options,
    source_id: str | None,
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Saves every item into the sink. `shoal.save` says all of it."""

def status(path: Path, shown: int) -> Status:
    """What the journal of a destination says, with the first `shown` failures of each run."""

def each_failure(path: Path, run: int, function: Callable[[tuple[Failure, ...]], object]) -> None:
    """Calls a function with the failures of a run, some hundred at a time, so that millions need no memory."""

def default_options() -> dict[str, Any]:
    """The engine's defaults by the name of the option; sizes in bytes, times in seconds."""

def escape(text: str | bytes) -> str:
    """Makes text from strangers safe to show: control, bidirectional and invisible characters come out as escapes."""

def kinds() -> dict[str, tuple[str, str]]:
    """Every kind of error: what follows from it ("retry", "object" or "run"), and the exception that stands for it."""

def limit_copy(
    address: str, directory: Path | None, layout: str, depth: int, threads: int, limit: int | None
) -> tuple[int, int, float]:
    """The bare loop that the lab compares with: objects, bytes, seconds. The interpreter is released meanwhile."""

@final
class Server:
    """A running list/get service; `shoal.serve` starts one.

    As a context manager it stops at the end of the block. It runs in threads of this process: in a forked child every
    use of it raises RuntimeError.
    """

    def __new__(
        cls,
        directory: Path | None,
        synthetic: str | None,
        host: str,
        port: int,
        page_size: int,
        access_log: Path | None,
    ) -> Server:
        """Starts the service. `shoal.serve` says all of it."""

    @property
    def url(self) -> str:
        """Where a client finds it, such as `http://127.0.0.1:8080`."""

    @property
    def port(self) -> int:
        """The port it listens on."""

    @property
    def stats(self) -> ServerStats:
        """What it has done so far, also after it has stopped."""

    def stop(self, grace: float = 5.0) -> None:
        """Stops it: no new connections, requests in progress finish within `grace` seconds, all threads are joined."""

    def __enter__(self) -> Server: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
