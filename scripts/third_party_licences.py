"""Writes LICENSE-THIRD-PARTY, a part of the wheel: the licences of all crates in it, as most of them ask for.

Usage: third_party_licences.py     from the root of the project; scripts/wheel.sh does it
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from check_licences import cargo_metadata

ROOT = Path(__file__).parent.parent
FILE = ROOT / "LICENSE-THIRD-PARTY"
NAMES = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")  # how the names of their files begin


def shipped(metadata: Any, root: str) -> set[str]:
    """Returns the ids of the crates that are compiled into a crate; what only builds or tests it is left out."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in metadata["packages"] if package["name"] == root]
    found: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            kinds = ((dep["pkg"], dep["dep_kinds"]) for dep in nodes[one]["deps"])
            waiting += [pkg for pkg, uses in kinds if any(use["kind"] is None for use in uses)]
    return found


def texts(package: Any) -> list[str]:
    """Returns the licences that a crate comes with, also of the C library in a folder of it."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file())
    return [path.read_text(errors="replace").strip() for path in files if path.name.upper().startswith(NAMES)]


def main() -> int:
    """Writes the file; returns the exit code."""
    metadata = cargo_metadata()
    ids = shipped(metadata, "shoal-python")
    crates: defaultdict[str, list[str]] = defaultdict(list)
    without = []
    for package in sorted(metadata["packages"], key=lambda one: str(one["name"])):
        if package["id"] in ids and package["source"] is not None:
            title = f"{package['name']} {package['version']} ({package['license']})"
            found = texts(package)
            for text in found:
                crates[text].append(title)
            if not found:
                without.append(f"{title}, by {', '.join(package['authors']) or 'its contributors'}")
    parts = ["\n".join(titles) + "\n\n" + text for text, titles in crates.items()]
    if without:
        parts.append("These crates come without the text of their licence:\n\n" + "\n".join(without))
    FILE.write_text(f"\n\n{'=' * 100}\n\n".join(["The wheel contains these crates.", *parts]) + "\n")
    print(f"{FILE.name}: {len(ids)} crates, {len(without)} without a text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
