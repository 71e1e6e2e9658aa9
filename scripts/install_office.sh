#!/usr/bin/env bash
# Installs LibreOffice Calc without a screen, the office program that robin's external tests open exports with.
# Debian or Ubuntu, as root: about 15 seconds, 400 MB. Left alone where soffice is there already.
set -euo pipefail

if command -v soffice >/dev/null; then
  echo "install_office: soffice is there; nothing to do" >&2
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "install_office: needs apt-get; install LibreOffice by other means, so that soffice is on the PATH" >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends libreoffice-calc-nogui >/dev/null
soffice --version >&2
