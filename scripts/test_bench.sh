#!/usr/bin/env bash
# The tests of the lab: its bare loops, then its Python.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test_rust.sh shoal-limits
cd bench
exec ../.venv/bin/pytest "$@"
