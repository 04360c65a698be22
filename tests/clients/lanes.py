"""Cheap and heavy queries: a server that runs one heavy query at a time, and has two wait."""
import itertools, os, threading, time
import psycopg, requests

host, port = os.environ["POSTGRES"].rsplit(":", 1)
http = os.environ["HTTP"]
dsn = f"host={host} port={port} user=ann dbname=diligence"
numbers = itertools.count(100000)
# By its plan as bad as the others.
short = "SELECT count(*) FROM generate_series(1::BIGINT, 1000) a(value), generate_series(1::BIGINT, 1000) b(value)"


def endless():
    """Another one each time: equal ones would share one run, and none would wait."""
    return f"SELECT count(*) FROM generate_series(1::BIGINT, 10000000) a(value), generate_series(1::BIGINT, {next(numbers)}) b(value)"


def connect():
    return psycopg.connect(dsn, autocommit=True)


def until(what, found):
    for _ in range(200):
        if found():
            return
        time.sleep(0.05)
    raise AssertionError(f"did not happen: {what}")


def sql(text):
    return requests.post(f"{http}/v1/sql", json={"sql": text})


def canceled(connection):
    try:
        connection.execute(endless())
        raise AssertionError("was not cancelled")
    except psycopg.errors.QueryCanceled:
        pass


with connect() as first, connect() as second, connect() as cheap:
    notices, answers = [], []
    second.add_notice_handler(lambda notice: notices.append((notice.severity, notice.message_primary)))
    lane = lambda column: cheap.execute(f"SELECT {column} FROM system.server WHERE stage = 'heavy lane'").fetchone()[0]
    running = threading.Thread(target=canceled, args=(first,))
    running.start()
    until("the first one runs", lambda: lane("running") == 1)
    waiting = threading.Thread(target=canceled, args=(second,))
    waiting.start()
    until("the second one waits", lambda: lane("queued") == 1)
    until("it is told so", lambda: notices)
    assert notices[0] == ("NOTICE", "the query waits, 1 of 1 in the line of heavy queries: one runs, and no more may"), notices
    over_http = threading.Thread(target=lambda: answers.append(sql(short)))
    over_http.start()
    until("the third one waits", lambda: lane("queued") == 2)
    rows = cheap.execute("SELECT id, position, reason, statement FROM system.queries WHERE state = 'waiting' ORDER BY position").fetchall()
    assert [row[1:3] for row in rows] == [(place, "of heavy queries: one runs, and no more may") for place in (1, 2)], rows
    assert rows[1][3] == short and all(row[0] < 0 for row in rows), rows
    listed = [query for query in requests.get(f"{http}/v1/queries").json()["queries"] if query["state"] == "waiting"]
    assert [(query["position"], query["id"]) for query in listed] == [(1, rows[0][0]), (2, rows[1][0])], listed
    # No more are taken, and whoever comes is told so.
    with connect() as third:
        try:
            third.execute(endless())
            raise AssertionError("the line is too long")
        except psycopg.errors.TooManyConnections as error:
            assert "1 heavy queries run and 2 wait" in str(error), error
    answer = sql(endless())
    assert (answer.status_code, answer.json()["error"]["code"], answer.headers["Retry-After"]) == (503, "53300", "1"), answer.text
    # Cheap ones go on as if nothing were.
    longest = 0
    for _ in range(50):
        began = time.time()
        assert cheap.execute("SELECT count(*) FROM items").fetchone() == (3,)
        longest = max(longest, time.time() - began)
    assert longest < 2, longest
    assert sql("SELECT 1").headers["Diligence-Queue"] == "cheap"
    # One who waits can be cancelled by its number, and the next one takes his place.
    number = rows[0][0]
    assert requests.delete(f"{http}/v1/queries/{number}").status_code == 204
    waiting.join(20)
    until("the line is shorter", lambda: lane("queued") == 1)
    assert requests.delete(f"{http}/v1/queries/{number}").status_code == 404
    # So can it by its client.
    waiting = threading.Thread(target=canceled, args=(second,))
    waiting.start()
    until("it waits again", lambda: lane("queued") == 2)
    second.cancel()
    waiting.join(20)
    until("the line is shorter again", lambda: lane("queued") == 1)
    first.cancel()
    running.join(20)
    over_http.join(20)
    assert answers[0].json()["rows"] == [[1000000]], answers[0].text
    queue = answers[0].headers["Diligence-Queue"]
    assert queue.startswith("heavy;position=2;waited_ms=") and queue.endswith('reason="one runs, and no more may"'), queue
    # A number from the line holds when the query runs.
    running = threading.Thread(target=canceled, args=(first,))
    running.start()
    until("the first one runs again", lambda: lane("running") == 1)
    waiting = threading.Thread(target=canceled, args=(second,))
    waiting.start()
    until("the second one waits again", lambda: lane("queued") == 1)
    number = cheap.execute("SELECT id FROM system.queries WHERE state = 'waiting'").fetchone()[0]
    first.cancel()
    running.join(20)
    until("the second one runs", lambda: (lane("running"), lane("queued")) == (1, 0))
    assert requests.delete(f"{http}/v1/queries/{number}").status_code == 204
    waiting.join(20)
    # What its plan makes seem heavy is cheap once it is known to need little.
    cheap.execute("CREATE TABLE big AS SELECT * FROM generate_series(1::BIGINT, 150000) AS g(value)")
    text = "SELECT DISTINCT " + ", ".join(f"left(value::TEXT, 1) || '{i}' AS c{i}" for i in range(4)) + " FROM big"
    classes = [sql(text).headers["Diligence-Queue"] for _ in range(3)]
    # On a machine that is slow or busy the first run is no quick one; those after it read what is kept of it.
    assert classes[0] == "heavy" and classes[2] == "cheap", classes
    until("all is quiet", lambda: (lane("running"), lane("queued")) == (0, 0))
    assert lane("refused_total") == 2
print(f"ok lanes; a cheap query took at most {longest * 1000:.0f} ms meanwhile")
