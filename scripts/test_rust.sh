#!/usr/bin/env bash
# Runs the Rust tests, also those that need root, mounts or strace (plain `cargo test` shows them as ignored): all that
# this machine can run. The others are named in a notice.
set -euo pipefail
cd "$(dirname "$0")/.."

# What a test may need, as its #[ignore] says it, and whether it is here.
missing=()
[ "$(id -u)" = 0 ] || missing+=("root, to become another user")
PATH="$PATH:/usr/sbin:/sbin" command -v mkfs.ext4 >/dev/null && unshare --mount losetup --find >/dev/null 2>&1 ||
    missing+=("root, to mount")
strace -o /dev/null true 2>/dev/null || missing+=("strace")

# Tests that others start are nothing by themselves.
skip=(--skip other_process)
for need in "${missing[@]}"; do
    names=$(grep -rhA1 "#\[ignore = \"needs .*$need" crates/*/tests | sed -n 's/^ *fn \([a-z0-9_]*\)(.*/\1/p')
    echo "notice: skipped, since they need $need (scripts/install_test_tools.sh installs tools):" $names
    for name in $names; do skip+=(--skip "$name"); done
done
# Dependencies are those of `make build`: the same profile, and all packages at once, so that they have the same features. Only
# our own crates are compiled again, quickly, and check their arithmetic.
profile=()
for package in shoal-{core,encode,engine,http,limits,parquet,records}; do
    for setting in opt-level=1 debug-assertions=true overflow-checks=true; do
        profile+=(--config "profile.local.package.$package.$setting")
    done
done
cargo test --workspace --profile local "${profile[@]}" --tests --examples -- --include-ignored "${skip[@]}"
cargo test --workspace --profile local "${profile[@]}" --doc
