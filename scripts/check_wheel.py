"""Refuses wheels that should not be published: too large, with symbols, for this machine only, or with other files.

Usage: check_wheel.py DIRECTORY [BYTES]     BYTES: the largest wheel. The directory is as scripts/wheel.sh fills it: a
                                            wheel and an sdist of each distribution
"""

import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 10_000_000  # bytes of a wheel of a release

# Distribution, the folder of its Python files, what its tag begins with, and what else it has: the compiled part.
DISTRIBUTIONS = {
    "shoal": ("python", "cp311-abi3-manylinux_", "shoal/_shoal.abi3.so"),
    "shoal_bench": ("bench/python", "py3-none-manylinux_", "{data}/scripts/shoal-limits"),
}
LICENCES = {"LICENSE-APACHE", "LICENSE-MIT", "LICENSE-THIRD-PARTY"}


def has_symbols(program: bytes) -> bool:
    """Tells whether a 64-bit little-endian ELF file has a symbol table beside the one that loading needs."""
    (sections,) = struct.unpack_from("<Q", program, 0x28)
    size, count = struct.unpack_from("<HH", program, 0x3A)
    kinds = [struct.unpack_from("<I", program, sections + at * size + 4)[0] for at in range(count)]
    return 2 in kinds  # SHT_SYMTAB


def python_files(folder: str) -> set[str]:
    """Returns what is under version control below the folder of a distribution's Python files."""
    listed = subprocess.run(["git", "-C", str(ROOT / folder), "ls-files", "-z"], check=True, capture_output=True)
    return set(listed.stdout.decode().strip("\0").split("\0"))


def check_wheel(path: Path, distribution: str, largest: int) -> list[str]:
    """Returns what is wrong with a wheel."""
    folder, tag, compiled = DISTRIBUTIONS[distribution]
    name, version, *found = path.stem.split("-", 2)
    wrong = []
    if path.stat().st_size > largest:
        wrong.append(f"{path.stat().st_size:,} bytes, at most {largest:,}")
    if not found[0].startswith(tag):
        wrong.append(f"the tag is {found[0]}, not {tag}…: it would be installed where it cannot run, or nowhere")
    with zipfile.ZipFile(path) as wheel:
        about = f"{name}-{version}.dist-info/"
        files = {file for file in wheel.namelist() if not file.startswith(about)}
        program = compiled.format(data=f"{name}-{version}.data")
        expected = python_files(folder) | {program}
        wrong += [f"{file} is missing" for file in sorted(expected - files)]
        wrong += [f"{file} does not belong there" for file in sorted(files - expected)]
        if program in files and has_symbols(wheel.read(program)):
            wrong.append(f"{program} is not stripped")
        licences = {Path(file).name for file in wheel.namelist() if file.startswith(f"{about}licenses/")}
        if distribution == "shoal" and not licences >= LICENCES:
            wrong.append(f"no licence {', '.join(sorted(LICENCES - licences))}")
        if not wrong:
            print(f"{path.name}: {path.stat().st_size:,} bytes, {len(files)} files")
    return wrong


def check_sdist(path: Path) -> list[str]:
    """Returns what is wrong with a source distribution."""
    with tarfile.open(path) as sdist:
        files = {file.partition("/")[2] for file in sdist.getnames()}
    wrong = [f"{file} is missing" for file in ("Cargo.lock", "pyproject.toml", "PKG-INFO") if file not in files]
    compiled = [file for file in files if file.endswith((".so", ".pyc"))]
    wrong += [f"{file} does not belong there" for file in compiled]
    if not wrong:
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(files)} files")
    return wrong


def main(directory: Path, largest: int = LARGEST) -> int:
    """Prints what is wrong, else name, size and number of files of each; returns the exit code."""
    refused = 0
    for distribution in DISTRIBUTIONS:
        for pattern in (f"{distribution}-[0-9]*.whl", f"{distribution}-[0-9]*.tar.gz"):
            found = sorted(directory.glob(pattern))
            if len(found) != 1:
                wrong = [f"{len(found)} files {pattern} in {directory}: delete the old ones, or run `make wheel`"]
            elif pattern.endswith(".whl"):
                wrong = [f"{found[0].name}: {one}" for one in check_wheel(found[0], distribution, largest)]
            else:
                wrong = [f"{found[0].name}: {one}" for one in check_sdist(found[0])]
            for one in wrong:
                refused += 1
                print(one)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
