"""The limit of `read`: a bare loop that opens, reads and closes every file, and hands over nothing.

The walk is before the time begins.
"""

from __future__ import annotations

import argparse
import json
import os

from shoal import _shoal


def main() -> None:
    """Runs it and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    given = parser.parse_args()
    objects, size, seconds = _shoal.limit_read(given.directory, given.workers)
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))


if __name__ == "__main__":
    main()
