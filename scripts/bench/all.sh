#!/bin/sh
# Runs every benchmark and writes scripts/bench/README.md. `--quick` takes about a minute for each.
# A missed bar is on the page too; then this script ends with 1.
set -u
cd "$(dirname "$0")/../.."
status=0
for name in kernel loop scale serve start large sources readers regret; do
    script="scripts/bench/$name.py"
    [ -f "$script" ] || continue
    wanted=""
    for option in "$@"; do
        # not every benchmark has every option
        .venv/bin/python "$script" --help | grep -q -- "$option" && wanted="$wanted $option"
    done
    echo "== $name"
    # shellcheck disable=SC2086
    .venv/bin/python "$script" --readme $wanted || status=1
done
exit $status
