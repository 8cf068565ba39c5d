"""Hash every file of a directory, in the format of sha256sum.

python hash_tree.py TREE > SHA256SUMS

Large files are read in pieces, so memory stays flat. `shoal read TREE --checksum sha256` prints
the same. Use this to compute something else of each file.
"""

import hashlib
import sys
from collections import defaultdict
from typing import Any

import shoal


def hashes(tree: str) -> dict[str, str]:
    """Returns the SHA-256 of each file by its name; raises if a file could not be read."""
    found: defaultdict[str, Any] = defaultdict(hashlib.sha256)
    for piece in shoal.read(tree, chunk_size="16MiB"):  # pieces of a file arrive in order
        found[piece.name].update(piece.data)
    return {name: one.hexdigest() for name, one in sorted(found.items())}


if __name__ == "__main__":
    for name, checksum in hashes(sys.argv[1]).items():
        print(f"{checksum}  {name}")
