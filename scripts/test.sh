#!/usr/bin/env bash
# Every test but the slow ones and the lab's. What pytest needs is installed while the Rust tests compile. Usage:
# scripts/test.sh [TARGET...]. These targets are made at the same time as pytest, at the lowest priority: it waits more than
# it computes. What they print comes at the end, and their failure is one of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory .venv/.tools &
tools=$!
beside=
trap 'kill "$tools" $beside 2>/dev/null || true' EXIT
trap 'exit 130' INT
scripts/test_rust.sh
wait "$tools"

log=$(mktemp)
if [ $# -gt 0 ]; then
    for target in "$@"; do
        SECONDS=0
        nice -n 19 make --no-print-directory "$target" || exit
        echo "$target: $SECONDS s, beside the tests"
    done >"$log" 2>&1 </dev/null &
    beside=$!
fi
code=0
# Most tests wait more than they compute, so there are more workers than cores; those that measure time come after them, alone.
.venv/bin/pytest -n 4 --dist loadgroup -m 'not slow and not timing' || code=$?
if [ -n "$beside" ]; then
    wait "$beside" || { code=$?; echo "error: failed beside the tests:"; }
    cat "$log"
fi
.venv/bin/pytest -m 'timing and not slow' || code=$?
rm "$log"
trap - EXIT
exit "$code"
