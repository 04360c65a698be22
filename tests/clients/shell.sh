#!/bin/bash
# `diligence sql --connect` over an encrypted connection: whom it trusts.
# Wants DILIGENCE (the program), POSTGRES (host:port) and CERTIFICATE (for localhost)
set -euo pipefail
port=${POSTGRES##*:}
ask() { "$DILIGENCE" sql --format csv --connect "$1" "SELECT count(*) AS n FROM generate_series(1::BIGINT, 100000) AS g(value)" 2>&1; }
good=$'n\n100000'
[ "$(ask "postgres://127.0.0.1:$port")" = "$good" ]
[ "$(ask "postgres://127.0.0.1:$port?sslmode=require")" = "$good" ]
[ "$(ask "postgres://localhost:$port?sslrootcert=$CERTIFICATE")" = "$good" ]
refused() { ! text=$(ask "$1") || { echo "not refused: $1"; exit 1; }; grep -q "$2" <<< "$text" || { echo "$1: $text"; exit 1; }; }
refused "postgres://127.0.0.1:$port?sslmode=disable" "encrypted"
refused "postgres://127.0.0.1:$port?sslrootcert=$CERTIFICATE" "certificate"
refused "postgres://localhost:$port?sslmode=verify-full" "certificate"
echo "ok the shell, encrypted"
