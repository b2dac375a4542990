#!/usr/bin/env bash
# Format, lint, types and tests: the same for a person and for CI. Arguments go to pytest, which
# runs three files at a time, on two cores, since many tests wait (-n 0: one, in its own process).
# -m "not slow" leaves out what needs Ray or a browser and takes up to three minutes; few of its tests
# wait, and each process imports all of them, so it runs one per core.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE  # some containers set it: every process would compile every file
scripts/setup.sh
torch='' workers=2
if [[ "$*" != *"not slow"* ]]; then
    workers=3
    scripts/setup.sh --torch & torch=$!  # beside what needs one core or the network
    scripts/lab/browser.sh
fi
.venv/bin/ruff format --check .
.venv/bin/ruff check .
if [[ -n "$torch" ]]; then
    wait "$torch"
fi
nice .venv/bin/mypy & types=$!  # beside the tests, which often wait
tests=0
# In the order of tests/conftest.py: the longest files start first.
.venv/bin/pytest -n "$workers" --dist loadfile --no-loadscope-reorder "$@" || tests=$?
wait "$types"
exit "$tests"
