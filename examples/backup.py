"""Back up a directory. The same command resumes after a crash or Ctrl-C.

Once a backup is complete, the same command copies what has changed since.

python backup.py SOURCE BACKUP
"""

import sys

import shoal

if __name__ == "__main__":
    report = shoal.copy(*sys.argv[1:], on_error="record")
    counts = f"{report.written:,} files copied, {report.unchanged:,} unchanged"
    print(f"{counts}, {report.failed:,} failed")
    for failure in report.failures:  # the first ones; `shoal status BACKUP` can show all
        print(f"  {failure.name}: {failure.reason}")
    sys.exit(0 if report.ok else 1)
