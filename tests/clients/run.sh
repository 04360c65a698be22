#!/bin/bash
# Talks to `diligence serve` with the real clients: psql, pgbench, psycopg 3, asyncpg, SQLAlchemy, pgjdbc, HTTP, and
# ADBC's Flight SQL driver.
#   run.sh PATH_TO_DILIGENCE [VENV]     exit code 77: the clients cannot be installed here
# psql comes from Debian's package postgresql-client, pgbench from that of the server (without it, its step is left
# out), pgjdbc from libpostgresql-jdbc-java (with default-jdk-headless, which runs a source file; both are installed with
# INSTALL_JAVA=1, and without them its step is left out); the Python clients are installed from PyPI into VENV
# [default: target/clients-venv].
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
venv=${2:-$here/../../target/clients-venv}
missing() { echo "clients: left out, since there is no $1 to be had here"; exit 77; }
command -v psql >/dev/null || { apt-get update -qq && apt-get install -y -qq postgresql-client; } || missing psql
if ! cmp -s "$here/requirements.txt" "$venv/installed.txt"; then
  python3 -m venv "$venv" || { apt-get install -y -qq python3-venv && python3 -m venv "$venv"; } || missing "Python environment"
  "$venv/bin/pip" -q install -r "$here/requirements.txt" || missing "client library"
  cp "$here/requirements.txt" "$venv/installed.txt"
fi
driver=/usr/share/java/postgresql.jar
if [ -n "${INSTALL_JAVA:-}" ] && { ! command -v javac >/dev/null || [ ! -f "$driver" ]; }; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jdk-headless libpostgresql-jdbc-java; } || true
fi
jdbc() { # arguments of Jdbc.java
  if command -v javac >/dev/null && [ -f "$driver" ]; then java -cp "$driver" "$here/Jdbc.java" "$@"
  else echo "pgjdbc: left out, since there is no Java to be had here"; fi
}
work=$(mktemp -d)
trap '{ kill "${server:-}"; wait; } 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/data" "$work/endpoints"
printf 'id,name,price\n1,one,1.50\n2,two,2.25\n3,,\n' > "$work/data/items.csv"
cp "$here"/endpoints/* "$work/endpoints/"
cat > "$work/users.toml" <<USERS
[users.ann]
password = "$(echo secret | "$binary" serve --hash-password)"
files = true
[users.bob]
password = "other"
[roles.analyst]
tables = ["items", "v", "moving"]
[roles.clerk]
tables = ["items"]
write = ["scratch.*"]
result_rows_max = 1000
time = "2s"
memory = "64MB"
[roles.kiosk]
endpoints = ["/api/*"]
running_max = 1
queue_max = 0
[users.cat]
password = "cat"
role = "analyst"
[users.dan]
password = "dan"
role = "clerk"
[users.fay]
password = "fay"
role = "kiosk"
USERS
start() { # arguments of serve: sets $server, $postgres, $http, $flight
  # What the server before it has written is not to be taken for its own.
  : > "$work/doors"
  "$binary" serve --data "$work/data" --postgres 0 --http 0 --flight 0 --endpoints "$work/endpoints" --memory 512MiB "$@" > "$work/doors" 2> "$work/log" &
  server=$!
  for _ in $(seq 300); do [ "$(wc -l < "$work/doors")" -ge 3 ] && break; kill -0 $server || { cat "$work/log"; exit 1; }; sleep 0.1; done
  postgres=$(sed -n 's#postgres://\(.*\)/diligence#\1#p' "$work/doors")
  http=$(sed -n 's#\(http://.*\)/#\1#p' "$work/doors")
  flight=$(grep '^grpc' "$work/doors")
}
stop() { kill -TERM $server; wait $server; server=; }
export PGCONNECT_TIMEOUT=10 PGDATABASE=diligence PGUSER=ann PGHOST=127.0.0.1
start
PGPORT=${postgres##*:} "$here/psql.sh"
PGPORT=${postgres##*:} "$here/pgbench.sh"
POSTGRES=$postgres HTTP=$http "$venv/bin/python" -u "$here/clients.py"
POSTGRES=$postgres "$venv/bin/python" -u "$here/startup.py"
POSTGRES=$postgres "$venv/bin/python" -u "$here/strangers.py"
POSTGRES=$postgres "$venv/bin/python" -u "$here/half_closed.py"
MODE=plain FLIGHT=$flight "$venv/bin/python" -u "$here/flight.py"
jdbc plain "$postgres"
stop
start --users "$work/users.toml"
POSTGRES=$postgres HTTP=$http "$venv/bin/python" -u "$here/passwords.py"
MODE=password FLIGHT=$flight "$venv/bin/python" -u "$here/flight.py"
jdbc password "$postgres"
POSTGRES=$postgres HTTP=$http "$venv/bin/python" -u "$here/roles.py"
POSTGRES=$postgres HTTP=$http "$venv/bin/python" -u "$here/grants.py"
stop
start --heavy-max 1 --queue-max 2
POSTGRES=$postgres HTTP=$http "$venv/bin/python" -u "$here/lanes.py"
stop
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
start --tls-certificate "$work/cert.pem" --tls-key "$work/key.pem"
POSTGRES=$postgres CERTIFICATE=$work/cert.pem "$venv/bin/python" -u "$here/encryption.py"
MODE=encrypted FLIGHT=$flight CERTIFICATE=$work/cert.pem "$venv/bin/python" -u "$here/flight.py"
"$venv/bin/python" -u "$here/killed.py" "$binary" "$work/killed" "${DILIGENCE_KILLS:-5}"
jdbc encrypted "$postgres" "$work/cert.pem"
DILIGENCE=$binary POSTGRES=$postgres CERTIFICATE=$work/cert.pem "$here/shell.sh"
stop
echo "all clients are served"
