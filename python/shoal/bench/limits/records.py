"""The limit of `records`: a bare loop that reads the file in pieces of 1 MiB on every core and adds up the lengths.

It knows one form of record, checks nothing, and hands over nothing but the sum.
"""

from __future__ import annotations

import argparse
import json
import os

from shoal import _shoal


def main() -> None:
    """Runs it and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    given = parser.parse_args()
    objects, size, seconds, total = _shoal.limit_scan(given.file, given.workers)
    found = {"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers, "sum": total}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
