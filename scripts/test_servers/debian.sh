# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# Programs out of Debian's own packages, of another suite than this machine's. They and the libraries they need, libc included,
# are fetched from the mirror this machine is set up with, and run from where they were unpacked through their own loader, so
# no package of the system is added, changed or upgraded.

require_debian() { # WHAT
  local system architecture
  # shellcheck source=/dev/null
  system=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-}") || true
  architecture=$(dpkg --print-architecture 2>/dev/null || uname -m)
  [[ $system == debian && $architecture == amd64 ]] ||
    fail "$1 needs Debian on x86-64 (amd64), this is ${system:-$(uname -s)} on $architecture." \
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
download_from() { # MIRROR SUITE PACKAGE
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
  printf 'deb [%s] %s %s main\n' "$options" "$mirror" "$2" >"$staging/apt/sources.list"
  private_apt update &&
    private_apt --yes --download-only --no-install-recommends install "$3"
}

# The packages that PACKAGE needs, itself included, unpacked into FOLDER.
unpack_packages() { # SUITE PACKAGE FOLDER
  local mirrors mirror archive
  mirrors=$(configured_mirrors)
  [[ -n $mirrors ]] || fail "apt has no Debian mirror configured; see 'man sources.list'"
  for mirror in $mirrors; do
    say "fetching $2 of Debian $1 from $mirror"
    if download_from "$mirror" "$1" "$2" >>"$staging/log" 2>&1; then
      mkdir -p "$3"
      for archive in "$staging"/apt/cache/archives/*.deb; do
        dpkg-deb --extract "$archive" "$3"
      done
      return
    fi
  done
  cat "$staging/log" >&2
  fail "no configured mirror gave $2 of Debian $1: apt's reasons are above." \
    "Mend the mirror or the network and run this again."
}
