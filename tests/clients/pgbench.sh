#!/bin/bash
# pgbench: its tables with and without foreign keys, and its scripts in each protocol with 8 clients, which try again at
# levels where others may be in their way. Behind them, all balances have got the same sum. Told where the server is as
# psql is, by PGHOST and PGPORT.
set -euo pipefail
pgbench=$(command -v pgbench || ls /usr/lib/postgresql/*/bin/pgbench 2>/dev/null | tail -1 || true)
[ -n "$pgbench" ] || { echo "pgbench: left out, since there is none to be had here"; exit 0; }
clients=8 transactions=${DILIGENCE_PGBENCH_TRANSACTIONS:-20}
ask() { psql -X -q -A -t -v ON_ERROR_STOP=1 -c "$1"; }
is() { [ "$2" = "$3" ] || { printf 'pgbench: %s\nexpected: %s\nfound:    %s\n' "$1" "$2" "$3"; exit 1; }; }
quietly() { "$@" > "$output" 2>&1 || { printf 'pgbench: %s\n' "${*:2}"; cat "$output"; exit 1; }; }
output=$(mktemp)
trap 'rm -f "$output"' EXIT
count="SELECT count(*) FROM pgbench_history"
deltas="SELECT coalesce(sum(delta), 0) FROM pgbench_history"
runs() { # what it is called, how many rows come into the history, further arguments
  quietly "$pgbench" -c "$clients" -j 2 "${@:3}"
  is "$1: failed transactions" "" "$(grep -E 'aborted|failed transactions: [1-9]' "$output" || true)"
  is "$1: the history" $((rows += $2)) "$(ask "$count")"
  is "$1: the accounts" "$(ask "$deltas")" "$(ask "SELECT sum(abalance) FROM pgbench_accounts")"
}
are_equal() { # what it is called
  is "$1: the tellers" "$(ask "$deltas")" "$(ask "SELECT sum(tbalance) FROM pgbench_tellers")"
  is "$1: the branches" "$(ask "$deltas")" "$(ask "SELECT sum(bbalance) FROM pgbench_branches")"
}
each=$((clients * transactions))
for steps in dtgvp dtgvpf dtGvpf; do
  quietly "$pgbench" -i -q -I "$steps" -s 2
  is "$steps: rows" "2|20|200000|0" "$(ask "SELECT (SELECT count(*) FROM pgbench_branches), (SELECT count(*) FROM pgbench_tellers), (SELECT count(*) FROM pgbench_accounts), ($count)")"
  is "$steps: references" "$([[ $steps = *f ]] && echo 5 || echo 0)" "$(ask "SELECT count(*) FROM pg_constraint WHERE contype = 'f'")"
  rows=0
  # The first run begins with VACUUM and TRUNCATE of the history, which others go on with.
  runs "$steps, simple" "$each" -t "$transactions" -M simple
  for protocol in extended prepared; do
    runs "$steps, $protocol" "$each" -n -t "$transactions" -M "$protocol"
  done
  are_equal "$steps"
  for level in 'repeatable\ read' serializable; do
    export PGOPTIONS="-c default_transaction_isolation=$level"
    is "$steps: the level" "${level/\\/}" "$(ask "SHOW transaction_isolation")"
    runs "$steps, $level" $((clients * 2)) -n -t 2 --max-tries=1000
    unset PGOPTIONS
  done
  are_equal "$steps, at higher levels"
  for protocol in simple extended prepared; do
    runs "$steps, $protocol, -S" 0 -n -t "$transactions" -M "$protocol" -S
    runs "$steps, $protocol, -N" "$each" -n -t "$transactions" -M "$protocol" -N
  done
done
quietly "$pgbench" -i -I d
echo "pgbench: served"
