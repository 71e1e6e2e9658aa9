# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# llama.cpp's llama-server comes from Debian's own package llama.cpp-tools, which only newer suites have. It and the
# libraries it needs, libc included, are fetched from the mirror this machine is set up with, unpacked into
# DIR/llama.cpp/unpacked and run through their own loader, so no package of the system is added, changed or upgraded.
#
# Some 5 seconds, 30 MB to fetch, 76 MB on disk. Debian on x86-64 only. Other suite: ROBIN_TEST_SERVERS_SUITE=sid.

# shellcheck disable=SC2034
folder_of_llama_server=llama.cpp
suite=${ROBIN_TEST_SERVERS_SUITE:-forky}
package=llama.cpp-tools

require_llama_server() {
  local system architecture
  # shellcheck source=/dev/null
  system=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-}") || true
  architecture=$(dpkg --print-architecture 2>/dev/null || uname -m)
  [[ $system == debian && $architecture == amd64 ]] ||
    fail "llama-server needs Debian on x86-64 (amd64), this is ${system:-$(uname -s)} on $architecture." \
      "Run the external tests in a Debian container, or 'make test' without them."
  require_commands apt-get dpkg-deb
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
  local archive unpacked=$staging/llama.cpp/unpacked backend found=no
  local libraries=$unpacked/usr/lib/x86_64-linux-gnu
  mkdir -p "$unpacked"
  for archive in "$staging"/apt/cache/archives/*.deb; do
    dpkg-deb --extract "$archive" "$unpacked"
  done
  # ggml looks for its CPU backends beside the running program, which here is the loader
  for backend in "$libraries"/ggml/*/libggml-cpu-*.so; do
    [[ -e $backend ]] || continue
    ln -s "${backend#"$libraries/"}" "$libraries/"
    found=yes
  done
  [[ $found == yes ]] || fail "the packages of Debian $suite hold no CPU backend where this script looks for it"
}

build_llama_server() {
  download_packages
  unpack_packages
  cat >"$staging/llama-server" <<'LAUNCHER'
#!/bin/sh
# Written by robin's scripts/install_test_servers.sh
unpacked=$(dirname "$(readlink -f "$0")")/llama.cpp/unpacked
libraries=$unpacked/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$libraries/llama" "$unpacked/usr/bin/llama-server" "$@"
LAUNCHER
  chmod 755 "$staging/llama-server"
}

starts_llama_server() { # DIR
  [[ -d $1/llama.cpp/unpacked ]] && "$1/llama-server" --version
}
