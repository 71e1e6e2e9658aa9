# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# aimock's llmock, from the npm registry (package @copilotkit/aimock, which needs no other): a proxy that makes a real
# server behind it fail at times, in DIR/aimock.
#
# Some 3 seconds, 12 MB on disk. Node.js 20.15 or later and npm are needed.

# shellcheck disable=SC2034
folder_of_llmock=aimock
aimock_version=1.43.0

require_llmock() {
  if ! node --version >/dev/null 2>&1 || ! npm --version >/dev/null 2>&1; then
    fail "llmock needs Node.js and npm, which are not both on this machine (on Debian: apt install nodejs npm)"
  fi
  node -e 'const [major, minor] = process.versions.node.split(".").map(Number);
           process.exit(major > 20 || (major === 20 && minor >= 15) ? 0 : 1)' ||
    fail "llmock needs Node.js 20.15 or later, this is $(node --version)"
}

build_llmock() {
  local package="@copilotkit/aimock@$aimock_version"
  say "fetching $package from the npm registry"
  mkdir "$staging/aimock"
  npm install --prefix "$staging/aimock" --fetch-timeout=20000 --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
    "$package" >"$staging/log" 2>&1 || {
    cat "$staging/log" >&2
    fail "$package could not be installed: npm's reason is above. Mend the registry or the network and run this again."
  }
  cat >"$staging/llmock" <<'LAUNCHER'
#!/bin/sh
# Written by robin's scripts/install_test_servers.sh
exec node "$(dirname "$(readlink -f "$0")")/aimock/node_modules/@copilotkit/aimock/dist/cli.js" "$@"
LAUNCHER
  chmod 755 "$staging/llmock"
}

starts_llmock() { # DIR
  grep --quiet --fixed-strings "\"version\": \"$aimock_version\"" \
    "$1/aimock/node_modules/@copilotkit/aimock/package.json" && "$1/llmock" --help
}
