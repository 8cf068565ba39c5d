#!/usr/bin/env bash
# Builds the extension, in a profile that compiles quickly, and the lab's bare loops, and installs both packages into .venv, editable: Python
# files are used in place.
set -euo pipefail
cd "$(dirname "$0")/.."

# maturin asks these for the environment to use, and refuses when two of them are set.
unset CONDA_PREFIX
export VIRTUAL_ENV="$PWD/.venv"
# In CI a Cargo.lock that lags behind Cargo.toml is an error; at a desk it is brought up to date.
locked=${CI:+--locked}
.venv/bin/maturin develop --profile local $locked
# Its dependency, shoal of the same version, is there now; it is on no index.
cd bench
exec ../.venv/bin/maturin develop --profile local $locked
