"""Roles that statements have made: they log in with their passwords, over both doors, and have what was granted to them."""
import os, select
import psycopg, requests

host, port = os.environ["POSTGRES"].rsplit(":", 1)
http = os.environ["HTTP"]


def connect(user, password):
    return psycopg.connect(host=host, port=port, user=user, password=password, dbname="diligence", autocommit=True)


def refused(connection, statement, code="42501"):
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        assert error.sqlstate == code, (statement, error.sqlstate, str(error))
        return
    raise AssertionError(f"was done: {statement}")


ann = connect("ann", "secret")
ann.execute("CREATE TABLE ledger (id INT PRIMARY KEY, amount INT)")
ann.execute("INSERT INTO ledger VALUES (1, 10)")
ann.execute("CREATE VIEW totals AS SELECT sum(amount) AS total FROM ledger")
ann.execute("CREATE ROLE clerks")
ann.execute("CREATE USER ben PASSWORD 'words' IN ROLE clerks")
ann.execute("GRANT SELECT ON totals TO clerks")
try:
    connect("ben", "wrong")
    raise AssertionError("a wrong password was taken")
except psycopg.OperationalError:
    pass
ben = connect("ben", "words")
assert ben.execute("SELECT current_user, session_user").fetchone() == ("ben", "ben")
assert ben.execute("SELECT total FROM totals").fetchone() == (10,)
for _ in range(2):  # a plan that another user made shows no more
    ann.execute("SELECT amount FROM ledger")
    refused(ben, "SELECT amount FROM ledger")
refused(ben, "INSERT INTO ledger VALUES (2, 20)")
refused(ben, "CREATE ROLE other")
refused(ben, "COPY totals TO '/tmp/x.csv'")
answer = requests.post(f"{http}/v1/sql", json={"sql": "SELECT total FROM totals"}, auth=("ben", "words"))
assert answer.json()["rows"][0][0] in (10, "10"), answer.text
answer = requests.post(f"{http}/v1/sql", json={"sql": "SELECT amount FROM ledger"}, auth=("ben", "words"))
assert answer.status_code == 403, answer.text
assert requests.post(f"{http}/v1/sql", json={"sql": "SELECT 1"}, auth=("ben", "wrong")).status_code == 401
# A prepared statement knows what was granted meanwhile, and what was taken away.
ann.execute("GRANT INSERT ON ledger TO ben")
ben.execute("INSERT INTO ledger VALUES (%s, %s)", (2, 20), prepare=True)
ann.execute("REVOKE INSERT ON ledger FROM ben")
try:
    ben.execute("INSERT INTO ledger VALUES (%s, %s)", (3, 30), prepare=True)
    raise AssertionError("a prepared statement went around REVOKE")
except psycopg.errors.InsufficientPrivilege:
    pass
# What is notified comes to who listens.
ben.execute("LISTEN news")
ann.execute("NOTIFY news, 'hello'")
select.select([ben.fileno()], [], [], 10)
notified = [(n.channel, n.payload) for n in ben.notifies(timeout=5, stop_after=1)]
assert notified == [("news", "hello")], notified
ben.close()
ann.execute("DROP OWNED BY ben, clerks")
ann.execute("DROP ROLE ben, clerks")
ann.execute("DROP VIEW totals")
ann.execute("DROP TABLE ledger")
print("roles of the database have what was granted to them")
