"""Rights and limits of roles: what a user may not do is refused whichever way he tries (42501 and 403), and limits hold."""
import os, threading, time
import psycopg, requests

host, port = os.environ["POSTGRES"].rsplit(":", 1)
http = os.environ["HTTP"]
passwords = {"ann": "secret", "cat": "cat", "dan": "dan", "fay": "fay"}
endless = "SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)"


def connect(user):
    return psycopg.connect(host=host, port=port, user=user, password=passwords[user], dbname="diligence", autocommit=True)


def refused(connection, statement, code):
    """Fails unless the statement does, with this code, or one that begins like it; gives the message."""
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        assert error.sqlstate.startswith(code), (statement, error.sqlstate, str(error))
        return str(error)
    raise AssertionError(f"was done: {statement}")


def sql(user, statement):
    return requests.post(f"{http}/v1/sql", json={"sql": statement}, auth=(user, passwords[user]))


def rights(ann, cat):
    ann.execute("CREATE TABLE secret AS SELECT 42 AS a")
    ann.execute("CREATE VIEW v AS SELECT a FROM secret")
    assert cat.execute("SELECT count(*) FROM items").fetchone() == (3,)
    assert ann.execute("SELECT a FROM secret").fetchone() == (42,)  # its plan is remembered now
    assert sql("ann", "SELECT a FROM secret").json()["rows"] == [[42]]
    reading = [
        "SELECT a FROM secret", "SELECT a FROM SECRET", "SELECT a FROM public.secret", "SELECT a FROM diligence.public.secret",
        "SELECT * FROM v", "WITH x AS (SELECT * FROM secret) SELECT * FROM x",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM secret)", "SELECT (SELECT a FROM secret)", "SELECT id FROM items UNION ALL SELECT a FROM secret",
        "EXPLAIN SELECT * FROM secret", "EXPLAIN ANALYZE SELECT * FROM v", "DESCRIBE secret", "PREPARE p AS SELECT a FROM secret",
        "COPY secret TO STDOUT", "COPY (SELECT * FROM v) TO STDOUT", "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM secret",
        "CREATE VIEW w AS SELECT * FROM secret", "CREATE TABLE scratch.w AS SELECT * FROM secret", "SELECT * FROM system.queries",
        "SELECT * FROM system.sessions", "SELECT * FROM scratch.hidden",
    ]
    writing = [
        "INSERT INTO items VALUES (9, 'x', 1.0)", "INSERT INTO secret VALUES (1)", "TRUNCATE secret", "DROP TABLE secret", "DROP TABLE items",
        "DROP VIEW v", "CREATE TABLE mine (a BIGINT)", "CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "CREATE OR REPLACE TABLE items AS SELECT 1 AS a",
        "CREATE SCHEMA mine", "DROP SCHEMA scratch CASCADE", "SET memory = '16MB'", "SET stage_policy = 'fcfs'",
    ]
    ann.execute("CREATE SCHEMA scratch")
    ann.execute("CREATE TABLE scratch.hidden AS SELECT 1 AS a")
    for statement in reading + writing:
        for _ in range(2):  # a refusal is not remembered as anything else
            refused(cat, statement, "42501")
    for statement in reading[:6] + writing[:4]:
        answer = sql("cat", statement)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "42501"), (statement, answer.text)
    try:
        with cat.cursor().copy("COPY secret FROM STDIN") as copy:
            copy.write_row((1,))
        raise AssertionError("copied into a table that is not his")
    except psycopg.errors.InsufficientPrivilege:
        pass
    # Neither listed nor proposed.
    listed = {row[0] for row in cat.execute("SELECT table_name FROM information_schema.tables WHERE table_schema IN ('public', 'scratch')")}
    assert listed == {"items", "v"}, listed
    assert "secret" not in refused(cat, "SELECT * FROM secre", "42P01")
    # A prepared statement is checked when it runs: the table may have been another one when it was prepared.
    ann.execute("CREATE VIEW moving AS SELECT CAST(id AS INT) AS id FROM items")
    assert len(cat.execute("SELECT id FROM moving", prepare=True).fetchall()) == 3
    ann.execute("CREATE OR REPLACE VIEW moving AS SELECT a AS id FROM secret")
    for _ in range(2):
        try:
            cat.execute("SELECT id FROM moving", prepare=True)
            raise AssertionError("a prepared statement went around the rights")
        except psycopg.errors.InsufficientPrivilege:
            pass
    ann.execute("DROP VIEW moving")
    assert ann.execute("SELECT count(*) FROM secret").fetchone() == (1,)
    cat.execute("DISCARD ALL")
    cat.execute("RESET ALL")


def files(cat):
    target = "/tmp/diligence-must-not-be.csv"
    for statement in (f"COPY (SELECT 1) TO '{target}'", "COPY items TO '/tmp/diligence-must-not-be/'", "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc'",
                      "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'http://127.0.0.1:1/x.csv'", f"EXPLAIN COPY (SELECT 1) TO '{target}'"):
        refused(cat, statement, "42501")
    for statement in ("SELECT * FROM '/etc/hosts.csv'", "SELECT * FROM 'http://127.0.0.1:1/x.csv'", "SELECT * FROM \"file:///etc/hosts.csv\"", "SELECT * FROM '/etc/'"):
        refused(cat, statement, "42P01")
    for function in ("read_parquet", "read_csv", "read_json", "read_text", "parquet_metadata", "glob"):
        refused(cat, f"SELECT * FROM {function}('/etc/hosts')", "42")
    assert not os.path.exists(target) and not os.path.exists("/tmp/diligence-must-not-be")


def writes(dan):
    dan.execute("CREATE TABLE scratch.mine AS SELECT id FROM items")
    dan.execute("INSERT INTO scratch.mine VALUES (10)")
    with dan.cursor().copy("COPY scratch.mine FROM STDIN") as copy:
        copy.write_row((11,))
    assert dan.execute("SELECT count(*) FROM scratch.mine").fetchone() == (5,)
    dan.execute("DROP TABLE scratch.mine")
    refused(dan, "CREATE TABLE mine AS SELECT 1 AS a", "42501")


def endpoints():
    ask = lambda user: requests.get(f"{http}/api/items", params={"least": 2}, auth=(user, passwords[user]))
    answer = ask("fay")  # may read no table, but this endpoint
    assert [row[0] for row in answer.json()["rows"]] == [2], answer.text
    tag = requests.get(f"{http}/api/items", params={"least": 2}, auth=("fay", "fay"), headers={"If-None-Match": answer.headers["ETag"]})
    assert tag.status_code == 304
    assert sql("fay", "SELECT * FROM items").status_code == 403
    answer = ask("dan")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "42501"), answer.text


def limits(ann, dan):
    assert len(dan.execute("SELECT * FROM generate_series(1::BIGINT, 1000) AS g(value)").fetchall()) == 1000
    refused(dan, "SELECT * FROM generate_series(1::BIGINT, 1001) AS g(value)", "54000")
    answer = sql("dan", "SELECT * FROM generate_series(1::BIGINT, 1001) AS g(value)")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "54000"), answer.text
    began = time.time()
    refused(dan, endless, "57014")
    assert sql("dan", endless).json()["error"]["code"] == "57014"
    assert time.time() - began < 20
    refused(dan, "SET statement_timeout = '1h'", "22023")
    refused(dan, "SET statement_timeout = 0", "22023")
    dan.execute("SET query_memory = '1GB'")
    assert dan.execute("SHOW query_memory").fetchone() == ("64.0 MiB",)
    assert ann.execute("SHOW query_memory").fetchone() == ("none",)


def queues(ann):
    """A role's own limits: one query at a time, nobody waits."""
    with connect("fay") as first, connect("fay") as second:
        running = threading.Thread(target=refused, args=(first, endless, "57014"))
        running.start()
        for _ in range(100):
            mine = requests.get(f"{http}/v1/queries", auth=("fay", "fay")).json()["queries"]
            if mine:
                break
            time.sleep(0.05)
        assert [query["statement"] for query in mine] == [endless], mine
        refused(second, "SELECT 1", "53300")
        answer = sql("fay", "SELECT 1")
        assert answer.status_code == 503 and answer.headers["Retry-After"], answer.text
        assert ann.execute("SELECT 1").fetchone() == (1,)
        # Others' queries are neither seen nor ended.
        assert requests.get(f"{http}/v1/queries", auth=("cat", "cat")).json()["queries"] == []
        assert requests.delete(f"{http}/v1/queries/{mine[0]['id']}", auth=("cat", "cat")).status_code == 404
        assert requests.delete(f"{http}/v1/queries/{mine[0]['id']}", auth=("fay", "fay")).status_code == 204
        running.join(20)
        assert second.execute("SELECT 1").fetchone() == (1,)


with connect("ann") as ann, connect("cat") as cat, connect("dan") as dan:
    rights(ann, cat)
    files(cat)
    writes(dan)
    endpoints()
    limits(ann, dan)
    queues(ann)
print("ok roles")
