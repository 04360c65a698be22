#!/bin/bash
# Uses the console of `diligence serve` in headless Chromium, with the keyboard and the mouse.
#   run.sh PATH_TO_DILIGENCE [FOLDER_FOR_PICTURES]     exit code 77: Chromium cannot be installed here
# Chromium is Debian's package; it is installed if it is missing and apt can.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
pictures=${2:-$here/../../target/console-pictures}
command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } ||
  { echo "console: left out, since there is no Chromium to be had here"; exit 77; }
work=$(mktemp -d)
trap '{ kill "${server:-}" "${guarded:-}"; wait; } 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$work/data" "$pictures"
{ echo "id,product,region,sold,price"
  for i in $(seq 3000); do echo "$i,product $((i % 12)),$([ $((i % 3)) = 0 ] && echo north || echo south),2026-$(printf %02d $((i % 12 + 1)))-01,$((i * 7 % 500)).$((i % 90 + 10))"; done
} > "$work/data/sales.csv"
printf 'product,maker\nproduct 1,Ada\nproduct 2,Grace\nproduct 3,Edsger\n' > "$work/data/makers.csv"
printf '%s\n' '[roles.readers]' 'tables = ["shown"]' '[users.owner]' 'password = "owner"' '[users.reader]' 'password = "reader"' 'role = "readers"' > "$work/users.toml"
"$binary" serve --data "$work/data" --db "$work/db" --postgres off --http 0 --memory 512MiB --heavy-max 1 > "$work/doors" 2> "$work/log" &
server=$!
"$binary" serve --users "$work/users.toml" --postgres off --http 0 --memory 256MiB > "$work/guarded" 2> "$work/guarded.log" &
guarded=$!
for _ in $(seq 600); do
  [ -s "$work/doors" ] && [ -s "$work/guarded" ] && break
  kill -0 $server && kill -0 $guarded || { cat "$work/log" "$work/guarded.log"; exit 1; }
  sleep 0.1
done
address() { sed -n 's#\(http://.*\)/#\1#p' "$1"; }
CONSOLE=$(address "$work/doors") GUARDED=$(address "$work/guarded") PICTURES=$(realpath "$pictures") python3 -u "$here/console.py"
kill -TERM $server $guarded
wait $server
wait $guarded
server= guarded=
