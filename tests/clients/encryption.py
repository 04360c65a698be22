"""TLS: required where there is a certificate, never silently in the clear."""
import os
import psycopg

host, port = os.environ["POSTGRES"].rsplit(":", 1)


def connect(**more):
    return psycopg.connect(host=host, port=port, user="ann", dbname="diligence", **more)


with connect(sslmode="require") as connection:
    assert connection.pgconn.ssl_in_use
    assert connection.execute("SELECT count(*) FROM generate_series(1::BIGINT, 100000) AS g(value)").fetchone() == (100000,)
with psycopg.connect(host="localhost", hostaddr=host, port=port, user="ann", dbname="diligence", sslmode="verify-full", sslrootcert=os.environ["CERTIFICATE"]) as connection:
    assert connection.execute("SELECT 1").fetchone() == (1,)
try:
    connect(sslmode="disable")
    raise AssertionError("served in the clear")
except psycopg.OperationalError as error:
    assert "encrypted" in str(error), error
print("ok encryption")
