"""ADBC's Flight SQL driver. MODE says what the server is like: plain, password, or encrypted."""
import contextlib, datetime, decimal, os, threading, time
import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager as adbc
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

uri = os.environ["FLIGHT"]
endless = "SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)"


def connect(user=None, password=None, **more):
    """A connection in autocommit mode; with autocommit=False in a transaction."""
    options = {"autocommit": True, **more}
    names = {"username": user, "password": password}
    return flight_sql.connect(uri, db_kwargs={**{k: v for k, v in names.items() if v}, **options.pop("database", {})}, **options)


def rows(connection, sql, values=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, values) if values else cursor.execute(sql)
        return cursor.fetchall()


@contextlib.contextmanager
def refused(kind, sqlstate):
    """What is within fails with that SQLSTATE."""
    try:
        yield
    except kind as error:
        assert f"(SQLSTATE {sqlstate})" in str(error), error
        return
    raise AssertionError(f"did not fail with {sqlstate}")


def types():
    with connect() as connection:
        day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 1, 5)
        sql = "SELECT 7::smallint, 8, 9::bigint, 0.5::real, 0.1::double precision, 'a''b', true, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:01.000005', '\\x00ff'::bytea, 1.50::numeric(5,2), NULL::int, ARRAY[1, NULL, 3]"
        expected = (7, 8, 9, 0.5, 0.1, "a'b", True, day, moment, b"\x00\xff", decimal.Decimal("1.50"), None, [1, None, 3])
        found = rows(connection, sql)[0]
        assert tuple(getattr(value, "to_pydatetime", lambda: value)() for value in found) == expected, found
        for value, sql_type in [(5, "int"), (2**40, "bigint"), ("x", "text"), (0.25, "double precision"), (True, "boolean"), (day, "date"), (b"\x01", "bytea"), (decimal.Decimal("-12.50"), "numeric(10,2)"), (None, "int")]:
            assert rows(connection, f"SELECT $1::{sql_type}", (value,)) == [(value,)], (value, sql_type)
        # What the statement leaves open, the value decides; where it does not, the value is read as what is wanted.
        assert rows(connection, "SELECT $1", (42,)) == [(42,)]
        assert rows(connection, "SELECT DATE '2024-02-29' = $1", ("2024-02-29",)) == [(True,)]
        with refused(flight_sql.Error, "22P02"):
            rows(connection, "SELECT DATE '2024-02-29' = $1", ("soon",))


def statements():
    with connect() as connection, connect() as other:
        # Without rows they are done when execute returns, whether or not anything is fetched.
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE sent (a INT PRIMARY KEY, b TEXT)")
            assert rows(other, "SELECT count(*) FROM sent") == [(0,)]
            cursor.execute("INSERT INTO sent VALUES (1, 'x'), (2, NULL)")
            assert rows(other, "SELECT a, b FROM sent ORDER BY a") == [(1, "x"), (2, None)]
            cursor.executemany("INSERT INTO sent VALUES ($1, $2)", [(number, str(number)) for number in range(10, 1010)])
            assert cursor.rowcount == 1000, cursor.rowcount
            with refused(flight_sql.Error, "23505"):
                cursor.executemany("INSERT INTO sent VALUES ($1, $2)", [(5000, "new"), (1, "there already")])
        assert rows(other, "SELECT count(*), max(a) FROM sent") == [(1002, 1009)]
        assert rows(connection, "INSERT INTO sent VALUES (2000, 'r') RETURNING a, b") == [(2000, "r")]
        assert rows(connection, "UPDATE sent SET b = $2 WHERE a = $1 RETURNING b", (1, "y")) == [("y",)]
        for sql, kind, code in [
            ("SELECT nothing FROM sent", adbc.ProgrammingError, "42703"),
            ("SELECT * FROM nope", adbc.ProgrammingError, "42P01"),
            ("SELEC 1", adbc.ProgrammingError, "42601"),
            ("SELECT 1 / (a - a) FROM sent", adbc.Error, "22012"),
            ("INSERT INTO sent VALUES (1, 'again')", adbc.Error, "23505"),
            ("CREATE TABLE sent (a INT)", adbc.ProgrammingError, "42P07"),
            ("COPY sent TO STDOUT", adbc.NotSupportedError, "0A000"),
            ("SELECT 1; SELECT 2", adbc.ProgrammingError, "42601"),
        ]:
            with refused(kind, code):
                rows(connection, sql)
        rows(connection, "DROP TABLE sent")


def transactions():
    with connect() as other, connect(autocommit=False) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE q (a INT)")
            cursor.execute("INSERT INTO q VALUES (1)")
            cursor.adbc_ingest("q", pyarrow.table({"a": [2, 3]}), mode="append")
        with refused(adbc.ProgrammingError, "42P01"):
            rows(other, "SELECT * FROM q")
        connection.commit()
        assert rows(other, "SELECT sum(a) FROM q") == [(6,)]
        rows(connection, "DELETE FROM q")
        connection.rollback()
        assert rows(connection, "SELECT sum(a) FROM q") == [(6,)]
        with refused(adbc.Error, "22012"):
            rows(connection, "SELECT 1 / (a - a) FROM q")
        with refused(adbc.Error, "25P02"):
            rows(connection, "SELECT 1")
        connection.rollback()
        rows(connection, "DROP TABLE q")
        connection.commit()
    with connect(autocommit=False) as connection:
        with refused(adbc.Error, "22012"):
            rows(connection, "SELECT 1 / (i - i) FROM generate_series(1, 2) g(i)")
        # It says that nothing was kept.
        with refused(adbc.Error, "25P02"):
            connection.commit()
    with connect() as connection:
        for sql in ("BEGIN", "CREATE TABLE q (a INT)", "ROLLBACK"):
            rows(connection, sql)
        with refused(adbc.ProgrammingError, "42P01"):
            rows(connection, "SELECT * FROM q")


def ingestion():
    count = 200_000
    table = pyarrow.table({
        "i": pyarrow.array(range(count), pyarrow.int64()),
        "u": pyarrow.array([number % 200 for number in range(count)], pyarrow.uint8()),
        "f": pyarrow.array([number / 4 for number in range(count)], pyarrow.float64()),
        "s": pyarrow.array([None if number % 3 == 0 else str(number) for number in range(count)]),
        "c": pyarrow.array([f"kind {number % 5}" for number in range(count)]).dictionary_encode(),
        "d": pyarrow.array([datetime.date(2024, 1, 1)] * count),
        "t": pyarrow.array([datetime.datetime(2024, 1, 1, 12)] * count, pyarrow.timestamp("us")),
        "l": pyarrow.array([[number, None] for number in range(count)]),
        "n": pyarrow.array([decimal.Decimal("1.25")] * count),
    })
    expected = [(count, count * (count - 1) // 2, sum(1 for number in range(count) if number % 3), 5, decimal.Decimal("1.25"))]
    totals = "SELECT count(*), sum(i)::bigint, count(s), count(DISTINCT c), max(n) FROM "
    with connect() as connection, connection.cursor() as cursor:
        with refused(adbc.ProgrammingError, "42P01"):
            cursor.adbc_ingest("arrived", table, mode="append")
        assert cursor.adbc_ingest("arrived", table, mode="create") == count
        assert rows(connection, totals + "arrived") == expected
        with refused(adbc.ProgrammingError, "42P07"):
            cursor.adbc_ingest("arrived", table, mode="create")
        # In batches, as a stream.
        assert cursor.adbc_ingest("arrived", table.to_reader(max_chunksize=1000), mode="create_append") == count
        assert rows(connection, "SELECT count(*) FROM arrived") == [(2 * count,)]
        assert cursor.adbc_ingest("arrived", table, mode="replace") == count
        assert rows(connection, totals + "arrived") == expected
        cursor.execute("SELECT * FROM arrived WHERE i < 1000 ORDER BY i")
        back = cursor.fetch_arrow_table()
        for name in ("i", "f", "s", "l", "n"):
            assert back.column(name).to_pylist() == table.column(name).slice(0, 1000).to_pylist(), name
        assert cursor.adbc_ingest("passing", table, mode="create", temporary=True) == count
        assert rows(connection, totals + "passing") == expected
        rows(connection, "CREATE SCHEMA inside")
        assert cursor.adbc_ingest("arrived", table.slice(0, 10), mode="create", db_schema_name="inside") == 10
        assert rows(connection, "SELECT count(*) FROM inside.arrived") == [(10,)]
        # All or none.
        rows(connection, "CREATE TABLE few (i INT CHECK (i < 100000))")
        # The cursor of before keeps its schema.
        with connection.cursor() as another, refused(adbc.Error, "23514"):
            another.adbc_ingest("few", table.select(["i"]).to_reader(max_chunksize=1000), mode="append")
        assert rows(connection, "SELECT count(*) FROM few") == [(0,)]
        for name in ("arrived", "inside.arrived", "few"):
            rows(connection, f"DROP TABLE {name}")
        rows(connection, "DROP SCHEMA inside")


def metadata():
    with connect() as connection:
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "Diligence" and info["vendor_version"], info
        assert "TABLE" in connection.adbc_get_table_types()
        assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("diligence", "public")
        rows(connection, "CREATE TABLE m (a INT, b TEXT, c NUMERIC(10, 2))")
        objects = connection.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="m").read_all().to_pylist()
        found = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
        assert [(table["table_name"], table["table_type"]) for table in found] == [("m", "TABLE")], found
        assert [column["column_name"] for column in found[0]["table_columns"]] == ["a", "b", "c"], found
        schema = connection.adbc_get_table_schema("m", db_schema_filter="public")
        assert schema.names == ["a", "b", "c"] and schema.field("a").type == pyarrow.int32(), schema
        with connection.cursor() as cursor:
            assert cursor.adbc_prepare("SELECT a FROM m WHERE b = $1").names == ["$1"]
            assert cursor.adbc_execute_schema("SELECT a, c FROM m").names == ["a", "c"]
        rows(connection, "CREATE SCHEMA elsewhere")
        connection.adbc_current_db_schema = "elsewhere"
        rows(connection, "CREATE TABLE m (other INT)")
        assert rows(connection, "SELECT count(*) FROM elsewhere.m") == [(0,)]
        for sql in ("DROP TABLE elsewhere.m", "DROP SCHEMA elsewhere", "DROP TABLE public.m"):
            rows(connection, sql)


def running(connection):
    sql = "SELECT count(*) FROM system.queries WHERE state = 'running' AND statement NOT LIKE '%system.queries%'"
    return rows(connection, sql)[0][0]


def ended(connection):
    for _ in range(100):
        if running(connection) == 0:
            return
        time.sleep(0.1)
    raise AssertionError("a query still runs that nobody waits for")


def streams():
    with connect() as connection, connect() as other:
        with connection.cursor() as cursor:
            cursor.execute("SELECT i, repeat('x', 100) FROM generate_series(1, 2000000) g(i)")
            count = sum(batch.num_rows for batch in cursor.fetch_record_batch())
            assert count == 2_000_000, count
        with connection.cursor() as cursor:  # rows that are larger than a message
            cursor.execute("SELECT repeat('x', 6000000) FROM generate_series(1, 3)")
            assert [len(row[0]) for row in cursor.fetchall()] == [6_000_000] * 3
        # A client that does not read keeps nobody waiting, and ends its query when it leaves.
        slow = connection.cursor()
        slow.execute("SELECT i FROM generate_series(1::bigint, 1000000000) g(i)")
        began = time.time()
        assert rows(other, "SELECT 1") == [(1,)] and time.time() - began < 5
        slow.close()
        ended(other)
        with connection.cursor() as cursor:
            threading.Timer(0.3, cursor.adbc_cancel).start()
            began = time.time()
            try:
                cursor.execute(endless)
                cursor.fetchall()
                raise AssertionError("was not cancelled")
            except adbc.Error:
                assert time.time() - began < 10
        ended(other)
        rows(connection, "SET statement_timeout = '100ms'")
        with refused(adbc.Error, "57014"):
            rows(connection, endless)


def plain():
    for part in (types, statements, transactions, ingestion, metadata, streams):
        part()
    with connect("ann", "whatever") as connection:
        assert rows(connection, "SELECT current_user") == [("ann",)]
        assert rows(connection, "SELECT door, user_name FROM system.sessions WHERE user_name = 'ann'") == [("flight", "ann")]


def password():
    with connect("ann", "secret") as connection:
        assert rows(connection, "SELECT current_user") == [("ann",)]
        rows(connection, "CREATE TEMP TABLE own (a INT)")
        assert rows(connection, "SELECT count(*) FROM own") == [(0,)]
    for user, secret in (("ann", "wrong"), ("eve", "secret")):
        with refused(adbc.Error, "28P01"):
            connect(user, secret)
    with refused(adbc.Error, "28000"):
        rows(connect(), "SELECT 1")
    with connect("cat", "cat") as cat, cat.cursor() as cursor:
        assert rows(cat, "SELECT count(*) FROM items") == [(3,)]
        for sql in ("CREATE TABLE x (a INT)", "INSERT INTO items VALUES (1)"):
            with refused(adbc.Error, "42501"):
                rows(cat, sql)
        with refused(adbc.Error, "42501"):
            cursor.adbc_ingest("x", pyarrow.table({"a": [1]}), mode="create")
    with connect("dan", "dan") as dan:
        with refused(adbc.Error, "54000"):
            rows(dan, "SELECT i FROM generate_series(1, 2000) g(i)")
        with refused(adbc.Error, "57014"):
            rows(dan, endless)


def encrypted():
    with open(os.environ["CERTIFICATE"]) as file:
        trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: file.read(), DatabaseOptions.TLS_OVERRIDE_HOSTNAME.value: "localhost"}
    with connect(database=trusted) as connection:
        assert rows(connection, "SELECT count(*) FROM generate_series(1, 100000)") == [(100000,)]
    for database in ({}, {DatabaseOptions.TLS_OVERRIDE_HOSTNAME.value: "localhost"}):
        try:
            rows(connect(database=database), "SELECT 1")
            raise AssertionError("trusted a certificate that nobody vouches for")
        except adbc.Error:
            pass
    try:
        with flight_sql.connect(uri.replace("grpc+tls", "grpc"), autocommit=True) as connection:
            rows(connection, "SELECT 1")
        raise AssertionError("served in the clear")
    except adbc.Error:
        pass


{"plain": plain, "password": password, "encrypted": encrypted}[os.environ["MODE"]]()
print(f"ok flight sql, {os.environ['MODE']}")
