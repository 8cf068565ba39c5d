"""shoal copies, reads, saves and unpacks very many files fast.

    import shoal
    report = shoal.copy("http://files.local:8080", "out/")

Here: the public names. The functions are in `_api.py`, `_read.py`, `_save.py`, `_unzip.py` and `_generate/`, sources in
`_sources.py`, records in `_records/` and `_expression.py`, the exceptions in `_errors.py`, the results in `_report.py`,
the command line in `cli/`.
"""

from shoal._api import copy, serve
from shoal._destinations import Cluster, cluster, parquet
from shoal._errors import (
    ConfigError,
    CredentialsError,
    DestinationFullError,
    IntegrityError,
    JournalError,
    JournalLockedError,
    NotFoundError,
    NothingMatchedError,
    ObjectError,
    ObjectsFailedError,
    PermissionDeniedError,
    RunError,
    ShoalError,
    ShoalWarning,
    UnsafeNameError,
)
from shoal._expression import col, count
from shoal._generate import generate
from shoal._list import list_objects
from shoal._read import read
from shoal._records import Appended, Groups, Records, Scan
from shoal._report import (
    Counts,
    Failure,
    ListedObject,
    NodeProgress,
    Owner,
    PartStatus,
    Progress,
    Report,
    RunStatus,
    Sample,
    ServerStats,
    Skipped,
    Status,
    Step,
)
from shoal._save import save
from shoal._shoal import BUILD_PROFILE, Batch, Batches, Object, Reader, RecordBatch, Server, __version__
from shoal._source_types import S3, Archives, Files, ListGet, Parquet, Urls
from shoal._sources import archives, files, list_get, s3, urls
from shoal._status import status
from shoal._unzip import unzip

__all__ = [
    "BUILD_PROFILE",
    "S3",
    "Appended",
    "Archives",
    "Batch",
    "Batches",
    "Cluster",
    "ConfigError",
    "Counts",
    "CredentialsError",
    "DestinationFullError",
    "Failure",
    "Files",
    "Groups",
    "IntegrityError",
    "JournalError",
    "JournalLockedError",
    "ListGet",
    "ListedObject",
    "NodeProgress",
    "NotFoundError",
    "NothingMatchedError",
    "Object",
    "ObjectError",
    "ObjectsFailedError",
    "Owner",
    "Parquet",
    "PartStatus",
    "PermissionDeniedError",
    "Progress",
    "Reader",
    "RecordBatch",
    "Records",
    "Report",
    "RunError",
    "RunStatus",
    "Sample",
    "Scan",
    "Server",
    "ServerStats",
    "ShoalError",
    "ShoalWarning",
    "Skipped",
    "Status",
    "Step",
    "UnsafeNameError",
    "Urls",
    "__version__",
    "archives",
    "cluster",
    "col",
    "copy",
    "count",
    "files",
    "generate",
    "list_get",
    "list_objects",
    "parquet",
    "read",
    "s3",
    "save",
    "serve",
    "status",
    "unzip",
    "urls",
]
