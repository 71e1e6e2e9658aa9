#!/usr/bin/env bash
# Tries an installed robin as a user would: the demo, then a run against a judge on this machine.
#   scripts/try_release.sh ENVIRONMENT
set -euo pipefail
bin=$(realpath "$1")/bin
pairs=$PWD/configs/demo/pairs.jsonl
folder=$(mktemp -d)
trap 'kill "${judge:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder" # nothing of the checkout is found from here

"$bin/robin-judge" demo --run demo >/dev/null

mkfifo address
"$bin/robin" serve demo --port 0 >address &
judge=$!
read -r url < <(grep --line-buffered -o 'http://127[^ ]*' address)
"$bin/robin" judge "$pairs" --attribute helpfulness --budget 300 --base-url "$url" \
  --model replay:helpfulness --run run -o scores.csv
test "$(wc -l <scores.csv)" -eq 61
"$bin/robin" status run
"$bin/robin" report run -o report.html
test -s report.html
echo "$("$bin/robin" --version): demo, judge, status and report work"
