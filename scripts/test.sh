#!/usr/bin/env bash
# Format, lint, types and tests: the same for a person and for CI. Arguments go to pytest;
# -m "not slow" leaves out what needs Ray or a browser and takes about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# The report's page is tested in a real browser.
if [[ "$*" != *"not slow"* ]] && ! command -v chromedriver >/dev/null &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update && apt-get -qq install -y chromium chromium-driver fonts-dejavu-core >/dev/null
fi
.venv/bin/ruff format --check .
.venv/bin/ruff check .
.venv/bin/mypy & types=$!  # beside the tests, which leave a core idle
tests=0
.venv/bin/pytest "$@" || tests=$?
wait "$types"
exit "$tests"
