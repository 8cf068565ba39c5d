"""A pool of threads; a task is one archive.

The memo of KZKY (2013) leaves the number of threads open. Compare `queue_threads`: the same arrangement, written out.
"""

import argparse
import json
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

PIECE = 1 << 20  # bytes that are unpacked at once


def unpack(path: Path, into: Path | None) -> tuple[int, int]:
    """Reads every entry of an archive, which checks it, or extracts all; returns their count and their bytes."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if into is not None:
            # extractall makes directories, too, but fails where another one was faster (until Python 3.13).
            for parent in {Path(entry.filename).parent for entry in entries}:
                (into / parent).mkdir(parents=True, exist_ok=True)
            archive.extractall(into)
        else:
            for entry in entries:
                with archive.open(entry) as content:
                    while content.read(PIECE):
                        pass
    return len(entries), sum(entry.file_size for entry in entries)


def run(directory: Path, into: Path | None, workers: int) -> tuple[int, int]:
    """Unpacks all archives; returns the count and the bytes of their entries."""
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(partial(unpack, into=into), sorted(directory.glob("*.zip"))))
    return sum(objects for objects, _ in done), sum(size for _, size in done)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the archives are")
    parser.add_argument("--into", type=Path, help="extract below this directory; without it, read only")
    parser.add_argument("--workers", type=int, choices=range(1, 1001), default=4, metavar="N")
    given = parser.parse_args()
    began = time.perf_counter()
    objects, size = run(given.directory, given.into, given.workers)
    seconds = time.perf_counter() - began
    print(json.dumps({"objects": objects, "bytes": size, "seconds": seconds, "workers": given.workers}))
