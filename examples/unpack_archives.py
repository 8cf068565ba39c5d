"""Unpack every zip and tar below a directory, each into a directory of its own, as one job.

python unpack_archives.py DOWNLOADS UNPACKED
"""

import sys
from pathlib import Path

import shoal

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst")


def unpack(downloads: str, unpacked: str) -> shoal.Report:
    """Unpacks all that is good; a damaged archive or entry is a failure in the report."""
    archives = sorted(
        path for path in Path(downloads).rglob("*") if path.name.lower().endswith(SUFFIXES)
    )
    return shoal.unzip(
        archives, unpacked, into_subdirectories=True, max_size="100GB", on_error="record"
    )


if __name__ == "__main__":
    report = unpack(*sys.argv[1:])
    print(f"{report.written:,} files, {report.bytes:,} bytes, {report.failed:,} failures")
    for failure in report.failures:
        print(f"  {failure.archive}: {failure.name}: {failure.reason}")
    sys.exit(0 if report.ok else 1)
