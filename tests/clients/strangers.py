"""Malformed sessions, clients that leave in the middle, and many at once: the server goes on as if nothing had been."""
import os, random, socket, struct, threading, time
import psycopg

host, port = os.environ["POSTGRES"].rsplit(":", 1)
address = (host, int(port))
seed = int(os.environ.get("SEED", "1"))
dsn = f"host={host} port={port} user=ann dbname=diligence"
start = struct.pack("!ii", 0, 196608) + b"user\0ann\0database\0diligence\0\0"
start = struct.pack("!i", len(start)) + start[4:]


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def malformed(generator):
    """Bytes that begin like a session and go wrong somewhere."""
    good = [message(b"Q", b"SELECT 1\0"), message(b"P", b"s\0SELECT $1::bigint\0\0\0"), message(b"B", b"\0s\0\0\0\0\1\0\0\0\1" + b"7" + b"\0\0"), message(b"E", b"\0\0\0\0\0"), message(b"S", b""), message(b"D", b"Ss\0"), message(b"Q", b"COPY (SELECT 1) TO STDOUT\0")]
    data = bytearray(start if generator.random() < 0.9 else generator.randbytes(generator.randrange(64)))
    for _ in range(generator.randrange(6)):
        data += generator.choice(good)
    for _ in range(generator.randrange(1, 6)):
        what = generator.randrange(4)
        if what == 0 and data:
            data[generator.randrange(len(data))] = generator.randrange(256)
        elif what == 1:
            data += generator.randbytes(generator.randrange(40))
        elif what == 2:
            data += generator.choice(b"QPBDECSXdcfpHF!").to_bytes() + struct.pack("!i", generator.choice([-1, 0, 3, 4, 5, 100, 2**31 - 1])) + generator.randbytes(generator.randrange(20))
        else:
            del data[generator.randrange(len(data) + 1):]
    return bytes(data)


def strangers(count):
    generator = random.Random(seed)
    for _ in range(count):
        with socket.create_connection(address, 10) as connection:
            connection.settimeout(10)
            try:
                connection.sendall(malformed(generator))
                if generator.random() < 0.5:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
            except OSError:
                pass


def limits():
    """Messages and statements that are too large are refused with a word: the first ends its session, the second does not."""
    with socket.create_connection(address, 10) as connection:
        connection.settimeout(10)
        connection.sendall(start)
        greeting = b""
        while not greeting.endswith(b"Z\0\0\0\5I"):
            greeting += connection.recv(65536)
        connection.sendall(b"Q" + struct.pack("!i", (64 << 20) + 100))  # no need to send it all
        answer = b""
        while part := connection.recv(65536):
            answer += part
        assert answer[:1] == b"E" and b"C54000\0" in answer and b"SFATAL\0" in answer, answer
    with psycopg.connect(dsn, autocommit=True) as connection:
        try:
            connection.execute("SELECT '" + "x" * (17 << 20) + "'")
            raise AssertionError("a statement of 17 MiB was run")
        except psycopg.errors.ProgramLimitExceeded:
            pass
        assert connection.execute("SELECT 1").fetchone() == (1,)


def crowd(count):
    """So many sessions at once: half of them idle, the others asking; each gets its own answer."""
    connections = [psycopg.connect(dsn, autocommit=True) for _ in range(count)]
    wrong = []
    def ask(number, connection):
        for turn in range(5):
            found = connection.execute("SELECT %s::bigint * 2, count(*) FROM generate_series(1::BIGINT, 1000) AS g(value)", (number + turn,)).fetchone()
            if found != ((number + turn) * 2, 1000):
                wrong.append(found)
    threads = [threading.Thread(target=ask, args=pair) for pair in enumerate(connections[::2])]
    for thread in threads:
        thread.start()
    longest = 0
    while any(thread.is_alive() for thread in threads):
        began = time.time()
        assert connections[1].execute("SELECT 1").fetchone() == (1,)
        longest = max(longest, time.time() - began)
    assert not wrong, wrong[:3]
    for connection in connections:
        connection.close()
    return longest


strangers(int(os.environ.get("STRANGERS", "2000")))
print("ok strangers")
limits()
print("ok limits")
longest = crowd(int(os.environ.get("CROWD", "300")))
print(f"ok crowd; SELECT 1 took at most {longest * 1000:.0f} ms meanwhile")
with psycopg.connect(dsn, autocommit=True) as connection:
    for _ in range(100):
        sessions = connection.execute("SELECT count(*) FROM system.sessions").fetchone()[0]
        running = connection.execute("SELECT running FROM system.server WHERE stage = 'admission'").fetchone()[0]
        if sessions == 1 and running <= 1:
            break
        time.sleep(0.1)
    assert sessions == 1 and running <= 1, (sessions, running)
print("ok quiet afterwards")
