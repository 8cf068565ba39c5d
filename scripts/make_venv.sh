#!/usr/bin/env bash
# Makes .venv with what a build needs; nothing outside .venv is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(scripts/check_tools.sh --python)
# An environment without its interpreter (an upgraded system Python) is created again, because its pip cannot run either.
.venv/bin/python -c 'import pip' 2>/dev/null || "$python" -m venv --clear .venv
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1' # 25.1: the first that knows --group
.venv/bin/python -m pip install --quiet --group build
