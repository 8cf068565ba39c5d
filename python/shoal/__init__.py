"""shoal moves very many files as fast as the hardware allows.

    import shoal
    report = shoal.copy("http://files.local:8080", "out/")

The public names, and nothing else. The functions are in `_api.py` and `_save.py`, the exceptions in `_errors.py`, the
results in `_report.py`, the command line in `cli/`.
"""

from shoal._api import copy, files, list_get, serve, status
from shoal._errors import (
    ConfigError,
    CredentialsError,
    DestinationFullError,
    IntegrityError,
    JournalError,
    JournalLockedError,
    NotFoundError,
    ObjectError,
    PermissionDeniedError,
    RunError,
    ShoalError,
    UnsafeNameError,
)
from shoal._generate import generate
from shoal._options import Files, ListGet
from shoal._read import read
from shoal._report import Counts, Failure, Owner, Progress, Report, RunStatus, Sample, ServerStats, Status
from shoal._save import save
from shoal._shoal import Batch, Batches, Object, Reader, Server, __version__

__all__ = [
    "Batch",
    "Batches",
    "ConfigError",
    "Counts",
    "CredentialsError",
    "DestinationFullError",
    "Failure",
    "Files",
    "IntegrityError",
    "JournalError",
    "JournalLockedError",
    "ListGet",
    "NotFoundError",
    "Object",
    "ObjectError",
    "Owner",
    "PermissionDeniedError",
    "Progress",
    "Reader",
    "Report",
    "RunError",
    "RunStatus",
    "Sample",
    "Server",
    "ServerStats",
    "ShoalError",
    "Status",
    "UnsafeNameError",
    "__version__",
    "copy",
    "files",
    "generate",
    "list_get",
    "read",
    "save",
    "serve",
    "status",
]
