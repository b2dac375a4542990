#!/usr/bin/env bash
# Writes scripts/requirements.lock from pyproject.toml, and from scripts/bench/requirements-peers.in
# the lock of the benchmarks' peers, at the same versions. Needs uv. The locks name no index.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url
    --no-emit-find-links --no-header --no-annotate)
uv pip compile pyproject.toml --extra s3 --extra gcs --extra tensorboard --extra dev "${options[@]}" "$@" \
    --output-file scripts/requirements.lock
uv pip compile scripts/bench/requirements-peers.in --constraint scripts/requirements.lock \
    "${options[@]}" "$@" --output-file scripts/bench/requirements-peers.lock
