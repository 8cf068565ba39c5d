#!/usr/bin/env bash
# Installs what checks and tests need into .venv: the `tests` groups of both distributions, and what the lab compares: the extra
# `all` of the lab that .venv has.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
exec .venv/bin/python -m pip install --quiet --group tests --group bench/pyproject.toml:tests 'shoal-bench[all]'
