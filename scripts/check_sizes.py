"""Refuses files that have grown too long to be read in one sitting.

More than 800 lines fails unless the file is listed below with a reason; more than 500 is a notice. Lock files and
files that are not text are passed over, as is what the lab has written (bench/results).

Usage: check_sizes.py [ROOT]
"""

import subprocess
import sys
from pathlib import Path

LIMIT = 800  # lines: the longest file that can still be held in mind
NOTICE = 500  # lines: time to look for the seam

# Path from the root, and why this one may be longer.
LISTED: dict[str, str] = {}

MEASURED = "bench/results/"  # what the lab has written, for programs


def project_files(root: Path) -> list[Path]:
    """Returns what is, or is about to be, under version control."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, check=True, capture_output=True).stdout.decode("utf-8", "surrogateescape")
    paths = (root / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file() and path.suffix != ".lock"]


def count_lines(path: Path) -> int:
    """Returns how many lines a text file has, and 0 for anything else."""
    try:
        return len(path.read_bytes().decode().splitlines())
    except UnicodeDecodeError:
        return 0


def main(root: Path) -> int:
    """Prints notices and refusals; returns the exit code."""
    refused = 0
    seen = set()
    for path in project_files(root):
        name = path.relative_to(root).as_posix()
        seen.add(name)
        lines = 0 if name.startswith(MEASURED) else count_lines(path)
        if lines > LIMIT and name not in LISTED:
            refused += 1
            print(
                f"{name}: {lines} lines, the limit is {LIMIT}: split it, or list it in scripts/check_sizes.py with why"
            )
        elif lines > NOTICE:
            print(f"notice: {name}: {lines} lines, aim below {NOTICE}{'; ' + LISTED[name] if name in LISTED else ''}")
    for name in LISTED.keys() - seen:
        refused += 1
        print(f"{name}: listed in scripts/check_sizes.py, but there is no such file: remove its line")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()))
