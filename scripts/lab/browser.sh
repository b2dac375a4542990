#!/usr/bin/env bash
# Installs the browser in which the report's page is tested, where it is missing and we may.
set -euo pipefail
if ! command -v chromedriver >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update && apt-get -qq install -y chromium chromium-driver fonts-dejavu-core >/dev/null
fi
