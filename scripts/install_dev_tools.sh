#!/usr/bin/env bash
# Installs what checks and tests need into .venv: the `tests` groups of both distributions, and what the lab compares.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
exec .venv/bin/python -m pip install --quiet --group tests --group bench/pyproject.toml:tests --group bench/pyproject.toml:compared
