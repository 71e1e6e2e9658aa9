#!/usr/bin/env bash
# Installs what robin's external tests open its files with: LibreOffice Calc for exports, Chromium for reports; neither has a
# screen. Debian or Ubuntu, as root: about 25 seconds, 900 MB. What is there already is left alone.
set -euo pipefail

wanted=()
command -v soffice >/dev/null || wanted+=(libreoffice-calc-nogui)
command -v chromium >/dev/null || wanted+=(chromium)
if [[ ${#wanted[@]} -eq 0 ]]; then
  echo "install_programs: soffice and chromium are there; nothing to do" >&2
  exit 0
fi
command -v apt-get >/dev/null || {
  echo "install_programs: needs apt-get; install LibreOffice and Chromium by other means, as soffice and chromium on the PATH" >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
# Not written through to the disk file by file: a machine that fails now is set up anew.
apt-get install --quiet=2 --yes --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "${wanted[@]}" >/dev/null
soffice --version >&2
chromium --version >&2
