# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# OGX, from PyPI: a server of OpenAI's files and batches that works its batches off at another server. It needs Python 3.12,
# which Debian's next release but one was the first to have, so it runs on Debian's own Python of suite trixie, unpacked as
# debian.sh says, and lies beside it as a folder of packages: DIR/ogx.files.
#
# Some 12 seconds with uv, and 40 with pip alone, which takes over where uv finds no index. 230 MB on disk. Debian on x86-64 only.

# shellcheck disable=SC2034
folder_of_ogx=ogx.files
ogx_version=1.5.0
ogx_suite=trixie
ogx_python=3.13 # of that suite

require_ogx() {
  local python=${PYTHON:-python3}
  require_debian ogx
  require_commands "$python"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "fetching ogx needs Python's modules venv and ensurepip, which $python lacks (on Debian: apt install python3-venv)"
}

build_ogx() {
  local packages=$staging/ogx.files/packages requirement="ogx==$ogx_version" fetcher=$staging/fetcher
  local for_it=(--target "$packages" --python-version "$ogx_python" --only-binary :all:)
  unpack_packages "$ogx_suite" python3 "$staging/ogx.files/unpacked"
  say "fetching $requirement from the Python package index"
  "${PYTHON:-python3}" -m venv "$fetcher"
  if ! fetch_with_uv "$fetcher" "${for_it[@]}" "$requirement" >"$staging/log" 2>&1; then
    say "uv could not; trying pip, which is slower"
    "$fetcher/bin/python" -m pip install --quiet --disable-pip-version-check "${for_it[@]}" "$requirement" \
      >>"$staging/log" 2>&1 || {
      cat "$staging/log" >&2
      fail "$requirement could not be installed: uv's and pip's reasons are above." \
        "Mend the index or the network and run this again."
    }
  fi
  cat >"$staging/ogx" <<LAUNCHER
#!/bin/sh
# Written by robin's scripts/install_test_servers.sh
files=\$(dirname "\$(readlink -f "\$0")")/ogx.files
unpacked=\$files/unpacked
libraries=\$unpacked/usr/lib/x86_64-linux-gnu
export PYTHONHOME="\$unpacked/usr" PYTHONPATH="\$files/packages"
exec "\$libraries/ld-linux-x86-64.so.2" --library-path "\$libraries" "\$unpacked/usr/bin/python$ogx_python" -s -P -c '
import sys
from ogx.cli.ogx import main
sys.argv[0] = "ogx"
main()' "\$@"
LAUNCHER
  chmod 755 "$staging/ogx"
}

# Without importing ogx, which takes 3 seconds.
starts_ogx() { # DIR
  local unpacked=$1/ogx.files/unpacked
  [[ -d $1/ogx.files/packages/ogx-$ogx_version.dist-info ]] &&
    "$unpacked/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$unpacked/usr/lib/x86_64-linux-gnu" \
      "$unpacked/usr/bin/python$ogx_python" --version
}
