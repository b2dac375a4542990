#!/usr/bin/env bash
# Creates .venv with exactly what scripts/requirements.lock pins, and Holdfast in editable mode.
# Does nothing if .venv was made from the same lock. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/holdfast.lock
if ! cmp -s scripts/requirements.lock "$stamp"; then
    echo "setting up .venv (once per lock; a few minutes)" >&2
    "${PYTHON:-python3}" -m venv --clear .venv
    .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r scripts/requirements.lock
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    cp scripts/requirements.lock "$stamp"
fi
