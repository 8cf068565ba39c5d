#!/usr/bin/env bash
# Builds what users install: an sdist of each distribution, and a wheel from that sdist. Usage: scripts/wheel.sh DIRECTORY
# [PROFILE]. With the profile `local`, a wheel uses the dependencies that `make build` has compiled; it is for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
profile=${2:-release}

export PIP_DISABLE_PIP_VERSION_CHECK=1
unset CONDA_PREFIX
export VIRTUAL_ENV="$PWD/.venv" PATH="$PWD/.venv/bin:$PATH" # where maturin looks for zig
if [ "$profile" = release ]; then
    .venv/bin/python -m pip install --quiet --group wheel
    linking=(--zig --compatibility manylinux_2_28 --compression-level 9)
    # Messages of panics name files of the crates: without the home directory of this machine.
    export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=crates"
else
    linking=(--strip) # the tag is that of this machine's glibc
    largest=20000000  # without link-time optimisation
fi

# This also refuses a stale Cargo.lock. The builds cannot: an sdist has fewer crates than it.
.venv/bin/python scripts/third_party_licences.py

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for distribution in . bench; do
    (cd "$distribution" && maturin sdist --out "$work/sdist")
done
for sdist in "$work"/sdist/*.tar.gz; do
    # -m: the files are new. With the old times in the archive, cargo would take what it once made of other sources.
    mkdir "$work/tree"
    tar -xmzf "$sdist" -C "$work/tree" --strip-components 1
    (cd "$work/tree" && maturin build --quiet --profile "$profile" "${linking[@]}" --target-dir "$OLDPWD/target" --out "$out")
    rm -rf "$work/tree"
done
cp "$work"/sdist/*.tar.gz "$out"
.venv/bin/python scripts/check_wheel.py "$out" ${largest:-}
