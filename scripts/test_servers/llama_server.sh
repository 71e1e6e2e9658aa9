# shellcheck shell=bash disable=SC2154 # part of scripts/install_test_servers.sh, which sets $staging
#
# llama.cpp's llama-server comes from Debian's own package llama.cpp-tools, which only newer suites have: see debian.sh.
#
# Some 5 seconds, 30 MB to fetch, 76 MB on disk. Debian on x86-64 only. Other suite: ROBIN_TEST_SERVERS_SUITE=sid.

# shellcheck disable=SC2034
folder_of_llama_server=llama.cpp
suite=${ROBIN_TEST_SERVERS_SUITE:-forky}
package=llama.cpp-tools

require_llama_server() {
  require_debian llama-server
}

link_backends() {
  local libraries=$staging/llama.cpp/unpacked/usr/lib/x86_64-linux-gnu backend found=no
  # ggml looks for its CPU backends beside the running program, which here is the loader
  for backend in "$libraries"/ggml/*/libggml-cpu-*.so; do
    [[ -e $backend ]] || continue
    ln -s "${backend#"$libraries/"}" "$libraries/"
    found=yes
  done
  [[ $found == yes ]] || fail "the packages of Debian $suite hold no CPU backend where this script looks for it"
}

build_llama_server() {
  unpack_packages "$suite" "$package" "$staging/llama.cpp/unpacked"
  link_backends
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
