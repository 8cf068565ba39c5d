"""One archive after the other, one entry after the other: the loop that most people write first.

From a memo of KZKY (2013), which gives 57.6 seconds for reading 182 archives of 2.32 GB from a cold cache.
"""

import argparse
import json
import time
import zipfile
from pathlib import Path

PIECE = 1 << 20  # bytes that are unpacked at once


def unpack(path: Path, into: Path | None) -> tuple[int, int]:
    """Reads every entry of an archive, which checks it, or extracts all; returns their count and their bytes."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if into is not None:
            archive.extractall(into)
        else:
            for entry in entries:
                with archive.open(entry) as content:
                    while content.read(PIECE):
                        pass
    return len(entries), sum(entry.file_size for entry in entries)


def run(directory: Path, into: Path | None) -> tuple[int, int]:
    """Unpacks all archives; returns the count and the bytes of their entries."""
    objects = size = 0
    for path in sorted(directory.glob("*.zip")):
        done = unpack(path, into)
        objects, size = objects + done[0], size + done[1]
    return objects, size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the archives are")
    parser.add_argument("--into", type=Path, help="extract below this directory; without it, read only")
    parser.add_argument("--workers", type=int, choices=(1,), default=1)
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.directory, given.into)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
