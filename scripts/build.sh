#!/usr/bin/env bash
# Builds a distribution, in a profile that compiles quickly, and installs it into .venv, editable: Python files are used in
# place. Usage: scripts/build.sh . (shoal), then scripts/build.sh bench (the lab, which needs it).
set -euo pipefail
cd "$(dirname "$0")/.."

# maturin asks these for the environment to use, and refuses when two of them are set.
unset CONDA_PREFIX
export VIRTUAL_ENV="$PWD/.venv"
cd "$1"
# In CI a Cargo.lock that lags behind Cargo.toml is an error; at a desk it is brought up to date.
exec "$VIRTUAL_ENV/bin/maturin" develop --profile local ${CI:+--locked}
