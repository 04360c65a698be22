"""Log-ins: SCRAM over PostgreSQL's protocol, Basic over HTTP, and what users may do with files."""
import os
import psycopg, requests

host, port = os.environ["POSTGRES"].rsplit(":", 1)
http = os.environ["HTTP"]


def connect(user, password):
    return psycopg.connect(host=host, port=port, user=user, password=password, dbname="diligence", autocommit=True)


with connect("ann", "secret") as ann:
    assert ann.execute("SELECT current_user").fetchone() == ("ann",)
    assert ann.pgconn.used_password
for user, password in (("ann", "wrong"), ("eve", "secret"), ("ann", "")):
    try:
        connect(user, password)
        raise AssertionError(f"{user} got in with '{password}'")
    except psycopg.OperationalError as error:
        assert "password" in str(error), error
with connect("bob", "other") as bob:
    for statement in ("COPY (SELECT 1) TO '/tmp/diligence-must-not-be.csv'", "SELECT * FROM '/etc/hosts.csv'", "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc'"):
        try:
            bob.execute(statement)
            raise AssertionError(f"bob may: {statement}")
        except psycopg.Error:
            pass
assert not os.path.exists("/tmp/diligence-must-not-be.csv")
assert requests.get(f"{http}/v1/queries").status_code == 401
assert requests.get(f"{http}/v1/queries", auth=("ann", "wrong")).status_code == 401
assert requests.get(f"{http}/v1/queries", auth=("ann", "secret")).status_code == 200
assert requests.get(f"{http}/healthz").status_code == 200
print("ok passwords")
