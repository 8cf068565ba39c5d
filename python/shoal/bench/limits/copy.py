"""The limit of `copy`: a bare loop of pipelined requests that makes, writes and closes a file for each answer.

No checks, no journal, no retries, not resumable. The listing is fetched before the time begins.
"""

from __future__ import annotations

import argparse
import json
import os
from urllib.parse import urlsplit

from shoal import _shoal


def main() -> None:
    """Runs it and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the service, with a numeric address")
    parser.add_argument("directory", help="an empty directory, or null:")
    parser.add_argument("--limit", type=int, help="only the first so many objects")
    parser.add_argument("--layout", choices=["names", "partition"], default="names")
    parser.add_argument("--depth", type=int, default=64, help="requests unanswered on one connection")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    given = parser.parse_args()
    directory = None if given.directory == "null:" else given.directory
    objects, size, seconds = _shoal.limit_copy(
        urlsplit(given.url).netloc, directory, given.layout, given.depth, given.workers, given.limit
    )
    workers = given.workers * given.depth
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": workers}))


if __name__ == "__main__":
    main()
