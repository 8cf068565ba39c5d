"""The engine, as Python sees it. Use `shoal`, which checks what it is given; only it calls this module."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, final

import numpy as np

from shoal._generate.messages import Failed, Place, Written
from shoal._options import EncodeOptions, Options, Path, ReadOptions, Size, SourceOptions
from shoal._report import Failure, ListedObject, Progress, Report, ServerStats, Status

__all__ = [
    "BUILD_PROFILE",
    "Batch",
    "Batches",
    "Generation",
    "Listing",
    "Object",
    "Placer",
    "Reader",
    "RecordBatch",
    "RecordBatches",
    "RecordFiles",
    "RecordFormat",
    "RecordScan",
    "RecordTable",
    "Server",
    "__version__",
    "append_records",
    "copy",
    "default_options",
    "each_failure",
    "escape",
    "is_array",
    "kinds",
    "save",
    "status",
]

__version__: Final[str]
"""Version of engine, binding and package, which are one."""

BUILD_PROFILE: Final[str]
"""The profile of Cargo that the engine was built with: "release" (the wheel), "local" (`make build`) or "debug"."""

def copy(
    source: SourceOptions,
    destination: str,
    options: Options,
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Copies every object of the source into the destination. `shoal.copy` says all of it."""

def save(
    items: Iterable[tuple[object, object]],
    destination: str,
    options: Options,
    source_id: str | None,
    encode: EncodeOptions,
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Saves every item into the destination. `shoal.save` says all of it."""

def status(path: Path, shown: int, skipped: int) -> Status:
    """What a journal says, with the first `shown` failures of each run and `skipped` names of what was left out."""

def each_failure(path: Path, run: int, function: Callable[[tuple[Failure, ...]], object]) -> None:
    """Calls a function with the failures of a run, some hundred at a time, so that millions need no memory."""

def default_options() -> dict[str, Any]:
    """The engine's defaults by the name of the option; sizes in bytes, times in seconds."""

def is_array(value: object) -> bool:
    """Whether a value is an array, or gives itself as one (`__array_interface__`, `__array__`) and as no table."""

def escape(text: str | bytes) -> str:
    """Makes text from strangers safe to show: control, bidirectional and invisible characters come out as escapes."""

def kinds() -> dict[str, tuple[str, str]]:
    """Every kind of error: what follows from it ("retry", "object" or "run"), and the exception that stands for it."""

def append_records(
    path: Path,
    records: bytes,
    format: RecordFormat,  # noqa: A002
    offset: int,
    durable: bool,
    cut: bool,
) -> tuple[int, int, int]:
    """Appends whole records: how many, the place of the first new one, and the bytes cut off before."""

@final
class Listing:
    """Iterates over lists of `shoal.ListedObject`, and of `shoal.Failure` for what cannot be listed."""

    def __new__(cls, source: SourceOptions, options: dict[str, Any], raises: bool) -> Self:
        """Begins to list, in a thread. `raises`: what cannot be listed is raised at the end instead."""

    def __iter__(self) -> Self:
        """Itself."""

    def __next__(self) -> list[ListedObject | Failure]:
        """The next of them."""

    def close(self) -> None:
        """Ends the listing."""

@final
class Object:
    """An object of a source: its name, and its bytes through the buffer protocol, to be read only.

    `memoryview(obj)`, `numpy.frombuffer(obj, "u1")` and `file.write(obj)` take the bytes where they lie; `bytes(obj)`
    copies them. Keeping an object keeps at most twice its size and 4 KiB in memory.
    """

    @property
    def name(self) -> str:
        """Its name; what is not text are surrogate escapes."""

    @property
    def data(self) -> memoryview:
        """Its bytes as a memoryview; nothing is copied."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def offset(self) -> int:
        """Where it begins in the whole, when that comes in pieces of `chunk_size`; else 0."""

    def bytes(self) -> builtins.bytes:
        """A copy of its bytes, for what takes nothing else: `json.loads(obj.bytes())`."""

    def text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Its bytes as text.

        Args:
            encoding: The encoding of the bytes, as for `bytes.decode`.
            errors: What to do with bytes that are not in this encoding: `"strict"`, `"replace"`, …

        Raises:
            UnicodeDecodeError: The bytes are not in this encoding, and `errors` is `"strict"`.

        Example:
            >>> with shoal.serve(synthetic="1:17") as service:
            ...     next(shoal.read(service.url)).text()[:16]
            'object-00000000'
        """

    def __len__(self) -> int:
        """Its length in bytes."""

    def __bytes__(self) -> builtins.bytes:
        """A copy of its bytes."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Lends its bytes."""

    def __release_buffer__(self, buffer: memoryview, /) -> None:
        """Takes them back."""

@final
class Batch:
    """Objects as an Arrow record batch with the columns `name` (string), `size` (int64) and `data` (large_binary).

    It has the PyCapsule interface: `pyarrow.record_batch(batch)`, `polars.from_arrow(batch)`. The bytes are not copied;
    their memory is used again when nobody holds the batch any more.
    """

    @property
    def num_rows(self) -> int:
        """How many objects."""

    @property
    def nbytes(self) -> int:
        """Their bytes, without names."""

    def __len__(self) -> int:
        """How many objects."""

    def __arrow_c_schema__(self) -> Any:
        """The type of its rows, as a capsule."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The rows, as a pair of capsules. What a consumer asks for is not converted to: it does that itself."""

@final
class Batches:
    """The objects of a reader as batches: an iterator of `Batch`, and an Arrow stream.

    As a stream it can be given to `pyarrow.table`, `polars.DataFrame` or DuckDB as it is. Objects come once: a second
    pass raises ConfigError, after the stream has been taken too.
    """

    def __iter__(self) -> Self:
        """Itself.

        Raises:
            ConfigError: This thread has come to the end already, or the reader is closed.
        """

    def __next__(self) -> Batch:
        """The next batch."""

    def __arrow_c_schema__(self) -> Any:
        """The type of the rows, as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All batches that are still to come, as a capsule; taking from it needs no interpreter."""

@final
class Reader:
    """The objects of a source, as an iterator; `shoal.read` makes one.

    Objects come once: a second pass raises ConfigError. Several threads may take from it; one that begins when nothing
    is left gets nothing. As a context manager it stops the run at the end of the block and waits for its
    threads. A reader that was begun belongs to its process: in a forked child taking from it raises RuntimeError.
    """

    def __new__(
        cls,
        source: SourceOptions,
        options: Options,
        read: ReadOptions,
        progress: Callable[[Progress], object] | None,
        ended: Callable[[Report | None], object],
    ) -> Reader:
        """Makes one. `shoal.read` says all of it."""

    @property
    def report(self) -> Report | None:
        """The report, once the last object has been taken or the reader was closed; before that None.

        That of a reader which was closed before its end is not complete.
        """

    def __iter__(self) -> Self:
        """Itself.

        Raises:
            ConfigError: This thread has come to the end already, `batches()` was called, or the reader is closed.
        """

    def __next__(self) -> Object:
        """The next object.

        Raises:
            ObjectsFailedError: There is none any more, and others failed (`on_error="raise"`).
            RunError: The run cannot go on.
        """

    def batches(self, batch_size: int | None = None, *, chunk_size: Size | None = None) -> Batches:
        """The objects as Arrow record batches, for PyArrow, Polars, DuckDB and pandas.

        Args:
            batch_size: Exactly so many objects are in each batch, but for the last; however many bytes they have.
            chunk_size: Without `batch_size`: bytes in a batch at the most, but for one that holds a single object; by
                default 4 MiB. It has at most 65,536 objects.

        Raises:
            ConfigError: The reader has been begun: objects come once.

        Example:
            >>> with shoal.serve(synthetic="1000:100") as service:
            ...     sum(len(batch) for batch in shoal.read(service.url).batches())
            1000
        """

    def close(self) -> None:
        """Stops the run, if it is still going, and waits until its threads have ended."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""

@final
class RecordFormat:
    """What one record is made of."""

    @staticmethod
    def from_struct(text: str, names: list[str] | None) -> RecordFormat:
        """From a string of `struct`."""

    @staticmethod
    def from_numpy(fields: list[tuple[str, str, int]], size: int) -> RecordFormat:
        """From the fields of a NumPy dtype: name, type and offset of each; and its item size."""

    @staticmethod
    def from_arrow(schema: object) -> RecordFormat:
        """From what has an Arrow schema."""

    @property
    def names(self) -> list[str]:
        """The fields' names, in order."""

    @property
    def record_size(self) -> int:
        """Bytes of a record."""

    @property
    def numpy(self) -> list[tuple[str, str, int]]:
        """The fields as NumPy has them: name, type and offset of each."""

    def schema(self) -> Any:
        """The schema of the columns, as a capsule."""

    def encode_rows(self, rows: object) -> bytes:
        """Rows of values as the bytes of records."""

    def encode_arrow(self, table: object) -> bytes:
        """An Arrow table as the bytes of records."""

@final
class RecordFiles:
    """Records of one format, in one file or in many; or a range of such."""

    def __new__(cls, paths: list[str], format: RecordFormat, offset: int, drop_tail: bool) -> RecordFiles:  # noqa: A002
        """Opens files; `shoal.Records` calls it."""

    def __len__(self) -> int:
        """How many records there are."""

    @property
    def range(self) -> tuple[int, int]:
        """The first of these records and the one behind the last, counted in all files."""

    @property
    def paths(self) -> list[str]:
        """The files, in order."""

    def get(self, at: int) -> tuple[Any, ...]:
        """The record with this place."""

    def slice(self, start: int, stop: int) -> RecordFiles:
        """Some of these records."""

    def refresh(self) -> RecordFiles:
        """The same with what was appended meanwhile."""

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """An iterator over tuples."""

    def raw(self) -> Iterator[bytes]:
        """An iterator over bytes."""

    def read_into(self, memory: object, workers: int | None) -> None:
        """Reads all records into memory that is exactly as long, with all workers."""

    def scan(
        self,
        condition: str | None,
        columns: list[str] | None,
        limit: int | None,
        batch: int | None,
        workers: int | None,
    ) -> RecordScan:
        """A plan for batches of some records; nothing is read yet."""

    def aggregate(
        self, aggregates: list[tuple[str, str | None, str]], condition: str | None, workers: int | None
    ) -> list[int | float | None]:
        """Aggregates of all records, or of those for which a condition holds, in order."""

    def aggregate_by(
        self, by: str, aggregates: list[tuple[str, str | None, str]], condition: str | None, workers: int | None
    ) -> RecordTable:
        """Aggregates for each value of an integer field: the keys in order, and a column for each aggregate."""

@final
class RecordScan:
    """What is to be read, and how."""

    @property
    def names(self) -> list[str]:
        """The columns' names."""

    def __iter__(self) -> RecordBatches:
        """Begins anew: an iterator over the batches."""

    def write(
        self,
        path: Path,
        format: str | None,  # noqa: A002
        compression: str | None,
        durable: bool,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int]:
        """Writes all of it to a table file: how many records and bytes. `progress` is called with both meanwhile."""

    def collect(self) -> RecordTable:
        """All batches, held in memory."""

    def __arrow_c_schema__(self) -> Any:
        """The type of the rows, as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Begins anew: all batches, as a capsule; taking from it needs no interpreter."""

@final
class RecordBatches:
    """The batches of a scan, as an iterator. Several threads may take from it."""

    def __iter__(self) -> Self:
        """Itself."""

    def __next__(self) -> RecordBatch:
        """The next batch."""

@final
class RecordBatch:
    """Records as an Arrow record batch, with a column for each field.

    It has the PyCapsule interface: `pyarrow.record_batch(batch)`, `polars.from_arrow(batch)`. Nothing is copied.
    """

    @property
    def num_rows(self) -> int:
        """How many records."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""

    def __len__(self) -> int:
        """How many records."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """One NumPy array for each column, in order, to be read only; dates and times are integers."""

    def rows(self, start: int = 0, count: int | None = None) -> list[tuple[Any, ...]]:
        """Records as tuples: so many, from the one with this place on."""

    def __arrow_c_schema__(self) -> Any:
        """The type of its rows, as a capsule."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The rows, as a pair of capsules. What a consumer asks for is not converted to: it does that itself."""

@final
class RecordTable:
    """Batches held in memory."""

    def __len__(self) -> int:
        """How many rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""

    @property
    def batches(self) -> list[RecordBatch]:
        """The batches."""

    def __arrow_c_schema__(self) -> Any:
        """The type of its rows, as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All batches, as a capsule; nothing is copied."""

@final
class Generation:
    """The run of `shoal.generate`, as the caller's thread sees it. Nothing waits but `finish`."""

    def __new__(
        cls,
        destination: str,
        options: Options,
        job: tuple[str, str, int],
        encode: EncodeOptions,
        in_flight: int,
        workers: tuple[int, str],
    ) -> Generation:
        """Starts the run.

        `job`: what makes it the same one, what its function is bound to, how many ids; `workers`: what the report says
        of them.
        """

    @property
    def ended(self) -> bool:
        """Whether the run is over."""

    def fileno(self) -> int:
        """What to wait for."""

    def heed(self) -> None:
        """Silences what was waited for; what there is to look at is looked at after this."""

    def names_wanted(self) -> tuple[int, int] | None:
        """The first of the ids whose names are wanted, and the one behind the last."""

    def offer(self, start: int, names: Sequence[str | bytes]) -> None:
        """The names that were wanted."""

    def place(self) -> Place | None:
        """Where a process writes for this run; None before the run has opened it."""

    def take(self, most: int) -> list[tuple[int, int, bytes, bool]]:
        """The next objects to make: token, index of the id, name, and whether something of it may be there already."""

    def waiting(self) -> int:
        """How many objects wait to be taken."""

    def done(self, outcomes: list[Written]) -> None:
        """Says what was written."""

    def failed(self, outcomes: list[Failed]) -> None:
        """Says what was not, and why."""

    def progress(self) -> Progress:
        """How far it is."""

    def stop(self) -> None:
        """Tells it to stop, as Ctrl-C does."""

    def finish(self) -> tuple[Report, BaseException | None]:
        """Waits for its end. The report, and the exception that it ended with."""

@final
class Placer:
    """In a process that works for `shoal.generate`: encodes and writes what its function returns, on a thread."""

    def __new__(
        cls,
        place: Place,
        durability: str,
        overwrite: str,
        memory: int,
        encode: EncodeOptions,
        leash: int | None,
    ) -> Placer:
        """Joins a run. `leash`: a file descriptor; when its other end is closed, this process ends."""

    def put(self, token: int, name: bytes, data: object, again: int) -> None:
        """Hands data over to be written; waits while too much of it waits already.

        `again`: 1 if an earlier session may have made it, 2 if a process of this one has died over it.
        """

    def collect(self, wait: bool) -> tuple[list[Written], list[Failed]]:
        """What was written since the last call, and what was not; `wait`: of all that was handed over."""

    def close(self) -> None:
        """Ends, after all that was handed over is written."""

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
        allow_hosts: tuple[str, ...],
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
