"""Refuses a crate whose licence does not let shoal be shipped as MIT OR Apache-2.0.

Usage: check_licences.py [METADATA]     METADATA: a file with the output of `cargo metadata`; without it, cargo is asked
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

# Licences that ask for no more than keeping their text, so a wheel may be built from them.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

# Crate, and why it may stay although its licence is not in the list.
EXCEPTIONS: dict[str, str] = {
    "libbz2-rs-sys": "the licence of bzip2 asks for what BSD-3-Clause and Zlib ask for, and no more",
}


def acceptable(expression: str) -> bool:
    """Tells whether an SPDX expression can be met by allowed licences alone.

    AND binds tighter than OR, as SPDX says; "MIT/Apache-2.0" is the older way to write OR.
    """
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def alternatives() -> bool:
        met = conjunction()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            met = conjunction() or met  # the right side is read even where the left one is met
        return met

    def conjunction() -> bool:
        met = term()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            met = term() and met
        return met

    def term() -> bool:
        if not tokens:
            return False
        word = tokens.pop(0)
        if word == "(":
            met = alternatives()
            closed = tokens[:1] == [")"]
            del tokens[:1]
            return closed and met
        if tokens[:1] == ["WITH"]:
            word = f"{word} WITH {tokens[1] if len(tokens) > 1 else ''}"
            del tokens[:2]
        return word in ALLOWED

    return alternatives() and not tokens


def cargo_metadata() -> Any:
    """Asks cargo for every crate that a build on this platform uses."""
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.removeprefix("host: ") for line in version.splitlines() if line.startswith("host: "))
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", host]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main(metadata: Any) -> int:
    """Prints each crate that is refused, and why; returns the exit code."""
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    packages = [package for package in metadata["packages"] if package["id"] in used]
    refused = 0
    for package in sorted(packages, key=lambda package: str(package["name"])):
        name, licence = package["name"], package["license"]
        if acceptable(licence or ""):
            continue
        if name in EXCEPTIONS:
            print(f"notice: {name} {package['version']}: {licence}: allowed because {EXCEPTIONS[name]}")
            continue
        refused += 1
        reason = f"licence {licence!r} cannot be met by allowed ones" if licence else "states no licence"
        print(
            f"{name} {package['version']}: {reason}: use another crate, or add it with why to scripts/check_licences.py"
        )
    print(f"licences: {len(packages)} crates, {refused} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else cargo_metadata()))
