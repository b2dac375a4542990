#!/usr/bin/env bash
# Sets up .venv and runs the quickstart on a local Ray: about two minutes on two cores after the
# installation. The run is in runs/quickstart; the same command resumes it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
.venv/bin/holdfast run configs/quickstart.yaml --out runs/quickstart "$@"
