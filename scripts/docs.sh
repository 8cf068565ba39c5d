#!/usr/bin/env bash
# Builds the documentation site into target/site. A warning, a dead link or anything from another host is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --group docs
.venv/bin/python scripts/command_reference.py --check
# Not --quiet: then warnings would be neither printed nor counted.
NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
.venv/bin/python scripts/check_site.py target/site
