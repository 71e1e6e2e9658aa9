# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# The LiteLLM proxy, from PyPI, in a virtual environment of its own: DIR/litellm.venv. The launcher runs the module, not
# the environment's script, whose first line would name the folder the environment was made in.
#
# Some 20 seconds with uv, which is fetched with pip for the purpose and not kept, and 60 with pip alone, which takes over
# where uv finds no index (it does not read pip's configuration). 600 MB on disk. Other Python: PYTHON=python3.12.

# shellcheck disable=SC2034
folder_of_litellm=litellm.venv
litellm_version=1.106.2

require_litellm() {
  local python=${PYTHON:-python3}
  require_commands "$python"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "litellm needs Python 3.11 or later, $python is $("$python" --version 2>&1)." \
      "Name another: PYTHON=python3.11 scripts/install_test_servers.sh"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "litellm needs Python's modules venv and ensurepip, which $python lacks (on Debian: apt install python3-venv)"
}

build_litellm() {
  local venv=$staging/litellm.venv requirement="litellm[proxy]==$litellm_version"
  say "fetching $requirement from the Python package index"
  "${PYTHON:-python3}" -m venv "$venv"
  if ! fetch_with_uv "$venv" "$requirement" >"$staging/log" 2>&1; then
    say "uv could not; trying pip, which is slower"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$requirement" >>"$staging/log" 2>&1 || {
      cat "$staging/log" >&2
      fail "$requirement could not be installed: uv's and pip's reasons are above." \
        "Mend the index or the network and run this again."
    }
  fi
  cat >"$staging/litellm" <<'LAUNCHER'
#!/bin/sh
# Written by robin's scripts/install_test_servers.sh
venv=$(dirname "$(readlink -f "$0")")/litellm.venv
export LITELLM_LOCAL_MODEL_COST_MAP=True # else it asks the internet for prices
exec "$venv/bin/python" -P -c 'import litellm, sys; sys.argv[0] = "litellm"; litellm.run_server()' "$@"
LAUNCHER
  chmod 755 "$staging/litellm"
}

# The cache lies beside the environment, so that files are linked, not copied, and goes with $staging.
fetch_with_uv() { # VENV ARGUMENT…
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --target "$staging/uv" uv &&
    "$staging/uv/bin/uv" pip install --quiet --cache-dir "$staging/uv-cache" --python "$1/bin/python" "${@:2}"
}

# Without importing litellm, which takes 8 seconds.
starts_litellm() { # DIR
  "$1/litellm.venv/bin/python" -c 'import sys; from importlib.metadata import version
sys.exit(version("litellm") != sys.argv[1] and "not version " + sys.argv[1])' "$litellm_version"
}
