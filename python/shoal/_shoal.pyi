"""The binding of the engine. Use `shoal`, which validates arguments; only it calls this module."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, final

import numpy as np

from shoal._generate.messages import Failed, Place, Written
from shoal._options import Option, Path, Size
from shoal._report import Failure, ListedObject, Progress, Report, ServerStats, Status
from shoal._source_types import DestinationForm, SourceForm

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
    "checked",
    "copy",
    "destination_function",
    "each_failure",
    "escape",
    "functions",
    "is_array",
    "kinds",
    "options",
    "parse_size",
    "recover_records",
    "save",
    "source_function",
    "status",
    "verify_dataset",
]

__version__: Final[str]
"""Version of the engine, the binding and the package."""

BUILD_PROFILE: Final[str]
"""The profile of Cargo that the engine was built with: "release" (the wheel), "local" (`make build`) or "debug"."""

def copy(
    source: SourceForm,
    destination: DestinationForm,
    options: dict[str, Any],
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Copies every object of the source into the destination. See `shoal.copy`."""

def save(
    items: Iterable[tuple[object, object]],
    destination: DestinationForm,
    options: dict[str, Any],
    source_id: str | None,
    progress: Callable[[Progress], object] | None,
) -> Report:
    """Saves every item into the destination. See `shoal.save`."""

def status(path: Path, shown: int, skipped: int, allow_different_listings: bool) -> Status:
    """Reads a journal, with the first `shown` failures and `skipped` skipped names of each run."""

def each_failure(
    path: Path, run: int, deferred: bool, function: Callable[..., object], source: SourceForm | None = None
) -> None:
    """Calls a function with the failures of a run, some hundred at a time, so that memory use does not grow.

    With a list of URLs, it is also called with the URL of each: empty if the record has none, None if there is another
    record in its place.
    """

def verify_dataset(
    directory: str,
    workers: int | None,
    nice: bool,
    memory: int,
    progress: Callable[[Progress], object] | None,
) -> dict[str, Any]:
    """Checks the Parquet files of a directory, without a journal. See docs/parquet.md."""

def options() -> dict[str, list[Option]]:
    """Returns the tables of options; sizes in bytes, times in seconds."""

def checked(table: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns all options of a table with valid values; those that are not given have their defaults."""

def functions() -> tuple[list[str], list[str]]:
    """Returns the names of the functions that describe a source, and of those that describe a destination."""

def source_function(text: str) -> str:
    """Returns the name of the function that describes such a source; empty if it has no options."""

def destination_function(text: str) -> str:
    """Returns the name of the function that describes such a destination; empty if it has no options."""

def parse_size(value: Size, option: str) -> int:
    """Returns a size in bytes: of a number, or of text such as `"256MiB"`, `"10M"` (both binary) or `"1.5 GB"`."""

def is_array(value: object) -> bool:
    """Returns whether a value is an array (`__array_interface__`, `__array__`) and not a table."""

def escape(text: str | bytes) -> str:
    """Escapes control, bidirectional and invisible characters of untrusted text."""

def kinds() -> dict[str, tuple[str, str]]:
    """Returns every kind of error with its class ("retry", "object" or "run") and its exception."""

def append_records(
    path: Path,
    records: bytes,
    format: RecordFormat,  # noqa: A002
    offset: int,
    durable: bool,
    cut: bool,
) -> tuple[int, int, int]:
    """Appends whole records. Returns their number, the index of the first, and the bytes truncated before."""

def recover_records(path: Path, keep: bool) -> int:
    """Keeps or truncates what an interrupted append has left. Returns the bytes truncated."""

@final
class Listing:
    """Iterates over lists of `shoal.ListedObject`, with `shoal.Failure` for what cannot be listed."""

    def __new__(cls, source: SourceForm, options: dict[str, Any], raises: bool) -> Self:
        """Starts listing in a thread. With `raises`, what cannot be listed is raised at the end instead."""

    def __iter__(self) -> Self:
        """Returns itself."""

    def __next__(self) -> list[ListedObject | Failure]:
        """Returns the next list."""

    def close(self) -> None:
        """Stops the listing."""

@final
class Object:
    """An object of a source: its name, and its bytes through the read-only buffer protocol.

    `memoryview(obj)`, `numpy.frombuffer(obj, "u1")` and `file.write(obj)` use the bytes without a copy; `bytes(obj)`
    copies them. Keeping an object keeps at most twice its size plus 4 KiB in memory.
    """

    @property
    def name(self) -> str:
        """The name, with surrogate escapes for bytes that are not UTF-8."""

    @property
    def data(self) -> memoryview:
        """The bytes as a memoryview, without a copy."""

    @property
    def size(self) -> int:
        """The length in bytes."""

    @property
    def offset(self) -> int:
        """The position of this chunk in its object, with `chunk_size`; else 0."""

    def bytes(self) -> builtins.bytes:
        """Returns a copy of the bytes, for functions that need one: `hashlib.sha256(obj.bytes())`."""

    def text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Returns the bytes as text.

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

    def json(self) -> Any:
        """Returns the value that the bytes are as JSON: a dict, a list, text, a number, a bool or None.

        Raises:
            ValueError: The bytes are not JSON in UTF-8, UTF-16 or UTF-32, or only a piece of it (`chunk_size`).

        Example:
            >>> report = shoal.save({"a.json": {"label": 7}}, "labels/")
            >>> next(shoal.read("labels/")).json()["label"]
            7
        """

    def __len__(self) -> int:
        """The length in bytes."""

    def __bytes__(self) -> builtins.bytes:
        """Returns a copy of the bytes."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Exports the buffer."""

    def __release_buffer__(self, buffer: memoryview, /) -> None:
        """Releases the buffer."""

@final
class Batch:
    """Objects as an Arrow record batch with the columns `name` (string), `size` (int64) and `data` (large_binary).

    It has the PyCapsule interface: `pyarrow.record_batch(batch)`, `polars.DataFrame(batch)`. The bytes are not copied;
    their memory is reused when the batch is released.
    """

    @property
    def num_rows(self) -> int:
        """The number of objects."""

    @property
    def nbytes(self) -> int:
        """The bytes of the objects, without names."""

    def __len__(self) -> int:
        """The number of objects."""

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Returns the rows as a pair of capsules. The requested schema is ignored: the consumer converts."""

@final
class Batches:
    """The objects of a reader as batches: an iterator of `Batch`, and an Arrow stream.

    `pyarrow.table`, `polars.DataFrame` and DuckDB read the stream. Objects can be read only once: a second pass raises
    ConfigError, also after the stream was read.
    """

    def __iter__(self) -> Self:
        """Returns itself.

        Raises:
            ConfigError: This thread has already reached the end, or the reader is closed.
        """

    def __next__(self) -> Batch:
        """Returns the next batch."""

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns the remaining batches as a stream capsule; reading it does not need the interpreter."""

@final
class Reader:
    """An iterator over the objects of a source, returned by `shoal.read`.

    Objects can be read only once: a second pass raises ConfigError. Several threads may share a reader; one that starts
    after the last object gets nothing. As a context manager, it stops the run at the end of the block and waits for its
    threads. A started reader belongs to its process: using it in a forked child raises RuntimeError.
    """

    def __new__(
        cls,
        source: SourceForm,
        options: dict[str, Any],
        progress: Callable[[Progress], object] | None,
        ended: Callable[[Report | None], object],
    ) -> Reader:
        """Creates a reader. See `shoal.read`."""

    @property
    def report(self) -> Report | None:
        """The report after the last object, or after closing; before that None.

        If the reader was closed before its end, the report is not complete.
        """

    def __iter__(self) -> Self:
        """Returns itself.

        Raises:
            ConfigError: This thread has already reached the end, `batches()` was called, or the reader is closed.
        """

    def __next__(self) -> Object:
        """Returns the next object.

        Raises:
            ObjectsFailedError: There are no more objects, and some failed (`on_error="raise"`).
            RunError: The run cannot continue.
        """

    def batches(self, batch_size: int | None = None, *, chunk_size: Size | None = None) -> Batches:
        """Returns the objects as Arrow record batches, for PyArrow, Polars, DuckDB and pandas.

        Args:
            batch_size: Exact number of objects in each batch except the last, whatever their size.
            chunk_size: Without `batch_size`: maximum bytes in a batch, unless it has a single object; by default 4 MiB.
                A batch then has at most 65,536 objects.

        Raises:
            ConfigError: The reader was already started.

        Example:
            >>> with shoal.serve(synthetic="1000:100") as service:
            ...     sum(len(batch) for batch in shoal.read(service.url).batches())
            1000
        """

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns `batches()` as a stream capsule, for `polars.DataFrame(reader)` and `pyarrow.table(reader)`."""

    def close(self) -> None:
        """Stops the run if it has not ended, and waits for its threads."""

    def __enter__(self) -> Self:
        """Returns itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""

@final
class RecordFormat:
    """The format of a record."""

    @staticmethod
    def from_struct(text: str, names: list[str] | None) -> RecordFormat:
        """Creates a format from a `struct` string."""

    @staticmethod
    def from_numpy(fields: list[tuple[str, str, int]], size: int) -> RecordFormat:
        """Creates a format from the fields of a NumPy dtype (name, type and offset of each) and its item size."""

    @staticmethod
    def from_arrow(schema: object) -> RecordFormat:
        """Creates a format from an object with an Arrow schema."""

    @property
    def names(self) -> list[str]:
        """The fields' names, in order."""

    @property
    def record_size(self) -> int:
        """Bytes of a record."""

    @property
    def numpy(self) -> list[tuple[str, str, int]]:
        """Name, NumPy type and offset of each field."""

    def schema(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def encode_rows(self, rows: object) -> bytes:
        """Encodes rows of values as records."""

    def encode_arrow(self, table: object) -> bytes:
        """Encodes an Arrow table as records."""

@final
class RecordFiles:
    """Records of one format in one or more files, or a range of these."""

    def __new__(cls, paths: list[str], format: RecordFormat, offset: int, drop_tail: bool) -> RecordFiles:  # noqa: A002
        """Opens files; `shoal.Records` calls it."""

    def __len__(self) -> int:
        """Returns the number of records."""

    @property
    def range(self) -> tuple[int, int]:
        """The index of the first of these records and of the one after the last, over all files."""

    @property
    def paths(self) -> list[str]:
        """The files, in order."""

    @property
    def counts(self) -> list[int]:
        """The number of records of each file."""

    def get(self, at: int) -> tuple[Any, ...]:
        """Returns the record at this index."""

    def slice(self, start: int, stop: int) -> RecordFiles:
        """Returns a range of these records."""

    def first_of_each(self, counts: list[int]) -> RecordFiles:
        """Returns the first so many records of each file; each must have them."""

    def refresh(self) -> RecordFiles:
        """Returns the same files with records that were appended meanwhile."""

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Returns an iterator over tuples."""

    def raw(self) -> Iterator[bytes]:
        """Returns an iterator over bytes."""

    def read_into(self, memory: object, workers: int | None) -> None:
        """Reads all records into a buffer of exactly their size, with all workers."""

    def scan(
        self,
        condition: str | None,
        columns: list[str] | None,
        limit: int | None,
        batch: int | None,
        workers: int | None,
    ) -> RecordScan:
        """Plans a scan; reads nothing."""

    def aggregate(
        self, aggregates: list[tuple[str, str | None, str]], condition: str | None, workers: int | None
    ) -> list[int | float | None]:
        """Returns aggregates of all records, or of those that match a condition, in order."""

    def aggregate_by(
        self, by: str, aggregates: list[tuple[str, str | None, str]], condition: str | None, workers: int | None
    ) -> RecordTable:
        """Returns aggregates for each value of an integer field: sorted keys, and a column for each aggregate."""

@final
class RecordScan:
    """A planned scan."""

    @property
    def names(self) -> list[str]:
        """The columns' names."""

    def __iter__(self) -> RecordBatches:
        """Returns a new iterator over the batches."""

    def write(
        self,
        path: Path,
        format: str | None,  # noqa: A002
        compression: str | None,
        durable: bool,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int]:
        """Writes all batches to a table file. Returns records and bytes; `progress` is called with both meanwhile."""

    def collect(self) -> RecordTable:
        """Reads all batches into memory."""

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns all batches as a new stream capsule; reading it does not need the interpreter."""

@final
class RecordBatches:
    """An iterator over the batches of a scan, which several threads may share."""

    def __iter__(self) -> Self:
        """Returns itself."""

    def __next__(self) -> RecordBatch:
        """Returns the next batch."""

@final
class RecordBatch:
    """Records as an Arrow record batch, with a column for each field.

    It has the PyCapsule interface: `pyarrow.record_batch(batch)`, `polars.DataFrame(batch)`. Nothing is copied.
    """

    @property
    def num_rows(self) -> int:
        """The number of records."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""

    def __len__(self) -> int:
        """The number of records."""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Returns a read-only NumPy array for each column, in order; dates and times are integers."""

    def rows(self, start: int = 0, count: int | None = None) -> list[tuple[Any, ...]]:
        """Returns `count` records as tuples, beginning at index `start`."""

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Returns the rows as a pair of capsules. The requested schema is ignored: the consumer converts."""

@final
class RecordTable:
    """Batches held in memory."""

    def __len__(self) -> int:
        """Returns the number of rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""

    @property
    def batches(self) -> list[RecordBatch]:
        """The batches."""

    def __arrow_c_schema__(self) -> Any:
        """Returns the Arrow schema as a capsule."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns all batches as a stream capsule, without a copy."""

@final
class Generation:
    """The run of `shoal.generate`, for the caller's thread. Only `finish` blocks."""

    def __new__(
        cls,
        destination: str,
        options: dict[str, Any],
        job: tuple[str, str, int],
        in_flight: int,
        workers: tuple[int, str],
    ) -> Generation:
        """Starts the run.

        `job`: its identity, a digest of the arguments bound to its function, and the number of ids. `workers`: their
        number and the reason for the report.
        """

    @property
    def ended(self) -> bool:
        """True if the run has ended."""

    def fileno(self) -> int:
        """Returns a file descriptor to wait for."""

    def heed(self) -> None:
        """Clears the wake-up; check the state after this."""

    def names_wanted(self) -> tuple[int, int] | None:
        """Returns the range of ids that need names, if any."""

    def offer(self, start: int, names: Sequence[str | bytes]) -> None:
        """Passes the requested names."""

    def place(self) -> Place | None:
        """Returns where a process writes for this run; None before the run has opened it."""

    def take(self, most: int) -> list[tuple[int, int, bytes, bool]]:
        """Returns the next objects: token, index of the id, name, and whether a file of it may exist already."""

    def waiting(self) -> int:
        """Returns how many objects wait."""

    def done(self, outcomes: list[Written]) -> None:
        """Reports written objects."""

    def failed(self, outcomes: list[Failed]) -> None:
        """Reports failed objects."""

    def progress(self) -> Progress:
        """Returns the progress."""

    def stop(self) -> None:
        """Requests a stop, like Ctrl-C."""

    def finish(self) -> tuple[Report, BaseException | None]:
        """Waits for the end. Returns the report, and the exception that ended the run."""

@final
class Placer:
    """The writer in a worker process of `shoal.generate`: encodes and writes results on a thread."""

    def __new__(
        cls,
        place: Place,
        options: dict[str, Any],
        memory: int,
        leash: int | None,
    ) -> Placer:
        """Joins a run. The option `nice` lowers the priority of this thread, and so of those that it starts.

        `leash`: a file descriptor; when its other end is closed, this process ends.
        """

    def put(self, token: int, name: bytes, data: object, again: int) -> None:
        """Queues data for writing; blocks while too much is queued.

        `again`: 1 if an earlier session may have written it, 2 if a process of this session died while it ran this id.
        """

    def collect(self, wait: bool) -> tuple[list[Written], list[Failed]]:
        """Returns what was written and what failed since the last call; with `wait`, after all queued data."""

    def close(self) -> None:
        """Ends after all queued data is written."""

@final
class Server:
    """A running list/get service, returned by `shoal.serve`.

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
        """Starts the service. See `shoal.serve`."""

    @property
    def url(self) -> str:
        """The address of the service, such as `http://127.0.0.1:8080`."""

    @property
    def port(self) -> int:
        """The port it listens on."""

    @property
    def stats(self) -> ServerStats:
        """Statistics so far, also after it has stopped."""

    def stop(self, grace: float = 5.0) -> None:
        """Stops it: refuses new connections, lets requests finish within `grace` seconds, joins all threads."""

    def __enter__(self) -> Server: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
