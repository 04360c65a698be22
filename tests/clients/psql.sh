#!/bin/bash
# psql: its commands that describe things, scripts, COPY, cursors, errors with their place.
set -euo pipefail
ask() { psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }
is() { [ "$2" = "$3" ] || { printf 'psql: %s\nexpected: %s\nfound:    %s\n' "$1" "$2" "$3"; exit 1; }; }
has() { grep -qF -- "$2" <<< "$3" || { printf 'psql: %s\nexpected: %s\nin:       %s\n' "$1" "$2" "$3"; exit 1; }; }
is "a row" "1|one|1.5" "$(ask -c "SELECT * FROM items WHERE id = 1")"
is "two statements" $'1\n2' "$(ask -c "SELECT 1; SELECT 2")"
is "NULL" "NULL" "$(ask -P null=NULL -c "SELECT name FROM items WHERE id = 3")"
has "\\d" "items" "$(ask -c '\d')"
has "\\dt" "items" "$(ask -c '\dt')"
has "\\d items" "price" "$(ask -c '\d items')"
has "\\d items" "bigint" "$(ask -c '\d items')"
has "\\d+ items" "price" "$(ask -c '\d+ items')"
has "\\dn" "public" "$(ask -c '\dn')"
has "\\l" "diligence" "$(ask -c '\l')"
has "\\du" "diligence" "$(ask -c '\du')"
ask -c '\dv' -c '\di' -c '\ds' -c '\df' > /dev/null
ask -c "CREATE VIEW cheap AS SELECT id FROM items WHERE price < 2" -c '\d cheap' > /dev/null
has "\\dv" "cheap" "$(ask -c '\dv')"
ask -c "CREATE TABLE t (a BIGINT, b TEXT)"
printf '1\tone\n2\t\\N\n' | ask -c "COPY t FROM STDIN"
is "COPY FROM" "1|one" "$(ask -c "SELECT * FROM t WHERE a = 1")"
is "COPY TO" $'a,b\n1,one\n2,' "$(ask -c "COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT csv, HEADER)")"
is "INSERT" "INSERT 0 2" "$(psql -X -A -t -c "INSERT INTO t VALUES (3, 'x'), (4, 'y')")"
is "a cursor" $'1\n2\n3' "$(ask -v FETCH_COUNT=2 -c "SELECT a FROM t ORDER BY a LIMIT 3")"
is "a transaction" $'1' "$(ask -c "BEGIN; SELECT 1; COMMIT")"
ask -c "BEGIN; INSERT INTO t VALUES (9, 'z'); ROLLBACK" >/dev/null
is "a transaction that writes" $'0\n1' "$(ask -c "SELECT count(*) FROM t WHERE a = 9" -c "BEGIN; INSERT INTO t VALUES (9, 'z'); COMMIT" -c "SELECT count(*) FROM t WHERE a = 9" | grep -E '^[0-9]+$')"
error=$(psql -X -v VERBOSITY=verbose -c "SELECT nothing FROM items" 2>&1 || true)
has "an unknown column" "42703" "$error"; has "its place" "LINE 1: SELECT nothing FROM items" "$error"
has "an unknown table" "42P01" "$(psql -X -v VERBOSITY=verbose -c "SELECT * FROM nowhere" 2>&1 || true)"
has "syntax" "42601" "$(psql -X -v VERBOSITY=verbose -c "SELEC 1" 2>&1 || true)"
has "files" "42" "$(psql -X -v VERBOSITY=verbose -c "SELECT * FROM '/etc/passwd'" 2>&1 || true)"
has "statement_timeout" "57014" "$(psql -X -v VERBOSITY=verbose -c "SET statement_timeout = '50ms'" -c "SELECT count(*) FROM generate_series(1::BIGINT, 3000000) a(value), generate_series(1::BIGINT, 3000) b(value)" 2>&1 || true)"
is "the session goes on" "7" "$(ask -c "SELECT 7")"
