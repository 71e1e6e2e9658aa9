#!/usr/bin/env bash
# Installs the real servers that robin's external tests talk to.
#
#   scripts/install_test_servers.sh            all of them, into <repository>/.test-servers
#   scripts/install_test_servers.sh NAME…      some of them: llama-server, litellm, llmock, ogx
#   ROBIN_TEST_SERVERS=DIR scripts/…           into DIR
#
# What comes of it, each described at the top of its file in scripts/test_servers/:
#
#   DIR/llama-server   llama.cpp's server, in DIR/llama.cpp        5 seconds,  76 MB   Debian on x86-64
#   DIR/litellm        the LiteLLM proxy, in DIR/litellm.venv     20 seconds, 600 MB   Python 3.11 or later
#   DIR/llmock         aimock, in DIR/aimock                       3 seconds,  12 MB   Node.js 20.15 or later, npm
#   DIR/ogx            OGX, in DIR/ogx.files                      10 seconds, 230 MB   Debian on x86-64
#
# Start the launchers; they find their files beside themselves, so DIR may be moved. The file SHA256SUMS in each folder
# says what was installed, so that a damaged installation is noticed. What works is left as it is; anything else found
# there is replaced. Root is not needed, and outside DIR only the caches of pip and npm grow. Packages come from the mirrors
# and registries that this machine's apt, pip and npm are set up with.
set -euo pipefail
export LC_ALL=C
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
servers=${ROBIN_TEST_SERVERS:-$here/../.test-servers}

say() { printf 'install_test_servers: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

require_commands() { # COMMAND…
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || fail "needs the command $tool, which is not on this machine"
  done
}

# Each of these files says which launcher and folder are its own (folder_of_…), and defines for its launcher
#   require_…    fails where this machine cannot install it
#   build_…      makes folder and launcher in $staging
#   starts_… DIR the launcher in DIR is of the wanted version, and starts
# shellcheck source-path=SCRIPTDIR
source "$here/test_servers/debian.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/test_servers/llama_server.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/test_servers/litellm.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/test_servers/llmock.sh"
# shellcheck source-path=SCRIPTDIR
source "$here/test_servers/ogx.sh"

write_sums() { # LAUNCHER FOLDER
  (cd "$staging/$2" && find "../$1" . -xtype f ! -lname '/*' ! -name '*.pyc' -print0 |
    sort -z | xargs -0 sha256sum >"$staging/sums" && mv "$staging/sums" SHA256SUMS)
}

# Every installed file is as it was, and the program is of the wanted version and starts.
is_working() { # LAUNCHER FOLDER
  [[ -s $servers/$2/SHA256SUMS ]] &&
    (cd "$servers/$2" && sha256sum --check --status SHA256SUMS && "starts_${1//-/_}" "$servers") >/dev/null 2>&1
}

install_server() { # LAUNCHER FOLDER
  local launcher=$1 folder=$2
  if is_working "$launcher" "$folder"; then
    say "$servers/$launcher works; nothing to do"
    return
  fi
  "require_${launcher//-/_}"
  rm -rf "$staging" # of a run that was killed
  mkdir "$staging"
  "build_${launcher//-/_}"
  "starts_${launcher//-/_}" "$staging" >/dev/null ||
    fail "$launcher was fetched but does not start: the reason is above"
  write_sums "$launcher" "$folder"

  rm -rf "${servers:?}/$folder"
  mv "$staging/$folder" "$servers/$folder"
  mv -f "$staging/$launcher" "$servers/$launcher"
  is_working "$launcher" "$folder" ||
    fail "$servers/$launcher does not work where it was put; is there space, and may programs run there?"
  say "$servers/$launcher installed"
}

wanted=("$@")
[[ $# -gt 0 ]] || wanted=(llama-server litellm llmock ogx)
for name in "${wanted[@]}"; do
  [[ $name == llama-server || $name == litellm || $name == llmock || $name == ogx ]] ||
    fail "there is no server '$name'; choose from: llama-server, litellm, llmock, ogx"
done
require_commands flock sha256sum
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)
staging=$servers/.staging

exec 9>"$servers/.lock"
flock 9 # another run may be at it
trap 'rm -rf "$staging"' EXIT
for name in "${wanted[@]}"; do
  folder=folder_of_${name//-/_}
  install_server "$name" "${!folder}"
done
