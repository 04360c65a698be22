"""psycopg, asyncpg, SQLAlchemy and HTTP against a server without users."""
import asyncio, datetime, decimal, os, threading, time, uuid
import asyncpg, psycopg, requests, sqlalchemy

host, port = os.environ["POSTGRES"].rsplit(":", 1)
http = os.environ["HTTP"]
endless = "SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)"
dsn = f"host={host} port={port} user=ann dbname=diligence"


def psycopg_types():
    values = [
        ("SELECT %s::bigint", 2**40), ("SELECT %s::int", -5), ("SELECT %s::smallint", 7), ("SELECT %s::text", "a'b\\"),
        ("SELECT %s::double", 0.1), ("SELECT %s::boolean", True), ("SELECT %s::date", datetime.date(2024, 2, 29)),
        ("SELECT %s::timestamp", datetime.datetime(2024, 2, 29, 12, 30, 1, 5)),
        ("SELECT %s::bytea", b"\x00\xff"), ("SELECT %s::numeric(20,5)", decimal.Decimal("-12345.67800")),
        ("SELECT %s::bigint", None), ("SELECT %s::bigint[]", [1, None, 3]), ("SELECT %s::text[]", ["a b", 'q"', None]),
    ]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                for sql, value in values:
                    found = cursor.execute(sql, (value,)).fetchone()[0]
                    assert found == value, (binary, sql, value, found)
                found = cursor.execute("SELECT %b::timestamptz AS t", (datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),)).fetchone()[0]
                assert found == datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), found
                assert cursor.execute("SELECT interval '1 month 2 days'").fetchone()[0] == datetime.timedelta(days=32)


def psycopg_sessions():
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS p (a BIGINT, b TEXT)")
        with connection.cursor() as cursor:
            with cursor.copy("COPY p (a, b) FROM STDIN") as copy:
                for row in [(1, "x\ty"), (2, None), (3, "é")]:
                    copy.write_row(row)
            assert cursor.execute("SELECT a, b FROM p ORDER BY a").fetchall() == [(1, "x\ty"), (2, None), (3, "é")]
            with cursor.copy("COPY p TO STDOUT (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "text"])
                assert sorted(copy.rows())[0] == (1, "x\ty")
            cursor.executemany("INSERT INTO p VALUES (%s, %s)", [(4, "d"), (5, "e")])
            assert cursor.execute("SELECT count(*) FROM p").fetchone() == (5,)
            for _ in range(8):  # the driver prepares after five
                assert cursor.execute("SELECT b FROM p WHERE a = %s", (3,)).fetchone() == ("é",)
        hits = connection.execute("SELECT done_total FROM system.server WHERE stage = 'plan cache'").fetchone()[0]
        assert hits > 0, hits
        try:
            connection.execute("SELECT 1/0 FROM p")
            raise AssertionError("divided by zero")
        except psycopg.errors.DivisionByZero:
            pass
        connection.execute("DROP TABLE p")
    with psycopg.connect(dsn) as connection:  # a transaction around all
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.execute("CREATE TABLE q (a BIGINT)")
        connection.cursor().executemany("INSERT INTO q VALUES (%s)", [(1,), (2,)])
        assert connection.execute("UPDATE q SET a = a + 10 WHERE a = 1").rowcount == 1
        with psycopg.connect(dsn, autocommit=True) as other:
            assert other.execute("SELECT to_regclass('q')").fetchone() == (None,)
        connection.commit()
        assert connection.execute("SELECT sum(a)::int FROM q").fetchone() == (13,)
        connection.execute("DELETE FROM q")
        connection.rollback()
        with connection.transaction(force_rollback=True):
            assert connection.execute("DELETE FROM q WHERE a < 10").rowcount == 1
            with connection.transaction():
                connection.execute("INSERT INTO q VALUES (100)")
        assert connection.execute("SELECT sum(a)::int FROM q").fetchone() == (13,)
        connection.execute("DROP TABLE q")
        connection.commit()
        try:
            connection.execute("SELECT nothing")
        except psycopg.errors.UndefinedColumn:
            pass
        try:
            connection.execute("SELECT 1")
            raise AssertionError("went on in a failed transaction")
        except psycopg.errors.InFailedSqlTransaction:
            connection.rollback()
        with connection.cursor("named") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT * FROM generate_series(1::BIGINT, 1000) AS g(value)")
            assert sum(row[0] for row in cursor) == 500500


def cancel():
    with psycopg.connect(dsn, autocommit=True) as connection, psycopg.connect(dsn, autocommit=True) as other:
        running = "SELECT count(*) FROM system.queries WHERE state = 'running' AND statement LIKE '%BIGINT, 100000) b(value)%' AND statement NOT LIKE '%system%'"

        def cancel_it():
            while other.execute(running).fetchone()[0] == 0:
                time.sleep(0.02)
            connection.cancel()

        threading.Thread(target=cancel_it, daemon=True).start()
        began = time.time()
        try:
            connection.execute("SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)")
            raise AssertionError("was not cancelled")
        except psycopg.errors.QueryCanceled:
            assert time.time() - began < 10
        assert connection.execute("SELECT 1").fetchone() == (1,)


def slow_reader():
    """A client that does not read holds only its session, and one that leaves cancels its query."""
    slow = psycopg.connect(dsn, autocommit=True)
    slow.pgconn.send_query(b"SELECT * FROM generate_series(1::BIGINT, 50000000) AS g(value)")
    with psycopg.connect(dsn, autocommit=True) as other:
        # Its query runs until there is no room for its rows, and then does nothing more.
        work, looks = None, 0
        for _ in range(300):
            seen = other.execute("SELECT worked_us FROM system.queries WHERE state = 'running' AND statement LIKE '%50000000%' AND statement NOT LIKE '%system%'").fetchone()
            looks = looks + 1 if seen and seen == work else 0
            work = seen
            if looks == 3:
                break
            time.sleep(0.1)
        assert looks == 3, "the query of a client that does not read works on"
        began = time.time()
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert time.time() - began < 5
        slow.close()
        for _ in range(100):
            running = other.execute("SELECT count(*) FROM system.queries WHERE state = 'running' AND statement LIKE '%50000000%' AND statement NOT LIKE '%system%'").fetchone()[0]
            if running == 0:
                return
            time.sleep(0.1)
        raise AssertionError("the query of a client that left still runs")


async def asyncpg_all():
    connection = await asyncpg.connect(host=host, port=int(port), user="ann", database="diligence")
    assert await connection.fetchval("SELECT $1::bigint + 1", 41) == 42
    assert await connection.fetchval("SELECT name FROM items WHERE id = $1", 2) == "two"
    row = await connection.fetchrow("SELECT 1::smallint AS a, 'x'::text AS b, 1.5::numeric(5,2) AS c, DATE '2024-01-01' AS d, true AS e, [1,2] AS f")
    assert dict(row) == {"a": 1, "b": "x", "c": decimal.Decimal("1.50"), "d": datetime.date(2024, 1, 1), "e": True, "f": [1, 2]}, row
    statement = await connection.prepare("SELECT * FROM items WHERE id >= $1 ORDER BY id")
    assert [len(await statement.fetch(n)) for n in (1, 2, 4)] == [3, 2, 0]
    async with connection.transaction():
        seen = [record[0] async for record in connection.cursor("SELECT * FROM generate_series(1::BIGINT, 250) AS g(value)", prefetch=50)]
        assert len(seen) == 250
        cursor = await connection.cursor("SELECT * FROM generate_series(1::BIGINT, 250) AS g(value)")
        assert [len(await cursor.fetch(2)), await cursor.forward(3), (await cursor.fetchrow())[0]] == [2, 3, 6]
    assert await connection.fetchval("SELECT $1::int[]", [[1, 2], [3, 4]]) == [[1, 2], [3, 4]]
    assert await connection.fetchval("SELECT array_agg(row(1, 'a'::text))") == [(1, "a")]
    await connection.execute("CREATE TABLE c (a BIGINT, b TEXT, c DOUBLE)")
    await connection.copy_records_to_table("c", records=[(1, "x", 0.5), (2, None, None)])
    assert [tuple(record) for record in await connection.fetch("SELECT * FROM c ORDER BY a")] == [(1, "x", 0.5), (2, None, None)]
    await connection.execute("DROP TABLE c")
    try:
        await connection.fetch("SELECT * FROM nowhere")
        raise AssertionError("found nowhere")
    except asyncpg.UndefinedTableError:
        pass
    await connection.close()


def alchemy():
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ann@{host}:{port}/diligence", isolation_level="AUTOCOMMIT")
    inspector = sqlalchemy.inspect(engine)
    assert "items" in inspector.get_table_names(), inspector.get_table_names()
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("items")}
    assert list(columns) == ["id", "name", "price"] and columns["id"] == "BIGINT", columns
    assert inspector.get_pk_constraint("items")["constrained_columns"] == []
    assert inspector.get_indexes("items") == [] and inspector.get_foreign_keys("items") == []
    with engine.connect() as connection:
        table = sqlalchemy.Table("items", sqlalchemy.MetaData(), autoload_with=engine)
        found = connection.execute(sqlalchemy.select(table.c.name).where(table.c.id == 2)).scalar()
        assert found == "two", found


def web():
    def sql(text, accept="application/json", **more):
        return requests.post(f"{http}/v1/sql", json={"sql": text, **more}, headers={"Accept": accept})
    answer = sql("SELECT id, name FROM items WHERE id >= $1 ORDER BY id", parameters=[2])
    assert answer.json()["rows"] == [[2, "two"], [3, None]], answer.text
    assert sql("SELECT 1 AS a, 'x,y' AS b", "text/csv").text == 'a,b\n1,"x,y"\n'
    assert sql("SELECT 1", "application/vnd.apache.arrow.stream").content[:4] == b"\xff\xff\xff\xff"
    assert sql("SELECT nothing FROM items").json()["error"]["code"] == "42703"
    assert sql("SELECT nothing FROM items").status_code == 400
    assert sql("CREATE TABLE w AS SELECT 1 AS a").json() == {"command": "CREATE TABLE AS", "rows": 1}
    assert requests.post(f"{http}/v1/sql", data="SELECT 1").status_code == 400
    assert requests.post(f"{http}/v1/sql", data=b"x" * ((64 << 20) + 1), headers={"Content-Type": "application/sql"}).status_code == 413
    assert sql(endless, timeout_ms=100).json()["error"]["code"] == "57014"
    assert requests.get(f"{http}/metrics", headers={"Host": "evil.example"}).status_code == 403
    large = sql("SELECT * FROM generate_series(1::BIGINT, 200000) AS g(value)")
    assert large.json()["row_count"] == 200000 and large.headers["Content-Encoding"] in ("gzip", "zstd")
    answer = requests.get(f"{http}/api/items", params={"least": 2})
    assert [row[0] for row in answer.json()["rows"]] == [2], answer.text
    tag = answer.headers["ETag"]
    again = requests.get(f"{http}/api/items", params={"least": 2}, headers={"If-None-Match": tag})
    assert again.status_code == 304 and again.content == b""
    assert requests.get(f"{http}/api/items", params={"least": 1}, headers={"If-None-Match": tag}).status_code == 200
    assert requests.get(f"{http}/api/items", params={"least": "x"}).status_code == 400
    page = requests.get(f"{http}/api/items", headers={"Accept": "text/html"})
    assert "<li>1: one</li>" in page.text, page.text
    assert "/api/items" in requests.get(f"{http}/openapi.json").json()["paths"]
    assert "diligence_stage_done_total{stage=\"execute\"}" in requests.get(f"{http}/metrics").text
    assert requests.get(f"{http}/healthz").text == "ok\n" and requests.get(f"{http}/readyz").status_code == 200
    running = threading.Thread(target=lambda: results.append(sql("SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, 100000) b(value)").status_code))
    results = []
    running.start()
    for _ in range(100):
        ids = [q["id"] for q in requests.get(f"{http}/v1/queries").json()["queries"] if q["state"] == "running" and "100000" in q["statement"]]
        if ids:
            break
        time.sleep(0.1)
    assert requests.delete(f"{http}/v1/queries/{ids[0]}").status_code == 204
    running.join(20)
    assert results == [499], results


for test in (psycopg_types, psycopg_sessions, cancel, lambda: asyncio.run(asyncpg_all()), alchemy, web, slow_reader):
    test()
    print("ok", getattr(test, "__name__", "?"))
