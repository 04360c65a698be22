"""A server that is killed at random moments while it changes a table on disk: what was acknowledged is there again.

   killed.py PATH_TO_DILIGENCE FOLDER LIVES [SEED]

A client inserts, updates and deletes, few rows and very many, and makes checkpoints. After each kill (SIGKILL) the
table must be as after the last statement that was acknowledged, or as after the one that was under way.
"""
import os, random, shutil, socket, subprocess, sys, threading, time
import psycopg

binary, folder, lives = sys.argv[1], sys.argv[2], int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
print(f"killed: seed {seed}")
chance = random.Random(seed)
found = "SELECT count(*), coalesce(sum(x), 0)::bigint FROM t"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port):
    for _ in range(400):
        try:
            return psycopg.connect(f"host=127.0.0.1 port={port} dbname=diligence user=ann", autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise AssertionError("the server does not start")


def change(connection, count, total):
    """Statements to be run, and what there is after them."""
    kind = chance.randrange(5)
    if kind == 0:
        more = chance.choice([10, 1000, 300_000, 700_000])
        new = f"INSERT INTO t SELECT g, 'text ' || g FROM generate_series(1, {more}) u(g)"
        return [new], (count + more, total + more * (more + 1) // 2)
    if kind == 1:
        gone = connection.execute(f"{found} WHERE x % 7 = 3").fetchone()
        return ["DELETE FROM t WHERE x % 7 = 3"], (count - gone[0], total - gone[1])
    if kind == 2:
        moved = connection.execute(f"{found} WHERE x % 11 = 5").fetchone()[0]
        return ["UPDATE t SET x = x + 11 WHERE x % 11 = 5"], (count, total + 11 * moved)
    if kind == 3:
        return ["CHECKPOINT"], (count, total)
    new = "INSERT INTO t VALUES (1), (2), (3)"
    return ["BEGIN", new, "DELETE FROM t WHERE s IS NULL AND x = 2", "INSERT INTO t VALUES (2)", "COMMIT"], None


shutil.rmtree(folder, ignore_errors=True)
acknowledged = possible = None
for life in range(lives):
    port = free_port()
    arguments = [binary, "serve", "--postgres", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{free_port()}", "--db", folder]
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        connection = connect(port)
        connection.execute("CREATE TABLE IF NOT EXISTS t (x BIGINT, s TEXT)")
        now = connection.execute(found).fetchone()
        assert acknowledged is None or now in (acknowledged, possible), \
            f"life {life}: {now} instead of {acknowledged} or {possible}"
        acknowledged = possible = now
        threading.Timer(chance.random() * 2.5, server.kill).start()
        while True:
            # Sums of the last kind are not known beforehand; they are looked up inside.
            statements, possible = change(connection, *acknowledged)
            for statement in statements:
                if statement == "COMMIT":
                    possible = connection.execute(found).fetchone()
                connection.execute(statement)
            acknowledged = possible
            now = connection.execute(found).fetchone()
            assert now == acknowledged, f"life {life}: {now} instead of {acknowledged} after {statements}"
    except psycopg.OperationalError:
        possible = possible or acknowledged
    finally:
        server.kill()
        server.wait()
print(f"killed: {lives} times; {acknowledged[0]} rows, {len(os.listdir(os.path.join(folder, 'segments')))} segments")
