#!/usr/bin/env bash
# Says in one line what is missing on this machine. With --python, prints the interpreter that was chosen.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "shoal: $*" >&2
    exit 1
}

[ "$(uname -s)" = Linux ] || die "this is $(uname -s); shoal needs Linux 5.6 or later (openat2, syncfs)"

# The named interpreter first, then whatever is new enough: a distribution's python3 may be older than another one beside it.
python=
for candidate in ${PYTHON:-} python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
if [ -z "$python" ]; then
    found=$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null) || found=
    die "python 3.11 or later is missing${found:+ (python3 is $found)}: install it with your package manager, or set PYTHON to one"
fi
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    die "$python cannot make virtual environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv)"

# Read from Cargo.toml, so that the number is in one place.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null && command -v rustc >/dev/null ||
    die "cargo is missing: install Rust $wanted or later (https://rustup.rs)"
found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || found=
[ -n "$found" ] || die "rustc does not run: install Rust $wanted or later (https://rustup.rs)"
[ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n1)" = "$wanted" ] ||
    die "rust $found is too old: install Rust $wanted or later (rustup update stable)"

command -v "${CC:-cc}" >/dev/null ||
    die "a C compiler is missing (the journal's SQLite is built from source): install one (Debian, Ubuntu: apt-get install gcc libc6-dev)"

[ "${1:-}" != --python ] || echo "$python"
