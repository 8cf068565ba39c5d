"""Back up a directory. The same command resumes after a crash or Ctrl-C.

Once a backup is complete, the same command copies what has changed since.

python backup.py SOURCE BACKUP
"""

import sys
from pathlib import Path

import shoal


def back_up(source: str, backup: str) -> shoal.Report:
    """Copies everything, the rest of it after an interruption, or what has changed."""
    earlier = shoal.status(backup).runs if Path(backup, ".shoal").is_dir() else ()
    finished = bool(earlier) and all(run.completed for run in earlier)
    if finished:
        return shoal.copy(source, backup, resume="update", on_error="record")
    return shoal.copy(source, backup, on_error="record")


if __name__ == "__main__":
    report = back_up(*sys.argv[1:])
    counts = f"{report.written:,} files copied, {report.unchanged:,} unchanged"
    print(f"{counts}, {report.failed:,} failed")
    for failure in report.failures:  # the first ones; `shoal status BACKUP` can show all
        print(f"  {failure.name}: {failure.reason}")
    sys.exit(0 if report.ok else 1)
