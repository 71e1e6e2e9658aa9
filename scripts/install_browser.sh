#!/usr/bin/env bash
# Installs Chromium without a screen, the browser that robin's external tests open reports with.
# Debian or Ubuntu, as root: about 20 seconds, 500 MB. Left alone where chromium is there already.
set -euo pipefail

if command -v chromium >/dev/null; then
  echo "install_browser: chromium is there; nothing to do" >&2
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "install_browser: needs apt-get; install Chromium by other means, so that chromium is on the PATH" >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends chromium >/dev/null
chromium --version >&2
