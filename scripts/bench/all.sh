#!/bin/sh
# Runs the benchmarks, one after the other, and writes their tables to scripts/bench/README.md:
#
#     scripts/bench/all.sh [--quick] [--long] [NAME ...]
#
# NAMEs are scripts without .py; default: all that take minutes. --long adds `large`, which needs
# 20 GB of memory, and `regret`, which takes 15 minutes of CPU time and resumes. --quick takes under
# a minute for each. One that fails, misses a bar or takes over LIMIT_S seconds does not stop the
# others: the last lines name it, and this script ends with 1. Run it again with only those names.
set -u
cd "$(dirname "$0")/../.."
quick="" long="" names=""
for word in "$@"; do
    case $word in
        --quick) quick=--quick ;;
        --long) long=yes ;;
        -*) echo "$0: unknown option $word; use --quick and --long" >&2; exit 2 ;;
        *) [ -f "scripts/bench/$word.py" ] || { echo "$0: no benchmark $word" >&2; exit 2; }
           names="$names $word" ;;
    esac
done
[ -n "$names" ] || names="kernel loop scale serve start sources readers${long:+ large regret}"
status=0 summary=""
for name in $names; do
    options="$quick --readme"
    if [ "$name" = regret ]; then  # the page shows the report's seeds, and never small streams
        options="${quick:---seeds 1-5 --readme}"
    fi
    echo "== $name"
    began=$(date +%s)
    # shellcheck disable=SC2086
    timeout -k 30 "${LIMIT_S:-1800}" .venv/bin/python -m "scripts.bench.$name" $options
    case $? in
        0) ended="done" ;;
        124 | 137) ended="STOPPED, it took too long" status=1 ;;
        *) ended="FAILED or MISSED a bar, see above" status=1 ;;
    esac
    summary="$summary$name: $ended, $(($(date +%s) - began)) s
"
done
printf '\n%s' "$summary"
exit $status
