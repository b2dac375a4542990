#!/usr/bin/env bash
# Sets up .venv, runs the quickstart on a local Ray (about two minutes on two cores after the
# installation), writes its report and says what it shows. The same command resumes the run.
# Options are those of `holdfast run`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
.venv/bin/holdfast run configs/quickstart.yaml --out runs/quickstart "$@"
echo
.venv/bin/holdfast report runs/quickstart --brief
