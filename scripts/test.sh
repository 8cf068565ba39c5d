#!/usr/bin/env bash
# Every test but the slow ones and the lab's. What pytest needs is installed while the Rust tests compile.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory .venv/.tools &
tools=$!
trap 'kill "$tools" 2>/dev/null || true' EXIT
scripts/test_rust.sh
wait "$tools"
trap - EXIT
# Most tests wait more than they compute, so there are more workers than cores; those that measure time come after them, alone.
.venv/bin/pytest -n 4 --dist loadgroup -m 'not slow and not timing'
.venv/bin/pytest -m 'timing and not slow'
