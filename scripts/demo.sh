#!/usr/bin/env bash
# Makes its own environment and runs the quickstart on a Ray of its own, about two minutes on two
# cores after installation. The run is left in runs/quickstart; the same command goes on with it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
.venv/bin/holdfast run configs/quickstart.yaml --out runs/quickstart "$@"
