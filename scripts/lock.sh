#!/usr/bin/env bash
# Writes scripts/requirements.lock from pyproject.toml. Needs uv. The lock names no index.
set -euo pipefail
cd "$(dirname "$0")/.."
uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
    "$@" --output-file scripts/requirements.lock
