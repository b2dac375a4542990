#!/usr/bin/env bash
# Creates .venv with exactly what scripts/requirements.lock pins, and Holdfast in editable mode.
# Does nothing if .venv was made from the same lock. PYTHON chooses the interpreter.
# --peers adds the tuners that scripts/bench/regret.py --peers compares with and the learners of
# scripts/bench/field.py; --torch adds PyTorch and River, for divergence/torch, the trainers in
# trainer/states, their tests and field.py.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/holdfast.lock
if ! cmp -s scripts/requirements.lock "$stamp"; then
    echo "setting up .venv (once per lock; a few minutes)" >&2
    "${PYTHON:-python3}" -m venv --clear .venv
    .venv/bin/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r scripts/requirements.lock
    # Bytecode on all cores; pip would use one, and compile the packages' own tests, too.
    .venv/bin/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib >/dev/null || true
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    cp scripts/requirements.lock "$stamp"
fi
if [[ "${1-}" == --peers ]] && ! cmp -s scripts/bench/requirements-peers.lock .venv/peers.lock; then
    echo "adding the peers of the benchmarks to .venv (once per lock; a minute)" >&2
    .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r scripts/bench/requirements-peers.lock
    cp scripts/bench/requirements-peers.lock .venv/peers.lock
fi
torch="torch==2.13.0 river==0.26.1"
if [[ "${1-}" == --torch ]] && [[ "$(cat .venv/torch.pin 2>/dev/null)" != "$torch" ]]; then
    echo "adding PyTorch and River to .venv (once per version; a minute or more)" >&2
    # Without hashes: indexes have different builds of one version (for CPUs alone, for GPUs), and
    # pip takes the CPU build where there is one. The lock keeps everything else as it is; its own
    # hashes are left out, as with them pip would demand one for PyTorch, too.
    sed -e 's/ *\\$//' -e '/^ *--hash/d' scripts/requirements.lock > .venv/constraints.txt
    .venv/bin/pip install --quiet --disable-pip-version-check --no-compile --constraint .venv/constraints.txt $torch
    echo "$torch" > .venv/torch.pin
fi
