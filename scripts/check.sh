#!/usr/bin/env bash
# Format, lints, types, layers, sizes, words, licences, advisories: the quick ones first.
set -euo pipefail
cd "$(dirname "$0")/.."
run() {
    echo "$ $*"
    "$@"
}
run cargo fmt --all --check
run .venv/bin/ruff check
run .venv/bin/ruff format --check
run .venv/bin/python scripts/check_layers.py
run .venv/bin/python scripts/check_sizes.py
run .venv/bin/python scripts/check_words.py
run .venv/bin/python scripts/signatures.py --check
run .venv/bin/python scripts/command_reference.py --check
run .venv/bin/python scripts/check_licences.py
run .venv/bin/python scripts/check_advisories.py
run .venv/bin/mypy
(cd bench && run ../.venv/bin/mypy)
MYPYPATH=python run .venv/bin/stubtest shoal._shoal --allowlist scripts/stubtest_allowlist.txt --ignore-unused-allowlist
# In the profile of the build, so that build scripts (SQLite, zstd) do not run twice.
run cargo clippy --profile local --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" run cargo doc --quiet --profile local --workspace --no-deps
