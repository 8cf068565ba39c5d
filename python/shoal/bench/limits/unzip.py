"""The limit of `unzip`: a bare loop that inflates every entry, compares its CRC, and may make a file of it.

Entries over 64 MiB are one zlib-rs stream each; smaller ones are whole calls of libdeflate. No check of names, sizes or
headers, no journal, no limits.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from shoal import _shoal


def main() -> None:
    """Runs it and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the archives are")
    parser.add_argument("--into", type=Path, help="extract below this directory; without it, check only")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    given = parser.parse_args()
    archives = sorted(given.directory.glob("*.zip"))
    objects, size, seconds = _shoal.limit_unzip(archives, given.into, given.workers)
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))


if __name__ == "__main__":
    main()
