#!/usr/bin/env bash
# Every test but the slow ones and the lab's. What pytest needs is installed while the Rust tests compile. All of them run
# even if some fail: the last lines name those that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory .venv/.tools &
tools=$!
trap 'kill "$tools" 2>/dev/null || true' EXIT
trap 'exit 130' INT
scripts/test_rust.sh
wait "$tools"
trap - EXIT

code=0
failed=.pytest_cache/v/cache/lastfailed # pytest adds to it, so it has the failures of both runs
rm -f "$failed"
# Most tests wait more than they compute, so there are more workers than cores; those that measure time come after them, alone.
.venv/bin/pytest -n 4 --dist loadgroup -m 'not slow and not timing' || code=$?
.venv/bin/pytest -m 'timing and not slow' || code=$?
if [ -s "$failed" ]; then
    echo "error: these tests failed:"
    cat "$failed"
fi
exit "$code"
