#!/usr/bin/env bash
# Installs the real model server that robin's external tests talk to: llama.cpp's llama-server.
#
#   scripts/install_test_servers.sh            into <repository>/.test-servers
#   ROBIN_TEST_SERVERS=DIR scripts/…           into DIR
#
# The program comes from Debian's own package llama.cpp-tools, which only newer suites have. It and the libraries it
# needs, libc included, are fetched from the mirror this machine is set up with, unpacked into DIR/llama.cpp and run
# through their own loader, so no package of the system is added, changed or upgraded. What comes of it:
#
#   DIR/llama-server           start this; it finds its files beside itself, so DIR may be moved
#   DIR/llama.cpp/root         the unpacked packages
#   DIR/llama.cpp/SHA256SUMS   what was unpacked, so that a damaged installation is noticed
#
# Some 5 seconds, 30 MB to fetch, 76 MB on disk. Debian on x86-64 only. Root is not needed. A working installation is
# left as it is; anything else found there is replaced. Other suite: ROBIN_TEST_SERVERS_SUITE=sid.
set -euo pipefail
export LC_ALL=C
umask 022

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${ROBIN_TEST_SERVERS:-$repository/.test-servers}
suite=${ROBIN_TEST_SERVERS_SUITE:-forky}
package=llama.cpp-tools

say() { printf 'install_test_servers: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

# Every unpacked file is as it was, and the program starts.
is_working() {
  [[ -f $servers/llama.cpp/SHA256SUMS ]] &&
    (cd "$servers/llama.cpp" && sha256sum --check --status SHA256SUMS) 2>/dev/null &&
    "$servers/llama-server" --version >/dev/null 2>&1
}

leave_if_working() {
  if is_working; then
    say "$servers/llama-server works; nothing to do"
    exit 0
  fi
}

require_debian_on_x86_64() {
  local system architecture tool
  # shellcheck source=/dev/null
  system=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-}") || true
  architecture=$(dpkg --print-architecture 2>/dev/null || uname -m)
  [[ $system == debian && $architecture == amd64 ]] ||
    fail "needs Debian on x86-64 (amd64), this is ${system:-$(uname -s)} on $architecture." \
      "Run the external tests in a Debian container, or 'make test' without them."
  for tool in apt-get dpkg-deb flock sha256sum; do
    command -v "$tool" >/dev/null || fail "needs the command $tool, which is not on this machine"
  done
}

# apt itself reads the configuration here, so both formats of sources.list, and every option in them, are understood.
# The security archive has no newer suites; another vendor's repository will turn out not to have the suite.
configured_mirrors() {
  # shellcheck disable=SC2016 # the $(…) are apt's
  apt-get indextargets --no-release-info --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
    awk '$2 == "main" && $1 !~ /security/ && $3 !~ /^cdrom:/ && !seen[$3]++ { print $3 }'
}

# An apt that knows one mirror and an empty system: it downloads all that the package needs and installs nothing.
# Given as options, which outrank the machine's own apt.conf; its proxies and the like still hold.
private_apt() {
  apt-get --quiet=2 \
    -o Dir::Etc::sourcelist="$staging/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Dir::State="$staging/apt/state" -o Dir::State::status="$staging/apt/state/status" \
    -o Dir::Cache="$staging/apt/cache" -o Dir::Cache::archives="$staging/apt/cache/archives" \
    -o APT::Default-Release= -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Retries=3 \
    "$@"
}

# Packages are verified by Debian's signature as ever. Only its end date is not held against a mirror, because frozen
# and slow mirrors, common in front of containers, fall behind the one week that testing's lists are valid.
download_from() { # MIRROR
  local mirror=${1/#file:/copy:} keyring options='arch=amd64 target=Packages check-valid-until=no'
  for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
    if [[ -r $keyring ]]; then
      options+=" signed-by=$keyring"
      break
    fi
  done
  rm -rf "$staging/apt"
  mkdir -p "$staging"/apt/state/lists/partial "$staging"/apt/cache/archives/partial
  : >"$staging/apt/state/status"
  printf 'deb [%s] %s %s main\n' "$options" "$mirror" "$suite" >"$staging/apt/sources.list"
  private_apt update &&
    private_apt --yes --download-only --no-install-recommends install "$package"
}

download_packages() {
  local mirrors mirror
  mirrors=$(configured_mirrors)
  [[ -n $mirrors ]] || fail "apt has no Debian mirror configured; see 'man sources.list'"
  for mirror in $mirrors; do
    say "fetching $package of Debian $suite from $mirror"
    if download_from "$mirror" >>"$staging/log" 2>&1; then
      return
    fi
  done
  cat "$staging/log" >&2
  fail "no configured mirror gave $package of Debian $suite: apt's reasons are above." \
    "Mend the mirror or the network and run this again."
}

unpack_packages() {
  local archive libraries=$staging/llama.cpp/root/usr/lib/x86_64-linux-gnu backend found=no
  mkdir -p "$staging/llama.cpp/root"
  for archive in "$staging"/apt/cache/archives/*.deb; do
    dpkg-deb --extract "$archive" "$staging/llama.cpp/root"
  done
  # ggml looks for its CPU backends beside the running program, which here is the loader
  for backend in "$libraries"/ggml/*/libggml-cpu-*.so; do
    [[ -e $backend ]] || continue
    ln -s "${backend#"$libraries/"}" "$libraries/"
    found=yes
  done
  [[ $found == yes ]] || fail "the packages of Debian $suite hold no CPU backend where this script looks for it"
  (cd "$staging/llama.cpp" && find root -xtype f ! -lname '/*' -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS)
}

write_launcher() {
  cat >"$staging/llama-server" <<'LAUNCHER'
#!/bin/sh
# Written by robin's scripts/install_test_servers.sh
root=$(dirname "$(readlink -f "$0")")/llama.cpp/root
libraries=$root/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/llama" "$root/usr/bin/llama-server" "$@"
LAUNCHER
  chmod 755 "$staging/llama-server"
}

leave_if_working
require_debian_on_x86_64
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)
staging=$servers/.staging

exec 9>"$servers/.lock"
flock 9
leave_if_working # another run may have just finished it

trap 'rm -rf "$staging"' EXIT
rm -rf "$staging" # of a run that was killed
mkdir "$staging"
download_packages
unpack_packages
write_launcher
"$staging/llama-server" --version >/dev/null || fail "llama-server was unpacked but does not start: the reason is above"

rm -rf "$servers/llama.cpp"
mv "$staging/llama.cpp" "$servers/llama.cpp"
mv -f "$staging/llama-server" "$servers/llama-server"
is_working || fail "$servers/llama-server does not work where it was put; is there space, and may programs run there?"
say "$servers/llama-server installed"
